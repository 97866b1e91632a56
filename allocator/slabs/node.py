"""Slabs that come to a node list or leave it because they became empty (slub.md 5.2, 5.5)."""

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.keep_empty import ListEvent, decide
from allocator.slabs.ranks import group_starts, stable_order
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat

Ints = NDArray[np.int64]


class Origin(IntEnum):
    """Which rule asks."""

    FREE = 0
    """__slab_free(): list_lock is held for this slab alone."""
    DRAIN = 1
    """A cpu partial list is put on the node lists; list_lock is kept while the node is the same."""
    DEACTIVATE = 2
    """deactivate_slab(): an empty slab that is discarded needs no list_lock."""
    FLUSH = 3
    """As DEACTIVATE, by flush_all(); its slab may be full, then nothing is asked."""


@dataclass(slots=True, kw_only=True, eq=False)
class ListEvents:
    """What slabs ask of their node lists, (event,) each, in any order of slabs."""

    slab: Ints
    """Slab concerned."""
    time: Ints
    """When: events of one list happen in this order."""
    request: Ints
    """Request that causes it."""
    kind: NDArray[np.int8]
    """`ListEvent`."""
    origin: NDArray[np.int8]
    """`Origin`."""
    turn: Ints
    """Order among equal times; consecutive slabs of a drain share one list_lock."""
    head: NDArray[np.bool_]
    """Added at the head, not the tail."""

    @classmethod
    def of(
        cls,
        slab: Ints,
        time: Ints,
        request: Ints,
        kind: NDArray[np.int8] | ListEvent,
        origin: Origin,
        *,
        turn: Ints | int = 0,
        head: NDArray[np.bool_] | bool = False,
    ) -> Self:
        """Build from arrays and values that hold for all."""
        size = len(slab)
        return cls(
            slab=slab,
            time=time,
            request=request,
            kind=np.full(size, kind, dtype=np.int8),
            origin=np.full(size, origin, dtype=np.int8),
            turn=np.broadcast_to(turn, size),
            head=np.broadcast_to(head, size),
        )

    def __len__(self) -> int:
        return len(self.slab)

    def joined(self, other: Self) -> Self:
        """Return both; of equal times those of `self` come first."""
        if not len(other):
            return self
        if not len(self):
            return other
        names = [field.name for field in fields(self)]
        parts = {n: np.concatenate((getattr(self, n), getattr(other, n))) for n in names}
        return type(self)(**parts)

    def chosen(self, which: Ints | NDArray[np.bool_]) -> Self:
        """Return some of the events."""
        names = [field.name for field in fields(self)]
        return type(self)(**{name: getattr(self, name)[which] for name in names})


def apply_events(state: State, events: ListEvents, cpu: Ints) -> None:
    """Carry out events of node lists, in order of time.

    Parameters
    ----------
    state
        The batch.
    events
        What is asked.
    cpu
        (request,) CPU of each request, for the pages given back.
    """
    if not len(events):
        return
    lists = state.pool.home[events.slab].astype(np.int64)
    order = _by_list_and_time(lists, events.time, events.turn)
    events, lists = events.chosen(order), lists[order]
    starts = group_starts(lists)
    counts = np.diff(starts, append=len(lists))
    which = lists[starts]
    limit = state.keep_limit(state.row_of_list(which))
    happens = decide(
        events.kind,
        np.repeat(starts, counts),
        np.repeat(state.lists.nr_partial[which], counts),
        np.repeat(limit, counts),
    )
    _count_locks(state, events, lists, happens)
    added = happens & (events.kind != ListEvent.REMOVE_EMPTY)
    removed = happens & (events.kind == ListEvent.REMOVE_EMPTY)
    _add(state, events, lists, added)
    if removed.any():
        state.lists.remove(events.slab[removed])
    gone = removed | ((events.kind == ListEvent.ADD_EMPTY) & ~happens)
    _count_outcomes(state, events, state.row_of_list(lists), added, removed, gone)
    if gone.any():
        leaving = events.chosen(gone)
        leaving = leaving.chosen(np.lexsort((-leaving.turn, leaving.time)))
        discard(state, leaving.slab, leaving.request, cpu[leaving.request])


def add_partial(state: State, slabs: Ints, request: Ints, *, head: bool) -> None:
    """Add slabs with objects in use to their lists, in array order, under one list_lock each."""
    if not len(slabs):
        return
    lists = state.pool.home[slabs].astype(np.int64)
    state.statistics.lock(lists)
    state.events.lock(request, lists, 1)
    order = stable_order(lists, len(state.nr_slabs))
    lists = lists[order]
    starts = group_starts(lists)
    put = state.lists.prepend if head else state.lists.append
    put(lists[starts], np.diff(starts, append=len(lists)), slabs[order])


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
    lists = pool.home[slabs].astype(np.int64)
    rows = state.row_of_list(lists)
    objects = pool.objects[slabs].astype(np.int64)
    np.subtract.at(state.nr_slabs, lists, 1)
    np.subtract.at(state.total_objects, lists, objects)
    order = pool.order[slabs].astype(np.int64)
    state.events.pages(request, slabs, order, 0)
    state.source.free(state.rows.lane[rows], cpu, pool.page[slabs], order)
    pool.give(slabs)


def _by_list_and_time(lists: Ints, time: Ints, turn: Ints) -> Ints:
    """Return the stable order by list, then time, then turn."""
    low, middle = int(turn.max()).bit_length(), int(time.max()).bit_length()
    key = (((lists << middle) | time) << low) | turn
    return stable_order(key, int(lists.max() + 1) << (low + middle))


def _add(state: State, events: ListEvents, lists: Ints, added: NDArray[np.bool_]) -> None:
    for head, put in ((False, state.lists.append), (True, state.lists.prepend)):
        chosen = (added & (events.head == head)).nonzero()[0]
        if len(chosen):
            where = lists[chosen]
            starts = group_starts(where)
            put(where[starts], np.diff(starts, append=len(where)), events.slab[chosen])


def _count_locks(state: State, events: ListEvents, lists: Ints, happens: NDArray[np.bool_]) -> None:
    """Count list_lock acquisitions and the slabs handled under them."""
    drained = events.origin == Origin.DRAIN
    first = np.ones(len(lists), dtype=bool)
    first[1:] = ~(
        drained[1:]
        & drained[:-1]
        & (lists[1:] == lists[:-1])
        & (events.time[1:] == events.time[:-1])
        & (events.turn[1:] == events.turn[:-1] + 1)
    )
    units = np.diff(first.nonzero()[0], append=len(lists))
    locks = first & ((events.origin < Origin.DEACTIVATE) | happens)
    units = units[locks[first]]
    taken = locks.nonzero()[0]
    state.statistics.lock(lists[taken], units)
    if state.events.record:
        when = np.lexsort((events.turn[taken], events.time[taken]))
        taken = taken[when]
        state.events.lock(events.request[taken], lists[taken], units[when])


def _count_outcomes(
    state: State,
    events: ListEvents,
    row: Ints,
    added: NDArray[np.bool_],
    removed: NDArray[np.bool_],
    gone: NDArray[np.bool_],
) -> None:
    """Count what became of the slabs."""
    add = state.statistics.add
    deactivated = events.origin >= Origin.DEACTIVATE
    add(Stat.FREE_ADD_PARTIAL, row[added & ~deactivated])
    add(Stat.FREE_REMOVE_PARTIAL, row[removed])
    add(Stat.FREE_SLAB, row[gone])
    add(Stat.DEACTIVATE_EMPTY, row[gone & (events.origin != Origin.FREE)])
    if deactivated.any():
        add(Stat.DEACTIVATE_TO_HEAD, row[added & deactivated & events.head])
        add(Stat.DEACTIVATE_TO_TAIL, row[added & deactivated & ~events.head])
