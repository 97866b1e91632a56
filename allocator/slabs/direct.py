"""Single objects straight from slabs (7.x): ___slab_alloc() (mm/slub.c v7.3; slub.md 9.3)."""

import numpy as np
from numpy.typing import NDArray

from allocator import gfp
from allocator.slabs.get_partial import after_take, next_hop
from allocator.slabs.new_slab import in_turns, new_slabs
from allocator.slabs.node import add_partial
from allocator.slabs.pool import FREE
from allocator.slabs.ranks import group_lengths, group_starts, stable_order
from allocator.slabs.sheaf_window import SheafWindow
from allocator.slabs.state import NO_LIST, State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Stage

Ints = NDArray[np.int64]

_TRYNODE_FLAGS = gfp.KSWAPD_RECLAIM | gfp.NOMEMALLOC | gfp.ACCOUNT
"""Flags of a request that its first pass keeps."""


def begin(state: State, window: SheafWindow, who: Ints, *, single: bool) -> None:
    """Start the direct allocation of an object each.

    Parameters
    ----------
    state
        The batch.
    window
        The requests.
    who
        (n,) requests.
    single
        Only this object is sought directly; otherwise all that the request still needs.
    """
    if not len(who):
        return
    state.statistics.add(Stat.ALLOC_SLOWPATH, window.row[who])
    window.single[who] = single
    window.want[who] = window.node[who]
    window.first_pass[who] = (window.node[who] >= 0) & ((window.gfp[who] & gfp.THISNODE) == 0)
    _start_pass(state, window, who)


def _start_pass(state: State, window: SheafWindow, who: Ints) -> None:
    """Choose the list of a pass; the requests wait for it, or go on without."""
    place, row, node = window.place[who], window.row[who], window.node[who]
    named = np.maximum(node, 0)
    exists = state.places.has_memory[row, named]
    lists = np.where(exists, row * state.nr_nodes + named, NO_LIST)
    search = np.where(node < 0, state.local_list[place], lists)
    window.search[who] = search
    window.stage[who] = Stage.POP
    after_take(state, window, who[search == NO_LIST], Stage.ANY_POP, Stage.NEW_ONE)


def pop(state: State, window: SheafWindow, who: Ints) -> Ints:
    """Take objects from the heads of the lists; return the requests that run on."""
    need = window.need[who].astype(np.int64)
    wanted = np.where(window.single[who], 1, need)
    got = _pop_objects(state, window, who, wanted, np.zeros(len(who), dtype=np.int64))
    row, many = window.row[who], ~window.single[who]
    further = np.where(got > 0, got - 1, 0)
    left = many & (got > 0) & (got < need)  # the next object finds the list empty
    _count_objects(state, row, further + left)
    window.need[who] -= got.astype(np.int32)
    again = who[left]
    window.first_pass[again] = (window.gfp[again] & gfp.THISNODE) == 0
    empty = who[left | (got == 0)]
    after_take(state, window, empty, Stage.ANY_POP, Stage.NEW_ONE)
    return who[~left & (got > 0)]


def _count_objects(state: State, row: Ints, count: Ints) -> None:
    """Count further objects of requests that name another node: each is a slow call."""
    state.statistics.add(Stat.ALLOC_SLOWPATH, row, count)
    state.statistics.add(Stat.ALLOC_NODE_MISMATCH, row, count)


def pop_from_any(state: State, window: SheafWindow, who: Ints) -> Ints:
    """Take an object each from another node's list, if it is long enough."""
    visitors, least = next_hop(state, window, who, Stage.NEW_ONE)
    got = _pop_objects(state, window, visitors, np.ones(len(visitors), dtype=np.int64), least)
    served = visitors[got > 0]
    window.need[served] -= 1
    return served


def make_new(state: State, window: SheafWindow, who: Ints) -> Ints:
    """Make a slab each, hand out one object, put the slab at the head of its list."""
    place, want = window.place[who], window.node[who]
    node = np.where(want < 0, state.places.node_of_cpu.reshape(-1)[place], want)
    flags = window.gfp[who]
    gentle = flags & _TRYNODE_FLAGS | gfp.NOWARN | gfp.THISNODE
    flags = np.where(window.first_pass[who], gentle, flags)
    done = []
    for turn in in_turns(state, window.row[who], node):
        now = who[turn]
        cpu = window.place[now] % state.nr_cpus
        slabs = new_slabs(state, window.row[now], cpu, node[turn], flags[turn], now)
        made = slabs > 0
        _without_memory(state, window, now[~made])
        now, slabs = now[made], slabs[made]
        state.statistics.add(Stat.ALLOC_SLAB, window.row[now])
        state.pool.word[slabs] = state.pool.objects[slabs] - 1
        partial = state.pool.objects[slabs] > 1
        add_partial(state, slabs[partial], now[partial], head=True)
        window.emit(now, slabs, np.ones(len(now), dtype=np.int32))
        window.need[now] -= 1
        done.append(now)
    return np.sort(np.concatenate(done))


def _without_memory(state: State, window: SheafWindow, who: Ints) -> None:
    """Begin the second pass of those in the first; the others end with what they have."""
    first = window.first_pass[who]
    window.stage[who] = Stage.DONE
    window.first_pass[who] = False
    _start_pass(state, window, who[first])


def _pop_objects(state: State, window: SheafWindow, who: Ints, wanted: Ints, least: Ints) -> Ints:
    """Visit the lists `window.search`: up to `wanted` objects each, head slab first.

    A list gives objects only while it is longer than `least`. Returns how many each visitor got.
    """
    if not len(who):
        return wanted
    order = stable_order(window.search[who], len(state.nr_slabs))
    lists, asked = window.search[who][order], wanted[order]
    starts = group_starts(lists)
    counts = group_lengths(starts, len(lists))
    which = lists[starts]
    slabs, seen = state.lists.peek(which, np.add.reduceat(asked, starts))
    free = (state.pool.word[slabs] & FREE).astype(np.int64)
    total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(free)))
    ends = np.cumsum(seen)
    usable = np.clip(state.lists.nr_partial[which] - least[order][starts], 0, seen)
    base = total[ends - seen]
    available = np.repeat(total[ends - seen + usable] - base, counts)
    upto = np.cumsum(asked)
    before = upto - asked - np.repeat(upto[starts] - asked[starts], counts)
    got = np.clip(available - before, 0, asked)
    _use(state, window, who[order], lists, starts, got, slabs, seen)
    back = np.empty(len(who), dtype=np.int64)
    back[order] = got
    return back


def _use(
    state: State,
    window: SheafWindow,
    who: Ints,
    lists: Ints,
    starts: Ints,
    got: Ints,
    slabs: Ints,
    seen: Ints,
) -> None:
    """Hand out the first objects of each list, and unlink the slabs that are then full."""
    pool, statistics = state.pool, state.statistics
    free = (pool.word[slabs] & FREE).astype(np.int64)
    total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(free)))
    first = np.cumsum(seen) - seen
    before = total[:-1] - np.repeat(total[first], seen)
    taken = np.repeat(np.add.reduceat(got, starts), seen)
    used = np.clip(taken - before, 0, free)
    some = (used > 0).nonzero()[0]
    by, objects = np.repeat(who, got), np.repeat(slabs[some], used[some])
    window.emit_objects(by, objects)
    np.add.at(statistics.list_locks, lists, got)
    np.add.at(statistics.list_units, lists, got)
    statistics.update(pool.home[slabs[some]], used[some])
    full = used == free
    of_list = np.repeat(np.arange(len(seen)), seen)
    state.lists.take(lists[starts], np.bincount(of_list[full], minlength=len(seen)))
    pool.word[slabs[full]] = 0
    left = some[~full[some]]
    pool.word[slabs[left]] -= used[left].astype(np.int32)
    served = got > 0
    state.events.lock(who[served], lists[served], got[served])
    state.note_updates(by, objects, window.place[by], 1)
