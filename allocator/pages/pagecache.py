"""Filling memory: a file read once, memory that processes hold, memory that cannot move.

What a reader takes follows from the walk over the zones: each down to its low mark, the highest
first; then kswapd gives the oldest cache back up to the high mark, and the reader goes on in what
was freed (mm/readahead.c page_cache_ra_unbounded(), mm/filemap.c).
"""

import numpy as np

from allocator.pages import migratetype as mt
from allocator.pages.fallback import alloc_blocks
from allocator.pages.reclaimer import Reclaimer
from allocator.pages.rmqueue import own_blocks
from allocator.pages.runs import Runs, by_place, join_runs, joined
from allocator.pages.uses import Use
from allocator.pages.zone import Zone

_NORMAL, _MOVABLE_ZONE = 2, 3
_PIN_EVERY, _PIN_PAGES = 128, 16


def read_file(reclaimer: Reclaimer, pages: int, *, node: int, movable: bool) -> int:
    """Read a file, or a block device, into the page cache.

    Parameters
    ----------
    reclaimer
        The machine.
    pages
        Pages read.
    node
        Node of the reader's CPU.
    movable
        A file's cache can be moved; a block device's is allocated as Unmovable, no higher than
        zone Normal.

    Returns
    -------
    int
        Pages read; fewer if nothing could be reclaimed any more.
    """
    highest = _MOVABLE_ZONE if movable else _NORMAL
    kind = mt.MOVABLE if movable else mt.UNMOVABLE
    left = pages
    while left > 0:
        got = _take(reclaimer, left, node, highest, kind, Use.CACHE)
        left -= got
        if not got and not _balance(reclaimer, node, highest):
            break
    for memory in reclaimer.nodes.values():
        memory.kswapd.settle(highest)
        memory.drain()
    return pages - left


def hold(reclaimer: Reclaimer, pages: int, *, node: int) -> int:
    """Take anonymous memory that stays; return the pages got."""
    return _take(reclaimer, pages, node, _MOVABLE_ZONE, mt.MOVABLE, Use.ANON)


def pin(reclaimer: Reclaimer, pages: int, *, node: int) -> int:
    """Take kernel memory and give all but an eighth of it back; return the pages that stay.

    As pipes do of which most are closed: an eighth of each stretch of memory stays, and nothing
    can move it.
    """
    stays = 0
    left = pages
    for zone in _zones(reclaimer, node, _NORMAL):
        runs = zone.alloc_run(min(left, _room(zone, _NORMAL)), mt.UNMOVABLE)
        for start, count in _pairs(runs):
            left -= count
            for at in range(start, start + count, _PIN_EVERY):
                size = min(_PIN_EVERY, start + count - at)
                keep = min(_PIN_PAGES, size)
                stays += keep
                if size > keep:
                    zone.free_run(at + keep, size - keep, None)
    return stays


def shatter(reclaimer: Reclaimer, pages: int, *, node: int, order: int) -> int:
    """Use up a node but for free blocks of one order, as page cache that comes and goes leaves it.

    Free and used blocks take turns at the bottom of each zone, so that nothing merges; the rest of
    the node is page cache. The lower zones keep their high mark, and so have nothing to give.

    Parameters
    ----------
    reclaimer
        The machine.
    pages
        Free pages above the high mark of the node's highest zone.
    node, order
        Whose memory, and the order of its free blocks.

    Returns
    -------
    int
        Pages that stay free; fewer than asked if the node is small.
    """
    memory, left, step = reclaimer.nodes[node], 0, 2 << order
    for number, zone in enumerate(reclaimer.allocator.own_zones[node]):
        wanted = zone.mark("high") + (0 if number else pages)
        runs = joined(zone.alloc_run(zone.free, mt.MOVABLE))
        for start, count in _pairs(runs):
            first = -(-start // step) * step
            blocks = max(0, min(-(-wanted >> order), (start + count - first) // step))
            holes = first + step * np.arange(blocks)
            zone.buddy.free_many(
                holes, np.full(blocks, order), np.full(blocks, mt.MOVABLE, dtype=np.int8)
            )
            wanted -= blocks << order
            left += blocks << order
            rest = first + step * blocks if blocks else start
            if start + count > rest:
                memory.lru.add(rest, start + count - rest, Use.CACHE)
    return left


def _zones(reclaimer: Reclaimer, node: int, highest: int) -> tuple[Zone, ...]:
    zones = reclaimer.allocator.zonelists[node]
    return tuple(zone for zone in zones if zone.index <= highest)


def _room(zone: Zone, highest: int) -> int:
    """Pages that order-0 requests may take before the zone is at its low mark."""
    return max(0, zone.free - zone.mark("low") - zone.reserve[highest])


def _take(reclaimer: Reclaimer, pages: int, node: int, highest: int, kind: int, use: Use) -> int:
    """Take pages from one zone after the other, each down to its low mark."""
    got = 0
    for zone in _zones(reclaimer, node, highest):
        want = min(pages - got, _room(zone, highest))
        if want <= 0:
            continue
        memory = reclaimer.nodes[zone.node]
        runs = joined(_runs(zone, want, kind, use))
        got += int(runs[1].sum())
        if use is Use.ANON:
            memory.uses[zone.index].set_runs(runs, use)
        else:
            memory.lru.add_runs(runs, use)
    return got


def _runs(zone: Zone, pages: int, kind: int, use: Use) -> Runs:
    """Take runs of pages; large folios come as whole pageblocks as long as there are any."""
    order = zone.buddy.pageblock_order
    if use is Use.CACHE and zone.policy.large_folios and pages >> order:
        folios = _large_folios(zone, pages >> order, kind)
        if len(folios[0]):
            return folios
    parts: list[Runs] = []
    if kind != mt.MOVABLE:
        own = sum(row[kind].live << have for have, row in enumerate(zone.buddy.lists))
        parts.append(zone.alloc_run(min(own, pages), kind))
        pages -= min(own, pages)
        parts.append(_steal_tops(zone, pages, kind))
        pages -= int(parts[-1][1].sum())
    parts.append(zone.alloc_run(pages, kind))
    return join_runs(parts)


def _large_folios(zone: Zone, count: int, kind: int) -> Runs:
    """Take whole pageblocks; the most of them, from the largest blocks, at once."""
    buddy, order = zone.buddy, zone.buddy.pageblock_order
    own = min(count, own_blocks(zone, order, kind))
    parts = [buddy.take_runs(own, order, kind)]
    count -= own
    if kind != mt.MOVABLE and count:
        starts, lengths = _steal_tops(zone, count << order, kind)
        parts.append((starts, lengths >> order))
        count -= int(parts[-1][1].sum())
    parts.append(alloc_blocks(buddy, count, order, kind))
    starts, blocks = join_runs(parts)
    return starts, blocks << order


def _steal_tops(zone: Zone, pages: int, kind: int) -> Runs:
    """Take whole largest blocks off the Movable lists, all at once.

    A request whose own lists are empty turns the largest block of another type, uses it up from
    its low end, and turns the next (__rmqueue_fallback(), __rmqueue_claim()).
    """
    buddy = zone.buddy
    top = buddy.max_order
    nearer = mt.FALLBACKS[kind][0]
    count = min(pages >> top, buddy.lists[top][mt.MOVABLE].live)
    if not count or buddy.lists[top][nearer].live:
        return join_runs([])
    starts, blocks = buddy.take_level(top, count, top, mt.MOVABLE)
    runs = joined((starts, blocks << top))
    for start, length in by_place(runs):
        block = (start - buddy.base) >> buddy.pageblock_order
        buddy.block_type[block : block + (length >> buddy.pageblock_order)] = kind
    return runs


def _pairs(runs: Runs) -> list[tuple[int, int]]:
    """Return runs, joined where they follow each other, as (first page, pages)."""
    starts, lengths = joined(runs)
    return list(zip(starts.tolist(), lengths.tolist(), strict=True))


def _balance(reclaimer: Reclaimer, node: int, highest: int) -> int:
    """Let the kswapds of the reader's zones work; return the pages they gave back."""
    freed = 0
    for other in dict.fromkeys(zone.node for zone in _zones(reclaimer, node, highest)):
        kswapd = reclaimer.nodes[other].kswapd
        kswapd.wake(0, highest)
        freed += kswapd.rest()
    return freed
