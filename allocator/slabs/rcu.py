"""Objects freed after a grace period: kfree_rcu() (mm/slub.c v7.3 __kfree_rcu_sheaf()).

Under sheaves a CPU gathers objects of its own node in a sheaf, which goes to the barn of that node
when the grace period is over. All other objects wait in arrays of a page, which are freed by one
bulk call each, past all sheaves (mm/slab_common.c kvfree_rcu_bulk()); until 5.5 each object has a
callback. When arrays are drained (after 5 s, or when there are many) is not modelled, nor that the
first objects of a CPU find no page for an array, nor on which CPU the work runs (6.12 on: any).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.free import free
from allocator.slabs.ranks import (
    group_lengths,
    group_starts,
    rank_among_equals,
    ranks_from,
    stable_order,
)
from allocator.slabs.sheaf_alloc import free_arrays, sheaves_of
from allocator.slabs.sheaves import MAX_FULL_SHEAVES
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat

Ints = NDArray[np.int64]

MAX_EMPTY_SHEAVES = 10
"""Empty sheaves that a barn takes from a finished grace period."""


POINTER = 8
"""Bytes of a pointer."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a grace period, of some CPUs."""

    kind: Literal["sheaf", "flushed", "array"]
    """A full sheaf for the barn; a sheaf of a flushed CPU, which goes to slabs; an array."""
    place: Ints
    """(n,) CPUs, of different rows but for flushed sheaves."""
    array: Ints
    """(objects,) ascending: which of them."""
    slab: Ints
    """(objects,) slab of each object."""


class RcuFree:
    """Sheaves that fill up, and what waits.

    Parameters
    ----------
    places
        CPUs of all rows.
    capacity
        Objects of the largest sheaf.
    """

    def __init__(self, places: int, capacity: int) -> None:
        self.has: NDArray[np.bool_] = np.zeros(places, dtype=bool)
        """(place,): the CPU has a sheaf that fills up (rcu_free)."""
        self.number: Ints = np.zeros(places, dtype=np.int64)
        """(place,): objects in it."""
        self.slab: NDArray[np.int32] = np.zeros((places, capacity), dtype=np.int32)
        """(place, n): slabs of the objects."""
        self.waiting: list[Waiting] = []
        """Oldest first."""

    def hand_over(self, places: Ints, kind: Literal["sheaf", "flushed"]) -> None:
        """Give the sheaves of CPUs to RCU."""
        places = places[self.has[places]]
        if not len(places):
            return
        count = self.number[places]
        held = np.arange(self.slab.shape[1]) < count[:, None]
        array = np.repeat(np.arange(len(places)), count)
        slab = self.slab[places][held].astype(np.int64)
        self.waiting.append(Waiting(kind, places, array, slab))
        self.has[places] = False
        self.number[places] = 0

    def forget(self, places: Ints) -> None:
        """Drop all that belongs to CPUs of destroyed caches."""
        self.has[places] = False
        self.number[places] = 0
        kept = []
        for one in self.waiting:
            stays = ~np.isin(one.place, places)
            objects = stays[one.array]
            new = np.cumsum(stays) - 1
            kept.append(
                Waiting(one.kind, one.place[stays], new[one.array[objects]], one.slab[objects])
            )
        self.waiting = [one for one in kept if len(one.place)]


def kfree_rcu(state: State, place: Ints, request: Ints, slab: Ints) -> None:
    """Free objects after a grace period; arguments as for `bulk_free()`, one call for each row."""
    if state.rcu is None:
        widest = 0 if state.sheaves is None else int(state.sheaves.capacity.max(initial=0))
        state.rcu = RcuFree(len(state.row_of), widest)
    near = np.zeros(len(slab), dtype=bool)
    if state.sheaves is not None:
        near = state.pool.home[slab] % state.nr_nodes == state.local_node[place][request]
        refused = near & (state.sheaves.capacity[place][request] == 0)
        state.statistics.add(Stat.FREE_RCU_SHEAF_FAIL, state.row_of[place[request[refused]]])
        near &= ~refused
        _gather(state, state.rcu, place, request[near], slab[near])
    if not near.all():
        numbers, array = np.unique(request[~near], return_inverse=True)
        waiting = Waiting("array", place[numbers], array.astype(np.int64), slab[~near])
        state.rcu.waiting.append(waiting)


def _gather(state: State, rcu: RcuFree, place: Ints, request: Ints, slab: Ints) -> None:
    """Put objects in the CPUs' rcu_free sheaves; the loop is over sheaves of one CPU."""
    sheaves = sheaves_of(state)
    state.statistics.add(Stat.FREE_RCU_SHEAF, state.row_of[place[request]])
    rank = rank_among_equals(request, len(place)) + rcu.number[place[request]]
    number, depth = np.divmod(rank, sheaves.capacity[place[request]])
    for turn in range(int(number.max(initial=-1)) + 1):
        now = number == turn
        here = place[np.unique(request[now])]
        _find_empty_sheaf(state, here[~rcu.has[here]])
        rcu.has[here] = True
        at = place[request[now]]
        rcu.slab[at, depth[now]] = slab[now]
        np.add.at(rcu.number, at, 1)
        rcu.hand_over(here[rcu.number[here] == sheaves.capacity[here]], "sheaf")


def _find_empty_sheaf(state: State, place: Ints) -> None:
    """Take an empty spare sheaf, an empty one of the barn, or a new one."""
    sheaves, statistics = sheaves_of(state), state.statistics
    spare = sheaves.has_spare[place] & (sheaves.nr_spare[place] == 0)
    sheaves.has_spare[place[spare]] = False
    seeking = place[~spare]
    barn = sheaves.barn[seeking]
    found = sheaves.nr_empty[barn] > 0
    np.subtract.at(sheaves.nr_empty, barn[found], 1)
    np.add.at(statistics.barn_locks, barn[found], 1)
    statistics.add(Stat.SHEAF_ALLOC, state.row_of[seeking[~found]])


def end_grace_period(state: State) -> None:
    """Free what waits: sheaves, oldest first, then the CPUs' arrays."""
    if state.rcu is None:
        return
    waiting, state.rcu.waiting = state.rcu.waiting, []
    for one in waiting:
        if one.kind == "sheaf":
            _to_barn(state, one)
        elif one.kind == "flushed":
            _to_slabs(state, one)
            state.statistics.add(Stat.SHEAF_FREE, state.row_of[one.place])
        if one.kind != "array":
            state.statistics.charge(int(one.place[0]) % state.nr_cpus)
    arrays = [one for one in waiting if one.kind == "array"]
    if arrays:
        place = np.concatenate([one.place[one.array] for one in arrays])
        slab = np.concatenate([one.slab for one in arrays])
        cpu = place % state.nr_cpus
        for number in np.unique(cpu).tolist():  # few: those that gave any
            mine = cpu == number
            _free_arrays(state, place[mine], slab[mine])
            state.statistics.charge(number)


def _free_arrays(state: State, place: Ints, slab: Ints) -> None:
    """Free objects of no sheaf; (object,) CPU and slab, in the order in which they came."""
    order = stable_order(place, len(state.row_of))
    place, slab = place[order], slab[order]
    if state.policy.kfree_rcu == "callbacks":
        free(state, place, slab, np.ones(len(slab), dtype=np.int32))
        return
    rank = ranks_from(group_starts(place), len(place))
    page = state.places.page_size[state.row_of[place]]
    number = rank // ((page - state.policy.rcu_array_header) // POINTER)
    order = np.lexsort((-number, place))  # a CPU's newest array first
    place, slab, number = place[order], slab[order], number[order]
    first = group_starts(place * (int(number.max()) + 1) + number)
    array = np.repeat(np.arange(len(first)), group_lengths(first, len(place)))
    if state.sheaves is not None:
        state.statistics.add(Stat.FREE_SLOWPATH, state.row_of[place])
    free_arrays(state, place[first], array, slab)


def _to_barn(state: State, full: Waiting) -> None:
    """Put full sheaves in the barn of the node where they were filled, or flush them."""
    sheaves, statistics = sheaves_of(state), state.statistics
    row = state.row_of[full.place]
    barn = row * state.nr_nodes + state.local_node[full.place]
    put = sheaves.nr_full[barn] < MAX_FULL_SHEAVES
    slot = sheaves.full[barn[put], sheaves.nr_full[barn[put]]]
    size = sheaves.capacity[full.place[put]]
    sheaves.write(slot, np.zeros_like(size), size, full.slab[put[full.array]])
    sheaves.nr_full[barn[put]] += 1
    statistics.add(Stat.BARN_PUT, row[put])
    statistics.add(Stat.BARN_PUT_FAIL, row[~put])
    out = ~put[full.array]
    new = np.cumsum(~put) - 1
    _to_slabs(state, Waiting("sheaf", full.place[~put], new[full.array[out]], full.slab[out]))
    kept = ~put & (sheaves.nr_empty[barn] < MAX_EMPTY_SHEAVES)
    sheaves.nr_empty[barn[kept]] += 1
    np.add.at(statistics.barn_locks, barn[put | kept], 1)
    statistics.add(Stat.SHEAF_FREE, row[~put & ~kept])


def _to_slabs(state: State, sheaf: Waiting) -> None:
    """Flush sheaves, one after another."""
    count = np.bincount(sheaf.array, minlength=len(sheaf.place))
    state.statistics.add(Stat.SHEAF_FLUSH, state.row_of[sheaf.place], count)
    free_arrays(state, sheaf.place, sheaf.array, sheaf.slab)
