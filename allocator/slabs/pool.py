"""The slabs of a batch: a growing structure of arrays with recycled numbers.

`word` holds what a slab's freelist-and-counters word tells, packed so that one gather answers most
questions: the low 16 bits are the objects on slab.freelist, a flag above tells where the slab is.
A word of 0 is a full slab on no list, whose first free object makes it partial.
"""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.ranks import rank_among_equals

Ints = NDArray[np.int64]

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


CHUNK = 64
"""Numbers that a lane gets at once."""

_ARRAYS = ("word", "objects", "order", "home", "position", "page", "pobjects", "toucher")


class SlabPool:
    """Slabs by number, (slab,) each.

    Slabs of a lane have numbers close to each other, so that a lane's slabs share cache lines.

    Parameters
    ----------
    lanes
        Number of lanes.
    """

    def __init__(self, lanes: int) -> None:
        capacity = 1024
        self.word: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """Free objects and place."""
        self.objects: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """Objects of the slab, by the order it really has; 0: the number is not in use."""
        self.order: NDArray[np.int8] = np.zeros(capacity, dtype=np.int8)
        """Order of its pages."""
        self.home: Ints = np.zeros(capacity, dtype=np.int64)
        """row * nodes + node: the node list it belongs to."""
        self.position: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """Place in its node list while LISTED."""
        self.page: Ints = np.zeros(capacity, dtype=np.int64)
        """Handle of its pages in the page source."""
        self.pobjects: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """Objects counted on the cpu partial list up to here when it was pushed (until 5.15)."""
        self.toucher: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """CPU that last changed the word, -1 for none (kept for events only)."""
        self._spare: Ints = np.zeros((lanes, CHUNK), dtype=np.int64)
        self._nr_spare: Ints = np.zeros(lanes, dtype=np.int64)
        self._returned: list[tuple[Ints, Ints]] = []
        self._used = 1

    @property
    def used(self) -> int:
        """One more than the largest number that may have been given."""
        return self._used

    @property
    def live(self) -> int:
        """Number of slabs in use."""
        return int(np.count_nonzero(self.objects))

    def begin_call(self) -> None:
        """Let numbers that were given back before be given again.

        Within a call a number means one slab only.
        """
        for lane, slabs in self._returned:
            self._push(lane, slabs)
        self._returned.clear()

    def take(self, lane: Ints) -> Ints:
        """Return an unused number for each entry of `lane`."""
        wanted = np.bincount(lane, minlength=len(self._nr_spare))
        for which in (wanted > self._nr_spare).nonzero()[0].tolist():
            self._fill(which, int(wanted[which] - self._nr_spare[which]))
        depth = self._nr_spare[lane] - 1 - rank_among_equals(lane, len(wanted))
        self._nr_spare -= wanted
        numbers: Ints = self._spare.reshape(-1)[lane * self._spare.shape[1] + depth]
        return numbers

    def give(self, lane: Ints, slabs: Ints) -> None:
        """Take numbers back."""
        self.word[slabs] = 0
        self.objects[slabs] = 0
        self._returned.append((lane, slabs))

    def nbytes(self) -> int:
        """Return the memory of all arrays, bytes."""
        arrays = [getattr(self, name) for name in _ARRAYS]
        return sum(array.nbytes for array in (*arrays, self._spare))

    def _push(self, lane: Ints, slabs: Ints) -> None:
        """Put numbers on their lanes' stacks."""
        depth = self._nr_spare[lane] + rank_among_equals(lane, len(self._nr_spare))
        self._deepen(int(depth.max(initial=0)) + 1)
        self._spare[lane, depth] = slabs
        np.add.at(self._nr_spare, lane, 1)

    def _fill(self, lane: int, missing: int) -> None:
        """Give a lane numbers that were never used."""
        count = -(-missing // CHUNK) * CHUNK
        self._push(np.full(count, lane), np.arange(self._used, self._used + count)[::-1])
        self._used += count
        if self._used > len(self.word):
            self._grow(self._used)

    def _deepen(self, depth: int) -> None:
        """Make room for stacks of `depth` numbers."""
        if depth > self._spare.shape[1]:
            deeper = np.zeros((len(self._spare), depth + depth // 2), dtype=np.int64)
            deeper[:, : self._spare.shape[1]] = self._spare
            self._spare = deeper

    def _grow(self, needed: int) -> None:
        capacity = max(needed, len(self.word) + len(self.word) // 2)
        for name in _ARRAYS:
            old = getattr(self, name)
            new = np.zeros(capacity, dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
