"""Compaction: when it is put off, and what a run over a zone does.

mm/compaction.c. A run works on pageblocks: what can be moved of a block goes into the free pages of
Movable blocks above it, and if all could, the block is captured by the request. The time of a run
is counted in pages scanned and moved only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.pages import migratetype as mt
from allocator.pages.buddy import Buddy
from allocator.pages.lru import Lru
from allocator.pages.policy import PagePolicy
from allocator.pages.uses import MOVABLE_USES, PageUse, Use

MAX_SHIFT = 6
"""Largest number of doublings of the pause after failures (COMPACT_MAX_DEFER_SHIFT)."""


@dataclass(slots=True)
class Deferral:
    """How often a zone is passed over after fruitless runs (defer_compaction())."""

    order_failed: int = 0
    """Lowest order that failed."""
    shift: int = 0
    """Requests between two tries, as a power of two."""
    considered: int = 0
    """Requests since the last failure."""

    def deferred(self, order: int) -> bool:
        """Count a request, and tell whether it is passed over (compaction_deferred())."""
        if order < self.order_failed:
            return False
        limit = 1 << self.shift
        self.considered += 1
        if self.considered >= limit:
            self.considered = limit
            return False
        return True

    def failed(self, order: int) -> None:
        """Double the pause after a run that went through in vain."""
        self.considered = 0
        self.shift = min(self.shift + 1, MAX_SHIFT)
        self.order_failed = min(self.order_failed, order)

    def succeeded(self, order: int, *, allocated: bool) -> None:
        """Trust a zone again (compaction_defer_reset())."""
        if allocated:
            self.considered = self.shift = 0
        self.order_failed = max(self.order_failed, order + 1)


@dataclass(slots=True)
class Outcome:
    """What one run over a zone did."""

    block: int
    """First page of the emptied block, now used by nobody and on no list; -1: none."""
    there: bool
    """A block was free on the request's own list, so nothing was done (compact_finished())."""
    whole: bool
    """The scanners met after beginning at the ends of the zone."""
    scanned: int
    """Pages that the migration scanner looked at."""
    free_scanned: int
    """Pages that the free scanner looked at."""
    migrated: int
    """Pages moved."""


class Compactor:
    """The two scanners of one zone.

    Parameters
    ----------
    policy
        The kernel.
    buddy, use
        Lists of the zone, and what its other pages are used for.
    lru
        Lists of the zone's node: a moved page becomes the youngest.
    """

    def __init__(self, policy: PagePolicy, buddy: Buddy, use: PageUse, lru: Lru) -> None:
        self.policy = policy
        self.buddy = buddy
        self.use = use
        self.lru = lru
        self.defer = Deferral()
        self.skip: NDArray[np.bool_] = np.zeros(len(buddy.block_type), dtype=np.bool_)
        """(pageblock,) not to be looked at again: emptied in vain, or searched for free pages."""
        self.cached = 0
        """Pageblock at which the next migration scanner begins."""
        self.cached_free = len(buddy.block_type)
        """Pageblock below which the next free scanner begins."""
        self.flush_due = False
        """The scanners have met in a request's run: kswapd clears the skip bits when it sleeps."""

    def run(self, order: int, *, sync: bool, movable: bool, least: int) -> Outcome:
        """Empty one pageblock for a request of pageblock order.

        Parameters
        ----------
        order
            Order wanted; smaller orders than a pageblock are served by emptying one too.
        sync
            False: the first, light try, which only looks at blocks of the request's own type.
        movable
            The request is movable.
        least
            Free pages that taking targets must leave (__isolate_free_page()).
        """
        kind = mt.MOVABLE if movable else mt.UNMOVABLE
        if any(row[kind].live for row in self.buddy.lists[order:]):
            return Outcome(-1, True, False, 0, 0, 0)
        began = self.cached == 0 and self.cached_free == len(self.skip)
        size, scanned, looked, moved = self.use.size, 0, 0, 0
        for block in self._sources(sync=sync, movable=movable).tolist():
            room = self._room(least)
            if room <= 0 or block >= self.cached_free:
                break
            scanned += size
            need, own = int(self.use.movable[block]), self._free_in(block)
            clean = need + own == size
            if not clean and not sync:  # one page that cannot move spoils a block
                self.skip[block] = True
                continue
            room -= own if self.buddy.block_type[block] == mt.MOVABLE else 0
            done, seen = self._move(block, min(need, room))
            looked += seen
            moved += done
            if clean and done == need:
                self.cached = block + 1
                return Outcome(self._take(block), False, False, scanned, looked, moved)
            self.skip[block] = True
            if not done and need:
                break  # the free scanner has come down to here
        self.cached, self.cached_free, self.flush_due = 0, len(self.skip), True
        return Outcome(-1, False, began, scanned, looked, moved)

    def rested(self) -> None:
        """Take note that kswapd goes to sleep (reset_isolation_suitable())."""
        if self.flush_due:
            self.skip[:] = False
            self.flush_due = False

    def _sources(self, *, sync: bool, movable: bool) -> NDArray[np.int64]:
        """Pageblocks to try: partly free ones of the lower half first, then ascending."""
        types = self.buddy.block_type
        fit = (self.use.movable > 0) & ~self.skip
        if not sync:
            fit &= types == (mt.MOVABLE if movable else mt.UNMOVABLE)
        fit[: self.cached] = False
        found = np.flatnonzero(fit)
        half = (self.cached + len(types)) // 2
        partly = self.use.movable[found] < self.use.size
        return np.concatenate([found[partly & (found < half)], found[~partly | (found >= half)]])

    def _room(self, least: int) -> int:
        """Free pages in Movable blocks that may be filled."""
        small = sum(
            len(self.buddy.lists[order][mt.MOVABLE]) << order for order in range(self.use.order)
        )
        return max(0, min(small, self.buddy.free_pages - least))

    def _free_in(self, block: int) -> int:
        size = self.use.size
        start = self.use.base + block * size
        pfns, orders = self.buddy.free_blocks_in(start, start + size)
        return int((1 << orders).sum()) if len(pfns) else 0

    def _move(self, block: int, need: int) -> tuple[int, int]:
        """Move used pages of a block, from its low end, into free pages above it.

        Returns
        -------
        tuple
            Pages moved, and pages that the free scanner looked at.
        """
        if need <= 0:
            return 0, 0
        start = self.use.base + block * self.use.size
        targets, looked = self._targets(start, need)
        uses = self.use.of(start, self.use.size)
        pages = np.flatnonzero(np.isin(uses, MOVABLE_USES))[: len(targets)]
        old, of = start + pages, uses[pages]
        for use in MOVABLE_USES:
            self._relocate(old[of == use], np.sort(targets[of == use]), use)
        for first, count in as_runs(old):
            self.buddy.free_run(first, count, None)
        return len(old), looked

    def _targets(self, source: int, need: int) -> tuple[NDArray[np.int64], int]:
        """Take free pages of Movable blocks off the lists, from the top of the zone down."""
        size = self.use.size
        taken: list[NDArray[np.int64]] = []
        looked = 0
        fit = (self.buddy.block_type == mt.MOVABLE) & ~self.skip
        for block in np.flatnonzero(fit[: self.cached_free])[::-1].tolist():
            start = self.use.base + block * size
            if need <= 0 or start <= source:
                break
            self.cached_free = block
            pfns, orders = self.buddy.free_blocks_in(start, start + size)
            small = orders < self.use.order
            looked += size
            for pfn, order in zip(pfns[small].tolist(), orders[small].tolist(), strict=True):
                if need <= 0:
                    break
                self.buddy.remove(pfn, order)
                pages = np.arange(pfn, pfn + (1 << order))
                for over in pages[need:].tolist():
                    self.buddy.free(over, 0, self.buddy.type_of(over))
                taken.append(pages[:need])
                need -= len(pages)
            self.skip[block] |= need > 0  # searched from end to end
        return np.concatenate(taken) if taken else np.empty(0, dtype=np.int64), looked

    def _relocate(self, pages: NDArray[np.int64], place: NDArray[np.int64], use: Use) -> None:
        for start, count in as_runs(pages):
            self.use.clear(start, count, use)
        for start, count in as_runs(place):
            self.use.set(start, count, use)
            if use is not Use.ANON:
                self.lru.list(start, count)

    def _take(self, block: int) -> int:
        """Take what is free in an emptied block off the lists: the block is captured."""
        size = self.use.size
        start = self.use.base + block * size
        pfns, orders = self.buddy.free_blocks_in(start, start + size)
        for pfn, order in zip(pfns.tolist(), orders.tolist(), strict=True):
            self.buddy.remove(pfn, order)
        return start

    def whole_zone(self) -> int:
        """Compact everything, as writing vm.compact_memory does; return the pages moved.

        Used pages from the bottom change places with free pages of Movable blocks from the top
        until the two scanners meet.
        """
        movable = self._movable_pages()
        free = self._free_movable_pages()
        pairs = min(len(movable), len(free))
        goes = movable[:pairs] < free[:pairs]
        count = int(goes.argmin()) if not goes.all() else pairs
        if not count:
            return 0
        old, new = movable[:count], free[:count]
        for pfn in np.sort(new).tolist():
            self._take_page(pfn)
        uses = np.concatenate([self.use.of(start, pages) for start, pages in as_runs(old)])
        for use in (Use.CACHE, Use.DIRTY, Use.ANON):
            of = uses == use
            self._relocate(old[of], np.sort(new[of]), use)
        for start, pages in as_runs(old):
            self.buddy.free_run(start, pages, None)
        self.skip[:] = False
        self.cached, self.cached_free = 0, len(self.skip)
        return count

    def _movable_pages(self) -> NDArray[np.int64]:
        size = self.use.size
        parts = [
            np.flatnonzero(np.isin(self.use.of(start, size), MOVABLE_USES)) + start
            for start in (np.flatnonzero(self.use.movable) * size + self.use.base).tolist()
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def _free_movable_pages(self) -> NDArray[np.int64]:
        """Free pages of partly free Movable blocks, descending."""
        parts = []
        for order in range(self.use.order):
            pfns = self.buddy.lists[order][mt.MOVABLE].blocks()
            if len(pfns):
                parts.append((pfns[:, None] + np.arange(1 << order)).ravel())
        return np.sort(np.concatenate(parts))[::-1] if parts else np.empty(0, dtype=np.int64)

    def _take_page(self, pfn: int) -> None:
        """Take one page out of the free block that holds it; the rest goes back."""
        for order in range(self.buddy.max_order + 1):
            head = pfn & ~((1 << order) - 1)
            if self.buddy.free_order(head) == order:
                kind = int(self.buddy.list_of[head - self.buddy.base])
                self.buddy.remove(head, order)
                for rest in range(order):
                    half = (pfn ^ (1 << rest)) & ~((1 << rest) - 1)
                    self.buddy.put(half, rest, kind)
                return
        raise LookupError(f"page {pfn} is not free")


def as_runs(pages: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ascending page numbers as (first page, number of pages) of each run."""
    if not len(pages):
        return []
    cut = np.flatnonzero(np.diff(pages) != 1) + 1
    return [(int(part[0]), len(part)) for part in np.split(pages, cut)]
