"""Blocks out of a zone, by way of the per-CPU lists.

mm/page_alloc.c rmqueue(), rmqueue_pcplist(), rmqueue_buddy(). A series of equal requests is one
call; it ends as the same requests one by one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from allocator import gfp as flags
from allocator.pages import migratetype as mt
from allocator.pages.fallback import alloc_block, alloc_blocks
from allocator.pages.marks import has_block
from allocator.pages.pcp import (
    PageList,
    Pcp,
    is_pcp_order,
    list_number,
)
from allocator.pages.runs import Pfns, expand
from allocator.pages.zone import Zone

_FEW = 16
"""Fewer blocks than this are put on the lists one by one: cheaper than arrays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Equal requests of one CPU."""

    cpu: int
    """CPU that asks."""
    order: int
    """Order of each block."""
    migratetype: int
    """Type of each block."""
    rights: int
    """`RIGHT_` bits of `allocator.gfp`."""
    nofragment: bool = False
    """Other types' blocks below pageblock size are left alone (ALLOC_NOFRAGMENT)."""


def rmqueue(
    zone: Zone, series: Series, count: int, passes: Callable[[], bool], floor: Callable[[], int]
) -> tuple[Pfns, bool]:
    """Take up to `count` blocks, as long as the zone passes its test before each.

    Parameters
    ----------
    zone
        The zone; it has passed the test for the first block.
    series
        The requests.
    count
        How many.
    passes
        The test, to be asked again when the zone has changed.
    floor
        Returns a count of pages: while more are free the answer is yes, no need to ask.

    Returns
    -------
    tuple
        (block,) first pages in the order of taking, and whether the request after them was tried
        and found nothing.
    """
    zone.wakes_kswapd(bool(series.rights & flags.RIGHT_KSWAPD))
    taking = _Taking(zone, series, passes, floor)
    if is_pcp_order(zone.policy, series.order, zone.buddy.pageblock_order):
        while taking.got < count and taking.may_go_on():
            taking.from_lists(count)
            if not taking.failed or zone.policy.pcp == "batch6":
                break
            taking.from_buddy(taking.got + 1)
            if taking.failed:
                break
    else:
        taking.from_buddy(count)
    pfns = np.concatenate(taking.parts) if taking.parts else np.empty(0, dtype=np.int64)
    return pfns, taking.failed


class _Taking:
    """Blocks taken so far."""

    def __init__(
        self, zone: Zone, series: Series, passes: Callable[[], bool], floor: Callable[[], int]
    ) -> None:
        self.zone = zone
        self.series = series
        self.passes = passes
        self._floor = floor
        self._boost = -1
        self._last_floor = 0
        self.parts: list[Pfns] = []
        self.got = 0
        self.known = True  # the test's answer holds for the next block
        self.failed = False  # the next block was tried for in vain

    @property
    def floor(self) -> int:
        """Pages above which the test passes, whatever CPUs keep to themselves."""
        if self.zone.boost != self._boost:
            self._boost = self.zone.boost
            self._last_floor = self._floor() + self.zone.stat_threshold + 1
        return self._last_floor

    def may_go_on(self) -> bool:
        """Ask the test again if the zone has changed since."""
        if not self.known and not self._is_ample() and not self.passes():
            return False
        self.known = True
        return True

    def _is_ample(self) -> bool:
        """Tell whether the test would pass without asking it."""
        zone, order = self.zone, self.series.order
        if zone.free <= self.floor:
            return False
        return order == 0 or has_block(zone, order, self.series.rights)

    def keep(self, pfns: Pfns) -> None:
        self.parts.append(pfns)
        self.got += len(pfns)

    # From the CPU's lists

    def from_lists(self, count: int) -> None:
        """Pop, and refill when there is nothing to pop (rmqueue_pcplist())."""
        zone, series = self.zone, self.series
        pcp = zone.pcps[series.cpu]
        pages = pcp.lists[list_number(zone.policy, series.order, series.migratetype)]
        self.failed = False
        while self.got < count and self.may_go_on():
            if len(pages):
                self._pop(pcp, pages, count - self.got)
                continue
            if not self._may_refill():
                zone.pcp_rules.attempt(pcp)
                self.failed = True
                return
            sure = self._refill(pcp, pages, count - self.got)
            if not sure:
                zone.pcp_rules.attempt(pcp)
                self.failed = self.known = True
                return
            self._pop(pcp, pages, min(sure, count - self.got))

    def _pop(self, pcp: Pcp, pages: PageList, wanted: int) -> None:
        taken = pages.pop_heads(wanted)
        pcp.count -= len(taken) << self.series.order
        for _ in range(min(len(taken), 32)):  # what an attempt halves is 0 by then
            self.zone.pcp_rules.attempt(pcp)
        self.keep(taken)

    def _may_refill(self) -> bool:
        """7.3: an atomic request of order 1 to 3 does not refill."""
        atomic = self.series.order and self.series.rights & flags.RIGHT_HIGHATOMIC
        return not (self.zone.policy.pcp == "tuned_v7" and atomic)

    def _refill(self, pcp: Pcp, pages: PageList, wanted: int) -> int:
        """Move blocks from the buddy lists: one refill, or all that `wanted` blocks will need.

        Returns how many of them can be popped before the test must be asked again.
        """
        zone, series = self.zone, self.series
        order, rules, state = series.order, zone.pcp_rules, zone.state()
        sizes = [rules.refill(pcp, order, state)]
        total = sizes[0]
        own = own_blocks(zone, order, series.migratetype)
        free = zone.free - self.floor
        while total < wanted and total + rules.most(pcp, order) <= own and free > total << order:
            sizes.append(rules.refill(pcp, order, state))
            total += sizes[-1]
        if total <= own:
            runs = zone.buddy.take_runs(total, order, series.migratetype)
        else:
            runs = alloc_blocks(
                zone.buddy, total, order, series.migratetype, nofragment=series.nofragment
            )
        pfns = expand(runs, order)
        pages.push_tails(pfns, series.migratetype)
        pcp.count += len(pfns) << order
        zone.locked(series.cpu, len(sizes), len(pfns) << order)
        if zone.policy.free_counted == "block":
            zone.count(series.cpu, -1 << order, len(pfns))
        elif len(sizes) == 1:
            zone.count(series.cpu, -len(pfns) << order)
        else:
            for size in sizes:
                zone.count(series.cpu, -size << order)
        self.known = False
        return len(pfns) - sizes[-1] + 1 if len(sizes) > 1 else min(len(pfns), 1)

    # From the buddy lists

    def from_buddy(self, count: int) -> None:
        """Take blocks one under each hold of the zone lock (rmqueue_buddy())."""
        zone, series = self.zone, self.series
        order = series.order
        self.failed = False
        while self.got < count and self.may_go_on():
            spare = (zone.free - self.floor) >> order
            plenty = min(count - self.got, spare, own_blocks(zone, order, series.migratetype))
            if plenty > 1 and not self._tries_highatomic():
                pfns = expand(zone.buddy.take_runs(plenty, order, series.migratetype), order)
            else:
                pfns = self._one()
            zone.locked(series.cpu, max(1, len(pfns)), len(pfns) << order)
            if not len(pfns):
                self.failed = True
                return
            self.known = False
            zone.count(series.cpu, -1 << order, len(pfns))
            self.keep(pfns)

    def _tries_highatomic(self) -> bool:
        if self.zone.policy.alloc_flags == "harder":
            return bool(self.series.order and self.series.rights & flags.RIGHT_HARDER)
        return bool(self.series.rights & flags.RIGHT_HIGHATOMIC)

    def _one(self) -> Pfns:
        zone, series = self.zone, self.series
        pfn = -1
        if self._tries_highatomic():
            pfn = zone.buddy.take_block(series.order, mt.HIGHATOMIC)
        if pfn < 0:
            pfn = alloc_block(
                zone.buddy, series.order, series.migratetype, nofragment=series.nofragment
            )
        last_try = flags.RIGHT_OOM | flags.RIGHT_NON_BLOCK
        if pfn < 0 and zone.policy.alloc_flags != "harder" and series.rights & last_try:
            pfn = zone.buddy.take_block(series.order, mt.HIGHATOMIC)
        return np.array([pfn] if pfn >= 0 else [], dtype=np.int64)


def own_blocks(zone: Zone, order: int, migratetype: int) -> int:
    """Return how many blocks of an order a type's own lists hold."""
    return sum(row[migratetype].live << have for have, row in enumerate(zone.buddy.lists[order:]))
