"""kmem_cache_shrink(): node lists sorted, empty slabs given back (mm/slub.c; slub.md 6.3)."""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.node import discard
from allocator.slabs.pool import FREE
from allocator.slabs.ranks import ranks_from
from allocator.slabs.state import State

Ints = NDArray[np.int64]

SHRINK_PROMOTE_MAX = 32
"""Slabs with at most so many free objects are sorted to the front (4.0)."""


def shrink_lists(state: State, rows: Ints, cpu: Ints) -> None:
    """Sort the lists of rows and discard empty slabs, whatever min_partial says.

    Parameters
    ----------
    state
        The batch; the CPUs' slabs and sheaves have been flushed.
    rows
        (n,) distinct rows.
    cpu
        (n,) CPU that shrinks each.
    """
    lists = (rows[:, None] * state.nr_nodes + np.arange(state.nr_nodes)).reshape(-1)
    request = np.repeat(np.arange(len(rows)), state.nr_nodes)
    visited = state.places.has_memory.reshape(-1)[lists]
    if state.policy.shrink == "sort":
        visited = visited & (state.lists.nr_partial[lists] > 0)
    lists, request = lists[visited], request[visited]
    state.statistics.lock(lists, state.lists.nr_partial[lists])
    state.events.lock(request, lists, state.lists.nr_partial[lists])
    slabs, counts = state.lists.contents(lists)
    which = np.repeat(np.arange(len(lists)), counts)
    position = ranks_from(np.cumsum(counts) - counts, len(slabs))
    free = state.pool.word[slabs] & FREE
    objects = state.pool.objects[slabs]
    empty = free == objects
    if state.policy.shrink == "promote":
        few = free <= SHRINK_PROMOTE_MAX
        grade, tie = np.where(few, free, SHRINK_PROMOTE_MAX + 1), np.where(few, -position, position)
    else:
        grade, tie = free - objects, -position
    order = np.lexsort((tie, grade, which))
    kept = order[~empty[order]]
    state.lists.replace(lists, np.bincount(which[kept], minlength=len(lists)), slabs[kept])
    gone = empty.nonzero()[0]
    gone = gone[np.lexsort((-position[gone], which[gone]))]
    by = request[which[gone]]
    discard(state, slabs[gone], by, cpu[by])
