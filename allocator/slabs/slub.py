"""SLUB for many caches at once: the vectorised engine and what it promises.

A *row* is one cache of one lane; rows do not influence each other except through the pages of
their lane. Requests are arrays over (row, cpu); answers are runs (request, slab, objects).

    slub = Slub(policy, rows, places, source)
    runs = slub.alloc(row, cpu, count)              # one burst per (row, cpu)
    slub.free(row, cpu, slab, count)                # runs go back, any number per CPU

One call is one window. The order of requests is that of the arrays, or (clock, cpu) if `clock` is
given. Frees are executed as if one after another in that order. Allocations run by themselves
until they must touch something shared; then they wait for the phase of its kind (`Stage`: a slab
is put on a node list, slabs are taken from the local list, from other nodes' lists, made new),
where they are served in order, one action each; rounds of phases repeat until all are done. With
one active CPU that is plain sequential execution.

A request whose runs add up to less than its count met the end of memory, as a kernel's would.

Counters: `statistics.stats[Stat.X, row]`, `.list_locks[row * nodes + node]`. With `record=True`
`events` tells after each call who took which list_lock for how many slabs, which slabs' words
changed hands, and which slabs were made or given back (`allocator.slabs.events`).
"""

import numpy as np
from numpy.typing import NDArray

from allocator import gfp as flags
from allocator.pages.source import PageSource
from allocator.slabs import cpu as cpu_slabs
from allocator.slabs import free as cpu_free
from allocator.slabs import prefilled, rcu, sheaf_alloc, sheaf_flush, sheaf_free
from allocator.slabs.destroy import destroy
from allocator.slabs.events import Events
from allocator.slabs.flush import flush
from allocator.slabs.places import Places
from allocator.slabs.policy import SlabPolicy
from allocator.slabs.rows import Rows
from allocator.slabs.sheaf_alloc import free_arrays
from allocator.slabs.sheaf_window import SheafWindow
from allocator.slabs.shrink import shrink_lists
from allocator.slabs.state import Draws, State
from allocator.slabs.statistics import Statistics
from allocator.slabs.sysfs import write_sysfs
from allocator.slabs.window import Runs, Window

Ints = NDArray[np.int64]

GFP_KERNEL = flags.DIRECT_RECLAIM | flags.KSWAPD_RECLAIM | flags.IO | flags.FS
"""Flags of a request that names none."""


class Slub:
    """The engine.

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
        Keep the events of each call.
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
        self.state = State(policy, rows, places, source, draws=draws, record=record)

    @property
    def statistics(self) -> Statistics:
        """Counters since the start."""
        return self.state.statistics

    @property
    def events(self) -> Events:
        """Events of the last call."""
        return self.state.events

    def alloc(
        self,
        row: Ints,
        cpu: Ints,
        count: Ints,
        *,
        node: Ints | None = None,
        gfp: Ints | int = GFP_KERNEL,
        clock: Ints | None = None,
    ) -> Runs:
        """Allocate `count` objects one by one for each request (kmem_cache_alloc()).

        Parameters
        ----------
        row, cpu
            (n,) who asks; at most one request for each pair.
        count
            (n,) objects, 0 or more.
        node
            (n,) node named, -1 for none.
        gfp
            (n,) or one: flags as in `allocator.gfp`.
        clock
            (n,) time of each CPU; None: the arrays are in order already.

        Returns
        -------
        Runs
            What was handed out; `request` counts in the arrays given.
        """
        self.state.begin_call()
        order = _order(clock, cpu)
        return self._alloc(row, cpu, count, node, gfp, order, bulk=False)

    def free(
        self,
        row: Ints,
        cpu: Ints,
        slab: Ints,
        count: NDArray[np.integer],
        *,
        clock: Ints | None = None,
    ) -> None:
        """Free runs of objects, each object by itself (kmem_cache_free()).

        Parameters
        ----------
        row, cpu
            (n,) who frees; any number for each pair.
        slab
            (n,) slab of the run.
        count
            (n,) objects, 1 or more.
        clock
            (n,) time of each free; None: the arrays are in order already.
        """
        self.state.begin_call()
        order = _order(clock, cpu)
        place = row * self.state.nr_cpus + cpu
        rule = cpu_free.free if self.state.sheaves is None else sheaf_free.free
        with self.state.events.named(order):
            rule(self.state, _sorted(place, order), _sorted(slab, order), _sorted(count, order))

    def bulk_alloc(
        self,
        row: Ints,
        cpu: Ints,
        count: Ints,
        *,
        gfp: Ints | int = GFP_KERNEL,
        clock: Ints | None = None,
    ) -> Runs:
        """Allocate `count` objects by one call for each request (kmem_cache_alloc_bulk()).

        Arguments are those of `alloc()`. A request that cannot be served whole gets nothing.
        """
        self.state.begin_call()
        order = _order(clock, cpu)
        return self._alloc(row, cpu, count, None, gfp, order, bulk=True)

    def bulk_free(self, row: Ints, cpu: Ints, request: Ints, slab: Ints) -> None:
        """Free arrays of objects, each by one call (kmem_cache_free_bulk()).

        Parameters
        ----------
        row, cpu
            (n,) who frees; the calls are made in this order.
        request
            (objects,) ascending: number of the call of each object.
        slab
            (objects,) slab of each object, in the order of the call's array.
        """
        self.state.begin_call()
        place = row * self.state.nr_cpus + cpu
        rule = free_arrays if self.state.sheaves is None else sheaf_free.bulk_free
        rule(self.state, place, request, slab)

    def kfree_rcu(self, row: Ints, cpu: Ints, request: Ints, slab: Ints) -> None:
        """Free objects after a grace period (kfree_rcu()); as `bulk_free()`, one call per row."""
        self.state.begin_call()
        rcu.kfree_rcu(self.state, row * self.state.nr_cpus + cpu, request, slab)

    def end_grace_period(self) -> None:
        """Let a grace period end: what `kfree_rcu()` was given is freed."""
        self.state.begin_call()
        rcu.end_grace_period(self.state)

    def prefill_sheaf(self, row: Ints, cpu: Ints, size: Ints, gfp: int = GFP_KERNEL) -> Ints:
        """Take sheaves with at least `size` objects (kmem_cache_prefill_sheaf(), 6.18 on).

        Parameters
        ----------
        row, cpu
            (n,) who asks, of different rows.
        size
            (n,) objects, 1 or more.
        gfp
            Flags as in `allocator.gfp`.

        Returns
        -------
        NDArray
            (n,) number of each sheaf, -1 where memory ended.
        """
        self.state.begin_call()
        return prefilled.prefill(self.state, row * self.state.nr_cpus + cpu, size, gfp)

    def alloc_from_sheaf(self, sheaf: Ints, count: Ints) -> Runs:
        """Take up to `count` objects out of different sheaves (kmem_cache_alloc_from_sheaf())."""
        self.state.begin_call()
        got, slab = self.state.held.pop(sheaf, count)
        request = np.repeat(np.arange(len(sheaf)), got)
        return Runs(request, slab, np.ones(len(slab), dtype=np.int32))

    def refill_sheaf(
        self, row: Ints, cpu: Ints, sheaf: Ints, size: Ints, gfp: int = GFP_KERNEL
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """Have `size` objects in sheaves again (kmem_cache_refill_sheaf()).

        Returns
        -------
        tuple
            (n,) the sheaves, larger ones where they were too small; (n,) whether that went well.
        """
        self.state.begin_call()
        place = row * self.state.nr_cpus + cpu
        return prefilled.refill(self.state, place, sheaf, size, gfp)

    def return_sheaf(self, row: Ints, cpu: Ints, sheaf: Ints, gfp: int = GFP_KERNEL) -> None:
        """Give sheaves back (kmem_cache_return_sheaf()); the rows are different."""
        self.state.begin_call()
        prefilled.give_back(self.state, row * self.state.nr_cpus + cpu, sheaf, gfp)

    def shrink(self, row: Ints, cpu: Ints | None = None) -> None:
        """Shrink caches: flush their CPUs in ascending order, sort and thin their lists.

        Parameters
        ----------
        row
            (n,) distinct rows.
        cpu
            (n,) CPU that asks for it; None: CPU 0.
        """
        by = np.zeros_like(row) if cpu is None else cpu
        self.flush(row)
        if self.state.sheaves is not None:
            sheaf_flush.shrink_barns(self.state, row, by)
        shrink_lists(self.state, row, by)

    def flush(self, row: Ints) -> None:
        """Flush all CPUs of rows (flush_all())."""
        self.state.begin_call()
        self._flush(row)

    def offline_cpu(self, row: Ints, cpu: Ints) -> None:
        """Give back what dead CPUs held (slub_cpu_dead())."""
        self.state.begin_call()
        rule = flush if self.state.sheaves is None else sheaf_flush.offline
        rule(self.state, row * self.state.nr_cpus + cpu)

    def destroy(self, row: Ints) -> None:
        """Give back all slabs of caches, whoever holds their objects (kmem_cache_destroy())."""
        self.state.begin_call()
        destroy(self.state, row)

    def write_sysfs(self, row: Ints | int, attribute: str, value: int) -> int:
        """Write cpu_partial, min_partial or remote_node_defrag_ratio of rows; return the errno."""
        self.state.begin_call()
        rows = np.atleast_1d(np.asarray(row))
        return write_sysfs(self.state, rows, attribute, value, self._flush)

    def _flush(self, row: Ints) -> None:
        """Flush all CPUs, each by itself where counters are kept by CPU."""
        state = self.state
        rule = flush if state.sheaves is None else sheaf_flush.flush
        places = row[:, None] * state.nr_cpus + np.arange(state.nr_cpus)
        if state.statistics.by_cpu is None:
            rule(state, places.reshape(-1))
            return
        for cpu in range(state.nr_cpus):
            rule(state, places[:, cpu])
            state.statistics.charge(cpu)

    def _alloc(
        self,
        row: Ints,
        cpu: Ints,
        count: Ints,
        node: Ints | None,
        gfp: Ints | int,
        order: Ints | None,
        *,
        bulk: bool,
    ) -> Runs:
        """Serve one window of requests."""
        place = row * self.state.nr_cpus + cpu
        every = np.broadcast_to(np.asarray(gfp, dtype=np.int64), place.shape)
        arrays = (
            _sorted(place, order),
            _sorted(row, order),
            _sorted(count, order),
            None if node is None else _sorted(node, order),
            _sorted(every, order),
        )
        window: Window
        with self.state.events.named(order):
            if self.state.sheaves is None:
                window = Window(*arrays, bulk=bulk)
                cpu_slabs.alloc(self.state, window)
            else:
                window = SheafWindow(*arrays, bulk=bulk)
                sheaf_alloc.alloc(self.state, window)
        return _renumbered(window.runs(), order)


def _order(clock: Ints | None, cpu: Ints) -> Ints | None:
    """Return the order of requests, or None if it is that of the arrays."""
    return None if clock is None else np.lexsort((cpu, clock))


def _sorted(values: NDArray[np.integer], order: Ints | None) -> Ints:
    chosen = values if order is None else values[order]
    return chosen.astype(np.int64, copy=False)


def _renumbered(runs: Runs, order: Ints | None) -> Runs:
    if order is None:
        return runs
    return Runs.sorted(order[runs.request], runs.slab, runs.count, len(order))
