"""Hypothesis strategies for SLUB: kernels, machines, cache shapes, operations and windows.

Operations name objects by where they stand among those held, oldest first, so that a script means
the same to every implementation, also when memory runs out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

from allocator.kernel import Kernel
from allocator.kernels import PRESETS
from allocator.slabs.geometry import CacheGeometry
from allocator.topology import Topology
from tests.reference.slub_build import kernel, machine, shape

T = TypeVar("T")

CPU_SLAB_KERNELS = tuple(
    name for name, preset in PRESETS.items() if preset.slab.generation == "cpu_slabs"
)
"""Presets with cpu slabs; 7.2 has the slab policy of 7.3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Some of the held objects, in the order in which they are freed."""

    first: int
    """Place of the first one, modulo the number held."""
    stride: int
    """From one to the next; negative: younger ones first."""
    count: int
    """How many at most."""

    def of(self, held: Sequence[T]) -> list[T]:
        """Return them, each once."""
        start = self.first % max(len(held), 1)
        places = (start + number * self.stride for number in range(self.count))
        return [held[place] for place in places if 0 <= place < len(held)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operation on a cache."""

    op: str
    """alloc, balloc, free, bfree, shrink, flush, offline, or the name of a sysfs file."""
    cpu: int = 0
    count: int = 0
    """Objects, or the value written."""
    node: int | None = None
    gfp: tuple[str, ...] = ("KERNEL",)
    pick: Pick = Pick(first=0, stride=1, count=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A kernel, a machine, the memory of its nodes and a cache."""

    kernel: Kernel
    topology: Topology
    geometry: CacheGeometry
    limits: tuple[int | None, ...]
    """Pages of each node; None: plenty."""
    largest_order: tuple[int | None, ...]
    """Largest block that each node can give; None: any."""
    draws: tuple[int, ...]
    """Draws of get_any_partial(), over and over."""


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    """Every generation and policy, with and without CONFIG_SLUB_CPU_PARTIAL."""
    if draw(st.integers(0, 2)) == 0:
        return PRESETS["v7_3"]
    name = draw(st.sampled_from(CPU_SLAB_KERNELS))
    return kernel(name) if draw(st.booleans()) else kernel(name, config_cpu_partial=False)


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """One to three nodes, one to four CPUs; nodes with CPUs may lack memory."""
    cpus = draw(st.lists(st.integers(0, 2), min_size=1, max_size=3).filter(any))
    memory = [draw(st.booleans()) if count else True for count in cpus]
    memory[draw(st.integers(0, len(cpus) - 1))] = True
    return machine(cpus, memory, memoryless_nodes=draw(st.booleans()))


@st.composite
def shapes(draw: st.DrawFn, chosen: Kernel) -> CacheGeometry:
    """Small slabs and short lists, so that every limit is met."""
    order = draw(st.integers(0, 2))
    objects = draw(st.integers(1, 9))
    policy = chosen.slab
    wanted = draw(st.integers(0, 20)) if policy.config_cpu_partial else 0
    by_slabs = policy.cpu_partial_counts == "slabs"
    return shape(
        objects=objects,
        order=order,
        min_objects=draw(st.integers(1, objects)) if order else objects,
        min_partial=draw(st.integers(0, 4)),
        cpu_partial=wanted if policy.generation == "cpu_slabs" else 0,
        cpu_partial_slabs=-(-2 * wanted // objects) if by_slabs else 0,
        sheaf_capacity=draw(st.sampled_from((0, 2, 3, 5))) if policy.generation == "sheaves" else 0,
    )


@st.composite
def settings_of_slub(draw: st.DrawFn) -> Setting:
    """A kernel on a machine with a cache; memory is plenty, scarce or fragmented."""
    chosen, topology = draw(kernels()), draw(machines())
    some = st.one_of(st.none(), st.none(), st.integers(0, 12))
    orders = st.one_of(st.none(), st.none(), st.integers(0, 1))
    return Setting(
        kernel=chosen,
        topology=topology,
        geometry=draw(shapes(chosen)),
        limits=tuple(draw(some) for _ in range(topology.nodes)),
        largest_order=tuple(draw(orders) for _ in range(topology.nodes)),
        draws=tuple(draw(st.lists(st.sampled_from((0, 1023)), min_size=1, max_size=5))),
    )


def picks(most: int) -> st.SearchStrategy[Pick]:
    """Some of the held objects."""
    return st.builds(
        Pick,
        first=st.integers(0, 60),
        stride=st.sampled_from((1, 1, 2, 3, 5, -1, -2)),
        count=st.integers(1, most),
    )


def nodes_wanted(topology: Topology) -> st.SearchStrategy[int | None]:
    """No node, or one of the machine's."""
    return st.one_of(st.none(), st.integers(0, topology.nodes - 1))


@st.composite
def steps(draw: st.DrawFn, topology: Topology, *, most: int = 24) -> Step:
    """One operation."""
    op = draw(
        st.sampled_from(
            ("alloc",) * 5
            + ("free",) * 5
            + ("balloc", "bfree", "bfree", "shrink", "flush", "offline")
            + ("cpu_partial", "min_partial", "remote_node_defrag_ratio")
        )
    )
    cpu = draw(st.integers(0, topology.cpus - 1))
    if op == "alloc":
        gfp = draw(st.sampled_from((("KERNEL",), ("KERNEL",), ("NOWAIT", "THISNODE"))))
        node = draw(nodes_wanted(topology))
        return Step(op=op, cpu=cpu, count=draw(st.integers(1, most)), node=node, gfp=gfp)
    if op == "balloc":
        return Step(op=op, cpu=cpu, count=draw(st.integers(1, most)))
    if op in ("free", "bfree"):
        return Step(op=op, cpu=cpu, pick=draw(picks(most)))
    if op == "remote_node_defrag_ratio":
        return Step(op=op, count=draw(st.sampled_from((0, 50, 100))))
    if op in ("cpu_partial", "min_partial"):
        return Step(op=op, count=draw(st.integers(0, 12)))
    return Step(op=op, cpu=cpu)


def scripts(topology: Topology, *, length: int = 30) -> st.SearchStrategy[list[Step]]:
    """Operations one after the other."""
    return st.lists(steps(topology), min_size=1, max_size=length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Requests of one kind, served together; at most one allocation per CPU."""

    op: str
    """alloc, balloc, free or bfree."""
    requests: tuple[Step, ...]
    """In order."""


@st.composite
def windows(draw: st.DrawFn, topology: Topology, *, most: int = 24) -> Window:
    """Some CPUs' requests in some order."""
    op = draw(st.sampled_from(("alloc", "alloc", "free", "free", "balloc", "bfree")))
    cpus = draw(st.permutations(range(topology.cpus)))
    cpus = cpus[: draw(st.integers(1, topology.cpus))]
    if op in ("free", "bfree"):
        cpus = cpus + draw(st.lists(st.sampled_from(cpus), max_size=2))
        return Window(
            op=op, requests=tuple(Step(op=op, cpu=cpu, pick=draw(picks(most))) for cpu in cpus)
        )
    node = nodes_wanted(topology) if op == "alloc" else st.none()
    return Window(
        op=op,
        requests=tuple(
            Step(op=op, cpu=cpu, count=draw(st.integers(1, most)), node=draw(node)) for cpu in cpus
        ),
    )
