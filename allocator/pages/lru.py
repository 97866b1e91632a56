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


_Known = tuple[PageUse | None, int, int, int]
# uses, how often their pages had lost their use, and a range of pages that are all clean cache
_NONE_KNOWN: _Known = (None, 0, 0, 0)


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
        self._known = _NONE_KNOWN

    @property
    def pages(self) -> int:
        """Pages on the list, clean and dirty."""
        pages = 0
        for _, _, use in self._uses:
            total = use.total
            pages += total[_CACHE] + total[_DIRTY]
        return pages

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
        if whole == 1 and left > 0 and self._at_hand(left):
            start, count = self._runs[0]
            if count > left:
                self._runs[0] = (start + left, count - left)
            else:
                self._runs.popleft()
            self.uses_of(start).forget(start, left, _CACHE)
            yield start, left
            return
        rotated = 0
        while left > 0 and self._runs and rotated <= len(self._runs):
            start, count = self._runs.popleft()
            use = self.uses_of(start)
            here, length = self._first_run(use, start, count, left, whole)
            if here < 0:  # nothing of the run is clean cache: drop it, or rotate what is dirty
                rotated += self._rotate(use, start, count)
                continue
            rest = start + count - here - length
            if rest:
                self._runs.appendleft((here + length, rest))
            if here > start:
                rotated += self._rotate(use, start, here - start)
            use.forget(here, length, _CACHE)
            left -= length
            yield here, length

    def _at_hand(self, pages: int) -> bool:
        """Tell whether that many oldest pages are known to be one run of clean cache; take note."""
        use, losses, begin, end = self._known
        if use is None or losses != use.losses or not self._runs:
            return False
        start, count = self._runs[0]
        if count < pages or start < begin or start + pages > end:
            return False
        self._known = (use, losses, start + pages, end)
        return True

    def _first_run(self, use: PageUse, start: int, count: int, want: int, whole: int) -> Run:
        """Return the first clean cache of the oldest run, at most `want` pages; (-1, 0) if none.

        What is returned is taken. A long stretch is looked at once, and remembered.
        """
        if whole > 1:
            want = -(-(start + want) // whole) * whole - start
        look = min(count, want)
        ahead = min(count, _WINDOW << use.order)
        if use.all_are(start, ahead, _CACHE):
            self._known = (use, use.losses, start + look, start + ahead)
            return start, look
        self._known = _NONE_KNOWN
        here, length = use.first_run(start, look, _CACHE)
        if here < 0 and look < count:
            here, length = use.first_run(start, count, _CACHE)
        return here, min(length, want)

    def _rotate(self, use: PageUse, start: int, count: int) -> int:
        dirty = count > 0 and use.total[_DIRTY] > 0 and use.first_run(start, count, _DIRTY)[0] >= 0
        if dirty:
            self._runs.append((start, count))
        return int(dirty)

    def to_block_end(self) -> int:
        """Return how many pages there are from the oldest to the end of its pageblock."""
        if not self._runs:
            return 0
        start = self._runs[0][0]
        size = self.uses_of(start).size
        return size - start % size

    def wash(self) -> int:
        """Let the flusher finish: all dirty cache becomes clean. Return the number of pages."""
        return sum(use.wash() for _, _, use in self._uses)

    def __len__(self) -> int:
        return len(self._runs)
