"""Whether a zone may give a block: watermarks, reserves, and the rights that lower them.

mm/page_alloc.c __zone_watermark_ok(), zone_watermark_fast(), __zone_watermark_unusable_free().
Rights are the `RIGHT_` bits of `allocator.gfp`.
"""

from typing import TYPE_CHECKING

from allocator import gfp as flags
from allocator.pages import migratetype as mt
from allocator.pages.policy import PagePolicy

if TYPE_CHECKING:  # a zone calls this module
    from allocator.pages.zone import Zone

_HARDER = flags.RIGHT_HARDER | flags.RIGHT_OOM
_RESERVES = (
    flags.RIGHT_MIN_RESERVE | flags.RIGHT_NON_BLOCK | flags.RIGHT_HIGHATOMIC | flags.RIGHT_OOM
)
_LOWERING = flags.RIGHT_MIN_RESERVE | _HARDER
_HIGHATOMIC = flags.RIGHT_HIGHATOMIC | flags.RIGHT_OOM


def lowered(policy: PagePolicy, mark: int, rights: int) -> int:
    """Return a mark as it counts for a caller with these rights."""
    if rights & flags.RIGHT_MIN_RESERVE:
        mark -= mark // 2
        if rights & flags.RIGHT_NON_BLOCK:
            mark -= mark // 4
    if rights & flags.RIGHT_OOM:
        mark -= mark // 2
    elif policy.alloc_flags == "harder" and rights & flags.RIGHT_HARDER:
        mark -= mark // 4
    return mark


def held_back(zone: "Zone", rights: int) -> int:
    """Return the pages of Highatomic blocks that a caller must leave alone."""
    exempt = _HARDER if zone.policy.alloc_flags == "harder" else _RESERVES
    if rights & exempt or not zone.highatomic:
        return 0
    if zone.policy.highatomic_free_only:
        return sum(row[mt.HIGHATOMIC].live << order for order, row in enumerate(zone.buddy.lists))
    return zone.highatomic


def has_block(zone: "Zone", order: int, rights: int) -> bool:
    """Tell whether a list that the caller may use holds a block of at least this order."""
    own = _HARDER if zone.policy.alloc_flags == "harder" else _HIGHATOMIC
    types = mt.PCP_TYPES + 1 if rights & own else mt.PCP_TYPES
    for row in zone.buddy.lists[order:]:
        for one in row[:types]:
            if one.live:
                return True
    return False


def last_failing(zone: "Zone", order: int, mark: int, highest: int, rights: int) -> int:
    """Return the largest count of free pages with which the test of a mark fails."""
    least = (lowered(zone.policy, mark, rights) if rights & _LOWERING else mark) + (1 << order) - 1
    return least + zone.reserve[highest] + (held_back(zone, rights) if zone.highatomic else 0)


def watermark_ok(
    zone: "Zone", order: int, mark: int, highest: int, rights: int, free: int | None = None
) -> bool:
    """Tell whether a zone stays above a mark if it gives a block (__zone_watermark_ok()).

    Parameters
    ----------
    zone
        The zone.
    order
        Order of the block; a block of at least this order must be on a list.
    mark
        Pages, boost included.
    highest
        Index of the highest zone that the request may use: the reserve against it counts.
    rights
        Rights of the caller.
    free
        Free pages to assume, or none: the zone's counter.
    """
    pages = zone.free if free is None else free
    if zone.policy.watermark_test == "orders":
        return _ok_by_orders(zone, order, lowered(zone.policy, mark, rights), highest, pages)
    if pages <= last_failing(zone, order, mark, highest, rights):
        return False
    return order == 0 or has_block(zone, order, rights)


def _ok_by_orders(zone: "Zone", order: int, mark: int, highest: int, free: int) -> bool:
    """Ask less and less of ever higher orders (__zone_watermark_ok() until 4.3)."""
    free -= (1 << order) - 1
    if free <= mark + zone.reserve[highest]:
        return False
    for have, row in enumerate(zone.buddy.lists[:order]):
        free -= sum(one.live for one in row) << have
        mark >>= 1
        if free <= mark:
            return False
    return True


def watermark_fast(
    zone: "Zone", order: int, which: str, highest: int, rights: int, gfp: int
) -> bool:
    """Tell the same for an allocation (zone_watermark_fast()).

    An atomic order-0 request may ignore the boost of the min mark.

    Parameters
    ----------
    zone, order, highest, rights
        As for `watermark_ok()`.
    which
        Name of the mark: `min`, `low` or `high`.
    gfp
        Flags of the request.
    """
    if watermark_ok(zone, order, zone.mark(which), highest, rights):
        return True
    if order or not zone.boost or which != "min" or not _ignores_boost(zone.policy, rights, gfp):
        return False
    return watermark_ok(zone, order, zone.marks[which], highest, rights)


def _ignores_boost(policy: PagePolicy, rights: int, gfp: int) -> bool:
    if policy.boost_bypass == "never":
        return False
    if policy.boost_bypass == "atomic_bit":
        return bool(gfp & flags.ATOMIC)
    return bool(rights & flags.RIGHT_MIN_RESERVE)
