"""Slabs from node lists: get_partial_node() and get_any_partial() (mm/slub.c; slub.md 4.5)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.pool import CPU, FREE, LOST, PARTIAL
from allocator.slabs.ranks import group_starts, ragged, ranks_from, stable_order
from allocator.slabs.state import NO_LIST, State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Stage, Window

Ints = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class _Visits:
    """Visits to node lists, sorted by list and request."""

    who: Ints
    """Requests."""
    lists: Ints
    """List that each visits."""
    starts: Ints
    """First visit of each list."""
    counts: Ints
    """Visits of each list."""
    least: Ints
    """Length that the list must exceed."""


def take(state: State, window: Window, who: Ints, least: Ints | None = None) -> NDArray[np.bool_]:
    """Visit the lists `window.search` once each, in order (get_partial_node()).

    Parameters
    ----------
    state
        The batch.
    window
        The requests; those served get a cpu slab and perhaps a partial list.
    who
        (n,) requests that visit, ascending.
    least
        (n,) the visit is made only while the list is longer; default 0.

    Returns
    -------
    NDArray
        (n,) whether the visitor got something.
    """
    lists = window.search[who]
    order = stable_order(lists, len(state.nr_slabs))
    lists = lists[order]
    starts = group_starts(lists)
    counts = np.diff(starts, append=len(lists))
    limit = np.zeros(len(who), dtype=np.int64) if least is None else least[order]
    visits = _Visits(who[order], lists, starts, counts, limit)
    if state.policy.partial_refill == "half_objects" and state.policy.config_cpu_partial:
        share = _shares_by_objects(state, visits, window.row[visits.who])
    else:
        share = _shares_by_slabs(state, visits, window.row[visits.who])
    slabs, _ = state.lists.take(lists[starts], np.add.reduceat(share, starts))
    got = share > 0
    served = got.nonzero()[0]
    if len(served):
        _hand_over(state, window, visits.who[served], lists[served], share[served], slabs)
    success = np.empty(len(who), dtype=bool)
    success[order] = got
    return success


def slabs_per_visit(state: State, row: Ints) -> Ints:
    """Return the most slabs that a visit takes, by CONFIG_SLUB_CPU_PARTIAL and the stop rule."""
    policy = state.policy
    if not policy.config_cpu_partial:
        return np.full(len(row), 2 if policy.partial_refill == "rfc_leak" else 1)
    limit = state.rows.cpu_partial_slabs[row]
    extra = limit // 2 + 1
    if policy.partial_refill == "half_slabs_or_first":
        extra = np.where(limit == 0, 0, extra)
    return 1 + extra


def _shares_by_slabs(state: State, visits: _Visits, row: Ints) -> Ints:
    """Return how many slabs each visitor takes where a number of slabs ends the walk."""
    length = np.repeat(state.lists.nr_partial[visits.lists[visits.starts]], visits.counts)
    most = slabs_per_visit(state, row)
    left = length - ranks_from(visits.starts, len(visits.lists)) * most
    return np.where(left > visits.least, np.clip(left, 0, most), 0)


def _shares_by_objects(state: State, visits: _Visits, row: Ints) -> Ints:
    """Do the same where free objects end it (until 5.15); loops over visitors of a list."""
    half = state.rows.cpu_partial[row] // 2
    which = visits.lists[visits.starts]
    reach = np.add.reduceat(half + 1, visits.starts)  # every slab has a free object
    slabs, seen = state.lists.peek(which, reach)
    free = (state.pool.word[slabs] & FREE).astype(np.int64)
    total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(free)))
    end = np.cumsum(seen)
    at, length = end - seen, state.lists.nr_partial[which]
    share = np.zeros(len(visits.lists), dtype=np.int64)
    for depth in range(int(visits.counts.max())):
        who = (visits.counts > depth).nonzero()[0]
        visitor = visits.starts[who] + depth
        stop = np.searchsorted(total, total[at[who]] + half[visitor], side="right")
        taken = np.minimum(stop, end[who]) - at[who]
        taken = np.where(length[who] > visits.least[visitor], taken, 0)
        share[visitor] = taken
        at[who] += taken
        length[who] -= taken
    return share


def _hand_over(
    state: State, window: Window, who: Ints, lists: Ints, share: Ints, slabs: Ints
) -> None:
    """Make the first slab of each visitor its cpu slab, the others its partial list."""
    cpu, pool, policy = state.cpu, state.pool, state.policy
    statistics = state.statistics
    place, row = window.place[who], window.row[who]
    ends = np.cumsum(share)
    first = ends - share
    statistics.lock(lists, share)
    state.events.lock(who, lists, share)
    statistics.add(Stat.ALLOC_FROM_PARTIAL, row)
    statistics.add(Stat.CPU_PARTIAL_NODE, row, share - 1)
    statistics.update(lists, share if policy.freezing == "taken" else 1)
    extra = np.ones(len(slabs), dtype=bool)
    extra[first] = False
    rest = slabs[extra]
    updated = slabs if policy.freezing == "taken" else slabs[first]
    by = np.repeat(who, share) if policy.freezing == "taken" else who
    state.note_updates(by, updated, window.place[by], 1)
    if policy.config_cpu_partial:
        _stack(state, place, share - 1, rest)
    else:
        pool.word[rest] = pool.word[rest] & FREE | LOST
    chosen = slabs[first]
    cpu.slab[place] = chosen
    cpu.free[place] = pool.word[chosen] & FREE
    pool.word[chosen] = CPU


def _stack(state: State, place: Ints, counts: Ints, slabs: Ints) -> None:
    """Push slabs on the empty partial lists of CPUs; no drain."""
    cpu, pool = state.cpu, state.pool
    cpu.widen(int(counts.max(initial=0)))
    cpu.partial[ragged(place * cpu.width, counts)] = slabs
    cpu.nr[place] = counts
    free = pool.word[slabs] & FREE
    pool.word[slabs] = free | PARTIAL
    if state.policy.cpu_partial_counts == "objects" and len(slabs):
        total = np.cumsum(free)
        starts = (np.cumsum(counts) - counts)[counts > 0]
        before = np.repeat(total[starts] - free[starts], counts[counts > 0])
        pool.pobjects[slabs] = total - before


def choose_list(state: State, window: Window, who: Ints) -> None:
    """Set the list that get_partial() searches, and the stage of each request."""
    place, want = window.place[who], window.want[who]
    search = state.local_list[place]
    if window.named or state.policy.memoryless == "joonsoo":
        row = window.row[who]
        node = np.maximum(want, 0)
        lists = row * state.nr_nodes + node
        here = state.places.has_memory[row, node]
        search = np.where(want < 0, search, np.where(here, lists, NO_LIST))
        if state.policy.memoryless == "joonsoo":
            near = state.places.mem_of_cpu.reshape(-1)[place]
            there = np.where(state.places.has_memory[row, near], row * state.nr_nodes + near, -1)
            search = np.where((want < 0) | ~here, there, search)
    window.search[who] = search
    window.stage[who] = Stage.TAKE
    after_take(state, window, who[search == NO_LIST], Stage.ANY, Stage.NEW)


def after_take(state: State, window: Window, who: Ints, any_node: Stage, new: Stage) -> None:
    """Send requests whose list had nothing to the other nodes' lists or to a new slab."""
    if not len(who):
        return
    may = np.ones(len(who), dtype=bool)
    if window.named:
        may = window.want[who] < 0
        if state.policy.remote_search_for_node:
            may |= ~window.this_node(who)
    may &= (state.rows.defrag_ratio[window.row[who]] > 0) & (state.nr_nodes > 1)
    window.stage[who] = np.where(may, any_node, new)
    window.hop[who] = 0


def next_hop(state: State, window: Window, who: Ints, new: Stage) -> tuple[Ints, Ints]:
    """Make the draw of those that begin, and choose the next node of get_any_partial().

    Parameters
    ----------
    state
        The batch.
    window
        The requests; `search` is set, the stage of those whose draw fails becomes `new`.
    who
        (n,) requests in the phase, ascending.
    new
        Stage after the last node.

    Returns
    -------
    tuple
        The requests that visit a node now, and the length that its list must exceed.
    """
    begins = window.hop[who] == 0
    lucky = np.ones(len(who), dtype=bool)
    lucky[begins] = _draw(state, window.row[who[begins]])
    window.stage[who[~lucky]] = new
    who = who[lucky]
    row, place = window.row[who], window.place[who]
    node = state.local_node[place]
    hop = state.places.zonelist[row, node, window.hop[who]]
    window.search[who] = row * state.nr_nodes + hop
    window.hop[who] += 1
    last = window.hop[who] >= state.nr_hops[row, node]
    window.stage[who[last]] = new
    return who, state.rows.min_partial[row]


def _draw(state: State, row: Ints) -> NDArray[np.bool_]:
    """Return whether get_any_partial() goes on; one draw of each entry's row."""
    if state.draws is None or not len(row):
        return np.ones(len(row), dtype=bool)
    order = stable_order(row, state.nr_rows)
    ranks = np.empty(len(row), dtype=np.int64)
    ranks[order] = ranks_from(group_starts(row[order]), len(row))
    draw = state.draws(row, state.nr_draws[row] + ranks)
    np.add.at(state.nr_draws, row, 1)
    return draw <= state.rows.defrag_ratio[row]
