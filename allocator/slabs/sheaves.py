"""Sheaves and barns (7.x): arrays of objects that CPUs allocate from and free to (slub.md 9.1).

A sheaf is a slot of `objects`. Sheaves never move: main, spare and the full sheaves of a barn
exchange slots. Empty sheaves in a barn are only counted.
"""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.places import Places
from allocator.slabs.ranks import ragged
from allocator.slabs.rows import Rows

Ints = NDArray[np.int64]

MAX_FULL_SHEAVES = 10
"""Full sheaves that a barn takes (mm/slub.c MAX_FULL_SHEAVES)."""


class Sheaves:
    """struct slub_percpu_sheaves of every place, struct node_barn of every list.

    Parameters
    ----------
    rows
        Parameters of each row; their capacities do not change.
    places
        CPUs and nodes.
    """

    def __init__(self, rows: Rows, places: Places) -> None:
        nr_rows, cpus, nodes = len(rows), places.cpus, places.nodes
        of_cpus, of_barns = 2 * nr_rows * cpus, nr_rows * nodes * MAX_FULL_SHEAVES
        row_of_slot = np.concatenate(
            (
                np.repeat(np.arange(nr_rows), 2 * cpus),
                np.repeat(np.arange(nr_rows), nodes * MAX_FULL_SHEAVES),
            )
        )
        size = rows.sheaf_capacity[row_of_slot]
        self.start: Ints = np.cumsum(size) - size
        """(slot,): first entry of each sheaf in `objects`."""
        self.objects: NDArray[np.int32] = np.zeros(int(size.sum()), dtype=np.int32)
        """Slab of each object in a sheaf; allocation takes the last one."""
        self.capacity: Ints = np.repeat(rows.sheaf_capacity, cpus)
        """(place,): objects of a sheaf, 0 where the cache has none."""
        self.main: Ints = np.arange(0, of_cpus, 2)
        """(place,): slot of the main sheaf."""
        self.spare: Ints = np.arange(1, of_cpus, 2)
        """(place,): slot of the spare sheaf, whether there is one or not."""
        self.nr_main: Ints = np.zeros(nr_rows * cpus, dtype=np.int64)
        """(place,): objects in main."""
        self.nr_spare: Ints = np.zeros(nr_rows * cpus, dtype=np.int64)
        """(place,): objects in the spare sheaf."""
        self.has_spare: NDArray[np.bool_] = np.zeros(nr_rows * cpus, dtype=bool)
        """(place,): there is a spare sheaf."""
        self.full: Ints = np.arange(of_cpus, of_cpus + of_barns).reshape(-1, MAX_FULL_SHEAVES)
        """(list, depth): slots of the barn's full sheaves, oldest first; the rest are unused."""
        self.nr_full: Ints = np.zeros(nr_rows * nodes, dtype=np.int64)
        """(list,): full sheaves in the barn."""
        self.nr_empty: Ints = np.zeros(nr_rows * nodes, dtype=np.int64)
        """(list,): empty sheaves in the barn."""
        row = np.arange(nr_rows)[:, None]
        self.barn: Ints = (row * nodes + places.node_of_cpu).reshape(-1)
        """(place,): barn of the CPU, that of numa_node_id()."""
        near = places.mem_of_cpu
        self.local: Ints = np.where(places.has_memory[row, near], near, -1).reshape(-1)
        """(place,): node whose objects may enter the CPU's sheaves, -1 for every node's."""

    def swap(self, place: Ints) -> None:
        """Exchange main and spare; their numbers of objects are left to the caller."""
        self.main[place], self.spare[place] = self.spare[place], self.main[place]

    def swap_with_barn(self, place: Ints, barn: Ints, depth: Ints) -> None:
        """Exchange the slot of main with one of the barn's."""
        self.main[place], self.full[barn, depth] = self.full[barn, depth], self.main[place]

    def top(self, place: Ints, count: Ints) -> Ints:
        """Return the last `count` entries of each main sheaf, in the order of the array."""
        return self.read(self.main[place], self.nr_main[place] - count, count)

    def read(self, slot: Ints, first: Ints | int, count: Ints) -> Ints:
        """Return entries first..first+count-1 of each slot, one slot after the other."""
        return self.objects[ragged(self.start[slot] + first, count)].astype(np.int64)

    def write(self, slot: Ints, first: Ints, count: Ints, slabs: Ints) -> None:
        """Set entries first..first+count-1 of each slot."""
        self.objects[ragged(self.start[slot] + first, count)] = slabs

    def forget(self, places: Ints, lists: Ints) -> None:
        """Drop all sheaves of CPUs and barns."""
        self.nr_main[places] = 0
        self.nr_spare[places] = 0
        self.has_spare[places] = False
        self.nr_full[lists] = 0
        self.nr_empty[lists] = 0

    def nbytes(self) -> int:
        """Return the memory of all arrays, bytes."""
        arrays = (self.start, self.objects, self.capacity, self.main, self.spare, self.nr_main)
        rest = (self.nr_spare, self.has_spare, self.full, self.nr_full, self.nr_empty, self.barn)
        return sum(array.nbytes for array in (*arrays, *rest, self.local))
