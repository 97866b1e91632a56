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
from allocator.slabs.keep_empty import ADD, REMOVE_EMPTY
from allocator.slabs.node import DRAIN, ListEvents, apply_events, asks
from allocator.slabs.pool import CPU, FREE, LISTED, LOST, PARTIAL
from allocator.slabs.ranks import gathered, group_lengths, group_starts, stable_order
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Window

Ints = NDArray[np.int64]
Words = NDArray[np.int32]


@dataclass(slots=True, eq=False)
class Frees:
    """Frees of one call, (free,) each, in order."""

    place: Ints
    """CPU that frees (row * cpus + cpu)."""
    slab: Ints
    """Slab that the objects go back to."""
    count: Words
    """Objects."""
    at_once: bool
    """The objects of an entry are one detached freelist, not freed one by one."""
    before: Words
    """Word of the slab before this free."""
    full: Ints
    """Entries that find their slab full, ascending."""
    on_cpu: Ints
    """Entries that find their slab some CPU's cpu slab, ascending."""
    listed: Ints
    """Entries that find their slab listed or lost, ascending."""


@dataclass(slots=True, eq=False)
class Late:
    """Objects that come back to slabs which a drain of the same call has put on a node list."""

    entry: Ints
    """Entries with such objects; those of a slab ascend."""
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
    frees = _change_words(state, place, slab, count.astype(np.int32, copy=False), at_once)
    own = _fast_path(state, frees)
    late, pushed = NOTHING, state.statistics.stats[Stat.CPU_PARTIAL_FREE].copy()
    if not state.has_cpu_partial:
        events = _list_full_slabs(state, frees)
    else:
        drained = _push_full_slabs(state, frees)
        late = _frees_after_drain(state, frees, drained)
        events = _put_drained(state, frees, drained, late)
    pushed = state.statistics.stats[Stat.CPU_PARTIAL_FREE] - pushed
    _count_slow(state, frees, own, late, pushed)
    events = events.joined(_emptied(state, frees, late))
    apply_events(state, events, place)


def give_back_bulk(state: State, window: Window, who: Ints) -> None:
    """Free what failed bulk requests got, and take it out of their answer."""
    runs = window.withdraw(who)
    request, slab = np.repeat(runs.request, runs.count), np.repeat(runs.slab, runs.count)
    lists = detached_freelists(state.policy, request, slab)
    with state.events.named(lists.request):
        free(state, window.place[lists.request], lists.slab, lists.count, at_once=True)


def _change_words(state: State, place: Ints, slab: Ints, count: Words, at_once: bool) -> Frees:
    """Add the objects to the slabs' freelists; slabs found full get the place they are put in."""
    word = state.pool.word
    new_place = PARTIAL if state.has_cpu_partial else 0
    before = gathered(word, slab)
    np.add.at(word, slab, count)
    after = gathered(word, slab)
    again = (after - before != count).nonzero()[0]  # several entries have these slabs
    if len(again):
        before[again] = _words_between(slab[again], before[again], count[again], new_place)
    full = (before == 0).nonzero()[0]
    if new_place:
        word[slab[full]] = after[full] + np.int32(new_place)
    on_cpu = ((before & CPU) != 0).nonzero()[0]
    listed = (before >= LISTED).nonzero()[0]
    return Frees(place, slab, count, at_once, before, full, on_cpu, listed)


def _words_between(slab: Ints, word: Words, count: Words, new_place: int) -> Words:
    """Return the words before each of several frees of a slab, given those before the first."""
    order = stable_order(slab, int(slab.max()) + 1)
    starts = group_starts(slab[order])
    added = count[order]
    earlier = added.cumsum(dtype=np.int32) - added
    earlier -= earlier[starts].repeat(group_lengths(starts, len(slab)))
    then = np.empty_like(word)
    then[order] = earlier
    then += ((word == 0) & (then > 0)) * np.int32(new_place)
    then += word
    return then


def _fast_path(state: State, frees: Frees) -> Ints:
    """Give objects of a CPU's own cpu slab to its freelist instead; return those entries."""
    cpu, on_cpu = state.cpu, frees.on_cpu
    own: Ints = on_cpu[cpu.slab[frees.place[on_cpu]] == frees.slab[on_cpu]]
    if len(own):
        count, place = frees.count[own], frees.place[own]
        np.subtract.at(state.pool.word, frees.slab[own], count)
        np.add.at(cpu.free, place, count)
        times: Ints | int = count.astype(np.int64)
        if frees.at_once and not state.policy.bulk_counts_fastpath:
            times = 1
        state.statistics.add(Stat.FREE_FASTPATH, state.row_of[place], times)
    return own


def _list_full_slabs(state: State, frees: Frees) -> ListEvents:
    """CPU_PARTIAL=n: the first free to a full slab puts it on its node's list."""
    full = frees.full
    slab = frees.slab[full]
    first = frees.count[full] if frees.at_once else np.ones(len(full), dtype=np.int32)
    ask = asks(len(full), ADD, first == state.pool.objects[slab])
    return ListEvents(slab, full, np.zeros_like(full), ask)


def _push_full_slabs(state: State, frees: Frees) -> Drained:
    """CPU_PARTIAL=y: the first free to a full slab puts it on the freeing CPU's partial list."""
    full, objects = frees.full, frees.count if frees.at_once else None
    if not state.policy.cpu_partial_zero_drains:
        return push(state, frees.place, frees.slab, full, objects)
    row = state.row_of[frees.place[full]]
    zero = state.rows.cpu_partial[row] == 0  # goes on to the node's list at once
    alone = full[zero]
    state.statistics.add(Stat.CPU_PARTIAL_FREE, row[zero])
    drained = Drained(frees.slab[alone], alone, np.zeros_like(alone))
    return drained.joined(push(state, frees.place, frees.slab, full[~zero], objects))


def _frees_after_drain(state: State, frees: Frees, drained: Drained) -> Late:
    """Find the objects that come back to slabs after they were drained in this call."""
    if not len(drained.slab):
        return NOTHING
    slab, time = drained.slab, drained.time
    entry = ((frees.before & PARTIAL) != 0).nonzero()[0]
    after = state.scratch(len(state.pool.word))
    after[slab] = time + 1
    since = after[frees.slab[entry]]
    after[slab] = 0
    entry = entry[((since > 0) & (entry >= since)).nonzero()[0]]
    amount = frees.count[entry].astype(np.int64)
    if state.policy.cpu_partial_zero_drains and not frees.at_once:
        own = time[(frees.slab[time] == slab) & (frees.count[time] > 1)]  # the rest of its run
        entry = np.concatenate((own, entry))
        amount = np.concatenate((frees.count[own] - 1, amount))
    return Late(entry, amount)


def _put_drained(state: State, frees: Frees, drained: Drained, late: Late) -> ListEvents:
    """Return what drained slabs ask of their nodes' lists.

    Objects that come back after the drain do not count for it: they are freed to a listed slab,
    and the last of them may empty it there.
    """
    pool, slab, time = state.pool, drained.slab, drained.time
    if state.policy.freezing == "taken":
        state.statistics.update(pool.home[slab])
    free_now, objects = pool.word[slab] & FREE, pool.objects[slab]
    if not len(late.entry):
        return ListEvents(slab, time, drained.turn, asks(len(slab), DRAIN, free_now == objects))
    scratch, freed = state.scratch(len(pool.word)), frees.slab[late.entry]
    np.add.at(scratch, freed, late.amount)
    later = scratch[slab]
    ask = asks(len(slab), DRAIN, free_now - later == objects)
    events = ListEvents(slab, time, drained.turn, ask)
    emptied = slab[((later > 0) & (free_now == objects)).nonzero()[0]]
    scratch[freed] = late.entry
    last = scratch[emptied]
    scratch[freed] = 0
    return events.joined(_removals(emptied, last))


def _removals(slab: Ints, entry: Ints) -> ListEvents:
    """Return what listed slabs ask that a free has emptied."""
    return ListEvents(slab, entry, np.ones_like(entry), asks(len(slab), REMOVE_EMPTY))


def _count_slow(state: State, frees: Frees, own: Ints, late: Late, pushed: Ints) -> None:
    """Count slow frees, the updates they make, and those that find their slab frozen.

    Until 6.7 the objects after the first of a run that finds a full slab meet it frozen.

    Parameters
    ----------
    state
        The batch.
    frees
        All frees of the call.
    own
        Entries that took the fast path.
    late
        Objects that come back to slabs drained in this call.
    pushed
        (row,) slabs that went to cpu partial lists.
    """
    statistics, policy, slab = state.statistics, state.policy, frees.slab
    times = np.ones(len(slab), dtype=np.int64) if frees.at_once else frees.count.astype(np.int64)
    times[own] = 0
    updates = np.zeros_like(statistics.slab_updates)
    np.add.at(updates, gathered(state.pool.home, slab), times)
    statistics.slab_updates += updates
    slow = updates.reshape(-1, state.nr_nodes).sum(axis=1)
    if policy.generation == "cpu_slabs":  # 7.x counts what users free, not what sheaves flush
        statistics.stats[Stat.FREE_SLOWPATH] += slow
    if policy.freezing == "taken" and state.has_cpu_partial:
        statistics.stats[Stat.FREE_FROZEN] += slow - pushed
        amount = np.minimum(late.amount, 1) if frees.at_once else late.amount
        thawed, amount = _joined((frees.listed, times[frees.listed]), (late.entry, amount))
        statistics.add(Stat.FREE_FROZEN, state.row_of[frees.place[thawed]], -amount)
    else:
        frozen = frees.on_cpu
        statistics.add(Stat.FREE_FROZEN, state.row_of[frees.place[frozen]], times[frozen])
    if state.events.record:
        some = times.nonzero()[0]
        state.note_updates(some, slab[some], frees.place[some], times[some])


def _joined(*pairs: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    return np.concatenate([one for one, _ in pairs]), np.concatenate([two for _, two in pairs])


def _emptied(state: State, frees: Frees, late: Late) -> ListEvents:
    """Return what slabs ask that were listed when their last object is freed.

    A slab on a cpu partial list that becomes empty costs a list_lock from 6.8 on, as it is not
    frozen; so does a lost one. Nothing more happens to them.
    """
    pool, before, entry = state.pool, frees.before, frees.listed
    if state.policy.freezing == "delayed" or not state.has_cpu_partial:
        entry = _may_lock(state, frees, late)
    slab, word = frees.slab[entry], before[entry]
    emptied = ((word & FREE) + frees.count[entry] == pool.objects[slab]).nonzero()[0]
    entry, slab, word = entry[emptied], slab[emptied], word[emptied] & (LISTED | LOST)
    listed = word == LISTED if state.has_cpu_partial else word != LOST
    unlisted = (~listed).nonzero()[0]
    state.lock_only(entry[unlisted], slab[unlisted])
    listed = listed.nonzero()[0]
    return _removals(slab[listed], entry[listed])


def _may_lock(state: State, frees: Frees, late: Late) -> Ints:
    """Return entries that need list_lock if they empty their slab, where nothing is frozen."""
    before, delayed = frees.before, state.policy.freezing == "delayed"
    maybe = (before & (LISTED | LOST | (PARTIAL if delayed else 0))) != 0
    if not state.has_cpu_partial:  # listed by an earlier free of this call
        maybe |= (before > 0) & (before <= FREE)
    if not frees.at_once:  # put in its place by the first object of this run
        maybe |= (before == 0) & (frees.count > 1)
    maybe[late.entry] = False
    which: Ints = maybe.nonzero()[0]
    return which
