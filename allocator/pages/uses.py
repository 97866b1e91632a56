"""What used pages are used for."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from allocator.pages.buddy import Buddy
from allocator.pages.runs import Run, Runs, by_place


class Use(IntEnum):
    """What a page that is not free is used for."""

    OTHER = 0
    """The kernel's own, or pinned: neither reclaim nor compaction can do anything with it."""
    CACHE = 1
    """Clean page cache on the inactive list."""
    DIRTY = 2
    """Page cache that has to be written first; migration needs its file system's help."""
    ANON = 3
    """Anonymous or tmpfs memory; without swap it can be moved, not reclaimed."""
    POOL = 4
    """Part of a hugetlb page."""


MOVABLE_USES = (Use.CACHE, Use.DIRTY, Use.ANON)
"""Uses of pages that compaction can move."""

_MIXED = 255  # a pageblock whose pages are told one by one
# looking a member up in its class is slow, and these are needed for every few pages
_OTHER, _CACHE, _DIRTY = Use.OTHER, Use.CACHE, Use.DIRTY
_WINDOW = 64  # pageblocks that are searched at once
_LETTERS = [bytes([use]) for use in Use]


class PageUse:
    """Uses of the pages of one zone.

    A pageblock whose pages all have one use is one entry; only of the others is each page noted,
    so that the cost of a large cache does not grow with its pages.

    Parameters
    ----------
    buddy
        Lists of the zone; its `movable_in_use` hook is answered from here.
    """

    def __init__(self, buddy: Buddy) -> None:
        self.buddy = buddy
        self.base = buddy.base
        self.order = buddy.pageblock_order
        self.size = 1 << self.order
        """Pages of a pageblock."""
        blocks = len(buddy.block_type)
        self._block: NDArray[np.uint8] = np.zeros(blocks, dtype=np.uint8)
        # np.zeros() takes untouched memory: pages that nobody used cost nothing
        self._page: NDArray[np.uint8] = np.zeros(blocks << self.order, dtype=np.uint8)
        self.movable: NDArray[np.int32] = np.zeros(blocks, dtype=np.int32)
        """(pageblock,) used pages that can be moved: cache, anonymous memory."""
        # one entry at a time is read and written much faster through memoryviews than in arrays
        self._kinds = memoryview(self._block)  # type: ignore[arg-type]
        self._movables = memoryview(self.movable)  # type: ignore[arg-type]
        self.total = [0] * len(Use)
        """(use,) pages of each use (`OTHER` is not counted)."""
        self.losses = 0
        """Times that pages lost their use otherwise than as the oldest of a list: what was known of
        the use of a range need no longer hold."""
        buddy.movable_in_use = self.movable_between

    def set(self, start: int, pages: int, use: Use) -> None:
        """Say what a run of pages, free or without a use until now, is used for."""
        self._write(start, pages, use)
        self.total[use] += pages
        if use in MOVABLE_USES:
            self._count(start - self.base, pages, 1)

    def set_runs(self, runs: Runs, use: Use) -> None:
        """Do the same for several runs, that share no page."""
        for start, pages in by_place(runs):
            self.set(start, pages, use)

    def clear(self, start: int, pages: int, use: Use) -> None:
        """Take a use away from a run of pages that all had it."""
        self.losses += 1
        self.forget(start, pages, use)

    def forget(self, start: int, pages: int, use: Use) -> None:
        """Do the same for the oldest pages of a list, which it no longer asks for."""
        first = start - self.base
        block = first >> self.order
        if use is _CACHE and pages < self.size and first + pages <= (block + 1) << self.order:
            self._write_edge(first, first + pages, _OTHER)
            self._movables[block] -= pages
            self.total[_CACHE] -= pages
            return
        self._write(start, pages, _OTHER)
        self.total[use] -= pages
        if use in MOVABLE_USES:
            self._count(start - self.base, pages, -1)

    def of(self, start: int, pages: int) -> NDArray[np.uint8]:
        """Return the use of each page of a run, (page,) uint8."""
        first = start - self.base
        block, last = first >> self.order, (first + pages - 1) >> self.order
        if block == last and self._kinds[block] == _MIXED:
            return self._page[first : first + pages]
        out = np.repeat(self._block[block : last + 1], self.size)
        out = out[first - block * self.size :][:pages]
        for mixed in (np.flatnonzero(self._block[block : last + 1] == _MIXED) + block).tolist():
            low, high = max(first, mixed * self.size), (mixed + 1) * self.size
            out[low - first : high - first] = self._page[low : min(high, first + pages)]
        return out

    def first_run(self, start: int, pages: int, use: Use) -> Run:
        """Return the first run of pages of one use in a range; (-1, 0) if there is none.

        A run in a long range may be cut short where pageblocks of different kinds meet.
        """
        if self.all_are(start, pages, use):
            return start, pages
        window = _WINDOW << self.order
        wanted = _LETTERS[use]
        for at in range(start, start + pages, window):
            count = min(window, start + pages - at)
            found = self.of(at, count).tobytes()  # searched faster than short arrays are
            first = found.find(wanted)
            if first >= 0:
                return at + first, count - first - len(found[first:].lstrip(wanted))
        return -1, 0

    def all_are(self, start: int, pages: int, use: Use) -> bool:
        """Tell whether all pages of a range have one use."""
        first = start - self.base
        block, last = first >> self.order, (first + pages - 1) >> self.order
        kinds = self._kinds
        if last > block + 1 and not (self._block[block + 1 : last] == use).all():
            return False
        for edge in (block, last) if block != last else (block,):
            if kinds[edge] == use:
                continue
            if kinds[edge] != _MIXED:
                return False
            low, high = max(first, edge * self.size), min(first + pages, (edge + 1) * self.size)
            if self._page[low:high].tobytes().count(_LETTERS[use]) != high - low:
                return False
        return True

    def _write(self, start: int, pages: int, use: Use) -> None:
        first = start - self.base
        stop = first + pages
        whole, end = -(-first >> self.order), stop >> self.order
        if whole > end:
            self._write_edge(first, stop, use)
            return
        if whole < end:
            self._block[whole:end] = use
            edges = ((first, whole * self.size), (end * self.size, stop))
        else:
            cut = min(whole * self.size, stop)
            edges = ((first, cut), (cut, stop))
        for low, high in edges:
            if low < high:
                self._write_edge(low, high, use)

    def _write_edge(self, low: int, high: int, use: Use) -> None:
        """Note the use of some pages of one pageblock."""
        block = low >> self.order
        kind = self._kinds[block]
        if kind != _MIXED:
            at = block * self.size
            self._page[at : at + self.size] = kind
            self._kinds[block] = _MIXED
        self._page[low:high] = use

    def _count(self, first: int, pages: int, sign: int) -> None:
        block, last = first >> self.order, (first + pages - 1) >> self.order
        if block == last:
            self._movables[block] += sign * pages
            return
        self.movable[block] += sign * ((block + 1) * self.size - first)
        self.movable[last] += sign * (first + pages - last * self.size)
        self.movable[block + 1 : last] += sign * self.size

    def movable_between(self, start: int, stop: int) -> int:
        """Count the used pages of a range that can be moved."""
        if start & (self.size - 1) == 0 and stop - start == self.size:
            return self._movables[(start - self.base) >> self.order]
        return int(np.isin(self.of(start, stop - start), MOVABLE_USES).sum())

    def wash(self) -> int:
        """Make all dirty cache clean; return the number of pages."""
        pages = self.total[Use.DIRTY]
        if pages:
            self._block[self._block == Use.DIRTY] = Use.CACHE
            for block in np.flatnonzero(self._block == _MIXED).tolist():
                inside = self._page[block * self.size : (block + 1) * self.size]
                inside[inside == Use.DIRTY] = Use.CACHE
            self.total[Use.CACHE] += pages
            self.total[Use.DIRTY] = 0
        return pages
