"""One populated zone of one machine: its lists, marks and counters (struct zone)."""

from collections.abc import Callable, Sequence

import numpy as np

from allocator.pages import migratetype as mt
from allocator.pages.buddy import Buddy
from allocator.pages.fallback import alloc_block, alloc_blocks, move_pageblock, pageblock
from allocator.pages.pcp import PageList, Pcp, nr_lists
from allocator.pages.pcp_rules import RULES, ZoneState
from allocator.pages.policy import PagePolicy
from allocator.pages.runs import Runs
from allocator.pages.zones import DEFAULT_BOOST_FACTOR, ZoneMarks

ZONE_NAMES = ("DMA", "DMA32", "Normal", "Movable")
"""Zones by the number that `allocator.gfp.highest_zone()` returns."""


class Zone:
    """A zone with all that changes in it.

    Parameters
    ----------
    policy
        The kernel's page allocator.
    marks
        Node, name, watermarks, protection and per-CPU list sizes.
    managed
        Pages that were ever given to the lists.
    start, end
        Page frame numbers that it spans.
    cpus
        Online CPUs of the machine.
    types
        Zone types of the machine in rising order, which `marks.protection` follows.
    present
        Pages of memory; None: as `managed`.
    max_order, pageblock_order
        Of the machine.
    large_slice
        Each CPU's share of its largest data cache exceeds three batches.
    """

    def __init__(
        self,
        policy: PagePolicy,
        marks: ZoneMarks,
        *,
        managed: int,
        start: int,
        end: int,
        cpus: Sequence[int],
        types: Sequence[str] = ZONE_NAMES,
        present: int | None = None,
        max_order: int = 10,
        pageblock_order: int = 9,
        large_slice: bool = True,
    ) -> None:
        self.policy = policy
        self.node = marks.node
        self.name = marks.zone
        self.index = ZONE_NAMES.index(marks.zone)
        """Place among `ZONE_NAMES`."""
        self.managed = managed
        self.present = managed if present is None else present
        self.cpus = tuple(cpus)
        self.types = tuple(types)
        self.boost = 0
        """Pages added to each mark for now (watermark_boost)."""
        self.boost_factor = DEFAULT_BOOST_FACTOR
        """vm.watermark_boost_factor."""
        self.boosted = False
        """The next allocation wakes kswapd (ZONE_BOOSTED_WATERMARK)."""
        self.highatomic = 0
        """Pages of blocks reserved as Highatomic (nr_reserved_highatomic)."""
        self.below_high = False
        """Free pages were seen below the high mark (ZONE_BELOW_HIGH)."""
        self.reclaim_active = False
        """kswapd works on the zone (ZONE_RECLAIM_ACTIVE)."""
        self.buddy = Buddy(
            policy, start=start, end=end, max_order=max_order, pageblock_order=pageblock_order
        )
        self.buddy.on_boost = self._boost
        self.pcp_rules = RULES[policy.pcp]
        self.pcps = {cpu: self._empty_pcp(marks, large_slice) for cpu in self.cpus}
        """Lists of each CPU."""
        self.pending = dict.fromkeys(self.cpus, 0)
        """Change of the free count that each CPU keeps to itself."""
        self.in_flight = 0
        """Pages counted as free that are about to be put on the lists."""
        self.lock_takes = 0
        """Holds of the zone lock."""
        self.lock_pages = 0
        """Pages moved under the zone lock."""
        self.on_lock: Callable[[int, int, int], None] | None = None
        """Called with the CPU, how many holds, and the pages moved under them."""
        self._wakes = True
        self.set_marks(marks)

    def _empty_pcp(self, marks: ZoneMarks, large_slice: bool) -> Pcp:
        return Pcp(
            batch=marks.pcp_batch,
            high_min=marks.pcp_high_min,
            high_max=marks.pcp_high_max,
            large_slice=large_slice,
            lists=[PageList() for _ in range(nr_lists(self.policy))],
        )

    # Marks

    def set_marks(self, marks: ZoneMarks) -> None:
        """Take over recomputed marks; the limits in use of tuned per-CPU lists stay."""
        self.marks = {"min": marks.min, "low": marks.low, "high": marks.high, "promo": marks.promo}
        """Marks without boost."""
        self.reserve = self._reserves(marks.protection)
        """Pages held back from requests, by the index of their highest zone."""
        self.stat_threshold = marks.stat_threshold
        for pcp in self.pcps.values():
            pcp.batch, pcp.high_min, pcp.high_max = (
                marks.pcp_batch,
                marks.pcp_high_min,
                marks.pcp_high_max,
            )
            if not self.policy.pcp.startswith("tuned"):
                pcp.high = marks.pcp_high_min

    def _reserves(self, protection: Sequence[int]) -> tuple[int, ...]:
        by_type = dict(zip(self.types, protection, strict=False))
        return tuple(by_type.get(name, 0) for name in ZONE_NAMES)

    def mark(self, which: str) -> int:
        """Return a mark (`min`, `low`, `high`, `promo`) with the boost."""
        return self.marks[which] + self.boost

    def _boost(self) -> None:
        """Raise the marks after a fallback below pageblock size (boost_watermark())."""
        block = 1 << self.buddy.pageblock_order
        if self.policy.boost == "none" or not self.boost_factor:
            return
        if self.policy.boost == "large_zones" and self.managed < 4 * block:
            return
        most = self.marks["high"] * self.boost_factor // 10000
        if most:
            self.boost = min(self.boost + block, max(most, block))
            self.boosted = self.boosted or self._wakes

    def state(self) -> ZoneState:
        """Return what per-CPU lists need to know."""
        return ZoneState(below_high=self.below_high, reclaim_active=self.reclaim_active)

    # The counter that watermarks read

    @property
    def free(self) -> int:
        """Free pages as NR_FREE_PAGES tells them: it lags by what CPUs keep to themselves."""
        return self.buddy.free_pages + self.in_flight - sum(self.pending.values())

    def count(self, cpu: int, pages: int, times: int = 1) -> None:
        """Tell the counter of a CPU of equal changes (__mod_zone_page_state())."""
        kept, limit = self.pending[cpu], self.stat_threshold
        if times > 4:  # all but the last few changes fold at a regular pace
            if abs(pages) > limit:
                kept, times = 0, 0
            else:
                pace = limit // abs(pages) + 1
                first = (limit - kept if pages > 0 else limit + kept) // abs(pages) + 1
                if times >= first:
                    kept, times = 0, (times - first) % pace
        for _ in range(times):
            kept += pages
            if abs(kept) > limit:
                kept = 0
        self.pending[cpu] = kept

    def fold(self) -> None:
        """Fold what all CPUs keep to themselves (vmstat refresh)."""
        self.pending = dict.fromkeys(self.cpus, 0)

    def locked(self, cpu: int, holds: int, pages: int) -> None:
        """Note holds of the zone lock."""
        self.lock_takes += holds
        self.lock_pages += pages
        if self.on_lock is not None:
            self.on_lock(cpu, holds, pages)

    # Straight to the lists: no marks, no per-CPU lists

    def alloc_block(self, order: int, migratetype: int) -> int:
        """Take one block whatever the marks; return its first page, -1 if there is none."""
        return alloc_block(self.buddy, order, migratetype)

    def alloc_run(self, pages: int, migratetype: int) -> Runs:
        """Take up to `pages` pages whatever the marks, as a series of order 0 would."""
        return alloc_blocks(self.buddy, pages, 0, migratetype)

    def free_run(self, pfn: int, pages: int, migratetype: int | None = None) -> None:
        """Free consecutive pages straight to the lists."""
        self.buddy.free_run(pfn, pages, migratetype)

    def wakes_kswapd(self, allowed: bool) -> None:
        """Say whether a boost that happens now may wake kswapd."""
        self._wakes = allowed

    # Highatomic blocks

    def reserve_highatomic(self, cpu: int, pfn: int, order: int) -> None:
        """Turn the pageblock of a page given to an atomic request (reserve_highatomic_pageblock()).

        Nothing happens at the limit.
        """
        block = 1 << self.buddy.pageblock_order
        limit = self.managed // 100 + block
        if self.policy.highatomic_free_only:
            share = self.managed // 100
            limit = -(-share // block) * block if share >= block else 0
        if self.highatomic >= limit or self.buddy.type_of(pfn) in (mt.HIGHATOMIC, mt.ISOLATE):
            return
        self.locked(cpu, 1, 0)
        if self.policy.highatomic_free_only and order >= self.buddy.pageblock_order:
            self.buddy.set_type(pfn, order, mt.HIGHATOMIC)
            self.highatomic += 1 << order
            return
        start, stop = pageblock(self.buddy, pfn)
        self.highatomic += block
        self.buddy.set_type(pfn, 0, mt.HIGHATOMIC)
        move_pageblock(self.buddy, start, stop, mt.HIGHATOMIC)

    def unreserve_highatomic(self, cpu: int, migratetype: int, *, force: bool) -> bool:
        """Give a reserved block to a type (unreserve_highatomic_pageblock()).

        Parameters
        ----------
        cpu
            CPU that asks.
        migratetype
            Type of the request in need.
        force
            Take the last block too.

        Returns
        -------
        Whether free pages were moved.
        """
        block = 1 << self.buddy.pageblock_order
        if not self.highatomic or (not force and self.highatomic <= block):
            return False
        for row in self.buddy.lists:
            pfn = row[mt.HIGHATOMIC].head()
            if pfn < 0:
                continue
            self.locked(cpu, 1, 0)
            if self.buddy.type_of(pfn) == mt.HIGHATOMIC:
                self.highatomic -= min(block, self.highatomic)
            self.buddy.set_type(pfn, 0, migratetype)
            if move_pageblock(self.buddy, *pageblock(self.buddy, pfn), migratetype):
                return True
        return False

    def pcp_pages(self) -> int:
        """Return the pages on all per-CPU lists."""
        return sum(pcp.count for pcp in self.pcps.values())

    def buddyinfo(self) -> list[int]:
        """Return the free blocks of each order, as /proc/buddyinfo."""
        return [int(np.sum(row)) for row in self.buddy.nr_free]
