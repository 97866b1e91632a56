"""The age of the used pages that reclaim may take.

A cache is held as runs of pages in the order in which they were allocated, because the order
decides what reclaim leaves behind: cache read in one go into free memory lies in physical order,
and reclaiming its oldest part frees whole pageblocks; cache read into the holes of other memory
never does (mm/vmscan.c isolate_lru_folios(), mm/swap.c folio_add_lru()).
"""

from collections import deque
from collections.abc import Iterator

from allocator.pages.runs import Run, Runs
from allocator.pages.uses import PageUse, Use

# looking a member up in its class is slow, and these are needed for every few pages
_CACHE, _DIRTY = Use.CACHE, Use.DIRTY
_WINDOW = 64  # pageblocks that are searched at once
_SERIES = 256  # more runs than these are kept as arrays until their turn comes
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
        # (-1 - number, length) stands for a series of runs, neither the oldest nor the youngest
        self._series: dict[int, Runs] = {}
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

    def add_runs(self, runs: Runs, use: Use = Use.CACHE) -> None:
        """Put runs in of one zone, none of which continues the one before it."""
        starts, lengths = runs
        if not len(starts):
            return
        self.uses_of(int(starts[0])).set_runs(runs, use)
        self.list(int(starts[0]), int(lengths[0]))
        if len(starts) <= _SERIES:
            self._runs.extend(zip(starts[1:].tolist(), lengths[1:].tolist(), strict=True))
            return
        number = max(self._series, default=-1) + 1
        self._series[number] = starts[1:-1], lengths[1:-1]
        self._runs.append((-1 - number, len(starts) - 2))
        self._runs.append((int(starts[-1]), int(lengths[-1])))

    def _pop(self) -> Run:
        """Take the oldest run off; a series whose turn it is falls apart."""
        run = self._runs.popleft()
        if self._runs and self._runs[0][0] < 0:
            entry, length = self._runs.popleft()
            starts, lengths = self._series.pop(-1 - entry)
            if length > _SERIES:
                self._series[-1 - entry] = starts[_SERIES:], lengths[_SERIES:]
                self._runs.appendleft((entry, length - _SERIES))
            near = zip(starts[:_SERIES].tolist(), lengths[:_SERIES].tolist(), strict=True)
            self._runs.extendleft(list(near)[::-1])
        return run

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
        if whole == 1 and left > 0 and (start := self.take_at_hand(left)) >= 0:
            yield start, left
            return
        rotated = 0
        while left > 0 and self._runs and (not rotated or rotated <= len(self)):
            start, count = self._pop()
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

    def take_at_hand(self, pages: int) -> int:
        """Take that many oldest pages if they are known to be one run of clean cache.

        Return the first of them, -1 if nothing was taken.
        """
        use, losses, begin, end = self._known
        if use is None or losses != use.losses or not self._runs or pages < 1:
            return -1
        start, count = self._runs[0]
        if count < pages or start < begin or start + pages > end:
            return -1
        self._known = (use, losses, start + pages, end)
        if count > pages:
            self._runs[0] = (start + pages, count - pages)
        else:
            self._pop()
        use.forget(start, pages, _CACHE)
        return start

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
        return len(self._runs) + sum(len(starts) - 1 for starts, _ in self._series.values())
