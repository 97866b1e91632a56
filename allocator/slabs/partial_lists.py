"""Node partial lists of a batch: ordered deques that lose slabs in the middle.

Each list is a ring in one shared arena; a slab knows its position, so that removing it leaves a
hole, which the next taker from the head steps over. mm/slub.c add_partial() and remove_partial().
"""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.pool import FREE, LISTED, SlabPool
from allocator.slabs.ranks import ragged

Ints = NDArray[np.int64]

_SMALLEST = 16  # slots of a list's first ring


class PartialLists:
    """kmem_cache_node.partial of every (row, node).

    Parameters
    ----------
    count
        Number of lists, rows * nodes.
    pool
        The slabs; their `word` and `position` are kept up to date here.
    """

    def __init__(self, count: int, pool: SlabPool) -> None:
        self.pool = pool
        self.nr_partial: Ints = np.zeros(count, dtype=np.int64)
        """(list,): slabs on the list."""
        self._head: Ints = np.zeros(count, dtype=np.int64)
        self._tail: Ints = np.zeros(count, dtype=np.int64)
        self._offset: Ints = np.arange(count, dtype=np.int64) * _SMALLEST
        self._mask: Ints = np.full(count, _SMALLEST - 1, dtype=np.int64)
        self._arena: NDArray[np.int32] = np.zeros(count * _SMALLEST, dtype=np.int32)
        self._end = count * _SMALLEST

    def append(self, lists: Ints, counts: Ints, slabs: Ints) -> None:
        """Add slabs at the tail.

        Parameters
        ----------
        lists
            (k,) distinct lists.
        counts
            (k,) slabs for each.
        slabs
            (counts.sum(),) those of the first list in order, then of the second...
        """
        self._reserve(lists, counts)
        tail = self._tail[lists]
        self._store(lists, counts, slabs, ragged(tail, counts), self._slots(lists, tail, counts))
        self._tail[lists] = tail + counts

    def prepend(self, lists: Ints, counts: Ints, slabs: Ints) -> None:
        """Add slabs at the head, one after another: the last one given ends up first."""
        self._reserve(lists, counts)
        ends = np.cumsum(counts)
        ranks = np.arange(len(slabs)) - np.repeat(ends - counts, counts)
        positions = np.repeat(self._head[lists], counts) - 1 - ranks
        where = np.repeat(self._offset[lists], counts)
        where += positions & np.repeat(self._mask[lists], counts)
        self._store(lists, counts, slabs, positions, where)
        self._head[lists] -= counts

    def remove(self, slabs: Ints) -> None:
        """Take slabs out of their lists, wherever they stand, and clear their flag."""
        lists = self.pool.home[slabs]
        positions = self.pool.position[slabs]
        self._arena[self._offset[lists] + (positions & self._mask[lists])] = 0
        self.pool.word[slabs] &= ~LISTED
        np.subtract.at(self.nr_partial, lists, 1)
        self._forget_holes(lists)

    def take(self, lists: Ints, wanted: Ints) -> tuple[Ints, Ints]:
        """Remove slabs from the head; their words are left to the caller, who gives them a place.

        Parameters
        ----------
        lists
            (k,) distinct lists.
        wanted
            (k,) slabs wanted of each.

        Returns
        -------
        tuple
            The slabs, those of the first list in order, then of the second...; how many of each.
        """
        got = np.minimum(wanted, self.nr_partial[lists])
        head = self._head[lists]
        holes = self._tail[lists] - head - self.nr_partial[lists]
        slabs, passed = self._arena[self._slots(lists, head, got)].astype(np.int64), got
        if holes.any() and not slabs.all():
            slabs, passed = self._scan(lists, got, got + np.where(got > 0, holes, 0))
        self._head[lists] = head + passed
        self.nr_partial[lists] -= got
        self._forget_holes(lists)
        return slabs, got

    def peek(self, lists: Ints, wanted: Ints) -> tuple[Ints, Ints]:
        """Return what `take()` would, and leave it there."""
        got = np.minimum(wanted, self.nr_partial[lists])
        holes = self._tail[lists] - self._head[lists] - self.nr_partial[lists]
        return self._scan(lists, got, got + np.where(got > 0, holes, 0))[0], got

    def contents(self, lists: Ints) -> tuple[Ints, Ints]:
        """Return the slabs of lists, head first, list after list; how many of each."""
        counts = self.nr_partial[lists]
        return self._scan(lists, counts, self._tail[lists] - self._head[lists])[0], counts

    def replace(self, lists: Ints, counts: Ints, slabs: Ints) -> None:
        """Set the contents of lists anew; slabs that leave a list must have been unflagged."""
        self._head[lists] = 0
        self._tail[lists] = 0
        self.nr_partial[lists] = 0
        self.append(lists, counts, slabs)

    def nbytes(self) -> int:
        """Return the memory of all arrays, bytes."""
        return self._arena.nbytes + 5 * self.nr_partial.nbytes

    def _store(self, lists: Ints, counts: Ints, slabs: Ints, positions: Ints, where: Ints) -> None:
        self._arena[where] = slabs
        self.pool.position[slabs] = positions
        self.pool.word[slabs] = self.pool.word[slabs] & FREE | LISTED
        self.nr_partial[lists] += counts

    def _slots(self, lists: Ints, first: Ints, counts: Ints) -> Ints:
        """Return where in the arena so many positions of each list are, from `first` on."""
        offset, mask = self._offset[lists], self._mask[lists]
        within = first & mask
        if bool((within + counts <= mask + 1).all()):
            return ragged(offset + within, counts)
        return (ragged(within, counts) & mask.repeat(counts)) + offset.repeat(counts)

    def _forget_holes(self, lists: Ints) -> None:
        empty = lists[self.nr_partial[lists] == 0]
        self._head[empty] = self._tail[empty]

    def _scan(self, lists: Ints, wanted: Ints, span: Ints) -> tuple[Ints, Ints]:
        """Return the first `wanted` slabs of each list, and the slots passed over for them."""
        entries = self._arena[self._slots(lists, self._head[lists], span)]
        filled = entries != 0
        ends = np.cumsum(span)
        seen = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(filled)))
        before = seen[ends - span]
        chosen = filled & (seen[1:] - np.repeat(before, span) <= np.repeat(wanted, span))
        last = np.searchsorted(seen, before + wanted)  # slot after the last one chosen
        passed = np.where(wanted > 0, last - (ends - span), 0)
        return entries[chosen].astype(np.int64), passed

    def _reserve(self, lists: Ints, counts: Ints) -> None:
        """Make room for more slabs: close the holes of full rings, or move them to larger ones."""
        full = self._tail[lists] - self._head[lists] + counts > self._mask[lists] + 1
        for which in lists[full].tolist():
            more = int(counts[lists == which].sum())
            self._rebuild(which, int(self.nr_partial[which]) + more)

    def _rebuild(self, which: int, room: int) -> None:
        one = np.array([which])
        slabs = self.contents(one)[0]
        size = int(self._mask[which]) + 1
        if room > size // 2:
            size = 1 << (room + room // 2).bit_length()
            if self._end + size > len(self._arena):
                self._repack(size)
            self._offset[which], self._mask[which] = self._end, size - 1
            self._end += size
        self._head[which], self._tail[which] = 0, len(slabs)
        at = int(self._offset[which])
        self._arena[at : at + len(slabs)] = slabs
        self.pool.position[slabs] = np.arange(len(slabs))

    def _repack(self, more: int) -> None:
        """Move all rings together in a larger arena, dropping those that were left behind."""
        sizes = self._mask + 1
        offsets = np.cumsum(sizes) - sizes
        used = int(sizes.sum())
        arena = np.zeros(used + max(more, used // 2), dtype=np.int32)
        arena[ragged(offsets, sizes)] = self._arena[ragged(self._offset, sizes)]
        self._arena, self._offset, self._end = arena, offsets, used
