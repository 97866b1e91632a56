"""State of a batch of rows under cpu slabs (3.13 to 6.12): CPUs, node lists, slabs, counters.

Everything is a flat array. `place` means row * cpus + cpu, `list` means row * nodes + node. A
Python loop is over depth (slabs of one burst, rounds of a window), never over rows, CPUs or
objects.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from allocator.pages.source import PageSource
from allocator.slabs.events import Events
from allocator.slabs.held_sheaves import HeldSheaves
from allocator.slabs.partial_lists import PartialLists
from allocator.slabs.places import Places
from allocator.slabs.policy import SlabPolicy
from allocator.slabs.pool import SlabPool
from allocator.slabs.ranks import stable_order
from allocator.slabs.rows import Rows
from allocator.slabs.sheaves import Sheaves
from allocator.slabs.statistics import Stat, Statistics

if TYPE_CHECKING:
    from allocator.slabs.rcu import RcuFree

Ints = NDArray[np.int64]
Draws = Callable[[Ints, Ints], Ints]

NO_LIST = -1
"""Number of no list: the node has no memory, hence no kmem_cache_node."""


class CpuSlabs:
    """struct kmem_cache_cpu of every place."""

    def __init__(self, places: int, width: int) -> None:
        self.slab: Ints = np.zeros(places, dtype=np.int64)
        """(place,): cpu slab, 0 for none."""
        self.free: NDArray[np.int32] = np.zeros(places, dtype=np.int32)
        """(place,): objects on the CPU's own freelist."""
        self.nr: Ints = np.zeros(places, dtype=np.int64)
        """(place,): slabs on the CPU's partial list."""
        self.width = width
        """Slabs that the widest partial list has room for."""
        self.partial: Ints = np.zeros(places * width, dtype=np.int64)
        """(place * width + depth,): the partial lists, bottom first."""

    def widen(self, width: int) -> None:
        """Make room for partial lists of `width` slabs."""
        if width <= self.width:
            return
        wider = np.zeros((len(self.slab), width), dtype=np.int64)
        wider[:, : self.width] = self.partial.reshape(-1, self.width)
        self.width, self.partial = width, wider.reshape(-1)

    def nbytes(self) -> int:
        """Return the memory of all arrays, bytes."""
        return self.slab.nbytes + self.free.nbytes + self.nr.nbytes + self.partial.nbytes


class State:
    """All that the rules of this package read and change.

    Parameters
    ----------
    policy
        The kernel, the same for all rows.
    rows
        Parameters of each row.
    places
        CPUs and nodes of each row.
    source
        Where new slabs get their pages.
    draws
        `draws(row, number)`, 0..1023: the draw of get_any_partial(); None: it always goes on.
    record
        Keep the events of each call for the clock.
    """

    def __init__(
        self,
        policy: SlabPolicy,
        rows: Rows,
        places: Places,
        source: PageSource,
        *,
        draws: Draws | None = None,
        record: bool = False,
    ) -> None:
        self.policy = policy
        self.rows = rows
        self.places = places
        self.source = source
        self.nr_rows, self.nr_cpus, self.nr_nodes = len(rows), places.cpus, places.nodes
        self.pool = SlabPool(int(rows.lane.max(initial=0)) + 1)
        self.lists = PartialLists(self.nr_rows * self.nr_nodes, self.pool)
        self.cpu = CpuSlabs(self.nr_rows * self.nr_cpus, 4)
        self.statistics = Statistics(self.nr_rows, self.nr_nodes)
        self.events = Events(record)
        self.nr_slabs: Ints = np.zeros(self.nr_rows * self.nr_nodes, dtype=np.int64)
        """(list,): slabs of the node."""
        self.total_objects: Ints = np.zeros_like(self.nr_slabs)
        """(list,): objects of these slabs."""
        self.row_of: Ints = np.repeat(np.arange(self.nr_rows), self.nr_cpus)
        """(place,): row."""
        self._scratch: Ints = np.zeros(0, dtype=np.int64)
        self.draws = draws
        self.nr_draws: Ints = np.zeros(self.nr_rows, dtype=np.int64)
        """(row,): draws made."""
        node = places.mem_of_cpu
        if policy.local_node == "numa_node_id":
            node = places.node_of_cpu
        self.local_node: Ints = node.reshape(-1)
        """(place,): node that requests without a node are for."""
        row = np.arange(self.nr_rows)[:, None]
        lists = np.where(places.has_memory[row, node], row * self.nr_nodes + node, NO_LIST)
        self.local_list: Ints = lists.reshape(-1)
        """(place,): its list, or NO_LIST."""
        self.nr_hops: Ints = (places.zonelist >= 0).sum(axis=2)
        """(row, node): nodes in the zonelist."""

        self.has_cpu_partial = policy.generation == "cpu_slabs" and policy.config_cpu_partial
        """CPUs have partial lists (kmem_cache_has_cpu_partial())."""
        self.sheaves: Sheaves | None = None
        """Sheaves and barns, where the kernel has them."""
        self.rcu: RcuFree | None = None
        """What waits for a grace period; made by the first kfree_rcu()."""
        self.held = HeldSheaves()
        """Sheaves that callers hold."""
        if policy.generation == "sheaves":
            self.sheaves = Sheaves(rows, places)
            made = np.where(rows.sheaf_capacity > 0, places.possible_cpus, 0)
            self.statistics.stats[Stat.SHEAF_ALLOC] += made

    def begin_call(self) -> None:
        """Forget the events of the last call."""
        self.events.clear()
        self.pool.begin_call()

    def row_of_list(self, lists: Ints) -> Ints:
        """Return the row of lists."""
        return lists // self.nr_nodes

    def keep_limit(self, rows: Ints) -> Ints:
        """Return the nr_partial from which on a further empty slab is discarded (slub.md 5.2)."""
        limit = self.rows.min_partial[rows]
        return limit + 1 if self.policy.keeps_empty == "above" else limit

    def scratch(self, size: int) -> Ints:
        """Return (size,) zeros; whoever writes there puts the zeros back."""
        if len(self._scratch) < size:
            self._scratch = np.zeros(size, dtype=np.int64)
        return self._scratch

    def lock_only(self, request: Ints, slab: Ints) -> None:
        """Count list_lock acquisitions that change no list."""
        if len(request):
            where = self.pool.home[slab]
            self.statistics.lock(where)
            self.events.lock(request, where, 1)

    def note_updates(self, request: Ints, slab: Ints, place: Ints, times: Ints | int) -> None:
        """Record who changed a slab's word before, if events are kept."""
        if not self.events.record or not len(slab):
            return
        cpu = (place % self.nr_cpus).astype(np.int32)
        order = stable_order(slab, len(self.pool.word))
        ranked, cpus = slab[order], cpu[order]
        before = self.pool.toucher[ranked]
        again = (ranked[1:] == ranked[:-1]).nonzero()[0]
        before[again + 1] = cpus[again]
        self.pool.toucher[ranked] = cpus
        seen = np.empty(len(slab), dtype=np.int64)
        seen[order] = before
        self.events.update(request, slab, seen, times)
