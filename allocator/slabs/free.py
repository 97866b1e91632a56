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
from allocator.slabs.ranks import rank_among_equals
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Window

Ints = NDArray[np.int64]
Words = NDArray[np.int32]

_LOW = (1 << 32) - 1  # two counts of a run are summed as one number


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
    again: Ints
    """Entries whose slab has several entries in this call, ascending."""


@dataclass(slots=True, eq=False)
class Late:
    """Objects that come back to slabs which a drain of the same call has put on a node list."""

    entry: Ints
    """Entries with such objects."""
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
    counts = count.astype(np.int32, copy=False)
    before, again = _change_words(state, slab, counts)
    frees = Frees(place, slab, counts, at_once, before, again)
    own = _fast_path(state, frees)
    full = (before == 0).nonzero()[0]
    late = NOTHING
    if not state.has_cpu_partial:
        events = _list_full_slabs(state, frees, full)
    else:
        drained = _push_full_slabs(state, frees, full)
        late = _frees_after_drain(state, frees, drained)
        events = _put_drained(state, frees, drained, late)
    _count_slow(state, frees, own, late)
    events = events.joined(_emptied(state, frees, late))
    apply_events(state, events, place % state.nr_cpus)


def give_back_bulk(state: State, window: Window, who: Ints) -> None:
    """Free what failed bulk requests got, and take it out of their answer."""
    runs = window.withdraw(who)
    request, slab = np.repeat(runs.request, runs.count), np.repeat(runs.slab, runs.count)
    lists = detached_freelists(state.policy, request, slab)
    with state.events.named(lists.request):
        free(state, window.place[lists.request], lists.slab, lists.count, at_once=True)


def _change_words(state: State, slab: Ints, count: Words) -> tuple[Words, Ints]:
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
    tag[slab] = index  # the last entry of each slab
    last = tag[slab]
    before = word[slab]
    added = before + count
    added += (before == 0) * new_place
    word[slab] = added
    earlier = (last != index).nonzero()[0]
    if not len(earlier):
        return before, earlier
    repeated = np.zeros(len(slab), dtype=bool)
    repeated[earlier] = True
    repeated[last[earlier]] = True
    again = repeated.nonzero()[0]
    slabs = slab[again]
    word[slabs] = before[again]
    turn = rank_among_equals(slabs, len(word))
    for number in range(int(turn.max()) + 1):
        now = again[turn == number]
        slabs = slab[now]
        before[now] = words = word[slabs]
        words = words + count[now]
        if number == 0:
            words += (before[now] == 0) * new_place
        word[slabs] = words
    return before, again


def _fast_path(state: State, frees: Frees) -> Ints:
    """Give objects of a CPU's own cpu slab to its freelist instead; return those entries."""
    cpu = state.cpu
    on_cpu = (frees.before & CPU).nonzero()[0]
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


def _list_full_slabs(state: State, frees: Frees, full: Ints) -> ListEvents:
    """CPU_PARTIAL=n: the first free to a full slab puts it on its node's list."""
    slab = frees.slab[full]
    first = frees.count[full] if frees.at_once else np.ones(len(full), dtype=np.int32)
    ask = asks(len(full), ADD, first == state.pool.objects[slab])
    return ListEvents(slab, full, np.zeros_like(full), ask)


def _push_full_slabs(state: State, frees: Frees, full: Ints) -> Drained:
    """CPU_PARTIAL=y: the first free to a full slab puts it on the freeing CPU's partial list."""
    place, slab = frees.place[full], frees.slab[full]
    row = state.row_of[place]
    state.statistics.add(Stat.CPU_PARTIAL_FREE, row)
    objects = frees.count[full].astype(np.int64) if frees.at_once else np.ones_like(full)
    if not state.policy.cpu_partial_zero_drains:
        return push(state, place, slab, full, objects)
    alone = state.rows.cpu_partial[row] == 0  # goes on to the node's list at once
    drained = Drained(slab[alone], full[alone], np.zeros(int(alone.sum()), dtype=np.int64))
    kept = ~alone
    return drained.joined(push(state, place[kept], slab[kept], full[kept], objects[kept]))


def _frees_after_drain(state: State, frees: Frees, drained: Drained) -> Late:
    """Find the objects that come back to slabs after they were drained in this call."""
    if not len(drained.slab):
        return NOTHING
    size = len(state.pool.word)
    slab, time = drained.slab, drained.time
    last = np.minimum(state.tag(size)[slab], len(frees.slab) - 1)
    last = last[((frees.slab[last] == slab) & (last > time)).nonzero()[0]]
    late = np.zeros(len(frees.slab), dtype=bool)
    late[last] = True
    if len(frees.again):
        after = state.scratch(size)
        after[slab] = time + 1
        since = after[frees.slab[frees.again]]
        late[frees.again[((since > 0) & (frees.again >= since)).nonzero()[0]]] = True
        after[slab] = 0
    entry = late.nonzero()[0]
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
    after = state.scratch(len(pool.word))
    np.add.at(after, frees.slab[late.entry], late.amount)
    later = after[slab]
    after[slab] = 0
    ask = asks(len(slab), DRAIN, free_now - later == objects)
    events = ListEvents(slab, time, drained.turn, ask)
    emptied = slab[((later > 0) & (free_now == objects)).nonzero()[0]]
    last = state.tag(len(pool.word))[emptied]
    return events.joined(_removals(emptied, last))


def _removals(slab: Ints, entry: Ints) -> ListEvents:
    """Return what listed slabs ask that a free has emptied."""
    return ListEvents(slab, entry, np.ones_like(entry), asks(len(slab), REMOVE_EMPTY))


def _count_slow(state: State, frees: Frees, own: Ints, late: Late) -> None:
    """Count slow frees, the updates they make, and those that find their slab frozen.

    Until 6.7 the objects after the first of a run that finds a full slab meet it frozen.
    """
    statistics, policy = state.statistics, state.policy
    before, slab = frees.before, frees.slab
    times = np.ones(len(slab), dtype=np.int64) if frees.at_once else frees.count.astype(np.int64)
    times[own] = 0
    taken = policy.freezing == "taken" and state.has_cpu_partial
    frozen = ((before & (CPU | PARTIAL if taken else CPU)) != 0) * times
    if taken:
        frozen += (before == 0) * (times - 1)
        frozen[late.entry] -= np.minimum(late.amount, 1) if frees.at_once else late.amount
    frozen <<= 32
    frozen += times
    both = np.zeros(len(statistics.slab_updates), dtype=np.int64)
    np.add.at(both, state.pool.home[slab], frozen)
    updates = both & _LOW
    statistics.slab_updates += updates
    statistics.stats[Stat.FREE_FROZEN] += (both >> 32).reshape(-1, state.nr_nodes).sum(axis=1)
    if policy.generation == "cpu_slabs":  # 7.x counts what users free, not what sheaves flush
        statistics.stats[Stat.FREE_SLOWPATH] += updates.reshape(-1, state.nr_nodes).sum(axis=1)
    if state.events.record:
        slow = times.nonzero()[0]
        state.note_updates(slow, slab[slow], frees.place[slow], times[slow])


def _emptied(state: State, frees: Frees, late: Late) -> ListEvents:
    """Return what slabs ask that were listed when their last object is freed.

    A slab on a cpu partial list that becomes empty costs a list_lock from 6.8 on, as it is not
    frozen; so does a lost one. Nothing more happens to them.
    """
    pool, before, delayed = state.pool, frees.before, state.policy.freezing == "delayed"
    maybe = (before & (LISTED | LOST | (PARTIAL if delayed else 0))) != 0
    if delayed or not state.has_cpu_partial:
        if not state.has_cpu_partial:  # listed by an earlier free of this call
            maybe |= (before > 0) & (before <= FREE)
        if not frees.at_once:  # put in its place by the first object of this run
            maybe |= (before == 0) & (frees.count > 1)
    maybe[late.entry] = False
    entry = maybe.nonzero()[0]
    slab, word = frees.slab[entry], before[entry]
    emptied = ((word & FREE) + frees.count[entry] == pool.objects[slab]).nonzero()[0]
    entry, slab, word = entry[emptied], slab[emptied], word[emptied] & (LISTED | LOST)
    listed = word == LISTED if state.has_cpu_partial else word != LOST
    unlisted = (~listed).nonzero()[0]
    state.lock_only(entry[unlisted], slab[unlisted])
    listed = listed.nonzero()[0]
    return _removals(slab[listed], entry[listed])
