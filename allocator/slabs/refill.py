"""Filling sheaves from slabs: refill_objects() (mm/slub.c v7.3; slub.md 9.5).

A refill takes whole slabs from the head of the local list, then perhaps from other nodes' lists,
then new ones. Objects go to the sheaf in filling order, or to the caller of a bulk allocation.
"""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.get_partial import next_hop
from allocator.slabs.new_slab import in_turns, new_slabs
from allocator.slabs.node import add_partial
from allocator.slabs.pool import FREE, HELD, NONE
from allocator.slabs.ranks import group_lengths, group_starts, stable_order
from allocator.slabs.sheaf_window import SheafWindow
from allocator.slabs.state import NO_LIST, State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Stage

Ints = NDArray[np.int64]


def begin(state: State, window: SheafWindow, who: Ints, target: Ints) -> None:
    """Start refills of `target` objects each; the requests wait for their first step."""
    window.target[who] = target
    window.filled[who] = 0
    window.want[who] = -1
    search = state.local_list[window.place[who]]
    window.search[who] = search
    window.stage[who] = Stage.TAKE
    _go_to_other_nodes(state, window, who[search == NO_LIST])


def take(state: State, window: SheafWindow, who: Ints) -> Ints:
    """Phase TAKE: slabs of the local list. Returns requests that have all they wanted."""
    _take_slabs(state, window, who, np.zeros(len(who), dtype=np.int64))
    short = window.filled[who] < window.target[who]
    _go_to_other_nodes(state, window, who[short])
    return _finished(window, who[~short])


def take_from_any(state: State, window: SheafWindow, who: Ints) -> Ints:
    """Phase ANY: slabs of one other node's list, if it is long enough."""
    visitors, least = next_hop(state, window, who, Stage.NEW)
    _take_slabs(state, window, visitors, least)
    return _finished(window, visitors[window.filled[visitors] == window.target[visitors]])


def put_surplus(state: State, window: SheafWindow, who: Ints) -> None:
    """Phase PUT: free objects of the last slab taken go back, to the tail of its list."""
    slab = window.popped[who]
    state.statistics.update(state.pool.home[slab])
    state.note_updates(who, slab, window.place[who], 1)
    state.pool.word[slab] &= FREE
    add_partial(state, slab, who, head=False)
    window.popped[who] = NONE


def make_new(state: State, window: SheafWindow, who: Ints) -> None:
    """Phase NEW: as many new slabs as are missing, one after another.

    Those of one turn of `in_turns()` only; what remains of the last goes to the head of its list.
    """
    node = state.local_node[window.place[who]]
    going, last = np.arange(len(who)), np.zeros(len(who), dtype=np.int64)
    while len(going):
        now = who[going]
        cpu, row = window.place[now] % state.nr_cpus, window.row[now]
        slabs = new_slabs(state, row, cpu, node[going], window.gfp[now], now)
        made = slabs > 0
        going, now, slabs = going[made], now[made], slabs[made]
        state.statistics.add(Stat.ALLOC_SLAB, row[made])
        objects = state.pool.objects[slabs].astype(np.int64)
        used = np.minimum(window.target[now] - window.filled[now], objects)
        window.fill(state, now, slabs, used)
        state.pool.word[slabs] = np.where(objects > used, (objects - used) | HELD, 0)
        last[going[objects > used]] = slabs[objects > used]
        going = going[window.filled[now] < window.target[now]]
    partial = last > 0
    state.pool.word[last[partial]] &= FREE
    add_partial(state, last[partial], who[partial], head=True)


def turns(state: State, window: SheafWindow, who: Ints) -> list[Ints]:
    """Return the requests that `make_new()` may serve together."""
    missing = window.target[who] - window.filled[who]
    row = window.row[who]
    slabs = -(-missing // np.maximum(state.rows.objects[row], 1))
    many = np.repeat(np.arange(len(who)), slabs)
    node = state.local_node[window.place[who]]
    plenty = state.source.plenty(
        state.rows.lane[row[many]], node[many], state.rows.order[row[many]]
    )
    return [who] if plenty else [who[turn] for turn in in_turns(state, row, node, plenty=False)]


def _go_to_other_nodes(state: State, window: SheafWindow, who: Ints) -> None:
    may = (state.rows.defrag_ratio[window.row[who]] > 0) & (state.nr_nodes > 1)
    window.stage[who] = np.where(may, Stage.ANY, Stage.NEW)
    window.hop[who] = 0


def _finished(window: SheafWindow, who: Ints) -> Ints:
    """Send those with a surplus to put it back; return the others."""
    surplus = window.popped[who] > 0
    window.stage[who[surplus]] = Stage.PUT
    done = who[~surplus]
    window.stage[done] = Stage.DONE
    return done


def _take_slabs(state: State, window: SheafWindow, who: Ints, least: Ints) -> None:
    """Visit the lists `window.search` once each: whole slabs from the head until it is enough."""
    if not len(who):
        return
    pool = state.pool
    order = stable_order(window.search[who], len(state.nr_slabs))
    who, least = who[order], least[order]
    lists = window.search[who]
    starts = group_starts(lists)
    counts = group_lengths(starts, len(lists))
    missing = window.target[who] - window.filled[who]
    share = _shares(state, lists[starts], starts, counts, missing, least)
    slabs, _ = state.lists.take(lists[starts], np.add.reduceat(share, starts))
    if not len(slabs):
        return
    got = share > 0
    state.statistics.lock(lists[got], share[got])
    state.events.lock(who[got], lists[got], share[got])
    state.statistics.update(np.repeat(lists, share))
    by = np.repeat(who, share)
    state.note_updates(by, slabs, window.place[by], 1)
    free = (pool.word[slabs] & FREE).astype(np.int64)
    pool.word[slabs] = 0
    total = np.cumsum(free)
    ends = np.cumsum(share)
    before = np.where(ends > share, total[np.maximum(ends - share, 1) - 1], 0)
    over = (total - np.repeat(before, share)) - np.repeat(missing, share)
    used = free - np.maximum(over, 0)
    window.fill(state, by, slabs, used)
    rest = (over > 0).nonzero()[0]
    pool.word[slabs[rest]] = over[rest] | HELD
    window.popped[by[rest]] = slabs[rest]


def _shares(
    state: State, which: Ints, starts: Ints, counts: Ints, missing: Ints, least: Ints
) -> Ints:
    """Return how many slabs each visitor takes; the loop is over visitors of a list."""
    slabs, seen = state.lists.peek(which, np.add.reduceat(missing, starts))
    free = (state.pool.word[slabs] & FREE).astype(np.int64)
    total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(free)))
    end = np.cumsum(seen)
    at, length = end - seen, state.lists.nr_partial[which]
    share = np.zeros(len(missing), dtype=np.int64)
    for depth in range(int(counts.max())):
        who = (counts > depth).nonzero()[0]
        visitor = starts[who] + depth
        stop = np.searchsorted(total, total[at[who]] + missing[visitor], side="left")
        taken = np.minimum(stop, end[who]) - at[who]
        taken = np.where(length[who] > least[visitor], taken, 0)
        share[visitor] = taken
        at[who] += taken
        length[who] -= taken
    return share
