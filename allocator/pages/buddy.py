"""The buddy lists of one zone: splitting, merging and bulk movement of blocks.

mm/page_alloc.c __rmqueue_smallest(), expand(), __free_one_page(). Blocks are named by the page
frame number (pfn) of their first page. Nothing here knows of watermarks or per-CPU lists.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from allocator.pages import migratetype as mt
from allocator.pages.freelist import FreeList
from allocator.pages.merge import Merge
from allocator.pages.policy import PagePolicy
from allocator.pages.runs import Pfns, Runs, aligned_blocks, join_runs

_FEW = 16
"""Fewer blocks than this are freed one by one: cheaper than arrays."""


def _nothing() -> None:
    """Take note of nothing."""


def _no_movable(start: int, stop: int) -> int:
    """Count no movable page in use."""
    return 0


class Buddy:
    """Free blocks of a zone in the kernel's list order.

    Parameters
    ----------
    policy
        Which kernel's rules hold.
    start, end
        Page frame numbers that the zone spans.
    max_order
        Order of the largest blocks.
    pageblock_order
        Order of a pageblock, the unit that has a migrate type.
    """

    def __init__(
        self,
        policy: PagePolicy,
        *,
        start: int,
        end: int,
        max_order: int = 10,
        pageblock_order: int = 9,
    ) -> None:
        if not 0 <= start < end or not 0 <= pageblock_order <= max_order:
            raise ValueError(
                f"zone of pages {start}..{end}, pageblock order {pageblock_order} of {max_order}: "
                "expected 0 <= start < end and pageblock order <= max order"
            )
        self.policy = policy
        self.start = start
        self.end = end
        self.max_order = max_order
        self.pageblock_order = pageblock_order
        self.base = start >> max_order << max_order
        pages = (-(-end >> max_order) << max_order) - self.base
        # np.zeros() takes untouched memory: a page that nobody freed costs nothing
        self.order_of: NDArray[np.int8] = np.zeros(pages, dtype=np.int8)
        """(page,) 1 + order of the free block that begins here, 0 if none does or it is
        untouched."""
        self.list_of: NDArray[np.int8] = np.zeros(pages, dtype=np.int8)
        """(page,) type of the list that the free block is on."""
        self._where: NDArray[np.int32] = np.zeros(pages, dtype=np.int32)
        self._untouched: NDArray[np.bool_] = np.zeros(pages >> max_order, dtype=np.bool_)
        self.block_type: NDArray[np.int8] = np.full(
            pages >> pageblock_order, mt.MOVABLE, dtype=np.int8
        )
        """(pageblock,) migrate type; the first entry is the pageblock of `base`."""
        # one entry at a time is read and written much faster through memoryviews than in arrays
        self._orders = memoryview(self.order_of)  # type: ignore[arg-type]
        self._types = memoryview(self.list_of)  # type: ignore[arg-type]
        self._kinds = memoryview(self.block_type)  # type: ignore[arg-type]
        self._fresh = memoryview(self._untouched)  # type: ignore[arg-type]
        self.lists: list[list[FreeList]] = [
            [FreeList(self._where, self.base) for _ in range(mt.NR_LISTS)]
            for _ in range(max_order + 1)
        ]
        """Free lists by order and type."""
        self.groups = True
        """Pages are grouped by mobility; machines of a few pageblocks do not."""
        self.free_pages = 0
        """Pages on the lists (exact; the counter that watermarks read may lag)."""
        self.on_boost: Callable[[], None] = _nothing
        """Called when a fallback takes less than a pageblock (boost_watermark())."""
        self.movable_in_use: Callable[[int, int], int] = _no_movable
        """Counts the used pages of a pfn range that are on an LRU or movable by a driver."""

    # What is where

    @property
    def nr_free(self) -> NDArray[np.int64]:
        """(order, type) int64: free blocks."""
        return np.array([[len(one) for one in row] for row in self.lists], dtype=np.int64)

    def type_of(self, pfn: int) -> int:
        """Return the migrate type of a page's pageblock."""
        return self._kinds[(pfn - self.base) >> self.pageblock_order]

    def types_of(self, pfns: Pfns) -> NDArray[np.int8]:
        """Return the migrate type of each page's pageblock."""
        types: NDArray[np.int8] = self.block_type[(pfns - self.base) >> self.pageblock_order]
        return types

    def alike(self, pfn: int, pages: int) -> bool:
        """Tell whether the pageblocks of a block all have one migrate type."""
        first = (pfn - self.base) >> self.pageblock_order
        kinds = self._kinds[first : first + (pages >> self.pageblock_order)].tobytes()
        return kinds.count(kinds[:1]) == len(kinds)

    def set_type(self, pfn: int, order: int, migratetype: int) -> None:
        """Retag the pageblocks of a block of at least pageblock order."""
        first = (pfn - self.base) >> self.pageblock_order
        self.block_type[first : first + (1 << max(0, order - self.pageblock_order))] = migratetype

    def free_order(self, pfn: int) -> int:
        """Return the order of the free block that begins at a page, -1 if none does."""
        at = pfn - self.base
        if not 0 <= at < len(self._orders):
            return -1
        if self._fresh[at >> self.max_order] and at & ((1 << self.max_order) - 1) == 0:
            return self.max_order
        return self._orders[at] - 1

    def free_blocks_in(self, start: int, stop: int) -> tuple[Pfns, NDArray[np.int64]]:
        """Return first pages and orders of the free blocks that begin in a pfn range, ascending."""
        first, last = max(start, self.start) - self.base, min(stop, self.end) - self.base
        window = self.order_of[max(first, 0) : max(last, 0)]
        at = np.flatnonzero(window)
        pfns, orders = at + first + self.base, window[at].astype(np.int64) - 1
        size = 1 << self.max_order
        tops = np.arange(-(-first // size), -(-last // size))
        tops = tops[self._untouched[tops]] if len(tops) else tops
        if len(tops):
            pfns = np.concatenate([pfns, tops * size + self.base])
            orders = np.concatenate([orders, np.full(len(tops), self.max_order)])
            rank = np.argsort(pfns, kind="stable")
            pfns, orders = pfns[rank], orders[rank]
        return pfns, orders

    # Boot

    def release(self, start: int, stop: int) -> None:
        """Give a range of memory to the lists for the first time (memblock_free_all()).

        Whole top-order blocks are one entry of the list until somebody takes them, so their number
        costs nothing.
        """
        size = 1 << self.max_order
        first, last = -(-start // size) * size, stop // size * size
        tail = self.policy.boot_release == "tail"
        if first >= last:
            self._release_edge(start, stop, tail=tail)
            return
        self._release_edge(start, first, tail=tail)
        whole = range(first, last, size)
        top = self.lists[self.max_order][mt.MOVABLE]
        if tail:
            top.push_run(whole)
        else:  # each at the head: the last one is first
            older = top.pops(len(top))
            top.push_run(whole[::-1])
            top.push_tails(older)
            self._untouched[(older - self.base) >> self.max_order] = False
            self.mark(older, self.max_order, mt.MOVABLE)
        self._untouched[
            (first - self.base) >> self.max_order : (last - self.base) >> self.max_order
        ] = True
        self.free_pages += last - first
        self._release_edge(last, stop, tail=tail)

    def _release_edge(self, start: int, stop: int, *, tail: bool) -> None:
        pfns, orders = aligned_blocks(start, stop, self.max_order)
        for pfn, order in zip(pfns.tolist(), orders.tolist(), strict=True):
            self.free(pfn, order, self.type_of(pfn), to_tail=tail)

    # Taking

    def take_block(self, order: int, migratetype: int) -> int:
        """Take one block off a type's own lists, the smallest that suffices; -1 if there is none.

        The lowest pages are handed out, the upper halves go back to the head of their lists.
        """
        for have in range(order, self.max_order + 1):
            found = self.lists[have][migratetype]
            if found.live:
                pfn = found.pop()
                self._unmark(pfn)
                self.free_pages -= 1 << have
                self._put_back(pfn + (1 << order), pfn + (1 << have), migratetype)
                return pfn
        return -1

    def take_runs(self, count: int, order: int, migratetype: int) -> Runs:
        """Take up to `count` blocks of one order off a type's own lists, as series of them would.

        Smallest sufficient orders go first, each list from its head, each block from its low end.

        Returns
        -------
        tuple
            (run,) first page and (run,) blocks of each run, in the order of taking.
        """
        parts: list[Runs] = []
        for have in range(order, self.max_order + 1):
            if count <= 0:
                break
            if self.lists[have][migratetype].live:
                parts.append(self.take_level(have, count, order, migratetype))
                count -= int(parts[-1][1].sum())
        return join_runs(parts)

    def take_level(self, have: int, count: int, order: int, migratetype: int) -> Runs:
        """Take up to `count` blocks of one order out of blocks of order `have` only.

        Smaller lists of the type must be empty, as they are when it is their turn.
        """
        each = 1 << (have - order)
        found = self.lists[have][migratetype]
        if count <= each or found.live == 1:
            return self._take_from_one(found.pop(), have, min(count, each), order, migratetype)
        pfns = found.pops(-(-count // each))
        self._unmarks(pfns)
        self.free_pages -= len(pfns) << have
        sizes = np.full(len(pfns), each, dtype=np.int64)
        over = len(pfns) * each - count
        if over > 0:  # the last block is not used up
            sizes[-1] -= over
            last = int(pfns[-1])
            self._put_back(last + (int(sizes[-1]) << order), last + (1 << have), migratetype)
        return pfns, sizes

    def _take_from_one(self, pfn: int, have: int, count: int, order: int, migratetype: int) -> Runs:
        """Take the low end of one block that left its list; put the rest back."""
        self._unmark(pfn)
        self.free_pages -= 1 << have
        self._put_back(pfn + (count << order), pfn + (1 << have), migratetype)
        return np.array([pfn]), np.array([count])

    def remove(self, pfn: int, order: int) -> None:
        """Take a given free block out of its list (isolation, claiming)."""
        at = pfn - self.base
        if self._fresh[at >> self.max_order]:
            for found in self.lists[self.max_order]:
                if found.runs and any(pfn in part for parts in found.runs for part in parts):
                    found.remove_untouched(pfn)
            self._fresh[at >> self.max_order] = False
        else:
            self.lists[order][self._types[at]].remove(pfn)
            self._orders[at] = 0
        self.free_pages -= 1 << order

    def put(self, pfn: int, order: int, migratetype: int, *, tail: bool = False) -> None:
        """Put a block on a list without looking for its buddy."""
        at = pfn - self.base
        self._orders[at] = order + 1
        self._types[at] = migratetype
        found = self.lists[order][migratetype]
        if tail:
            found.push_tail(pfn)
        else:
            found.push_head(pfn)
        self.free_pages += 1 << order

    def _put_back(self, start: int, stop: int, migratetype: int) -> None:
        """Put the unused end of a split block back, each part at the head of its list."""
        while start < stop:
            order = (start & -start).bit_length() - 1
            self.put(start, order, migratetype)
            start += 1 << order

    # Freeing

    def free(self, pfn: int, order: int, migratetype: int, *, to_tail: bool = False) -> None:
        """Free one block: merge it with free buddies, and put the result on a list.

        Parameters
        ----------
        pfn, order
            The block.
        migratetype
            List it goes to; recent kernels retag what merges with it from pageblock order on.
        to_tail
            Put the result at the tail whatever may merge later (FPI_TO_TAIL).
        """
        orders, top = self._orders, self.max_order
        at = pfn - self.base  # the base is a multiple of the largest block: buddies stay buddies
        while order < top:
            mate = at ^ (1 << order)
            if orders[mate] != order + 1:
                break
            if order >= self.pageblock_order:
                if not self._may_merge(mate + self.base, migratetype):
                    break
                if self.policy.list_type == "pageblock":
                    self.set_type(mate + self.base, order, migratetype)
            self.lists[order][self._types[mate]].remove(mate + self.base)
            orders[mate] = 0
            self.free_pages -= 1 << order
            at &= ~(1 << order)
            order += 1
        # buddy_merge_likely()
        likely = order < top - 1 and orders[at & ~(1 << order) ^ (2 << order)] == order + 2
        orders[at] = order + 1
        self._types[at] = migratetype
        if to_tail or likely:
            self.lists[order][migratetype].push_tail(at + self.base)
        else:
            self.lists[order][migratetype].push_head(at + self.base)
        self.free_pages += 1 << order

    def _may_merge(self, buddy: int, migratetype: int) -> bool:
        other = self.type_of(buddy)
        barrier = self.barriers
        return other == migratetype or (other not in barrier and migratetype not in barrier)

    @property
    def barriers(self) -> tuple[int, ...]:
        """Types that blocks of another type do not merge with, from pageblock order on."""
        if self.policy.unmergeable == "isolate":
            return (mt.ISOLATE,)
        return (mt.HIGHATOMIC, mt.ISOLATE)

    def free_many(self, pfns: Pfns, orders: NDArray[np.int64], types: NDArray[np.int8]) -> None:
        """Free blocks one after the other, with arrays.

        Parameters
        ----------
        pfns, orders, types
            (block,) the blocks in the order of freeing, and the list type of each.
        """
        if len(pfns) < _FEW:
            rows = zip(pfns.tolist(), orders.tolist(), types.tolist(), strict=True)
            for pfn, order, migratetype in rows:
                self.free(pfn, order, migratetype)
            return
        Merge(self, pfns, orders, types).run()

    def free_run(self, pfn: int, pages: int, migratetype: int | None = None) -> None:
        """Free consecutive pages, one by one from low to high.

        Parameters
        ----------
        pfn, pages
            First page, and how many.
        migratetype
            List type, or none: that of each page's pageblock.
        """
        own = migratetype is None or self.policy.list_type == "pageblock"
        cut = self.pageblock_order if own else self.max_order
        pfns, orders = aligned_blocks(pfn, pfn + pages, cut)
        if migratetype is None:
            types = self.types_of(pfns)
        else:
            types = np.full(len(pfns), migratetype, dtype=np.int8)
        self.free_many(pfns, orders, types)

    # Bookkeeping

    def _unmark(self, pfn: int) -> None:
        at = pfn - self.base
        self._orders[at] = 0
        self._fresh[at >> self.max_order] = False

    def _unmarks(self, pfns: Pfns) -> None:
        at = pfns - self.base
        tops = at >> self.max_order
        fresh = self._untouched[tops]
        self.order_of[at[~fresh]] = 0  # an untouched block has no mark to take away
        self._untouched[tops] = False

    def mark(self, pfns: Pfns, order: int, migratetype: int) -> None:
        """Note that free blocks begin at these pages; they are not put on the list."""
        at = pfns - self.base
        self.order_of[at] = order + 1
        self.list_of[at] = migratetype
