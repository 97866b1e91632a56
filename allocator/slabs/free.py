"""Freeing under cpu slabs: __slab_free() (mm/slub.c 3.13 to 6.12; slub.md 5.1 to 5.3).

All frees of a call are decided together and yet as if they were executed one after another. That
works because frees alone leave little to chance: which free finds a slab full is a matter of
order within the slab, when a CPU's partial list overflows a matter of order within the CPU, and
what an overflow or an emptied slab asks of a node list is known before the list is looked at. Only
the length of the list decides then, in order of time (keep_empty.py).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.bulk import detached_freelists
from allocator.slabs.cpu_partial import Drained, push
from allocator.slabs.keep_empty import ListEvent
from allocator.slabs.node import ListEvents, Origin, apply_events
from allocator.slabs.pool import CPU, FREE, LISTED, LOST, PARTIAL
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Window

Ints = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Frees:
    """Frees of one call, (free,) each, in order."""

    place: Ints
    """CPU that frees (row * cpus + cpu)."""
    row: Ints
    """Row of the CPU."""
    slab: Ints
    """Slab that the objects go back to."""
    count: NDArray[np.int32]
    """Objects."""
    at_once: bool
    """The objects of an entry are one detached freelist, not freed one by one."""
    before: NDArray[np.int32]
    """Word of the slab before this free."""
    again: Ints
    """Entries whose slab has several entries in this call."""


@dataclass(slots=True, eq=False)
class Late:
    """Objects that come back to slabs which a drain of the same call has put on a node list."""

    entry: Ints
    """Entries with such objects, ascending."""
    amount: Ints
    """Objects of each that come after the drain."""


NOTHING = Late(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def free(
    state: State, place: Ints, slab: Ints, count: NDArray[np.integer], *, at_once: bool = False
) -> None:
    """Free runs of objects in array order.

    Parameters
    ----------
    state
        The batch.
    place
        (n,) row * cpus + cpu of the CPU that frees.
    slab
        (n,) slab of the run.
    count
        (n,) objects, at least 1.
    at_once
        Each run is one freelist given back by one update (bulk free), not `count` single frees.
    """
    if not len(place):
        return
    counts = count.astype(np.int32)
    before, again = _change_words(state, slab, counts)
    frees = Frees(place, state.row_of[place], slab, counts, at_once, before, again)
    slow = _fast_path(state, frees)
    full = (before == 0).nonzero()[0]
    late = NOTHING
    if not state.has_cpu_partial:
        events = _list_full_slabs(state, frees, full)
    else:
        drained = _push_full_slabs(state, frees, full)
        late = _frees_after_drain(state, frees, drained)
        events = _put_drained(state, frees, drained, late)
    _count_slow(state, frees, slow, late)
    events = events.joined(_emptied(state, frees, late))
    apply_events(state, events, place % state.nr_cpus)


def give_back_bulk(state: State, window: Window, who: Ints) -> None:
    """Free what failed bulk requests got, and take it out of their answer."""
    runs = window.withdraw(who)
    request, slab = np.repeat(runs.request, runs.count), np.repeat(runs.slab, runs.count)
    lists = detached_freelists(state.policy, request, slab)
    with state.events.named(lists.request):
        free(state, window.place[lists.request], lists.slab, lists.count, at_once=True)


def _change_words(
    state: State, slab: Ints, count: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Ints]:
    """Add the objects to the slabs' freelists; slabs found full get the place they are put in.

    Returns
    -------
    tuple
        (n,) word of the slab before each entry; entries whose slab occurs more than once.
    """
    word = state.pool.word
    new_place = np.int32(PARTIAL if state.has_cpu_partial else 0)
    index = np.arange(len(slab))
    tag = state.tag(len(word))
    tag[slab[::-1]] = index[::-1]
    first = tag[slab]
    later = (first != index).nonzero()[0]
    if not len(later):
        before = word[slab]
        word[slab] = before + count + (before == 0) * new_place
        return before, later
    again = np.unique(np.concatenate((first[later], later)))
    before = np.empty(len(slab), dtype=np.int32)
    now = (first == index).nonzero()[0]
    while True:
        slabs = slab[now]
        words = word[slabs]
        before[now] = words
        word[slabs] = words + count[now] + (words == 0) * new_place
        if not len(later):
            break
        slabs = slab[later]
        tag[slabs[::-1]] = later[::-1]
        is_next = tag[slabs] == later
        now, later = later[is_next], later[~is_next]
    tag[slab[again]] = again  # the last entry of each slab
    return before, again


def _fast_path(state: State, frees: Frees) -> Ints | None:
    """Give objects of a CPU's own cpu slab to its freelist instead; return the other entries."""
    cpu = state.cpu
    on_cpu = (frees.before & CPU).nonzero()[0]
    own = on_cpu[cpu.slab[frees.place[on_cpu]] == frees.slab[on_cpu]]
    if not len(own):
        return None
    count = frees.count[own]
    np.subtract.at(state.pool.word, frees.slab[own], count)
    np.add.at(cpu.free, frees.place[own], count)
    times: Ints | int = count.astype(np.int64)
    if frees.at_once and not state.policy.bulk_counts_fastpath:
        times = 1
    state.statistics.add(Stat.FREE_FASTPATH, frees.row[own], times)
    slow = np.ones(len(frees.slab), dtype=bool)
    slow[own] = False
    return slow.nonzero()[0]


def _list_full_slabs(state: State, frees: Frees, full: Ints) -> ListEvents:
    """CPU_PARTIAL=n: the first free to a full slab puts it on its node's list."""
    first = frees.count[full] if frees.at_once else np.ones(len(full), dtype=np.int32)
    empty = first == state.pool.objects[frees.slab[full]]
    kind = np.where(empty, ListEvent.ADD_EMPTY, ListEvent.ADD).astype(np.int8)
    return ListEvents.of(frees.slab[full], full, full, kind, Origin.FREE)


def _push_full_slabs(state: State, frees: Frees, full: Ints) -> Drained:
    """CPU_PARTIAL=y: the first free to a full slab puts it on the freeing CPU's partial list."""
    place, slab, row = frees.place[full], frees.slab[full], frees.row[full]
    state.statistics.add(Stat.CPU_PARTIAL_FREE, row)
    objects = frees.count[full].astype(np.int64) if frees.at_once else np.ones_like(full)
    alone = np.zeros(len(full), dtype=bool)
    if state.policy.cpu_partial_zero_drains:
        alone = state.rows.cpu_partial[row] == 0  # goes on to the node's list at once
    drained = Drained(slab[alone], full[alone], np.zeros(int(alone.sum()), dtype=np.int64))
    kept = ~alone
    if kept.any():
        drained = drained.joined(push(state, place[kept], slab[kept], full[kept], objects[kept]))
    return drained


def _frees_after_drain(state: State, frees: Frees, drained: Drained) -> Late:
    """Find the objects that come back to slabs after they were drained in this call."""
    if not len(drained.slab):
        return NOTHING
    size = len(state.pool.word)
    slab, time = drained.slab, drained.time
    last = np.minimum(state.tag(size)[slab], len(frees.slab) - 1)
    last = last[(frees.slab[last] == slab) & (last > time)]
    after = state.scratch(size)
    after[slab] = time + 1
    since = after[frees.slab[frees.again]]
    several = frees.again[(since > 0) & (frees.again >= since)]
    after[slab] = 0
    entry = np.unique(np.concatenate((last, several)))
    amount = frees.count[entry].astype(np.int64)
    if not frees.at_once:  # the rest of a run whose first object was put on the node's list
        own = time[(frees.slab[time] == slab) & (frees.count[time] > 1)]
        entry = np.concatenate((own, entry))
        amount = np.concatenate((frees.count[own] - 1, amount))
    return Late(entry, amount)


def _put_drained(state: State, frees: Frees, drained: Drained, late: Late) -> ListEvents:
    """Return what drained slabs ask of their nodes' lists.

    Objects that come back after the drain do not count for it: they are freed to a listed slab,
    and the last of them may empty it there.
    """
    pool, slab, time = state.pool, drained.slab, drained.time
    after = state.scratch(len(pool.word))
    np.add.at(after, frees.slab[late.entry], late.amount)
    later = after[slab]
    after[slab] = 0
    objects = pool.objects[slab]
    free_now = pool.word[slab] & FREE
    kind = np.where(free_now - later == objects, ListEvent.ADD_EMPTY, ListEvent.ADD)
    events = ListEvents.of(slab, time, time, kind.astype(np.int8), Origin.DRAIN, turn=drained.turn)
    if state.policy.freezing == "taken":
        state.statistics.update(pool.home[slab].astype(np.int64))
    emptied = slab[(later > 0) & (free_now == objects)]
    last = state.tag(len(pool.word))[emptied]
    return events.joined(
        ListEvents.of(emptied, last, last, ListEvent.REMOVE_EMPTY, Origin.FREE, turn=1)
    )


def _count_slow(state: State, frees: Frees, slow: Ints | None, late: Late) -> None:
    """Count slow frees, the updates they make, and those that find their slab frozen.

    Until 6.7 the objects after the first of a run that finds a full slab meet it frozen.
    """
    statistics, policy = state.statistics, state.policy
    row, before, slab = frees.row, frees.before, frees.slab
    count = frees.count.astype(np.int64)
    if slow is not None:
        row, before, slab, count = row[slow], before[slow], slab[slow], count[slow]
    times: Ints = np.ones_like(count) if frees.at_once else count
    if policy.generation == "cpu_slabs":  # 7.x counts what users free, not what sheaves flush
        statistics.add(Stat.FREE_SLOWPATH, row, times)
    statistics.update(state.pool.home[slab].astype(np.int64), times)
    frozen_places = CPU | PARTIAL if policy.freezing == "taken" else CPU
    frozen = times * ((before & frozen_places) != 0)
    if policy.freezing == "taken" and state.has_cpu_partial:
        frozen += (times - 1) * (before == 0)
        lost = np.minimum(late.amount, 1) if frees.at_once else late.amount
        statistics.add(Stat.FREE_FROZEN, frees.row[late.entry], -lost)
    statistics.add(Stat.FREE_FROZEN, row, frozen)
    request = np.arange(len(frees.slab)) if slow is None else slow
    state.note_updates(request, slab, frees.place[request], times)


def _emptied(state: State, frees: Frees, late: Late) -> ListEvents:
    """Return what slabs ask that were listed when their last object is freed.

    A slab on a cpu partial list that becomes empty costs a list_lock from 6.8 on, as it is not
    frozen; so does a lost one. Nothing more happens to them.
    """
    pool, policy = state.pool, state.policy
    before = frees.before
    wanted = LISTED | LOST | (PARTIAL if policy.freezing == "delayed" else 0)
    maybe = (before & wanted) != 0
    rest_of_run = (before == 0) & (frees.count > 1) & (not frees.at_once)
    if not state.has_cpu_partial:  # listed by this free or an earlier one of this call
        maybe |= (before > 0) & (before <= FREE) | rest_of_run
    elif policy.freezing == "delayed":
        maybe |= rest_of_run
    maybe[late.entry] = False
    entry = maybe.nonzero()[0]
    slab = frees.slab[entry]
    emptied = (before[entry] & FREE) + frees.count[entry] == pool.objects[slab]
    entry, slab = entry[emptied], slab[emptied]
    flags = before[entry] & (LISTED | LOST)
    listed = flags == LISTED if state.has_cpu_partial else flags != LOST
    unlisted = entry[~listed]
    state.lock_only(unlisted, frees.slab[unlisted])
    entry = entry[listed]
    return ListEvents.of(slab[listed], entry, entry, ListEvent.REMOVE_EMPTY, Origin.FREE, turn=1)
