"""Flushing CPUs: __flush_cpu_slab() and slub_cpu_dead() (mm/slub.c; slub.md 6.4)."""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.cpu import give_back
from allocator.slabs.node import DRAIN, ListEvents, apply_events, asks
from allocator.slabs.pool import FREE, NONE
from allocator.slabs.ranks import ragged, ranks_from
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat

Ints = NDArray[np.int64]


def flush(state: State, places: Ints) -> None:
    """Give back what CPUs hold, one CPU after the other in array order.

    Parameters
    ----------
    state
        The batch.
    places
        (n,) distinct CPUs (row * cpus + cpu).
    """
    turn = np.arange(len(places))
    events = _deactivate(state, places, turn).joined(_unfreeze(state, places, turn))
    apply_events(state, events, np.repeat(places, 2))


def _deactivate(state: State, places: Ints, turn: Ints) -> ListEvents:
    """Give up the cpu slabs; full ones ask nothing of a list."""
    cpu, pool, statistics = state.cpu, state.pool, state.statistics
    slab = cpu.slab[places]
    held = slab != NONE
    places, turn, slab = places[held], turn[held], slab[held]
    row = state.row_of[places]
    statistics.add(Stat.CPUSLAB_FLUSH, row)
    full = (cpu.free[places] == 0) & ((pool.word[slab] & FREE) == 0)
    statistics.add(Stat.DEACTIVATE_FULL, row[full])
    statistics.update(pool.home[slab[full]])
    pool.word[slab[full]] = 0
    cpu.slab[places[full]] = NONE
    state.note_updates(2 * turn, slab, places, 1)
    left = ~full
    return give_back(state, places[left], slab[left], 2 * turn[left])


def _unfreeze(state: State, places: Ints, turn: Ints) -> ListEvents:
    """Put the cpu partial lists on the node lists, top first."""
    cpu, pool = state.cpu, state.pool
    counts = cpu.nr[places]
    slots = ragged(places * cpu.width, counts)
    slab = cpu.partial[slots]
    cpu.nr[places] = 0
    time = np.repeat(2 * turn + 1, counts)
    below = ranks_from(np.cumsum(counts) - counts, len(slab))
    pool.word[slab] &= FREE
    if state.policy.freezing == "taken":
        state.statistics.update(pool.home[slab])
        state.note_updates(time, slab, np.repeat(places, counts), 1)
    from_top = np.repeat(counts, counts) - 1 - below
    ask = asks(len(slab), DRAIN, pool.word[slab] == pool.objects[slab])
    return ListEvents(slab, time, from_top, ask)
