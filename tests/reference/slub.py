"""SLUB object by object: what caches of every generation share.

This is the meaning of the slab model, written for clarity. `slub_cpu.py` (cpu slabs, up to 6.x)
and `slub_sheaves.py` (7.x) add the per-CPU layer; the vectorised engine must equal both in every
counter, list and slab.

Order of things. Every operation is a generator of *steps*: before it touches anything that other
CPUs share it yields the kind of that action (`PUT`, `TAKE`, ...), then does exactly that one
action and everything local up to the next one. `finish()` runs an operation to its end: one CPU
alone, plain sequential execution, which real kernels are compared with. `slub_window.py` runs the
requests of several CPUs in rounds of phases.

Names and rules: mm/slub.c, slub.md section numbers in brackets.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from allocator.kernel import Kernel
from allocator.slabs.geometry import CacheGeometry
from allocator.topology import Topology
from tests.reference.slub_types import (
    KERNEL,
    Gfp,
    Node,
    Obj,
    PageSource,
    Places,
    Slab,
    Steps,
    finish,
)

T = TypeVar("T")

SHRINK_PROMOTE_MAX = 32
"""Slabs with at most so many free objects are sorted by kmem_cache_shrink() (4.0)."""

ERANGE, EINVAL = 34, 22


class Cache:
    """One cache: its slabs, its nodes' partial lists and its counters."""

    phases: tuple[str, ...]
    """Kinds of shared actions, in their order within a round of a window."""

    def __init__(
        self,
        kernel: Kernel,
        topology: Topology,
        geometry: CacheGeometry,
        pages: PageSource,
        *,
        draw: Callable[[], int] = lambda: 0,
        name: str = "c",
    ) -> None:
        self.name = name
        self.policy = kernel.slab
        self.places = Places.of(kernel, topology)
        self.nr_cpu_ids = topology.nr_cpu_ids
        self.page_size = topology.page_size
        self.memoryless_nodes = topology.memoryless_nodes
        self.geometry = geometry
        self.pages = pages
        self.draw = draw
        """Cycle counter modulo 1024 at each get_any_partial()."""
        self.min_partial = geometry.min_partial
        self.cpu_partial = geometry.cpu_partial
        self.cpu_partial_slabs = geometry.cpu_partial_slabs
        self.defrag_ratio = 1000
        self.nodes = [Node() for _ in self.places.has_memory]
        self.slabs: list[Slab] = []
        """All slabs ever made, by number."""
        self.stats: Counter[str] = Counter()
        self.waiting: list[tuple[int, str, list[Obj]]] = []
        """What waits for a grace period: CPU, kind, objects."""
        self.set_up()

    # To be told by the per-CPU layer

    def set_up(self) -> None:
        """Make what each CPU and node needs."""
        raise NotImplementedError

    def alloc_steps(self, cpu: int, count: int, node: int | None, gfp: Gfp) -> Steps[list[Obj]]:
        """kmem_cache_alloc() `count` times, until one fails."""
        raise NotImplementedError

    def free_steps(self, cpu: int, objects: Sequence[Obj]) -> Steps[None]:
        """kmem_cache_free() of each object in order."""
        raise NotImplementedError

    def bulk_alloc_steps(self, cpu: int, count: int, gfp: Gfp) -> Steps[list[Obj] | None]:
        """One kmem_cache_alloc_bulk(); none if it failed."""
        raise NotImplementedError

    def bulk_free_steps(self, cpu: int, objects: Sequence[Obj]) -> Steps[None]:
        """One kmem_cache_free_bulk()."""
        raise NotImplementedError

    def flush_cpu(self, cpu: int) -> None:
        """Give back what a CPU holds, as shrink and a write to cpu_partial do."""
        raise NotImplementedError

    def offline_cpu(self, cpu: int) -> None:
        """Give back what a dead CPU held; another CPU does it."""
        raise NotImplementedError

    # One CPU alone

    def alloc(
        self, cpu: int, count: int = 1, node: int | None = None, gfp: Gfp = KERNEL
    ) -> list[Obj]:
        """Allocate objects one by one until one fails."""
        return finish(self.alloc_steps(cpu, count, node, gfp))

    def free(self, cpu: int, objects: Sequence[Obj]) -> None:
        """Free objects one by one."""
        finish(self.free_steps(cpu, objects))

    def bulk_alloc(self, cpu: int, count: int, gfp: Gfp = KERNEL) -> list[Obj] | None:
        """Allocate all in one call, or none."""
        return finish(self.bulk_alloc_steps(cpu, count, gfp))

    def bulk_free(self, cpu: int, objects: Sequence[Obj]) -> None:
        """Free all in one call."""
        finish(self.bulk_free_steps(cpu, objects))

    def kfree_rcu(self, cpu: int, objects: Sequence[Obj]) -> None:
        """kfree_rcu() of each object: they wait in an array."""
        self.waiting.append((cpu, "array", list(objects)))

    def end_grace_period(self) -> None:
        """Free what waits: sheaves, oldest first, then the arrays of each CPU."""
        waiting, self.waiting = self.waiting, []
        arrays: dict[int, list[Obj]] = {}
        for cpu, kind, objects in waiting:
            if kind == "array":
                arrays.setdefault(cpu, []).extend(objects)
            else:
                self.after_grace(cpu, kind, objects)
        for cpu, objects in sorted(arrays.items()):
            self.free_waiting(cpu, objects)

    def after_grace(self, cpu: int, kind: str, objects: list[Obj]) -> None:
        """Free a sheaf."""
        raise NotImplementedError

    def free_waiting(self, cpu: int, objects: list[Obj]) -> None:
        """Free what a CPU gave in order: by callbacks, or pages of pointers, the newest first."""
        if self.policy.kfree_rcu == "callbacks":
            self.free(cpu, objects)
            return
        most = (self.page_size - self.policy.rcu_array_header) // 8
        for first in reversed(range(0, len(objects), most)):
            self.kvfree_rcu_bulk(cpu, objects[first : first + most])

    def kvfree_rcu_bulk(self, cpu: int, objects: list[Obj]) -> None:
        """kmem_cache_free_bulk() without a cache."""
        self.bulk_free(cpu, objects)

    def flush_all(self, cpus: Sequence[int] | None = None) -> None:
        """flush_all(): every CPU, in the order in which their works run [6.3]."""
        for cpu in range(len(self.places.node_of_cpu)) if cpus is None else cpus:
            self.flush_cpu(cpu)

    def shrink(self, cpu: int = 0, flush_order: Sequence[int] | None = None) -> None:
        """kmem_cache_shrink() [6.3]."""
        self.flush_all(flush_order)
        self.shrink_lists(cpu)

    def shrink_lists(self, cpu: int) -> None:
        """__kmem_cache_do_shrink(): every node's list once, ascending."""
        for number, node in enumerate(self.nodes):
            if not self.places.has_memory[number]:
                continue
            if self.policy.shrink == "promote":
                self._shrink_promote(cpu, node)
            elif node.partial:
                self._shrink_sort(cpu, node)

    def write_sysfs(self, attribute: str, value: int) -> int:
        """Write a file of /sys/kernel/slab; return 0 or the errno [3.1, 3.2]."""
        if attribute == "min_partial":
            self.min_partial = min(max(value, 5), 10) if self.policy.clamps_min_partial else value
        elif attribute == "remote_node_defrag_ratio":
            if value > 100:
                return ERANGE
            self.defrag_ratio = 10 * value
        elif attribute == "cpu_partial":
            if self.policy.cpu_partial_counts == "none":
                return EINVAL if value else 0
            if value and not self.policy.config_cpu_partial:
                return EINVAL
            self.cpu_partial = value
            self.cpu_partial_slabs = -(-2 * value // self.geometry.objs_per_slab)
            self.flush_all()
        return 0

    # Nodes' partial lists

    def has_list(self, node: int) -> bool:
        """There is a struct kmem_cache_node: the node has memory."""
        return self.places.has_memory[node]

    def local_node(self, cpu: int) -> int:
        """Node that a CPU's requests without a node are for."""
        here = self.places.node_of_cpu[cpu]
        return self.places.mem_id[here] if self.policy.local_node == "numa_mem_id" else here

    def enough_empty(self, node: int) -> bool:
        """A further empty slab of this node is discarded."""
        nr_partial = self.nodes[node].nr_partial
        if self.policy.keeps_empty == "above":
            return nr_partial > self.min_partial
        return nr_partial >= self.min_partial

    def add_partial(self, slab: Slab, *, tail: bool) -> None:
        """add_partial()."""
        assert not slab.in_list
        partial = self.nodes[slab.node].partial
        partial.insert(len(partial) if tail else 0, slab)
        slab.in_list = True

    def remove_partial(self, slab: Slab) -> None:
        """remove_partial()."""
        self.nodes[slab.node].partial.remove(slab)
        slab.in_list = False

    def updated(self, slab: Slab, times: int = 1) -> None:
        """Note atomic updates of a slab's freelist and counters."""
        self.nodes[slab.node].slab_updates += times

    def search_other_nodes(
        self, cpu: int, phase: str, visit: Callable[[int], Steps[T | None]]
    ) -> Steps[T | None]:
        """get_any_partial(): nodes of the zonelist whose lists are long enough [4.5].

        The first node at which `visit` returns something ends the search.
        """
        if self.defrag_ratio == 0 or len(self.nodes) == 1:
            return None
        for place, node in enumerate(self.places.fallback[self.local_node(cpu)]):
            yield phase
            if place == 0 and self.draw() > self.defrag_ratio:
                return None
            if self.nodes[node].nr_partial > self.min_partial:
                found = yield from visit(node)
                if found is not None:
                    return found
        return None

    # Slabs

    def new_slab(self, cpu: int, node: int | None, gfp: Gfp) -> Slab | None:
        """allocate_slab(): the cache's order on all nodes, then the smallest order [4.6]."""
        geometry = self.geometry
        near = self.places.node_of_cpu[cpu] if node is None else node
        objects = geometry.objs_per_slab
        block = self.pages.alloc(cpu, near, geometry.order, gfp, high_order=True)
        if block is None:
            objects = geometry.min_objects
            block = self.pages.alloc(cpu, near, geometry.min_order_, gfp, high_order=False)
            if block is None:
                return None
            self.stats["ORDER_FALLBACK"] += 1
        slab = Slab(len(self.slabs), block, objects, list(reversed(range(objects))))
        self.slabs.append(slab)
        self.nodes[slab.node].nr_slabs += 1
        self.nodes[slab.node].total_objects += objects
        return slab

    def discard(self, cpu: int, slab: Slab) -> None:
        """discard_slab()."""
        assert slab.alive
        assert slab.inuse == 0
        assert not slab.in_list
        slab.alive = False
        self.nodes[slab.node].nr_slabs -= 1
        self.nodes[slab.node].total_objects -= slab.objects
        self.pages.free(cpu, slab.block)

    def _shrink_promote(self, cpu: int, node: Node) -> None:
        """Discard empty slabs, sort those with few free objects to the front (4.0)."""
        node.lock(node.nr_partial)
        empty = [slab for slab in node.partial if slab.inuse == 0]
        rest = [slab for slab in node.partial if slab.inuse and slab.free > SHRINK_PROMOTE_MAX]
        few = [slab for slab in node.partial if slab.inuse and slab.free <= SHRINK_PROMOTE_MAX]
        few.reverse()  # each goes to the front of its bucket
        few.sort(key=lambda slab: slab.free)
        node.partial = few + rest
        self._discard_all(cpu, empty)

    def _shrink_sort(self, cpu: int, node: Node) -> None:
        """Discard empty slabs, sort the others by objects in use (3.13)."""
        node.lock(node.nr_partial)
        empty = [slab for slab in node.partial if slab.inuse == 0]
        used = [slab for slab in reversed(node.partial) if slab.inuse]
        used.sort(key=lambda slab: -slab.inuse)
        node.partial = used
        self._discard_all(cpu, empty)

    def _discard_all(self, cpu: int, empty: list[Slab]) -> None:
        for slab in reversed(empty):  # each was moved to the front of a list
            slab.in_list = False
            self.discard(cpu, slab)
