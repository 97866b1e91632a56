"""Taking blocks off the lists of a zone, of other migrate types too when one's own are empty.

mm/page_alloc.c __rmqueue(), __rmqueue_fallback() until 6.14; __rmqueue_claim() and
__rmqueue_steal() from 6.15, back-ported to 6.12 stable.
"""

import numpy as np

from allocator.pages import migratetype as mt
from allocator.pages.buddy import Buddy
from allocator.pages.runs import Runs, join_runs


def alloc_block(buddy: Buddy, order: int, migratetype: int, *, nofragment: bool = False) -> int:
    """Take one block (__rmqueue()); return its first page, -1 if nothing can be taken."""
    pfn = buddy.take_block(order, migratetype)
    if pfn >= 0:
        return pfn
    if buddy.policy.fallback == "steal_largest":
        while _steal_largest(buddy, order, migratetype, nofragment):
            pfn = buddy.take_block(order, migratetype)
            if pfn >= 0:
                return pfn
        return -1
    pfn = _claim(buddy, order, migratetype, nofragment)
    if pfn >= 0 or nofragment:
        return pfn
    starts, _ = _steal_smallest(buddy, 1, order, migratetype)
    return int(starts[0]) if len(starts) else -1


def alloc_blocks(
    buddy: Buddy, count: int, order: int, migratetype: int, *, nofragment: bool = False
) -> Runs:
    """Take up to `count` blocks of one order under one hold of the zone lock (rmqueue_bulk()).

    Returns
    -------
    tuple
        Runs counted in blocks, in the order of taking; short when the lists ran dry.
    """
    parts: list[Runs] = []
    while count > 0:
        own = buddy.take_runs(count, order, migratetype)
        count -= _keep(parts, own)
        if count <= 0:
            break
        if buddy.policy.fallback == "steal_largest":
            if not _steal_largest(buddy, order, migratetype, nofragment):
                break
            continue
        pfn = _claim(buddy, order, migratetype, nofragment)
        if pfn >= 0:
            count -= _keep(parts, (np.array([pfn]), np.array([1])))
            continue
        if not nofragment:  # the rest of this hold steals without looking back
            _keep(parts, _steal_smallest(buddy, count, order, migratetype))
        break
    return join_runs(parts)


def _keep(parts: list[Runs], runs: Runs) -> int:
    if len(runs[0]):
        parts.append(runs)
    return int(runs[1].sum())


def may_take_all(buddy: Buddy, order: int, migratetype: int) -> bool:
    """Tell whether a whole pageblock may be turned (can_steal_fallback())."""
    large = order >= buddy.pageblock_order // 2 or order >= buddy.pageblock_order
    return large or migratetype in (mt.UNMOVABLE, mt.RECLAIMABLE) or not buddy.groups


def _foreign_type(buddy: Buddy, order: int, migratetype: int) -> int:
    """Return the first type of the fallback row with a block of this order, -1 if none has."""
    for other in mt.FALLBACKS[migratetype]:
        if buddy.lists[order][other].live:
            return other
    return -1


def _lowest_order(buddy: Buddy, order: int, nofragment: bool) -> int:
    return max(order, buddy.pageblock_order) if nofragment else order


def _steal_largest(buddy: Buddy, order: int, migratetype: int, nofragment: bool) -> bool:
    """Move the largest foreign block, or its pageblock, to the type's lists (until 6.14)."""
    for have in range(buddy.max_order, _lowest_order(buddy, order, nofragment) - 1, -1):
        other = _foreign_type(buddy, have, migratetype)
        if other < 0:
            continue
        large = may_take_all(buddy, have, migratetype)
        if not large and migratetype == mt.MOVABLE and have > order:
            have = next(
                o for o in range(order, have + 1) if _foreign_type(buddy, o, migratetype) >= 0
            )
            other = _foreign_type(buddy, have, migratetype)
        _turn(buddy, buddy.lists[have][other].head(), have, migratetype)
        return True
    return False


def _turn(buddy: Buddy, pfn: int, order: int, migratetype: int) -> None:
    """Turn a free block, and its pageblock if enough of it is alike (steal_suitable_fallback())."""
    was = buddy.type_of(pfn)
    if was == mt.HIGHATOMIC:
        move_block(buddy, pfn, order, migratetype)
        return
    if order >= buddy.pageblock_order:
        buddy.set_type(pfn, order, migratetype)
        move_block(buddy, pfn, order, migratetype)
        return
    buddy.on_boost()
    if may_take_all(buddy, order, migratetype):
        start, stop = pageblock(buddy, pfn)
        if start < buddy.start:
            start = pfn
        if stop <= buddy.end:
            movable = buddy.movable_in_use(start, stop)
            free = move_pageblock(buddy, start, stop, migratetype)
            if _is_alike(buddy, free, movable, was, migratetype):
                buddy.set_type(pfn, 0, migratetype)
            if free:
                return
    move_block(buddy, pfn, order, migratetype)


def _is_alike(buddy: Buddy, free: int, movable: int, was: int, migratetype: int) -> bool:
    """Tell whether at least half a pageblock is free or of the wanted kind."""
    size = 1 << buddy.pageblock_order
    if migratetype == mt.MOVABLE:
        alike = movable
    else:
        alike = size - free - movable if was == mt.MOVABLE else 0
    return free + alike >= size // 2 or not buddy.groups


def pageblock(buddy: Buddy, pfn: int) -> tuple[int, int]:
    """Return first page and end of the pageblock of a page."""
    start = pfn >> buddy.pageblock_order << buddy.pageblock_order
    return start, start + (1 << buddy.pageblock_order)


def move_block(buddy: Buddy, pfn: int, order: int, migratetype: int) -> None:
    """Move a free block to the tail of another type's list (move_to_free_list())."""
    buddy.remove(pfn, order)
    buddy.put(pfn, order, migratetype, tail=True)


def move_pageblock(buddy: Buddy, start: int, stop: int, migratetype: int) -> int:
    """Move all free blocks of a pageblock to another type's lists; return their pages."""
    pfns, orders = buddy.free_blocks_in(start, stop)
    for pfn, order in zip(pfns.tolist(), orders.tolist(), strict=True):
        move_block(buddy, pfn, order, migratetype)
    return int((1 << orders).sum())


def _claim(buddy: Buddy, order: int, migratetype: int, nofragment: bool) -> int:
    """Turn a whole pageblock, and take a block from it (__rmqueue_claim(), 6.15)."""
    for have in range(buddy.max_order, _lowest_order(buddy, order, nofragment) - 1, -1):
        large = may_take_all(buddy, have, migratetype)
        if not large and buddy.policy.claim_stop == "order":
            break
        other = _foreign_type(buddy, have, migratetype)
        if other < 0:
            continue
        if not large:
            break
        pfn = _claim_block(buddy, have, order, migratetype, other)
        if pfn >= 0:
            return pfn
    return -1


def _claim_block(buddy: Buddy, have: int, order: int, migratetype: int, other: int) -> int:
    pfn = buddy.lists[have][other].head()
    if have >= buddy.pageblock_order:
        buddy.set_type(pfn, have, migratetype)
        buddy.remove(pfn, have)
        buddy.put(pfn, have, migratetype)
        return buddy.take_block(order, migratetype)
    buddy.on_boost()
    start, stop = pageblock(buddy, pfn)
    if start < buddy.start or stop > buddy.end:
        return -1
    _, orders = buddy.free_blocks_in(start, stop)
    free = int((1 << orders).sum())
    if not _is_alike(buddy, free, buddy.movable_in_use(start, stop), other, migratetype):
        return -1
    move_pageblock(buddy, start, stop, migratetype)
    buddy.set_type(pfn, 0, migratetype)
    return buddy.take_block(order, migratetype)


def _steal_smallest(buddy: Buddy, count: int, order: int, migratetype: int) -> Runs:
    """Take the smallest foreign blocks; what is left of them stays foreign (__rmqueue_steal())."""
    parts: list[Runs] = []
    for have in range(order, buddy.max_order + 1):
        for other in mt.FALLBACKS[migratetype]:
            if count > 0 and buddy.lists[have][other].live:
                count -= _keep(parts, buddy.take_level(have, count, order, other))
    return join_runs(parts)
