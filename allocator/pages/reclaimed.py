"""Pages that reclaim has freed, on their way to the buddy lists (free_unref_page_list())."""

from collections import deque

from allocator.pages import migratetype as mt
from allocator.pages.runs import Run
from allocator.pages.zone import Zone

_EVEN = 64  # pages: runs are cut at multiples of this


class Held:
    """Pages that one CPU has reclaimed in one zone and still keeps on its own list.

    A full list hands its oldest pages over, so the newest are missing in the buddy lists and what
    was on it before is not: a pageblock is whole a little later (free_unref_page_commit()).

    Parameters
    ----------
    zone
        The zone.
    """

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._runs: deque[Run] = deque()
        self.pages = 0
        """Pages on the list."""
        pcp = zone.pcps[zone.cpus[0]]
        self._batch, self._high = pcp.batch, pcp.high
        self._drains_all = zone.policy.pcp != "batch6"
        self._active_limit = min(4 * self._batch, self._high) if self._drains_all else self._high

    def limit(self, *, active: bool) -> int:
        """Return how many pages it keeps at most; fewer while kswapd works on the zone (5.14)."""
        return self._active_limit if active else self._high

    def put(self, start: int, count: int) -> None:
        """Put pages on the list, however full it is."""
        self._runs.append((start, count))
        self.pages += count

    def pass_on(self, start: int, count: int, *, active: bool) -> None:
        """Free pages: they go on the list; when it is full the oldest go off it.

        A batch at a time until 5.13; later, frees in a row empty all but a batch.
        """
        self._runs.append((start, count))
        self.pages += count
        over = self.pages - (self._active_limit if active else self._high)
        if over >= 0:
            step = max(self._batch, 1)
            least = self.pages - self._batch if self._drains_all else step * (over // step + 1)
            self._let_go(max(0, min(least, self.pages)))

    def drain(self) -> None:
        """Hand all pages over."""
        self._let_go(self.pages)

    def _let_go(self, pages: int) -> None:
        while pages > 0:
            start, count = self._runs.popleft()
            if self._runs and self._runs[0][0] == start + count:
                self._runs[0] = (start, count + self._runs[0][1])
                continue
            gone = min(count, pages)
            pages -= gone
            if gone < count:  # where the cut is matters little: large blocks are cheap to free
                gone -= min((start + gone) % _EVEN, gone - 1)
                self._runs.appendleft((start + gone, count - gone))
            self.free_now(start, gone)
            self.pages -= gone

    def free_now(self, start: int, pages: int) -> None:
        """Put a run of pages on the buddy lists, as its largest blocks of one type."""
        buddy = self._zone.buddy
        if pages >> (buddy.max_order + 6):
            self._free_far(start, pages)
            return
        size, largest = 1 << buddy.pageblock_order, 1 << buddy.max_order
        while pages:
            block = min(start & -start or largest, largest)
            while block > pages:
                block >>= 1
            while block > size and not buddy.alike(start, block):
                block >>= 1
            buddy.free(start, block.bit_length() - 1, buddy.type_of(start))
            start += block
            pages -= block

    def _free_far(self, start: int, pages: int) -> None:
        """Free a long run: its largest blocks are one entry of the Movable list again.

        A kernel would leave the type of their pageblocks alone, and put the last one freed first.
        """
        buddy, stop = self._zone.buddy, start + pages
        size = 1 << buddy.max_order
        first, last = -(-start // size) * size, stop // size * size
        if start < first:
            self._zone.free_run(start, first - start, None)
        blocks = slice(*(((pfn - buddy.base) >> buddy.pageblock_order) for pfn in (first, last)))
        buddy.block_type[blocks] = mt.MOVABLE
        buddy.release(first, last)
        if last < stop:
            self._zone.free_run(last, stop - last, None)
