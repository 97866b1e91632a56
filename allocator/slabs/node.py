"""Slabs that come to a node list or leave it because they became empty (slub.md 5.2, 5.5)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.keep_empty import EMPTY, REMOVE_EMPTY, Asks, decide
from allocator.slabs.ranks import group_lengths, group_starts, stable_order
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat

Ints = NDArray[np.int64]

DRAIN = 4
"""Asked by a cpu partial list that is put on the node lists: list_lock is kept while the next slab
is of the same node. Otherwise __slab_free() asks, under list_lock for this slab alone."""
DEACTIVATE = 8
"""Asked by deactivate_slab(): an empty slab that is discarded needs no list_lock."""
HEAD = 16
"""The slab is added at the head, not the tail."""

_REMOVE = REMOVE_EMPTY & ~EMPTY


@dataclass(slots=True, eq=False)
class ListEvents:
    """What slabs ask of their node lists, (event,) each, in any order of slabs."""

    slab: Ints
    """Slab concerned."""
    time: Ints
    """When: events of one list happen in this order. It is also the number of the request."""
    turn: Ints
    """Order among equal times; in a drain, place from the top."""
    ask: Asks
    """ADD, EMPTY or REMOVE_EMPTY of `keep_empty`, with DRAIN, DEACTIVATE, HEAD added."""

    def __len__(self) -> int:
        return len(self.slab)

    def joined(self, other: "ListEvents") -> "ListEvents":
        """Return both."""
        if not len(other.slab):
            return self
        if not len(self.slab):
            return other
        return ListEvents(
            np.concatenate((self.slab, other.slab)),
            np.concatenate((self.time, other.time)),
            np.concatenate((self.turn, other.turn)),
            np.concatenate((self.ask, other.ask)),
        )


def asks(size: int, ask: int, empty: NDArray[np.bool_] | None = None) -> Asks:
    """Return `ask` for each of `size` slabs, with EMPTY added where the slab is empty."""
    told = np.full(size, ask, dtype=np.int8)
    if empty is not None:
        told |= empty.view(np.int8)
    return told


def apply_events(state: State, events: ListEvents, place: Ints) -> None:
    """Carry out events of node lists, in order of time.

    Parameters
    ----------
    state
        The batch.
    events
        What is asked.
    place
        (request,) CPU (row * cpus + cpu) of each request, for the pages given back.
    """
    if not len(events.slab):
        return
    lists = state.pool.home[events.slab]
    order, follows = _by_list_and_time(lists, events.time, events.turn)
    lists, slab, ask = lists[order], events.slab[order], events.ask[order]
    starts = group_starts(lists)
    which = lists[starts]
    row = state.row_of_list(which)
    happens = decide(ask, starts, state.lists.nr_partial[which], state.keep_limit(row))
    _count_locks(state, events, order, lists, ask, follows, happens)
    removal = (ask & _REMOVE) != 0
    added, removed = happens & ~removal, happens & removal
    gone = (happens == removal) & ((ask & EMPTY) != 0)
    _add(state, slab, lists, ask, added)
    if removed.any():
        state.lists.remove(slab[removed])
    _count_outcomes(state, row, starts, ask, added, removed, gone)
    leaving = gone.nonzero()[0]
    if len(leaving):
        leaving, request = _by_time(order[leaving], events)
        discard(state, events.slab[leaving], request, place[request] % state.nr_cpus)


def add_partial(state: State, slabs: Ints, request: Ints, *, head: bool) -> None:
    """Add slabs with objects in use to their lists, in array order, under one list_lock each."""
    if not len(slabs):
        return
    lists = state.pool.home[slabs]
    state.statistics.lock(lists)
    state.events.lock(request, lists, 1)
    order = stable_order(lists, len(state.nr_slabs))
    lists = lists[order]
    starts = group_starts(lists)
    put = state.lists.prepend if head else state.lists.append
    put(lists[starts], group_lengths(starts, len(lists)), slabs[order])


def discard(state: State, slabs: Ints, request: Ints, cpu: Ints) -> None:
    """Give empty slabs back to the page allocator, in array order (discard_slab()).

    Parameters
    ----------
    state
        The batch.
    slabs
        (n,) slabs, on no list any more.
    request
        (n,) request of the call that does it.
    cpu
        (n,) CPU that does it.
    """
    pool = state.pool
    lists = pool.home[slabs]
    order = pool.order[slabs].astype(np.int64)
    np.subtract.at(state.nr_slabs, lists, 1)
    np.subtract.at(state.total_objects, lists, pool.objects[slabs].astype(np.int64))
    state.events.pages(request, slabs, order, 0)
    lane = state.rows.lane[state.row_of_list(lists)]
    state.source.free(lane, cpu, pool.page[slabs], order)
    pool.give(lane, slabs)


def _by_list_and_time(lists: Ints, time: Ints, turn: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the stable order by list, then time, then turn.

    Also returns, (event - 1,), whether the event after each is the next turn of the same drain.
    """
    low, middle = (int(turn.max()) + 1).bit_length(), int(time.max()).bit_length()
    key = lists << (low + middle)
    key |= time << low
    key |= turn
    order = stable_order(key, int(lists.max() + 1) << (low + middle))
    key = key[order]
    return order, key[1:] == key[:-1] + 1


def _by_time(which: Ints, events: ListEvents) -> tuple[Ints, Ints]:
    """Sort events by time, those of a drain from the bottom up; return them and their times."""
    time, turn = events.time[which], events.turn[which]
    top = int(turn.max())
    bits = top.bit_length()
    order = stable_order((time << bits) + (top - turn), int(time.max() + 1) << bits)
    return which[order], time[order]


def _add(state: State, slab: Ints, lists: Ints, ask: Asks, added: NDArray[np.bool_]) -> None:
    at_head = added & ((ask & HEAD) != 0)
    for put, chosen in ((state.lists.prepend, at_head), (state.lists.append, added & ~at_head)):
        which = chosen.nonzero()[0]
        if len(which):
            where = lists[which]
            starts = group_starts(where)
            put(where[starts], group_lengths(starts, len(where)), slab[which])


def _count_locks(
    state: State,
    events: ListEvents,
    order: Ints,
    lists: Ints,
    ask: Asks,
    follows: NDArray[np.bool_],
    happens: NDArray[np.bool_],
) -> None:
    """Count list_lock acquisitions and the slabs handled under them."""
    first = np.ones(len(lists), dtype=bool)
    first[1:] = ~(follows & ((ask[1:] & ask[:-1] & DRAIN) != 0))
    taken = first.nonzero()[0]
    units = group_lengths(taken, len(lists))
    unlocked = ((ask[taken] & DEACTIVATE) != 0) & ~happens[taken]
    if unlocked.any():
        taken, units = taken[~unlocked], units[~unlocked]
    state.statistics.lock(lists[taken], units)
    if state.events.record:
        time, turn = events.time[order[taken]], events.turn[order[taken]]
        when = np.lexsort((turn, time))
        state.events.lock(time[when], lists[taken[when]], units[when])


def _count_outcomes(
    state: State,
    row: Ints,
    starts: Ints,
    ask: Asks,
    added: NDArray[np.bool_],
    removed: NDArray[np.bool_],
    gone: NDArray[np.bool_],
) -> None:
    """Count what became of the slabs; `row` is that of each list."""

    def count(stat: Stat, chosen: NDArray[np.bool_]) -> None:
        if chosen.any():
            state.statistics.add(stat, row, np.add.reduceat(chosen, starts, dtype=np.int64))

    count(Stat.FREE_REMOVE_PARTIAL, removed)
    count(Stat.FREE_SLAB, gone)
    count(Stat.DEACTIVATE_EMPTY, gone & ((ask & (DRAIN | DEACTIVATE)) != 0))
    deactivated = (ask & DEACTIVATE) != 0
    if not deactivated.any():
        count(Stat.FREE_ADD_PARTIAL, added)
        return
    at_head = (ask & HEAD) != 0
    count(Stat.FREE_ADD_PARTIAL, added & ~deactivated)
    count(Stat.DEACTIVATE_TO_HEAD, added & deactivated & at_head)
    count(Stat.DEACTIVATE_TO_TAIL, added & deactivated & ~at_head)
