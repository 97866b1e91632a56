"""The slabs of a batch: a growing structure of arrays with recycled numbers.

`word` holds what a slab's freelist-and-counters word tells, packed so that one gather answers most
questions: the low 16 bits are the objects on slab.freelist, a flag above tells where the slab is.
A word of 0 is a full slab on no list, whose first free object makes it partial.
"""

import numpy as np
from numpy.typing import NDArray

FREE = 0xFFFF
"""Mask of the objects on slab.freelist. Those on a CPU's freelist count as in use."""
CPU = 1 << 16
"""The slab is some CPU's cpu slab."""
PARTIAL = 1 << 17
"""The slab is on some CPU's partial list."""
LISTED = 1 << 18
"""The slab is on its node's partial list."""
LOST = 1 << 19
"""The slab has free objects and is on no list: leaked by "Delay freezing" RFC v1."""
HELD = 1 << 20
"""The slab is being emptied or filled by a CPU (7.x refill); for no longer than a call."""
PLACE = CPU | PARTIAL | LISTED | LOST | HELD
"""Mask of the flags."""

NONE = 0
"""Number of no slab; its word stays 0 and its list entry nowhere."""


_ARRAYS = ("word", "objects", "order", "home", "position", "page", "pobjects", "toucher")


class SlabPool:
    """Slabs by number, (slab,) each."""

    def __init__(self, capacity: int = 1024) -> None:
        self.word: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """Free objects and place."""
        self.objects: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """Objects of the slab, by the order it really has; 0: the number is not in use."""
        self.order: NDArray[np.int8] = np.zeros(capacity, dtype=np.int8)
        """Order of its pages."""
        self.home: NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        """row * nodes + node: the node list it belongs to."""
        self.position: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """Place in its node list while LISTED."""
        self.page: NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        """Handle of its pages in the page source."""
        self.pobjects: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """Objects counted on the cpu partial list up to here when it was pushed (until 5.15)."""
        self.toucher: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """CPU that last changed the word, -1 for none (kept for events only)."""
        self._spare: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._returned: list[NDArray[np.int64]] = []
        self._nr_returned = 0
        self._fresh = 1

    @property
    def used(self) -> int:
        """One more than the largest number ever given."""
        return self._fresh

    @property
    def live(self) -> int:
        """Number of slabs in use."""
        return self._fresh - 1 - len(self._spare) - self._nr_returned

    def begin_call(self) -> None:
        """Let numbers that were given back before be given again.

        Within a call a number means one slab only.
        """
        if self._returned:
            self._spare = np.concatenate((self._spare, *self._returned))
            self._returned, self._nr_returned = [], 0

    def take(self, count: int) -> NDArray[np.int64]:
        """Return `count` unused numbers, the last given back first."""
        left = max(len(self._spare) - count, 0)
        numbers = self._spare[left:][::-1]
        self._spare = self._spare[:left]
        missing = count - len(numbers)
        if missing == 0:
            return numbers
        fresh = np.arange(self._fresh, self._fresh + missing)
        self._fresh += missing
        if self._fresh > len(self.word):
            self._grow(self._fresh)
        return np.concatenate((numbers, fresh))

    def give(self, slabs: NDArray[np.int64]) -> None:
        """Take numbers back."""
        self.word[slabs] = 0
        self.objects[slabs] = 0
        self._returned.append(slabs)
        self._nr_returned += len(slabs)

    def nbytes(self) -> int:
        """Return the memory of all arrays, bytes."""
        arrays = [getattr(self, name) for name in _ARRAYS]
        return sum(array.nbytes for array in (*arrays, self._spare))

    def _grow(self, needed: int) -> None:
        capacity = max(needed, len(self.word) + len(self.word) // 2)
        for name in _ARRAYS:
            old = getattr(self, name)
            new = np.zeros(capacity, dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
