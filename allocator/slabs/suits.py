"""Requests that name a node: whether the cpu slab serves them (mm/slub.c; slub.md 4.3, 4.7)."""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.pool import NONE
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Window

Ints = NDArray[np.int64]

_NEAREST = ("rientjes", "joonsoo")
"""Patches that replace a node without memory by numa_mem_id() when the cpu slab does not fit."""


def slow_calls(
    state: State,
    window: Window,
    who: Ints,
    slab: Ints,
    count: NDArray[np.int32],
    by_slow: Ints,
) -> tuple[NDArray[np.int32], Ints]:
    """Tell how many objects of the CPU's freelist a request gets, and how many by slow calls.

    A freelist on the node named serves the fast path. Another one serves the object for which the
    slow path loaded it, and where the named node has no memory all others too, by one slow call
    each: the slow path drops the wish, the fast path does not know.

    Parameters
    ----------
    state
        The batch.
    window
        The requests.
    who
        (n,) requests.
    slab
        (n,) their cpu slabs.
    count
        (n,) objects that the freelist has for them.
    by_slow
        (n,) 1 if the slow path loaded the slab for the next object.
    """
    node, row = window.node[who], window.row[who]
    on_node = (node < 0) | (state.pool.home[slab] % state.nr_nodes == node)
    served = on_node | _keeps_other_node(state, window, who, slab)
    kept = np.where(served, count, np.minimum(count, by_slow)).astype(np.int32)
    calls = np.where(on_node, by_slow, kept)
    further = (calls - by_slow) * (kept > 0)
    if state.policy.slowpath_counts == "calls":
        state.statistics.add(Stat.ALLOC_SLOWPATH, row, further)
    if state.policy.memoryless != "any_node":
        state.statistics.add(Stat.ALLOC_NODE_MISMATCH, row, further)
    return kept, calls


def suits(state: State, window: Window, who: Ints) -> NDArray[np.bool_]:
    """Tell whether requests in the slow path keep their cpu slab; none counts as kept.

    Counts ALLOC_NODE_MISMATCH, and replaces the wanted node where the kernel does.
    """
    place, row = window.place[who], window.row[who]
    slab, want = state.cpu.slab[place], window.want[who]
    home = state.pool.home[slab] % state.nr_nodes
    fit: NDArray[np.bool_] = (slab == NONE) | (want < 0) | (home == want)
    wrong = (~fit).nonzero()[0]
    if not len(wrong):
        return fit
    state.statistics.add(Stat.ALLOC_NODE_MISMATCH, row[wrong])
    want, row, home = want[wrong], row[wrong], home[wrong]
    empty = ~state.places.has_memory[row, want]
    if state.policy.memoryless == "blanchard":
        fit[wrong] = empty
    elif state.policy.memoryless in _NEAREST:
        near = state.places.mem_of_cpu.reshape(-1)[place[wrong]]
        window.want[who[wrong]] = np.where(empty, near, want)
        fit[wrong] = empty & (home == near)
    return fit


def _keeps_other_node(state: State, window: Window, who: Ints, slab: Ints) -> NDArray[np.bool_]:
    """Tell whether a slow call that finds this cpu slab on another node would keep it."""
    node, place = np.maximum(window.node[who], 0), window.place[who]
    empty: NDArray[np.bool_] = ~state.places.has_memory[window.row[who], node]
    if state.policy.memoryless in ("any_node", "blanchard"):
        return empty
    if state.policy.memoryless in _NEAREST:
        near = state.places.mem_of_cpu.reshape(-1)[place]
        empty &= state.pool.home[slab] % state.nr_nodes == near
        return empty
    return np.zeros(len(who), dtype=bool)
