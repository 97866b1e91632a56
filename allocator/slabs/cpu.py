"""Allocation under cpu slabs: slab_alloc_node() and ___slab_alloc() (mm/slub.c; slub.md 4).

The loop of `alloc()` is over rounds of phases, that of `_run_locally()` over the slabs that one
request uses up; both act on all requests of all rows at once.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from allocator import gfp
from allocator.slabs.burst import Burst
from allocator.slabs.free import give_back_bulk
from allocator.slabs.get_partial import (
    Taken,
    after_take,
    choose_list,
    hand_over,
    next_hop,
    nothing_taken,
    take,
)
from allocator.slabs.new_slab import in_turns, new_slabs
from allocator.slabs.node import DEACTIVATE, DRAIN, HEAD, ListEvents, apply_events, asks
from allocator.slabs.pool import CPU, FREE, NONE
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat
from allocator.slabs.suits import slow_calls, suits
from allocator.slabs.window import Stage, Window

Ints = NDArray[np.int64]


def alloc(state: State, window: Window) -> None:
    """Serve the requests of a window; what they lack in the end could not be had."""
    if not window.named:
        _alloc_burst(state, window)
        return
    _run_locally(state, window, np.arange(len(window.place)))
    phases: tuple[tuple[Stage, Callable[[State, Window, Ints], None]], ...] = (
        (Stage.PUT, _put),
        (Stage.TAKE, _take),
        (Stage.ANY, _take_from_any),
        (Stage.NEW, _new),
    )
    while window.stage.any():
        for stage, serve in phases:
            who = window.waiting(stage)
            if len(who):
                serve(state, window, who)


def _alloc_burst(state: State, window: Window) -> None:
    """Serve a window in which no request names a node."""
    burst = Burst(state, window)
    burst.start()
    while window.stage.any():
        who = window.waiting(Stage.TAKE)
        if len(who):
            burst.use_taken(_visit(state, window, who))
        who = window.waiting(Stage.ANY)
        if len(who):
            burst.use_taken(_visit_any(state, window, who))
        who = window.waiting(Stage.NEW)
        if len(who):
            for now, slabs in _make_slabs(state, window, who):
                burst.use_new(now, slabs)
    burst.count()


def _run_locally(state: State, window: Window, who: Ints) -> None:
    """Let requests run until they are done or wait for a phase."""
    window.stage[who] = Stage.DONE
    while len(who):
        who = _use_freelist(state, window, who)
        _enter_slow_path(state, window, who)
        if window.named:
            who = _drop_unsuitable(state, window, who)
        who = _next_slab(state, window, who)


def _use_freelist(state: State, window: Window, who: Ints) -> Ints:
    """Hand out the CPU's freelist as far as it suits; return those that need more.

    The first object of a slab that the slow path found is the slow path's, others come by the
    fast path, or by a slow call each where the slab is not on the node named (slub.md 4.7).
    """
    cpu, place = state.cpu, window.place[who]
    free, need = cpu.free[place], window.need[who]
    count = np.minimum(free, need)
    slab = cpu.slab[place]
    by_slow = window.loaded[who].astype(np.int64)
    if window.named:
        count, by_slow = slow_calls(state, window, who, slab, count, by_slow)
    fast = count - by_slow
    if state.policy.bulk_counts_fastpath or not window.bulk:
        state.statistics.add(Stat.ALLOC_FASTPATH, window.row[who], fast * (count > 0))
    cpu.free[place] = free - count
    left = need - count
    window.need[who] = left
    served = count > 0
    window.slow[who[served]] = False
    window.loaded[who[served]] = False
    window.emit(who, slab, count)
    return who[left > 0]


def _drop_unsuitable(state: State, window: Window, who: Ints) -> Ints:
    """Deactivate cpu slabs of the wrong node; return the requests that go on by themselves."""
    fit = suits(state, window, who)
    wrong = who[~fit]
    if not len(wrong):
        return who
    place = window.place[wrong]
    slab = state.cpu.slab[place]
    keeps_free = (state.cpu.free[place] > 0) | ((state.pool.word[slab] & FREE) > 0)
    window.stage[wrong[keeps_free]] = Stage.PUT
    full = wrong[~keeps_free]
    if len(full):
        place = window.place[full]
        slab = state.cpu.slab[place]
        state.statistics.add(Stat.DEACTIVATE_FULL, window.row[full])
        state.statistics.update(state.pool.home[slab])
        state.note_updates(full, slab, place, 1)
        state.pool.word[slab] = 0
        state.cpu.slab[place] = NONE
    return np.sort(np.concatenate((who[fit], full)))


def _next_slab(state: State, window: Window, who: Ints) -> Ints:
    """Find the next slab without touching anything shared; others must wait for a list."""
    cpu, pool, statistics = state.cpu, state.pool, state.statistics
    place = window.place[who]
    slab = cpu.slab[place]
    has_slab = slab > 0
    word = pool.word[slab]
    refilled = (word & FREE) > 0
    _count_attempts(state, window, who[has_slab], slab[has_slab], place[has_slab])
    again = refilled.nonzero()[0]
    if len(again):
        statistics.add(Stat.ALLOC_REFILL, window.row[who[again]])
        cpu.free[place[again]] = word[again] & FREE
        pool.word[slab[again]] = CPU
        window.loaded[who[again]] = True
    dropped = (has_slab & ~refilled).nonzero()[0]
    statistics.add(Stat.DEACTIVATE_BYPASS, window.row[who[dropped]])
    pool.word[slab[dropped]] = 0
    cpu.slab[place[dropped]] = NONE
    popped = _pop_partial(state, window, who[~refilled])
    going_on = np.concatenate((who[again], popped))
    going_on.sort()
    return going_on


def _enter_slow_path(state: State, window: Window, who: Ints) -> None:
    """Count the slow call of each request that is not in one already."""
    new = who[~window.slow[who]]
    window.slow[new] = True
    if state.policy.slowpath_counts == "calls":
        state.statistics.add(Stat.ALLOC_SLOWPATH, window.row[new])
    if window.named:
        window.want[new] = window.node[new]
        if state.policy.memoryless == "any_node":
            want = window.want[new]
            empty = (want >= 0) & ~state.places.has_memory[window.row[new], np.maximum(want, 0)]
            window.want[new[empty]] = -1


def _count_attempts(state: State, window: Window, who: Ints, slab: Ints, place: Ints) -> None:
    """Count attempts to take slab.freelist, each one update of the slab."""
    if state.policy.slowpath_counts == "attempts":
        state.statistics.add(Stat.ALLOC_SLOWPATH, window.row[who])
    state.statistics.update(state.pool.home[slab])
    state.note_updates(who, slab, place, 1)


def _pop_partial(state: State, window: Window, who: Ints) -> Ints:
    """Make the top of the CPU's partial list the cpu slab; return those that go on."""
    cpu, pool, policy = state.cpu, state.pool, state.policy
    place = window.place[who]
    height = cpu.nr[place]
    filled = height > 0
    missed = who[~filled]
    window.first_pass[missed] = state.policy.trynode & (window.want[missed] >= 0)
    window.first_pass[missed] &= (window.gfp[missed] & gfp.THISNODE) == 0
    choose_list(state, window, missed)
    who, place, height = who[filled], place[filled], height[filled] - 1
    slab = cpu.partial[place * cpu.width + height]
    cpu.nr[place] = height
    row = window.row[who]
    counted = np.ones(len(who), dtype=bool)
    fit = counted
    if window.named and policy.freezing == "delayed":
        want = window.want[who]
        fit = (want < 0) | (pool.home[slab] % state.nr_nodes == want)
        if policy.cpu_partial_alloc_counts == "used":
            counted = fit
    state.statistics.add(Stat.CPU_PARTIAL_ALLOC, row[counted])
    if not fit.all():
        window.popped[who[~fit]] = slab[~fit]
        window.stage[who[~fit]] = Stage.PUT
        who, slab, place, row = who[fit], slab[fit], place[fit], row[fit]
    cpu.slab[place] = slab
    if policy.freezing == "taken":  # the next pass of the loop takes its freelist: ALLOC_REFILL
        pool.word[slab] = pool.word[slab] & FREE | CPU
        return who
    state.statistics.update(pool.home[slab])
    state.note_updates(who, slab, place, 1)
    cpu.free[place] = pool.word[slab] & FREE
    pool.word[slab] = CPU
    window.loaded[who] = True
    return who


def _put(state: State, window: Window, who: Ints) -> None:
    """Phase PUT: deactivate_slab() of cpu slabs, __put_partials() of popped ones (6.8)."""
    back = who[window.popped[who] > 0]
    off = who[window.popped[who] == 0]
    events = _deactivate(state, window, off)
    if len(back):
        slab = window.popped[back]
        window.popped[back] = NONE
        empty = (state.pool.word[slab] & FREE) == state.pool.objects[slab]
        put = ListEvents(slab, back, np.zeros_like(back), asks(len(back), DRAIN, empty))
        events = events.joined(put)
    apply_events(state, events, window.place)
    _run_locally(state, window, who)


def _deactivate(state: State, window: Window, who: Ints) -> ListEvents:
    """Give the CPU's freelist back to its slab, which then goes to its node's list."""
    place = window.place[who]
    slab = state.cpu.slab[place]
    events = give_back(state, place, slab, who)
    state.note_updates(who, slab, place, 1)
    return events


def give_back(state: State, place: Ints, slab: Ints, time: Ints) -> ListEvents:
    """Return the CPUs' freelists to their slabs; return what those slabs ask (deactivate_slab()).

    Parameters
    ----------
    state
        The batch.
    place
        (n,) CPUs.
    slab
        (n,) their cpu slabs, each with free objects.
    time
        (n,) order among the events, and number of the request.
    """
    cpu, pool = state.cpu, state.pool
    returned = cpu.free[place]
    freed = pool.word[slab] & FREE
    remote = freed > 0
    row = state.row_of[place]
    state.statistics.add(Stat.DEACTIVATE_REMOTE_FREES, row[remote])
    by_object = state.policy.deactivate_updates == "object"
    times = np.maximum(returned, 1).astype(np.int64) if by_object else 1
    state.statistics.update(pool.home[slab], times)
    pool.word[slab] = freed + returned
    cpu.free[place] = 0
    cpu.slab[place] = NONE
    ask = asks(len(slab), DEACTIVATE, freed + returned == pool.objects[slab])
    ask[~remote] |= HEAD
    return ListEvents(slab, time, np.zeros_like(time), ask)


def _take(state: State, window: Window, who: Ints) -> None:
    """Phase TAKE: the list of the wanted or local node."""
    _use_taken(state, window, _visit(state, window, who))


def _take_from_any(state: State, window: Window, who: Ints) -> None:
    """Phase ANY: one other node's list, if it is long enough."""
    _use_taken(state, window, _visit_any(state, window, who))


def _visit(state: State, window: Window, who: Ints) -> Taken:
    """Visit lists; requests that find nothing go on to other nodes or a new slab."""
    taken = take(state, window, who)
    after_take(state, window, taken.missed, Stage.ANY, Stage.NEW)
    return taken


def _visit_any(state: State, window: Window, who: Ints) -> Taken:
    """Visit the lists of other nodes."""
    visitors, least = next_hop(state, window, who, Stage.NEW)
    return take(state, window, visitors, least) if len(visitors) else nothing_taken(visitors)


def _use_taken(state: State, window: Window, taken: Taken) -> None:
    """Let visitors of a list use what they took."""
    hand_over(state, window, taken)
    window.loaded[taken.who] = True
    _run_locally(state, window, np.sort(taken.who))


def _new(state: State, window: Window, who: Ints) -> None:
    """Phase NEW: a new slab; without memory the second pass (6.10), or the end."""
    served = []
    for now, slabs in _make_slabs(state, window, who):
        place = window.place[now]
        state.statistics.add(Stat.ALLOC_SLAB, window.row[now])
        state.cpu.slab[place] = slabs
        state.cpu.free[place] = state.pool.objects[slabs]
        state.pool.word[slabs] = CPU
        window.loaded[now] = True
        served.append(now)
    _run_locally(state, window, np.sort(np.concatenate(served)))


def _make_slabs(state: State, window: Window, who: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield requests and the new slab of each, as many together as may be."""
    place = window.place[who]
    node = state.places.node_of_cpu.reshape(-1)[place]
    flags = window.gfp[who]
    if window.named:
        node = np.where(window.want[who] < 0, node, window.want[who])
        flags = np.where(window.first_pass[who], gfp.KSWAPD_RECLAIM | gfp.THISNODE, flags)
    for turn in in_turns(state, window.row[who], node):
        now = who[turn]
        cpu = place[turn] % state.nr_cpus
        slabs = new_slabs(state, window.row[now], cpu, node[turn], flags[turn], now)
        made = slabs.nonzero()[0]
        if len(made) < len(now):
            _without_memory(state, window, now[slabs == NONE])
        yield now[made], slabs[made]


def _without_memory(state: State, window: Window, who: Ints) -> None:
    """Begin the second pass of those in the first; the others have failed."""
    if not len(who):
        return
    first = window.first_pass[who]
    window.stage[who] = Stage.DONE
    window.first_pass[who] = False
    choose_list(state, window, who[first])
    if window.bulk:
        give_back_bulk(state, window, who[~first])
