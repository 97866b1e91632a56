"""Sheaves that callers hold (struct slab_sheaf of kmem_cache_prefill_sheaf()), by number."""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.ranks import ragged

Ints = NDArray[np.int64]

NO_SHEAF = -1
"""Number of a sheaf that could not be had."""


class HeldSheaves:
    """Sheaves that callers hold, (sheaf,) each; numbers are given again."""

    def __init__(self) -> None:
        self.row: Ints = np.full(8, NO_SHEAF, dtype=np.int64)
        """Cache that the sheaf belongs to, -1 where the number is not in use."""
        self.capacity: Ints = np.zeros(8, dtype=np.int64)
        """Objects that it can hold."""
        self.size: Ints = np.zeros(8, dtype=np.int64)
        """Objects in it."""
        self.slab: NDArray[np.int32] = np.zeros((8, 1), dtype=np.int32)
        """(sheaf, n): slabs of the objects; the last one is used first."""

    def take(self, row: Ints, capacity: Ints) -> Ints:
        """Return numbers of new, empty sheaves."""
        spare = (self.row < 0).nonzero()[0]
        more = max(len(row) - len(spare), 0)
        wider = max(int(capacity.max(initial=1)) - self.slab.shape[1], 0)
        if more or wider:
            self._grow(more, wider)
            spare = (self.row < 0).nonzero()[0]
        new: Ints = spare[: len(row)]
        self.row[new], self.capacity[new], self.size[new] = row, capacity, 0
        return new

    def drop(self, sheaf: Ints) -> None:
        """Forget sheaves."""
        self.row[sheaf] = NO_SHEAF

    def append(self, sheaf: Ints, count: Ints, slab: Ints) -> None:
        """Add objects to different sheaves, `count` of each one after the other."""
        at = ragged(sheaf * self.slab.shape[1] + self.size[sheaf], count)
        self.slab.reshape(-1)[at] = slab
        self.size[sheaf] += count

    def objects(self, sheaf: Ints) -> Ints:
        """Return the slabs of all objects, sheaf by sheaf."""
        at = ragged(sheaf * self.slab.shape[1], self.size[sheaf])
        return self.slab.reshape(-1)[at].astype(np.int64)

    def pop(self, sheaf: Ints, count: Ints) -> tuple[Ints, Ints]:
        """Take up to `count` objects off different sheaves, the last one first.

        Returns
        -------
        tuple
            (n,) objects taken of each, and their slabs, sheaf by sheaf.
        """
        count = np.minimum(count, self.size[sheaf])
        ends = sheaf * self.slab.shape[1] + self.size[sheaf]
        at = np.repeat(2 * ends - 1, count) - ragged(ends, count)
        self.size[sheaf] -= count
        return count, self.slab.reshape(-1)[at].astype(np.int64)

    def _grow(self, more: int, wider: int) -> None:
        more = max(more, len(self.row)) if more else 0
        wider = max(wider, self.slab.shape[1]) if wider else 0
        self.row = np.pad(self.row, (0, more), constant_values=NO_SHEAF)
        self.capacity = np.pad(self.capacity, (0, more))
        self.size = np.pad(self.size, (0, more))
        self.slab = np.pad(self.slab, ((0, more), (0, wider)))
