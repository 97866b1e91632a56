"""Machines and caches for tests of the reference."""

from collections.abc import Callable, Sequence

from allocator.kernel import Kernel
from allocator.kernels import kernel_named
from allocator.slabs.geometry import CacheGeometry, cache_geometry
from allocator.slabs.parameters import SlabParameters
from allocator.topology import Topology
from tests.reference.slub import Cache
from tests.reference.slub_cpu import CpuSlabs
from tests.reference.slub_pages import Pages
from tests.reference.slub_sheaves import Sheaves
from tests.reference.slub_types import Obj, PageSource, Places

GIB = 1 << 30


def machine(
    cpus: Sequence[int] = (8,), memory: Sequence[bool] = (True,), *, memoryless_nodes: bool = False
) -> Topology:
    """Return a machine with so many CPUs on each node, and memory on some."""
    return Topology(
        arch="x86_64",
        page_size=4096,
        nr_cpu_ids=sum(cpus),
        node_of_cpu=tuple(node for node, count in enumerate(cpus) for _ in range(count)),
        memory_bytes=tuple(GIB if has else 0 for has in memory),
        distances=tuple(
            tuple(10 if a == b else 20 for a in range(len(cpus))) for b in range(len(cpus))
        ),
        memoryless_nodes=memoryless_nodes,
    )


def shape(
    *,
    objects: int,
    order: int = 0,
    min_objects: int | None = None,
    min_order: int = 0,
    min_partial: int = 5,
    cpu_partial: int = 0,
    cpu_partial_slabs: int = 0,
    sheaf_capacity: int = 0,
) -> CacheGeometry:
    """Return a geometry made up for a test."""
    return CacheGeometry(
        name="c",
        object_size=8,
        align=8,
        slab_size=8,
        order=order,
        objs_per_slab=objects,
        min_order_=min_order,
        min_objects=objects if min_objects is None else min_objects,
        min_partial=min_partial,
        cpu_partial=cpu_partial,
        cpu_partial_slabs=cpu_partial_slabs,
        sheaf_capacity=sheaf_capacity,
        flags=frozenset(),
    )


def sized(kernel: Kernel, topology: Topology, size: int, **wanted: object) -> CacheGeometry:
    """Return the geometry of a cache of this object size."""
    return cache_geometry(
        kernel.slab,
        topology,
        SlabParameters(),
        name="c",
        object_size=size,
        **wanted,  # type: ignore[arg-type]
    )


def kernel(name: str, **slab: object) -> Kernel:
    """Return a preset, or one that differs in some of SLUB's choices."""
    preset = kernel_named(name)
    return preset.vary(name, preset.follows, slab=slab) if slab else preset


def cache(
    kernel: Kernel,
    topology: Topology,
    geometry: CacheGeometry,
    *,
    pages: PageSource | None = None,
    draw: Callable[[], int] = lambda: 0,
) -> Cache:
    """Return an empty cache of the kernel's generation."""
    kind = Sheaves if kernel.slab.generation == "sheaves" else CpuSlabs
    source = pages or Pages(Places.of(kernel, topology))
    return kind(kernel, topology, geometry, source, draw=draw)


def partial_slabs(one: Cache, slabs: int, used: int, cpu: int = 0) -> list[Obj]:
    """Put slabs with `used` objects each on the node's list and forget the counters so far.

    Returns the objects in use.
    """
    per_slab = one.geometry.objs_per_slab
    held = one.alloc(cpu, slabs * per_slab)
    one.shrink(cpu)
    kept = [obj for obj in held if obj.slot < used]
    one.free(cpu, [obj for obj in held if obj.slot >= used])
    one.shrink(cpu)
    forget(one)
    return kept


def forget(one: Cache) -> None:
    """Set all counters to zero."""
    one.stats.clear()
    for node in one.nodes:
        node.list_lock = node.list_slabs = node.slab_updates = 0


def list_locks(one: Cache) -> int:
    """Return how often list_lock was taken, on all nodes."""
    return sum(node.list_lock for node in one.nodes)


def on_lists(one: Cache) -> int:
    """Return slabs on all nodes' lists."""
    return sum(node.nr_partial for node in one.nodes)


def nr_slabs(one: Cache) -> int:
    """Return slabs of all nodes."""
    return sum(node.nr_slabs for node in one.nodes)


def told(one: Cache, *names: str) -> dict[str, int]:
    """Return some counters."""
    return {name: one.stats[name] for name in names}
