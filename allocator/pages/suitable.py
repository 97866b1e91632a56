"""Whether a zone is worth compacting, and whether there is a block already.

mm/compaction.c compaction_suitable(), mm/page_alloc.c __zone_watermark_ok(), mm/vmscan.c
compaction_ready().
"""

from enum import IntEnum
from typing import Protocol

from allocator.pages import migratetype as mt
from allocator.pages.buddy import Buddy
from allocator.pages.fragmentation import extfrag_index
from allocator.pages.pcp import COSTLY_ORDER
from allocator.pages.policy import PagePolicy

FRAGMENTATION_THRESHOLD = 500
"""vm.extfrag_threshold: at or below it a failure is blamed on lack of memory."""


class Suit(IntEnum):
    """Answer to whether a zone should be compacted (compaction_suitable())."""

    SKIPPED = 0
    """There is not enough free memory to move pages into."""
    CONTINUE = 1
    """Compaction may help."""
    SUCCESS = 2
    """A block is there already."""


# looking a member up in its class is slow, and these are needed for every few pages
_SKIPPED, _CONTINUE, _SUCCESS = Suit.SKIPPED, Suit.CONTINUE, Suit.SUCCESS


class Levels(Protocol):
    """What the questions about a zone need to know of it."""

    @property
    def free(self) -> int:
        """Free pages as the watermarks see them."""
        ...

    @property
    def buddy(self) -> Buddy:
        """Free lists."""
        ...

    @property
    def reserve(self) -> tuple[int, ...]:
        """Pages kept from requests whose highest zone is each index."""
        ...

    def mark(self, name: str) -> int:
        """Return a watermark with the boost."""
        ...


def gap(policy: PagePolicy, order: int) -> int:
    """Return the pages that compaction wants free beyond the mark (compact_gap())."""
    pages = 2 << order
    return pages if policy.compact_gap_cap is None else min(pages, policy.compact_gap_cap)


def has_block(buddy: Buddy, order: int) -> bool:
    """Tell whether a free block of at least this order is on a list of an ordinary type."""
    for row in buddy.lists[order:]:
        for found in row[: mt.PCP_TYPES]:
            if found.live:
                return True
    return False


def block_is_there(zone: Levels, order: int, highest: int, free: int | None = None) -> bool:
    """Test a request of this order against the min mark, without any right to reserves.

    mm/page_alloc.c __zone_watermark_ok().
    """
    pages = zone.free if free is None else free
    least = zone.mark("min") + zone.reserve[highest] + (1 << order)
    return pages >= least and has_block(zone.buddy, order)


def fragmentation(buddy: Buddy, order: int) -> int:
    """Return why a request of this order fails, from 0 lack of memory to 1000 fragmentation.

    -1000 if it would not fail.
    """
    return extfrag_index([sum(one.live for one in row) for row in buddy.lists], order)


def target(policy: PagePolicy, zone: Levels, order: int, highest: int, *, mark: str = "min") -> int:
    """Return the free pages above which a zone can be compacted.

    `mark` is the one that the question is asked for: min by requests, high by reclaim in 7.3.
    """
    pages = gap(policy, order) + zone.reserve[highest]
    if policy.compact_gap_cap is not None:
        more = zone.mark("low") - zone.mark("min") if order > COSTLY_ORDER else 0
        return pages + zone.mark(mark) + more
    return pages + zone.mark("low" if order > COSTLY_ORDER else "min")


def suitable(policy: PagePolicy, zone: Levels, order: int, highest: int) -> Suit:
    """Tell whether to compact a zone for a request (compaction_suitable(), v6.1)."""
    free = zone.free
    if block_is_there(zone, order, highest, free):
        return _SUCCESS
    if free <= target(policy, zone, order, highest):
        return _SKIPPED
    if order > COSTLY_ORDER and 0 <= fragmentation(zone.buddy, order) <= FRAGMENTATION_THRESHOLD:
        return _SKIPPED
    return _CONTINUE


def ready(policy: PagePolicy, zone: Levels, order: int, highest: int) -> bool:
    """Tell direct reclaim to leave a zone to compaction (mm/vmscan.c compaction_ready())."""
    suit = suitable(policy, zone, order, highest)
    if suit is not _CONTINUE:
        return suit is _SUCCESS
    if policy.compact_gap_cap is not None:
        return zone.free > target(policy, zone, order, highest, mark="high")
    return zone.free > zone.mark("high") + gap(policy, order) + zone.reserve[highest]
