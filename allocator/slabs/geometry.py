"""Geometry of a cache: order of its slabs, limits of its lists."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allocator.slabs.cache import CacheSpec
from allocator.slabs.kmalloc import kmalloc_class, kmalloc_sizes
from allocator.slabs.object_layout import WORD, ObjectLayout, object_layout
from allocator.slabs.order import NO_ORDER, OrderLimits, calculate_order, get_order
from allocator.slabs.parameters import SlabParameters
from allocator.slabs.policy import SlabPolicy
from allocator.topology import Topology

__all__ = [
    "NO_ORDER",
    "UNSET",
    "CacheGeometry",
    "ListLimits",
    "OrderLimits",
    "cache_geometries",
    "cache_geometry",
    "calculate_order",
    "cpu_partial_objects",
    "cpu_partial_slabs",
    "get_order",
    "list_limits",
    "min_partial_slabs",
    "sheaf_capacities",
    "sheaf_capacity",
]

UNSET = -1
"""A sysfs value that nobody wrote."""
MIN_PARTIAL, MAX_PARTIAL = 5, 10
"""Bounds of the computed min_partial (mm/slub.c)."""
_CPU_PARTIAL = {"objects": (2, 6, 13, 30), "slabs": (6, 24, 52, 120), "none": (0, 0, 0, 0)}
_SHEAF_BASE = (4, 12, 26, 60)
_SHEAF_HEADER = 32  # bytes before the objects of struct slab_sheaf


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGeometry:
    """Everything that follows from a cache's size, the kernel and the machine."""

    name: str
    """Name of the cache."""
    object_size: int
    """Bytes of an object."""
    align: int
    """Alignment of objects, bytes."""
    slab_size: int
    """Bytes from one object to the next."""
    order: int
    """Order of a slab when pages are plenty (s.oo)."""
    objs_per_slab: int
    """Objects in such a slab."""
    min_order_: int
    """Order of a slab when they are not (s.min): the smallest that holds an object."""
    min_objects: int
    """Objects in such a slab."""
    min_partial: int
    """Empty slabs that a node list keeps."""
    cpu_partial: int
    """Objects that a per-CPU partial list aims at, 0 if there is none."""
    cpu_partial_slabs: int
    """Slabs that such a list holds at most (5.16), 0 where objects are counted."""
    sheaf_capacity: int
    """Objects in a sheaf (7.x), 0 without sheaves."""
    flags: frozenset[str]
    """Flags, as in `CacheSpec`."""

    def waste_bytes(self, page_size: int) -> int:
        """Return the bytes of a slab that belong to no object's own bytes."""
        return (page_size << self.order) - self.objs_per_slab * self.object_size


def min_partial_slabs(size: ArrayLike) -> NDArray[np.int64]:
    """Return min_partial of caches by slab_size: half its binary logarithm, 5 to 10."""
    log2 = np.frexp(np.asarray(size, dtype=np.float64))[1].astype(np.int64) - 1
    return np.clip(log2 // 2, MIN_PARTIAL, MAX_PARTIAL)


def cpu_partial_objects(
    size: ArrayLike, policy: SlabPolicy, page_size: int | NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return cpu_partial of caches by slab_size (mm/slub.c set_cpu_partial(), v6.1)."""
    counts = _CPU_PARTIAL[policy.cpu_partial_counts if policy.config_cpu_partial else "none"]
    return _by_size(size, page_size, counts)


def cpu_partial_slabs(
    cpu_partial: ArrayLike, objs_per_slab: ArrayLike, policy: SlabPolicy
) -> NDArray[np.int64]:
    """Return the slabs a per-CPU partial list holds (slub_set_cpu_partial(), v5.16).

    Slabs are taken to be half full; 0 where the kernel counts objects, or has no such list.
    """
    wanted = np.asarray(cpu_partial, dtype=np.int64)
    if policy.cpu_partial_counts != "slabs":
        return np.zeros_like(wanted)
    objects = np.maximum(np.asarray(objs_per_slab, dtype=np.int64), 1)
    return -(-2 * wanted // objects)


def sheaf_capacity(
    size: ArrayLike, page_size: int | NDArray[np.int64], kmalloc: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return the objects in a sheaf by slab_size (mm/slub.c calculate_sheaf_capacity(), v7.3).

    A sheaf is a kmalloc object, so that the capacity is what fits into the class of the wanted
    number.

    Parameters
    ----------
    size
        slab_size, bytes.
    page_size
        Bytes.
    kmalloc
        Sizes of the kmalloc caches.
    """
    table = kmalloc_class([_SHEAF_HEADER + WORD * base for base in _SHEAF_BASE], kmalloc)
    filled = ((table - _SHEAF_HEADER) // WORD).tolist()
    return _by_size(size, page_size, tuple(filled))


class ListLimits(NamedTuple):
    """Orders of slabs and limits of lists, arrays of one shape."""

    order: NDArray[np.int64]
    """`NO_ORDER` where no order holds an object."""
    objs_per_slab: NDArray[np.int64]
    """Objects in such a slab, 0 where there is none."""
    min_partial: NDArray[np.int64]
    """Slabs."""
    cpu_partial: NDArray[np.int64]
    """Objects."""
    cpu_partial_slabs: NDArray[np.int64]
    """Slabs, 0 where objects are counted."""


def list_limits(
    size: ArrayLike,
    policy: SlabPolicy,
    limits: OrderLimits,
    *,
    cpu_partial: ArrayLike = UNSET,
    min_partial: ArrayLike = UNSET,
    bypass: ArrayLike = False,
) -> ListLimits:
    """Return orders and list limits of caches; everything broadcasts against the sizes.

    Parameters
    ----------
    size
        slab_size, bytes.
    policy
        The kernel's SLUB.
    limits
        Bounds of the order.
    cpu_partial, min_partial
        Values written to sysfs, `UNSET` for the kernel's own.
    bypass
        Debugging keeps the cache from per-CPU lists.
    """
    order = calculate_order(size, policy, limits)
    sizes = np.broadcast_to(np.asarray(size, dtype=np.int64), order.shape)
    objects = np.where(order >= 0, (limits.page_size << np.maximum(order, 0)) // sizes, 0)
    given = np.asarray(min_partial, dtype=np.int64)
    if policy.clamps_min_partial:
        given = np.where(given == UNSET, UNSET, np.clip(given, MIN_PARTIAL, MAX_PARTIAL))
    keep = np.where(given == UNSET, min_partial_slabs(sizes), given)
    wanted = cpu_partial_objects(sizes, policy, limits.page_size)
    written = np.asarray(cpu_partial, dtype=np.int64)
    wanted = np.where((written != UNSET) & (wanted > 0), written, wanted)
    wanted = np.where(bypass, 0, wanted)
    return ListLimits(order, objects, keep, wanted, cpu_partial_slabs(wanted, objects, policy))


def sheaf_capacities(
    specs: Sequence[CacheSpec],
    layout: ObjectLayout,
    policy: SlabPolicy,
    topology: Topology,
    *,
    dma_align: int = 8,
) -> list[int]:
    """Return the sheaf capacity of each cache, 0 for those without sheaves.

    Parameters
    ----------
    specs
        The caches.
    layout
        Their layout.
    policy, topology, dma_align
        As in `cache_geometries()`.
    """
    if policy.generation != "sheaves":
        return [0] * len(specs)
    page = topology.page_size
    kmalloc = kmalloc_sizes(policy, arch=topology.arch, page_size=page, dma_align=dma_align)
    usual = sheaf_capacity(layout.slab_size, page, kmalloc).tolist()
    requests = dict(policy.sheaf_requests)
    capacities = []
    for spec, capacity, without in zip(specs, usual, layout.bypass.tolist(), strict=True):
        asked = spec.sheaf_capacity
        if asked is None:
            asked = requests.get(spec.name, 0)
        none = without or spec.is_boot_cache or "NOLEAKTRACE" in spec.flags
        capacities.append(0 if none else max(capacity, asked))
    return capacities


def cache_geometries(
    policy: SlabPolicy,
    topology: Topology,
    parameters: SlabParameters,
    specs: Sequence[CacheSpec],
    *,
    dma_align: int = 8,
) -> list[CacheGeometry]:
    """Return the geometry of caches on a machine.

    Parameters
    ----------
    policy
        The kernel's SLUB.
    topology
        The machine: page size, CPUs, cache line.
    parameters
        Boot parameters and sysfs values.
    specs
        The caches.
    dma_align
        As in `kmalloc_sizes()`.
    """
    layout = object_layout(policy, topology, parameters, specs)
    page, sizes = topology.page_size, layout.slab_size
    lists = list_limits(
        sizes,
        policy,
        OrderLimits.of(policy, topology, parameters),
        cpu_partial=UNSET if parameters.cpu_partial is None else parameters.cpu_partial,
        min_partial=UNSET if parameters.min_partial is None else parameters.min_partial,
        bypass=layout.bypass,
    )
    smallest = get_order(sizes, page)
    columns = zip(
        specs,
        layout.align.tolist(),
        sizes.tolist(),
        lists.order.tolist(),
        lists.objs_per_slab.tolist(),
        smallest.tolist(),
        ((page << smallest) // sizes).tolist(),
        lists.min_partial.tolist(),
        lists.cpu_partial.tolist(),
        lists.cpu_partial_slabs.tolist(),
        sheaf_capacities(specs, layout, policy, topology, dma_align=dma_align),
        strict=True,
    )
    return [
        CacheGeometry(
            name=spec.name,
            object_size=spec.object_size,
            align=align,
            slab_size=size,
            order=order,
            objs_per_slab=objs,
            min_order_=low,
            min_objects=low_objs,
            min_partial=keep,
            cpu_partial=wanted,
            cpu_partial_slabs=slabs,
            sheaf_capacity=sheaf,
            flags=spec.flags,
        )
        for spec, align, size, order, objs, low, low_objs, keep, wanted, slabs, sheaf in columns
    ]


def cache_geometry(
    policy: SlabPolicy,
    topology: Topology,
    parameters: SlabParameters,
    *,
    name: str,
    object_size: int,
    align: int = 0,
    flags: Collection[str] = (),
    sheaf_capacity: int | None = None,
) -> CacheGeometry:
    """Return the geometry of one cache; see `cache_geometries()` and `CacheSpec`."""
    spec = CacheSpec(
        name=name,
        object_size=object_size,
        align=align,
        flags=frozenset(flags),
        sheaf_capacity=sheaf_capacity,
    )
    return cache_geometries(policy, topology, parameters, [spec])[0]


def _by_size(
    size: ArrayLike, page_size: int | NDArray[np.int64], values: tuple[int, ...]
) -> NDArray[np.int64]:
    """Choose by slab_size: a page and more, 1024 and more, 256 and more, less."""
    sizes = np.asarray(size, dtype=np.int64)
    chosen = np.where(sizes >= 256, values[2], values[3])
    chosen = np.where(sizes >= 1024, values[1], chosen)
    return np.where(sizes >= page_size, values[0], chosen).astype(np.int64)
