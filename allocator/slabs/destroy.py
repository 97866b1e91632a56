"""Destroying caches: kmem_cache_destroy() (mm/slub.c), objects in use or not."""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.node import discard
from allocator.slabs.pool import LISTED, NONE
from allocator.slabs.state import State

Ints = NDArray[np.int64]


def destroy(state: State, rows: Ints) -> None:
    """Give back all slabs of rows; the rows are empty afterwards.

    Parameters
    ----------
    state
        The batch.
    rows
        (n,) distinct rows.
    """
    pool = state.pool
    slabs = pool.objects[: pool.used].nonzero()[0]
    row = state.row_of_list(pool.home[slabs])
    theirs = np.isin(row, rows)
    slabs, row = slabs[theirs], row[theirs]
    state.lists.remove(slabs[(pool.word[slabs] & LISTED) != 0])
    places = (rows[:, None] * state.nr_cpus + np.arange(state.nr_cpus)).reshape(-1)
    state.cpu.slab[places] = NONE
    state.cpu.free[places] = 0
    state.cpu.nr[places] = 0
    if state.sheaves is not None:
        lists = (rows[:, None] * state.nr_nodes + np.arange(state.nr_nodes)).reshape(-1)
        state.sheaves.forget(places, lists)
        state.held.drop(np.isin(state.held.row, rows).nonzero()[0])
    if state.rcu is not None:
        state.rcu.forget(places)
    which = np.searchsorted(np.sort(rows), row)
    discard(state, slabs, np.argsort(rows)[which], np.zeros_like(slabs))
