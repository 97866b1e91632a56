"""Slabs from node lists: get_partial_node() and get_any_partial() (mm/slub.c; slub.md 4.5)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.pool import CPU, FREE, LOST, PARTIAL
from allocator.slabs.ranks import group_lengths, group_starts, ragged, ranks_from, stable_order
from allocator.slabs.state import NO_LIST, State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Stage, Window

Ints = NDArray[np.int64]

_ALLOC_FROM_PARTIAL, _CPU_PARTIAL_NODE = Stat.ALLOC_FROM_PARTIAL, Stat.CPU_PARTIAL_NODE


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
    least: Ints | None
    """Length that the list must exceed; None: 0."""


@dataclass(slots=True, eq=False)
class Taken:
    """Slabs that visitors took off node lists, and that still have no place."""

    who: Ints
    """(visitor,) requests that got slabs, by list and then in order."""
    lists: Ints
    """(visitor,) list that each visited."""
    share: Ints
    """(visitor,) slabs that each took."""
    slabs: Ints
    """(share.sum(),) the slabs, those of the first visitor in list order, then the next's..."""
    missed: Ints
    """Requests that got nothing, ascending."""


def take(state: State, window: Window, who: Ints, least: Ints | None = None) -> Taken:
    """Visit the lists `window.search` once each, in order (get_partial_node()).

    Parameters
    ----------
    state
        The batch.
    window
        The requests.
    who
        (n,) requests that visit, ascending.
    least
        (n,) the visit is made only while the list is longer; default 0.
    """
    lists = window.search[who]
    order = stable_order(lists, len(state.nr_slabs))
    lists, visitors = lists[order], who[order]
    starts = group_starts(lists)
    counts = group_lengths(starts, len(lists))
    limit = None if least is None else least[order]
    visits = _Visits(visitors, lists, starts, counts, limit)
    if state.policy.partial_refill == "half_objects" and state.policy.config_cpu_partial:
        share = _shares_by_objects(state, visits, window.row[visitors])
    else:
        share = _shares_by_slabs(state, visits, window.row[visitors])
    slabs, _ = state.lists.take(lists[starts], np.add.reduceat(share, starts))
    got = share.nonzero()[0]
    if len(got) == len(who):
        return Taken(visitors, lists, share, slabs, who[:0])
    missed = visitors[share == 0]
    missed.sort()
    taken = Taken(visitors[got], lists[got], share[got], slabs, missed)
    return taken


def nothing_taken(missed: Ints) -> Taken:
    """Return what visitors took that found nothing."""
    none = missed[:0]
    return Taken(none, none, none, none, missed)


def slabs_per_visit(state: State, row: Ints) -> Ints:
    """Return the most slabs that a visit takes, by CONFIG_SLUB_CPU_PARTIAL and the stop rule."""
    policy = state.policy
    if not policy.config_cpu_partial:
        return np.full(len(row), 2 if policy.partial_refill == "rfc_leak" else 1)
    limit = state.rows.cpu_partial_slabs
    most = limit // 2 + 2
    if policy.partial_refill == "half_slabs_or_first":
        most[limit == 0] = 1
    return most[row]


def _shares_by_slabs(state: State, visits: _Visits, row: Ints) -> Ints:
    """Return how many slabs each visitor takes where a number of slabs ends the walk."""
    length = state.lists.nr_partial[visits.lists]
    most = slabs_per_visit(state, row)
    left = length - ranks_from(visits.starts, len(visits.lists)) * most
    share = np.maximum(np.minimum(left, most), 0)
    return share if visits.least is None else share * (left > visits.least)


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
        if visits.least is not None:
            taken *= length[who] > visits.least[visitor]
        share[visitor] = taken
        at[who] += taken
        length[who] -= taken
    return share


def hand_over(state: State, window: Window, taken: Taken) -> None:
    """Make the first slab of each visitor its cpu slab, the others its partial list."""
    cpu, pool = state.cpu, state.pool
    count_taken(state, window, taken)
    place = window.place[taken.who]
    first = taken.share.cumsum() - taken.share
    extra = np.ones(len(taken.slabs), dtype=bool)
    extra[first] = False
    rest = taken.slabs[extra]
    if state.policy.config_cpu_partial:
        stack(state, place, taken.share - 1, rest)
    else:
        pool.word[rest] = pool.word[rest] & FREE | LOST
    chosen = taken.slabs[first]
    cpu.slab[place] = chosen
    cpu.free[place] = pool.word[chosen] & FREE
    pool.word[chosen] = CPU


def count_taken(state: State, window: Window, taken: Taken) -> None:
    """Count visits that got something."""
    statistics, share = state.statistics, taken.share
    freezes = state.policy.freezing == "taken"  # each slab is updated under the lock
    row = window.row[taken.who]
    statistics.lock(taken.lists, share)
    statistics.add(_ALLOC_FROM_PARTIAL, row)
    statistics.add(_CPU_PARTIAL_NODE, row, share - 1)
    statistics.update(taken.lists, share if freezes else 1)
    if state.events.record and len(share):
        state.events.lock(taken.who, taken.lists, share)
        by = taken.who.repeat(share) if freezes else taken.who
        slabs = taken.slabs if freezes else taken.slabs[share.cumsum() - share]
        state.note_updates(by, slabs, window.place[by], 1)


def stack(state: State, place: Ints, counts: Ints, slabs: Ints) -> None:
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
