"""Sheaves in a caller's hands: kmem_cache_prefill_sheaf() and its like (mm/slub.c v7.3).

A caller takes a sheaf with at least so many objects, allocates from it without fail, and gives it
back. One that holds more than the cache's sheaves do (oversize) is filled and flushed for itself.
Requests are of different rows: rows do not influence each other.
"""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.held_sheaves import NO_SHEAF
from allocator.slabs.sheaf_alloc import fill_from_slabs, free_arrays, sheaves_of
from allocator.slabs.sheaf_window import SheafWindow
from allocator.slabs.sheaves import MAX_FULL_SHEAVES
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def prefill(state: State, place: Ints, size: Ints, gfp: int) -> Ints:
    """Give each CPU's caller a sheaf with at least `size` objects (kmem_cache_prefill_sheaf()).

    Parameters
    ----------
    state
        The batch.
    place
        (n,) CPUs, of different rows.
    size
        (n,) objects, 1 or more.
    gfp
        Flags of the requests for slabs.

    Returns
    -------
    NDArray
        (n,) number of the sheaf, `NO_SHEAF` where memory ended.
    """
    row, usual = state.row_of[place], sheaves_of(state).capacity[place]
    held = state.held
    large = size > usual
    new = held.take(row, np.where(large, size, usual))
    state.statistics.add(Stat.SHEAF_ALLOC, row[large])
    _grab(state, place[~large], new[~large])
    failed = ~_fill(state, place, new, size, gfp)
    state.statistics.add(Stat.SHEAF_PREFILL_OVERSIZE, row[large])
    _flush(state, place[failed], new[failed])
    new[failed] = NO_SHEAF
    return new


def refill(state: State, place: Ints, sheaf: Ints, size: Ints, gfp: int) -> tuple[Ints, Bools]:
    """Have at least `size` objects in sheaves again (kmem_cache_refill_sheaf()).

    Parameters
    ----------
    state, place, size, gfp
        As for `prefill()`.
    sheaf
        (n,) sheaves.

    Returns
    -------
    tuple
        (n,) the sheaves, a larger one in place of one that was too small; (n,) whether memory was
        enough.
    """
    held = state.held
    small = held.capacity[sheaf] < size
    done = np.ones(len(sheaf), dtype=bool)
    done[~small] = _fill(state, place[~small], sheaf[~small], size[~small], gfp)
    larger = prefill(state, place[small], size[small], gfp)
    got = larger != NO_SHEAF
    give_back(state, place[small][got], sheaf[small][got], gfp)
    done[small] = got
    sheaf = sheaf.copy()
    sheaf[small.nonzero()[0][got]] = larger[got]
    return sheaf, done


def give_back(state: State, place: Ints, sheaf: Ints, gfp: int) -> None:
    """Take sheaves back (kmem_cache_return_sheaf()); parameters as for `refill()`.

    One becomes the CPU's spare sheaf, or goes to the barn full, or is flushed and freed.
    """
    sheaves, held, statistics = sheaves_of(state), state.held, state.statistics
    row, barn = state.row_of[place], sheaves.barn[place]
    usual = held.capacity[sheaf] == sheaves.capacity[place]
    fast = usual & ~sheaves.has_spare[place]
    slow = usual & ~fast
    statistics.add(Stat.SHEAF_RETURN_FAST, row[fast])
    statistics.add(Stat.SHEAF_RETURN_SLOW, row[slow])
    spare = place[fast]
    zero = np.zeros(len(spare), dtype=np.int64)
    count = held.size[sheaf[fast]]
    sheaves.write(sheaves.spare[spare], zero, count, held.objects(sheaf[fast]))
    sheaves.nr_spare[spare], sheaves.has_spare[spare] = count, True
    held.drop(sheaf[fast])
    room = slow & (sheaves.nr_full[barn] < MAX_FULL_SHEAVES)
    full = room.copy()
    wanted = held.capacity[sheaf[room]]
    full[room] = _fill(state, place[room], sheaf[room], wanted, gfp)
    _to_barn(state, place[full], sheaf[full])
    rest = ~fast & ~full
    _flush(state, place[rest], sheaf[rest])


def _grab(state: State, place: Ints, new: Ints) -> None:
    """Take the spare sheaf, a full or empty one of the barn, or a new one."""
    sheaves, held, statistics = sheaves_of(state), state.held, state.statistics
    row, barn = state.row_of[place], sheaves.barn[place]
    spare = sheaves.has_spare[place]
    statistics.add(Stat.SHEAF_PREFILL_FAST, row[spare])
    statistics.add(Stat.SHEAF_PREFILL_SLOW, row[~spare])
    here = place[spare]
    count = sheaves.nr_spare[here]
    held.append(new[spare], count, sheaves.read(sheaves.spare[here], 0, count))
    sheaves.nr_spare[here], sheaves.has_spare[here] = 0, False
    full = ~spare & (sheaves.nr_full[barn] > 0)
    from_barn = barn[full]
    sheaves.nr_full[from_barn] -= 1
    slot = sheaves.full[from_barn, sheaves.nr_full[from_barn]]
    count = sheaves.capacity[place[full]]
    held.append(new[full], count, sheaves.read(slot, 0, count))
    empty = ~spare & ~full & (sheaves.nr_empty[barn] > 0)
    sheaves.nr_empty[barn[empty]] -= 1
    np.add.at(statistics.barn_locks, barn[full | empty], 1)
    statistics.add(Stat.BARN_GET, row[full])
    statistics.add(Stat.BARN_GET_FAIL, row[~spare & ~full])
    statistics.add(Stat.SHEAF_ALLOC, row[~spare & ~full & ~empty])


def _fill(state: State, place: Ints, sheaf: Ints, size: Ints, gfp: int) -> Bools:
    """Fill sheaves that have fewer than `size` objects; return which have as many then.

    A usual sheaf keeps what it got when memory ends, an oversize one gets all or nothing.
    """
    held = state.held
    usual = held.capacity[sheaf] == sheaves_of(state).capacity[place]
    enough = held.size[sheaf] >= size
    for kind in (True, False):
        which = (~enough & (usual == kind)).nonzero()[0]
        if not len(which):
            continue
        here, number = place[which], sheaf[which]
        missing = held.capacity[number] - held.size[number]
        flags = np.full(len(which), gfp)
        window = SheafWindow(here, state.row_of[here], missing, None, flags, bulk=True)
        window.keeps_part = kind
        fill_from_slabs(state, window)
        runs = window.runs()
        count = np.bincount(runs.request, runs.count, len(which)).astype(np.int64)
        held.append(number, count, np.repeat(runs.slab, runs.count))
        enough[which] = count == missing
    return enough


def _to_barn(state: State, place: Ints, sheaf: Ints) -> None:
    """Put full sheaves in the barns of their CPUs."""
    sheaves, held = sheaves_of(state), state.held
    barn = sheaves.barn[place]
    slot = sheaves.full[barn, sheaves.nr_full[barn]]
    count = held.size[sheaf]
    sheaves.write(slot, np.zeros_like(count), count, held.objects(sheaf))
    sheaves.nr_full[barn] += 1
    np.add.at(state.statistics.barn_locks, barn, 1)
    state.statistics.add(Stat.BARN_PUT, state.row_of[place])
    held.drop(sheaf)


def _flush(state: State, place: Ints, sheaf: Ints) -> None:
    """Give the objects of sheaves back to their slabs and free the sheaves."""
    held, row = state.held, state.row_of[place]
    count = held.size[sheaf]
    state.statistics.add(Stat.SHEAF_FLUSH, row, count)
    free_arrays(state, place, np.repeat(np.arange(len(sheaf)), count), held.objects(sheaf))
    state.statistics.add(Stat.SHEAF_FREE, row)
    held.drop(sheaf)
