"""New slabs: allocate_slab() (mm/slub.c; slub.md 4.6)."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from allocator import gfp
from allocator.slabs.ranks import rank_among_equals
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat

Ints = NDArray[np.int64]

KEPT_FLAGS = (
    gfp.HIGH
    | gfp.IO
    | gfp.FS
    | gfp.ATOMIC
    | gfp.DIRECT_RECLAIM
    | gfp.KSWAPD_RECLAIM
    | gfp.NOWARN
    | gfp.RETRY_MAYFAIL
    | gfp.NOFAIL
    | gfp.NORETRY
    | gfp.MEMALLOC
    | gfp.NOMEMALLOC
    | gfp.NOLOCKDEP
    | gfp.HARDWALL
    | gfp.THISNODE
)
"""Flags of a request that reach the page allocator (GFP_RECLAIM_MASK | GFP_CONSTRAINT_MASK)."""


def in_turns(state: State, row: Ints, node: Ints, *, plenty: bool | None = None) -> Iterator[Ints]:
    """Yield requests for new slabs, all at once if memory is plenty, else one of each lane.

    Whoever runs out of memory does something about it (a smaller order, giving back what it got)
    before the next request of its lane is served.

    Parameters
    ----------
    state
        The batch.
    row
        (n,) cache of each request.
    node
        (n,) node whose zonelist it uses.
    """
    lane = state.rows.lane[row]
    if plenty is None:
        plenty = state.source.plenty(lane, node, state.rows.order[row])
    if plenty:
        yield np.arange(len(row))
        return
    turn = rank_among_equals(lane, int(lane.max()) + 1)
    for number in range(int(turn.max()) + 1):
        yield (turn == number).nonzero()[0]


def new_slabs(state: State, row: Ints, cpu: Ints, node: Ints, flags: Ints, request: Ints) -> Ints:
    """Make one slab per entry: the usual order on all nodes, then the smallest.

    Parameters
    ----------
    state
        The batch.
    row, cpu
        (n,) cache and CPU that need it; those of one `in_turns()`.
    node
        (n,) node whose zonelist is used: the one asked for, or the CPU's own.
    flags
        (n,) GFP flags of the request.
    request
        (n,) number of the request, for the events.

    Returns
    -------
    NDArray
        (n,) slab with all objects in use and no place, 0 where no memory could be had.
    """
    rows, pool = state.rows, state.pool
    lane = rows.lane[row]
    order, objects = rows.order[row], rows.objects[row]
    asked = flags & KEPT_FLAGS | rows.alloc_flags[row] | gfp.COMP
    thisnode = (flags & gfp.THISNODE) != 0
    high = _first_attempt(state, asked, order > rows.order_min[row])
    page, where = state.source.alloc(lane, cpu, node, order, high, thisnode=thisnode)
    short = (page < 0).nonzero()[0]
    if len(short):
        page, where = page.copy(), where.copy()
        order[short], objects[short] = rows.order_min[row[short]], rows.objects_min[row[short]]
        page[short], where[short] = state.source.alloc(
            lane[short],
            cpu[short],
            node[short],
            order[short],
            asked[short],
            thisnode=thisnode[short],
        )
        state.statistics.add(Stat.ORDER_FALLBACK, row[short[page[short] >= 0]])
    slabs = np.zeros(len(row), dtype=np.int64)
    made = slice(None) if not len(short) else (page >= 0).nonzero()[0]
    new = pool.take(lane[made])
    slabs[made] = new
    pool.order[new] = order[made]
    _set_up(state, new, row[made] * state.nr_nodes + where[made], page[made], objects[made])
    state.events.pages(request[made], new, order[made], 1)
    return slabs


def _first_attempt(state: State, asked: Ints, high_order: NDArray[np.bool_]) -> Ints:
    """Return the flags of the attempt at the usual order, which must not try hard."""
    flags = (asked | gfp.NOWARN | gfp.NORETRY) & ~gfp.NOFAIL
    if state.policy.high_order_may_reclaim:
        return flags
    gentle = (flags | gfp.NOMEMALLOC) & ~(gfp.DIRECT_RECLAIM | gfp.KSWAPD_RECLAIM)
    return np.where(high_order & ((asked & gfp.DIRECT_RECLAIM) != 0), gentle, flags)


def _set_up(state: State, slabs: Ints, lists: Ints, page: Ints, objects: Ints) -> None:
    pool = state.pool
    pool.objects[slabs] = objects
    pool.home[slabs] = lists
    pool.page[slabs] = page
    pool.toucher[slabs] = -1
    np.add.at(state.nr_slabs, lists, 1)
    np.add.at(state.total_objects, lists, objects)
