"""Allocation under sheaves: alloc_from_pcs() and what it falls back on (mm/slub.c v7.3; 9.3).

Loops are over rounds of phases and over sheaves that one request uses up.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from allocator.slabs import direct, refill
from allocator.slabs.bulk import detached_freelists
from allocator.slabs.free import free
from allocator.slabs.ranks import rank_among_equals
from allocator.slabs.sheaf_window import SheafWindow
from allocator.slabs.sheaves import Sheaves
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Stage

Ints = NDArray[np.int64]


def alloc(state: State, window: SheafWindow) -> None:
    """Serve the requests of a window; what they lack in the end could not be had."""
    run_locally(state, window, np.arange(len(window.place)))
    _serve(state, window)


def fill_from_slabs(state: State, window: SheafWindow) -> None:
    """Serve bulk requests from slabs alone, passing over what sheaves hold."""
    _go_to_slabs(state, window, np.arange(len(window.place)))
    _serve(state, window)


def _serve(state: State, window: SheafWindow) -> None:
    """Serve phases until no request waits for one."""
    phases: tuple[tuple[Stage, Callable[[State, SheafWindow, Ints], None]], ...] = (
        (Stage.BARN, _visit_barn),
        (Stage.PUT, _put),
        (Stage.TAKE, _take),
        (Stage.POP, _pop),
        (Stage.ANY, _take_from_any),
        (Stage.ANY_POP, _pop_from_any),
        (Stage.NEW, _new),
        (Stage.NEW_ONE, _new_one),
    )
    while window.stage.any():
        for stage, serve in phases:
            who = window.waiting(stage)
            if len(who):
                serve(state, window, who)


def sheaves_of(state: State) -> Sheaves:
    """Return the sheaves of a kernel that has them."""
    if state.sheaves is None:
        raise ValueError("this kernel has no sheaves")
    return state.sheaves


def run_locally(state: State, window: SheafWindow, who: Ints) -> None:
    """Let requests use their CPUs' sheaves until they are done or wait for a phase."""
    sheaves = sheaves_of(state)
    window.stage[who] = Stage.DONE
    who = who[window.need[who] > 0]
    if window.named:
        elsewhere = (window.node[who] >= 0) & (
            window.node[who] != state.local_node[window.place[who]]
        )
        _mismatch(state, window, who[elsewhere], single=False)
        who = who[~elsewhere]
    while len(who):
        place = window.place[who]
        some = sheaves.nr_main[place] > 0
        _use_main(state, window, who[some])
        out, place = who[~some], place[~some]
        swap = sheaves.nr_spare[place] > 0
        here = place[swap]
        sheaves.swap(here)
        sheaves.nr_main[here], sheaves.nr_spare[here] = sheaves.nr_spare[here], 0
        out, place = out[~swap], place[~swap]
        without = sheaves.capacity[place] == 0
        window.stage[out[~without]] = Stage.BARN
        _go_to_slabs(state, window, out[without])
        who = who[(window.need[who] > 0) & (window.stage[who] == Stage.DONE)]


def _use_main(state: State, window: SheafWindow, who: Ints) -> None:
    """Pop objects of main as far as they suit; a wrong node on top means one direct object."""
    sheaves, place = sheaves_of(state), window.place[who]
    count = np.minimum(sheaves.nr_main[place], window.need[who].astype(np.int64))
    slab = sheaves.top(place, count)
    if not window.bulk:  # the last comes first; a bulk call copies in the order of the array
        ends = np.cumsum(count)
        slab = slab[np.repeat(ends + (ends - count), count) - 1 - np.arange(len(slab))]
    if window.named:
        fit = _fitting(state, window, who, slab, count)
        slab = slab[np.arange(len(slab)) < np.repeat(np.cumsum(count) - count + fit, count)]
        count = fit
    sheaves.nr_main[place] -= count
    window.need[who] -= count.astype(np.int32)
    state.statistics.add(Stat.ALLOC_FASTPATH, window.row[who], count)
    window.emit_objects(np.repeat(who, count), slab)
    _mismatch(state, window, who[count == 0], single=True)


def _fitting(state: State, window: SheafWindow, who: Ints, slab: Ints, count: Ints) -> Ints:
    """Return how many objects from the top of main are on the node named."""
    node = np.repeat(window.node[who], count)
    wrong = (node >= 0) & (state.pool.home[slab] % state.nr_nodes != node)
    ends = np.cumsum(count)
    at = np.append(wrong.nonzero()[0], len(slab))
    first_wrong = at[np.searchsorted(at, ends - count)]
    fitting: Ints = np.minimum(first_wrong, ends) - (ends - count)
    return fitting


def _mismatch(state: State, window: SheafWindow, who: Ints, *, single: bool) -> None:
    """Count objects that no sheaf can give because of the node, and take them from slabs."""
    state.statistics.add(Stat.ALLOC_NODE_MISMATCH, window.row[who])
    direct.begin(state, window, who, single=single)


def _go_to_slabs(state: State, window: SheafWindow, who: Ints) -> None:
    """Go on without sheaves: a bulk call takes the rest at once, others one object."""
    if window.bulk:
        refill.begin(state, window, who, window.need[who].astype(np.int64))
    else:
        direct.begin(state, window, who, single=True)


def _visit_barn(state: State, window: SheafWindow, who: Ints) -> None:
    """Phase BARN: swap the empty main for a full sheaf, or find an empty one and refill it."""
    sheaves, statistics, place = sheaves_of(state), state.statistics, window.place[who]
    barn, row = sheaves.barn[place], window.row[who]
    rank = rank_among_equals(barn, len(sheaves.nr_full))
    depth = sheaves.nr_full[barn] - 1 - rank
    got = depth >= 0
    sheaves.swap_with_barn(place[got], barn[got], depth[got])
    sheaves.nr_main[place[got]] = sheaves.capacity[place[got]]
    np.subtract.at(sheaves.nr_full, barn[got], 1)
    np.add.at(sheaves.nr_empty, barn[got], 1)
    np.add.at(statistics.barn_locks, barn[got], 1)
    statistics.add(Stat.BARN_GET, row[got])
    statistics.add(Stat.BARN_GET_FAIL, row[~got])
    window.stage[who] = Stage.DONE
    lacking = who[~got]
    if window.bulk:
        _go_to_slabs(state, window, lacking)
    else:
        _find_empty_sheaf(state, lacking, place[~got])
        refill.begin(state, window, lacking, sheaves.capacity[place[~got]])
    run_locally(state, window, who[got])


def _find_empty_sheaf(state: State, who: Ints, place: Ints) -> None:
    """Take the spare sheaf, one of the barn or a new one to be refilled."""
    sheaves, statistics = sheaves_of(state), state.statistics
    seeking = place[~sheaves.has_spare[place]]
    barn = sheaves.barn[seeking]
    found = rank_among_equals(barn, len(sheaves.nr_empty)) < sheaves.nr_empty[barn]
    np.subtract.at(sheaves.nr_empty, barn[found], 1)
    np.add.at(statistics.barn_locks, barn[found], 1)
    statistics.add(Stat.SHEAF_ALLOC, state.row_of[seeking[~found]])
    sheaves.has_spare[place] = False


def _put(state: State, window: SheafWindow, who: Ints) -> None:
    """Phase PUT: the surplus of a refill goes back."""
    refill.put_surplus(state, window, who)
    _filled(state, window, who)


def _take(state: State, window: SheafWindow, who: Ints) -> None:
    """Phase TAKE: a refill takes slabs of the local list."""
    _filled(state, window, refill.take(state, window, who))


def _take_from_any(state: State, window: SheafWindow, who: Ints) -> None:
    """Phase ANY: a refill takes slabs of another node's list."""
    _filled(state, window, refill.take_from_any(state, window, who))


def _new(state: State, window: SheafWindow, who: Ints) -> None:
    """Phase NEW: a refill makes the slabs that are missing, or fails."""
    served = []
    for now in refill.turns(state, window, who):
        refill.make_new(state, window, now)
        enough = window.filled[now] == window.target[now]
        served.append(now[enough])
        _without_memory(state, window, now[~enough])
    _filled(state, window, np.sort(np.concatenate(served)))


def _filled(state: State, window: SheafWindow, who: Ints) -> None:
    """Use what a refill brought."""
    sheaves, place = sheaves_of(state), window.place[who]
    window.stage[who] = Stage.DONE
    if window.bulk:
        stat = Stat.SHEAF_REFILL if window.keeps_part else Stat.ALLOC_SLOWPATH
        state.statistics.add(stat, window.row[who], window.filled[who])
        window.need[who] -= window.filled[who].astype(np.int32)
        return
    state.statistics.add(Stat.SHEAF_REFILL, window.row[who], window.filled[who])
    sheaves.swap(place)
    sheaves.nr_main[place] = window.filled[who]
    sheaves.nr_spare[place] = 0
    sheaves.has_spare[place] = True
    run_locally(state, window, who)


def _without_memory(state: State, window: SheafWindow, who: Ints) -> None:
    """Flush what a failed refill got; the object is then sought directly, a bulk call fails."""
    if not len(who):
        return
    if window.keeps_part:
        _filled(state, window, who)
        return
    if window.bulk:
        _fail_bulk(state, window, who)
        return
    sheaves, place, row = sheaves_of(state), window.place[who], window.row[who]
    filled = window.filled[who]
    state.statistics.add(Stat.SHEAF_REFILL, row, filled)
    state.statistics.add(Stat.SHEAF_FLUSH, row, filled)
    state.statistics.add(Stat.SHEAF_FREE, row)
    slab = sheaves.read(sheaves.spare[place], 0, filled)
    free_arrays(state, place, np.repeat(np.arange(len(who)), filled), slab, who)
    direct.begin(state, window, who, single=True)


def _fail_bulk(state: State, window: SheafWindow, who: Ints) -> None:
    """Free what failed bulk calls got: first the part from slabs, then that from sheaves."""
    window.stage[who] = Stage.DONE
    runs = window.withdraw(who)
    request, slab = np.repeat(runs.request, runs.count), np.repeat(runs.slab, runs.count)
    number = np.searchsorted(who, request)  # `who` ascends
    rank = rank_among_equals(number, len(who))
    total = np.bincount(number, minlength=len(who))
    from_slabs = rank >= (total - window.filled[who])[number]
    array = 2 * number + ~from_slabs
    order = np.argsort(array, kind="stable")
    twice = np.repeat(who, 2)
    free_arrays(state, window.place[twice], array[order], slab[order], twice)


def free_arrays(
    state: State, place: Ints, array: Ints, slab: Ints, request: Ints | None = None
) -> None:
    """Free arrays of objects to their slabs (__kmem_cache_free_bulk()), one after another.

    Parameters
    ----------
    state
        The batch.
    place
        (n,) CPU of each array.
    array
        (objects,) ascending: array of each object.
    slab
        (objects,) slab of each object, in the order of its array.
    request
        (n,) request that each array belongs to, for the events.
    """
    if not len(slab):
        return
    lists = detached_freelists(state.policy, array, slab)
    by = lists.request if request is None else request[lists.request]
    with state.events.named(by):
        free(state, place[lists.request], lists.slab, lists.count, at_once=True)


def _pop(state: State, window: SheafWindow, who: Ints) -> None:
    """Phase POP: single objects of the wanted or local node's list."""
    run_locally(state, window, direct.pop(state, window, who))


def _pop_from_any(state: State, window: SheafWindow, who: Ints) -> None:
    """Phase ANY_POP: one object of another node's list."""
    run_locally(state, window, direct.pop_from_any(state, window, who))


def _new_one(state: State, window: SheafWindow, who: Ints) -> None:
    """Phase NEW_ONE: a new slab, one object of it."""
    run_locally(state, window, direct.make_new(state, window, who))
