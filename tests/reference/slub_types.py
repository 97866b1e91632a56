"""What the scalar SLUB is made of: objects, slabs, nodes and the places they live in."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from allocator.kernel import Kernel
from allocator.topology import Topology

T = TypeVar("T")
Steps = Generator[str, None, T]
"""An operation under way: yields the kind of its next shared action, returns its result."""

Gfp = frozenset[str]
"""GFP words of a request, as in a replay script."""
KERNEL: Gfp = frozenset({"KERNEL"})
TRYNODE: Gfp = frozenset({"NOWAIT", "THISNODE"})
"""Flags of the first pass on the wanted node alone (6.10)."""


def finish(steps: Steps[T]) -> T:
    """Run an operation to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class Block(NamedTuple):
    """Pages of a slab."""

    node: int
    order: int
    pfn: int


class PageSource(Protocol):
    """Where slabs get their pages."""

    def alloc(self, cpu: int, node: int, order: int, gfp: Gfp, *, high_order: bool) -> Block | None:
        """Allocate from `node`, or unless THISNODE from the nodes that help it, or fail.

        `high_order` is the first attempt of allocate_slab(), which may be refused more easily.
        """
        ...

    def free(self, cpu: int, block: Block) -> None:
        """Take pages back."""
        ...


@dataclass(eq=False, slots=True)
class Slab:
    """One slab."""

    number: int
    """Number in its cache, in order of creation."""
    block: Block
    objects: int
    freelist: list[int]
    """Free objects that the slab itself holds, top last."""
    inuse: int = 0
    """The kernel's word: objects on a cpu freelist or in sheaves count as in use."""
    frozen: bool = False
    in_list: bool = False
    """On its node's partial list."""
    alive: bool = True
    stored_objects: int = 0
    """pobjects: free objects from here to the bottom of a cpu partial list, as of the push."""
    stored_slabs: int = 0
    """Slabs from here to the bottom."""

    @property
    def node(self) -> int:
        return self.block.node

    @property
    def free(self) -> int:
        return self.objects - self.inuse


class Obj(NamedTuple):
    """One object."""

    slab: Slab
    slot: int
    """Place in the slab."""


@dataclass(slots=True)
class Node:
    """struct kmem_cache_node, with the use made of its lock."""

    partial: list[Slab] = field(default_factory=list)
    """Partial slabs, index 0 is the head."""
    nr_slabs: int = 0
    total_objects: int = 0
    list_lock: int = 0
    """Times that list_lock was taken."""
    list_slabs: int = 0
    """Slabs looked at under list_lock."""
    slab_updates: int = 0
    """Atomic updates of slabs of this node [7]."""

    @property
    def nr_partial(self) -> int:
        return len(self.partial)

    def lock(self, slabs: int) -> None:
        """Note that list_lock is held for so many slabs."""
        self.list_lock += 1
        self.list_slabs += slabs


class Places(NamedTuple):
    """CPUs and nodes of the machine, as a cache sees them."""

    node_of_cpu: tuple[int, ...]
    has_memory: tuple[bool, ...]
    fallback: tuple[tuple[int, ...], ...]
    """For each node the nodes with memory, nearest first."""
    mem_id: tuple[int, ...]
    """For each node numa_mem_id() of its CPUs."""

    @classmethod
    def of(cls, kernel: Kernel, topology: Topology) -> Places:
        has_memory = tuple(size > 0 for size in topology.memory_bytes)
        lists = topology.node_fallback_order(kernel.page)
        return cls(
            node_of_cpu=topology.node_of_cpu,
            has_memory=has_memory,
            fallback=tuple(tuple(node for node in nodes if has_memory[node]) for nodes in lists),
            mem_id=tuple(topology.numa_mem_id(node) for node in range(topology.nodes)),
        )
