"""What used pages are used for, and the age of those that reclaim may take.

A cache or a process is held as runs of pages in the order in which they were allocated, because the
order decides what reclaim leaves behind: cache read in one go into free memory lies in physical
order, and reclaiming its oldest part frees whole pageblocks; cache read into the holes of other
memory never does (mm/vmscan.c isolate_lru_folios(), mm/swap.c folio_add_lru()).
"""

from collections import deque
from collections.abc import Iterator
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from allocator.pages.buddy import Buddy

Run = tuple[int, int]
"""First page frame number, and number of pages."""


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


class PageUse:
    """Uses of the pages of one zone.

    Parameters
    ----------
    buddy
        Lists of the zone; its `movable_in_use` hook is answered from here.
    """

    def __init__(self, buddy: Buddy) -> None:
        self.buddy = buddy
        self.base = buddy.base
        self.order = buddy.pageblock_order
        pages = len(buddy.block_type) << self.order
        # np.zeros() takes untouched memory: pages that nobody used cost nothing
        self.use: NDArray[np.uint8] = np.zeros(pages, dtype=np.uint8)
        """(page,) `Use` of each page that is not free; meaningless for free pages."""
        self.movable: NDArray[np.int32] = np.zeros(len(buddy.block_type), dtype=np.int32)
        """(pageblock,) used pages that can be moved: cache, anonymous memory."""
        self.total: dict[Use, int] = dict.fromkeys(Use, 0)
        """Pages of each use (`OTHER` is not counted)."""
        buddy.movable_in_use = self.movable_between

    def set(self, start: int, pages: int, use: Use) -> None:
        """Say what a run of pages, free or without a use until now, is used for."""
        first = start - self.base
        self.use[first : first + pages] = use
        self.total[use] += pages
        if use in _MOVABLE:
            self._count(first, pages, 1)

    def clear(self, start: int, pages: int, use: Use) -> None:
        """Take a use away from a run of pages that all had it."""
        first = start - self.base
        self.use[first : first + pages] = Use.OTHER
        self.total[use] -= pages
        if use in _MOVABLE:
            self._count(first, pages, -1)

    def _count(self, first: int, pages: int, sign: int) -> None:
        block, last = first >> self.order, (first + pages - 1) >> self.order
        size = 1 << self.order
        if block == last:
            self.movable[block] += sign * pages
            return
        self.movable[block] += sign * ((block + 1) * size - first)
        self.movable[last] += sign * (first + pages - last * size)
        self.movable[block + 1 : last] += sign * size

    def of(self, start: int, pages: int) -> NDArray[np.uint8]:
        """Return the uses of a run of pages (a view)."""
        return self.use[start - self.base : start - self.base + pages]

    def movable_between(self, start: int, stop: int) -> int:
        """Count the used pages of a range that can be moved."""
        free = sum(
            (np.minimum(pfns + (1 << orders), stop) - np.maximum(pfns, start)).sum()
            for pfns, orders in [self.buddy.free_blocks_in(start, stop)]
        )
        whole = start & (self.buddy_size - 1) == 0 and stop - start == self.buddy_size
        if whole and free == self.buddy_size:
            return 0
        if whole:
            return int(self.movable[(start - self.base) >> self.order])
        uses = self.of(start, stop - start)
        return int(np.isin(uses, _MOVABLE).sum())

    @property
    def buddy_size(self) -> int:
        """Pages of a pageblock."""
        return 1 << self.order


_MOVABLE = (Use.CACHE, Use.DIRTY, Use.ANON)


class Lru:
    """Page cache of one node from the oldest to the youngest page.

    Anonymous memory has no list here: without swap no reclaimer looks at it. A run may name pages
    that have been moved or dropped since; `PageUse` says which are still there, so that moving
    pages does not search the lists. A page that took the place of a moved one may then be found at
    the age of the old one.

    Parameters
    ----------
    uses
        Uses of the node's zones, each with the page frame numbers [start, stop) it spans.
    """

    def __init__(self, uses: list[tuple[int, int, PageUse]]) -> None:
        self._uses = uses
        self._runs: deque[Run] = deque()

    @property
    def pages(self) -> int:
        """Pages on the list, clean and dirty."""
        return sum(
            use.total[Use.CACHE] + use.total[Use.DIRTY] for _, _, use in self._uses
        )

    def uses_of(self, pfn: int) -> PageUse:
        """Return the uses of the zone that a page is in.

        Raises
        ------
        LookupError
            If no zone of the node has the page.
        """
        for start, stop, use in self._uses:
            if start <= pfn < stop:
                return use
        raise LookupError(f"page {pfn} is in no zone of the node")

    def add(self, start: int, pages: int, use: Use = Use.CACHE) -> None:
        """Put a run of pages in as the youngest; the lowest page is the oldest of them."""
        self.uses_of(start).set(start, pages, use)
        self.list(start, pages)

    def list(self, start: int, pages: int) -> None:
        """Put pages whose use is known already at the young end."""
        if self._runs:
            first, count = self._runs[-1]
            if first + count == start and self.uses_of(first) is self.uses_of(start):
                self._runs[-1] = (first, count + pages)
                return
        self._runs.append((start, pages))

    def oldest(self, pages: int, whole: int = 1) -> Iterator[Run]:
        """Take the oldest clean pages off the list, up to a number; they are free to be given back.

        Dirty pages met on the way rotate to the young end.

        Parameters
        ----------
        pages
            Number of pages wanted.
        whole
            Pages of a large folio: a run is taken up to the next multiple of this (folios are
            reclaimed whole).

        Yields
        ------
        tuple
            Runs of pages; their use is cleared.
        """
        left = min(pages, self.pages)
        rotated = 0
        while left > 0 and self._runs and rotated <= len(self._runs):
            start, count = self._runs.popleft()
            use = self.uses_of(start)
            here, length = _first_run(use, start, count, left, whole)
            if here < 0:  # nothing of the run is clean cache: drop it, or rotate what is dirty
                rotated += self._rotate(use, start, count)
                continue
            rest = start + count - here - length
            if rest:
                self._runs.appendleft((here + length, rest))
            rotated += self._rotate(use, start, here - start)
            use.clear(here, length, Use.CACHE)
            left -= length
            yield here, length

    def _rotate(self, use: PageUse, start: int, count: int) -> int:
        dirty = count > 0 and bool((use.of(start, count) == Use.DIRTY).any())
        if dirty:
            self._runs.append((start, count))
        return int(dirty)

    def cleaned(self) -> int:
        """Let the flusher finish: all dirty cache becomes clean. Return the number of pages."""
        written = 0
        for _, _, use in self._uses:
            if use.total[Use.DIRTY]:
                use.use[use.use == Use.DIRTY] = Use.CACHE
                written += use.total[Use.DIRTY]
                use.total[Use.CACHE] += use.total[Use.DIRTY]
                use.total[Use.DIRTY] = 0
        return written

    def __len__(self) -> int:
        return len(self._runs)


def _first_run(use: PageUse, start: int, count: int, want: int, whole: int) -> Run:
    """Return the first run of clean cache in a run of pages, at most `want`; (-1, 0) if none."""
    if whole > 1:
        want = -(-(start + want) // whole) * whole - start
    look = min(count, want)
    clean = use.of(start, look) == Use.CACHE
    if clean.all():
        return start, look
    if not clean.any():
        if look == count:
            return -1, 0
        clean = use.of(start, count) == Use.CACHE
        if not clean.any():
            return -1, 0
    first = int(clean.argmax())
    length = int((~clean[first:]).argmax()) or len(clean) - first
    return start + first, min(length, want)
