"""Flushing sheaves and barns: pcs_flush_all(), slub_cpu_dead() (v7.3; slub.md 9.6)."""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.ranks import ragged
from allocator.slabs.sheaf_alloc import free_arrays, sheaves_of
from allocator.slabs.sheaves import MAX_FULL_SHEAVES
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat

Ints = NDArray[np.int64]

PCS_BATCH_MAX = 32
"""Objects of a main sheaf that are flushed in one go."""


def flush(state: State, places: Ints) -> None:
    """Flush CPUs one after another: the spare sheaf whole, main in batches from its top."""
    sheaves = sheaves_of(state)
    main = sheaves.nr_main[places]
    spare = np.where(sheaves.has_spare[places], sheaves.nr_spare[places], 0)
    batches = -(-main // PCS_BATCH_MAX)
    arrays = 1 + batches
    of_place = np.repeat(np.arange(len(places)), arrays)
    number = ragged(np.zeros_like(arrays), arrays)  # 0: spare, then the batches of main
    top = main[of_place] - (number - 1) * PCS_BATCH_MAX
    first = np.where(number == 0, 0, np.maximum(top - PCS_BATCH_MAX, 0))
    count = np.where(number == 0, spare[of_place], top - first)
    slot = np.where(number == 0, sheaves.spare[places][of_place], sheaves.main[places][of_place])
    _flush_arrays(state, places[of_place], slot, first, count)
    _drop(state, places)


def offline(state: State, places: Ints) -> None:
    """Give back what dead CPUs held: main, then the spare sheaf, each as one array."""
    sheaves = sheaves_of(state)
    spare = np.where(sheaves.has_spare[places], sheaves.nr_spare[places], 0)
    slot = np.stack((sheaves.main[places], sheaves.spare[places]), axis=1).reshape(-1)
    count = np.stack((sheaves.nr_main[places], spare), axis=1).reshape(-1)
    _flush_arrays(state, np.repeat(places, 2), slot, np.zeros_like(count), count)
    _drop(state, places)


def shrink_barns(state: State, rows: Ints, cpu: Ints) -> None:
    """Empty the barns of rows, node after node: full sheaves flushed, newest first."""
    sheaves = sheaves_of(state)
    having = state.rows.sheaf_capacity[rows] > 0
    rows, cpu = rows[having], cpu[having]
    lists = (rows[:, None] * state.nr_nodes + np.arange(state.nr_nodes)).reshape(-1)
    row = np.repeat(rows, state.nr_nodes)
    full, empty = sheaves.nr_full[lists], sheaves.nr_empty[lists]
    np.add.at(state.statistics.barn_locks, lists, 1)
    depth = np.repeat(full, full) - 1 - ragged(np.zeros_like(full), full)
    slot = sheaves.full.reshape(-1)[np.repeat(lists * MAX_FULL_SHEAVES, full) + depth]
    by = np.repeat(row, full)
    place = by * state.nr_cpus + np.repeat(np.repeat(cpu, state.nr_nodes), full)
    count = state.rows.sheaf_capacity[by]
    _flush_arrays(state, place, slot, np.zeros_like(count), count)
    state.statistics.add(Stat.SHEAF_FREE, row, full + empty)
    sheaves.nr_full[lists] = 0
    sheaves.nr_empty[lists] = 0


def _flush_arrays(state: State, place: Ints, slot: Ints, first: Ints, count: Ints) -> None:
    """Free parts of sheaves to slabs, one after another."""
    slab = sheaves_of(state).read(slot, first, count)
    state.statistics.add(Stat.SHEAF_FLUSH, state.row_of[place], count)
    free_arrays(state, place, np.repeat(np.arange(len(place)), count), slab)


def _drop(state: State, places: Ints) -> None:
    """Forget what was flushed; spare sheaves are freed."""
    sheaves = sheaves_of(state)
    freed = places[sheaves.has_spare[places]]
    state.statistics.add(Stat.SHEAF_FREE, state.row_of[freed])
    sheaves.has_spare[places] = False
    sheaves.nr_spare[places] = 0
    sheaves.nr_main[places] = 0
    if state.rcu is not None:
        state.rcu.hand_over(places, "flushed")
