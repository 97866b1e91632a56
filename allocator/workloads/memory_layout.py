"""Where pages may lie, reconstructed from counts: free lists, pageblock types, cache and age.

A snapshot of a kernel (buddyinfo, pagetypeinfo, meminfo) says how many free blocks of each order
and type there are, how many pageblocks of each type, and how much cache, but not where. What
matters of the placement follows from how a cache is filled: it first takes the small free blocks
of its own type, which lie in pageblocks that also hold other memory, then whole free pageblocks;
when memory is short kswapd gives back the oldest part, which the youngest then takes over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allocator.pages import migratetype as mt
from allocator.pages.buddy import Buddy
from allocator.pages.runs import Run

TYPES = {
    "Unmovable": mt.UNMOVABLE,
    "Movable": mt.MOVABLE,
    "Reclaimable": mt.RECLAIMABLE,
    "HighAtomic": mt.HIGHATOMIC,
}
"""Migrate types by their names in pagetypeinfo."""

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneCounts:
    """What is known of one zone at the moment of the first request."""

    free: Counts
    """(order, type) int64: free blocks."""
    blocks: Counts
    """(type,) int64: pageblocks."""
    cache: int
    """Pages of cache in the zone."""
    mixed: int
    """Pages of this cache that took small free blocks, in pageblocks that hold other memory too."""
    hidden: int
    """Free pages on per-CPU lists: in use for all that the counts tell."""
    reclaimed: int
    """Pages of this cache that were given back, and taken again, while it was filled."""
    moved: int
    """Pages in use that can be moved but not reclaimed (anonymous memory, tmpfs)."""
    movable_cache: bool
    """The cache is a file's; a block device's is allocated as Unmovable."""


_CROWDED = 128
"""Free pages of a pageblock beyond which free blocks are laid next to each other."""


@dataclass(slots=True)
class Placed:
    """A reconstructed zone."""

    older: list[Run] = field(default_factory=list)
    """Cache of the first pass of the fill, the oldest first."""
    younger: list[Run] = field(default_factory=list)
    """Cache that took the place of reclaimed pages."""
    moved: list[Run] = field(default_factory=list)
    """Pages that can only be moved."""
    hidden: list[Run] = field(default_factory=list)
    """Free pages on per-CPU lists."""


@dataclass(slots=True)
class _Block:
    """One pageblock that is not wholly free."""

    start: int
    kind: int
    size: int
    pieces: list[Run] = field(default_factory=list)  # (first page, order) of free blocks
    at: int = 0  # offset up to which pieces have been laid
    held: int = 0  # free pages

    def lay(self, order: int, *, dense: bool) -> bool:
        """Put a free block of an order in; unless dense, its buddy stays in use."""
        step = 1 << order if dense else 2 << order
        at = -(-self.at // step) * step
        if at + (1 << order) > self.size:
            return False
        self.pieces.append((self.start + at, order))
        self.at = at + step
        self.held += 1 << order
        return True

    def used(self) -> list[Run]:
        """Return the runs of pages that are in use, ascending."""
        runs, at = [], self.start
        for pfn, order in sorted(self.pieces):
            if pfn > at:
                runs.append((at, pfn - at))
            at = pfn + (1 << order)
        if at < self.start + self.size:
            runs.append((at, self.start + self.size - at))
        return runs


def place(buddy: Buddy, counts: ZoneCounts) -> Placed:
    """Fill an empty zone's lists with the given free blocks, and say where the rest may lie.

    Parameters
    ----------
    buddy
        Lists of the zone, nothing free.
    counts
        What is known.
    """
    size = 1 << buddy.pageblock_order
    starts = _free_blocks(buddy, counts)
    used = _used_by_type(buddy, counts, starts)
    own = mt.MOVABLE if counts.movable_cache else mt.UNMOVABLE
    cached = _cache_blocks(counts, used, own, size)
    taken = {block.start for block in cached}
    old = {kind: [b for b in blocks if b.start not in taken] for kind, blocks in used.items()}
    _lay_free(counts, cached, old, size)
    for block in [b for blocks in used.values() for b in blocks]:
        for pfn, order in block.pieces:
            buddy.put(pfn, order, block.kind, tail=True)
    return _ages(counts, cached, old, own)


def _free_blocks(buddy: Buddy, counts: ZoneCounts) -> list[int]:
    """Put the wholly free pageblocks on the lists, from the top down; return the other ones."""
    order = buddy.pageblock_order
    size = 1 << order
    first = buddy.start >> order
    left = list(range(first, -(-buddy.end // size)))
    whole = [b for b in left if b * size >= buddy.start and (b + 1) * size <= buddy.end]
    for have in range(buddy.max_order, order - 1, -1):
        span = 1 << (have - order)
        free = set(whole)
        heads = [b for b in whole if b % span == 0 and all(b + i in free for i in range(span))]
        for kind in range(counts.free.shape[1]):
            for _ in range(int(counts.free[have, kind])):
                if not heads:
                    break
                head = heads.pop()
                buddy.set_type(head * size, have, kind)
                buddy.put(head * size, have, kind, tail=True)
                gone = set(range(head, head + span))
                whole = [b for b in whole if b not in gone]
                left = [b for b in left if b not in gone]
    return [max(b * size, buddy.start) for b in left]


def _used_by_type(buddy: Buddy, counts: ZoneCounts, starts: list[int]) -> dict[int, list[_Block]]:
    """Give the other pageblocks their types: kernel memory lowest, Movable last."""
    order = buddy.pageblock_order
    pure = np.array(
        [
            sum(int(counts.free[have, kind]) << (have - order)
                for have in range(order, buddy.max_order + 1))
            for kind in range(len(counts.blocks))
        ]
    )  # fmt: skip
    want = np.maximum(counts.blocks - pure, 0)
    used: dict[int, list[_Block]] = {kind: [] for kind in range(len(want))}
    queue = list(starts)
    for kind in (mt.HIGHATOMIC, mt.RECLAIMABLE, mt.UNMOVABLE, mt.MOVABLE):
        if kind >= len(want):
            continue
        number = len(queue) if kind == mt.MOVABLE else int(want[kind])
        for start in queue[:number]:
            end = min((start >> order) + 1 << order, buddy.end)
            buddy.set_type(start, order, kind)
            used[kind].append(_Block(start=start, kind=kind, size=end - start))
        queue = queue[number:]
    return used


def _cache_blocks(
    counts: ZoneCounts, used: Mapping[int, list[_Block]], own: int, size: int
) -> list[_Block]:
    """Choose the pageblocks that hold nothing but cache, in the order of the fill."""
    number = max(0, counts.cache - counts.mixed) // size
    pool = [b for b in used[own] if b.size == size]
    if own != mt.MOVABLE:
        pool = [b for b in used[mt.MOVABLE] if b.size == size][::-1] + pool
    else:
        pool = [b for b in used[mt.UNMOVABLE] if b.size == size] + pool
    return pool[max(0, len(pool) - number) :] if number else []


def _lay_free(
    counts: ZoneCounts, cached: list[_Block], old: Mapping[int, list[_Block]], size: int
) -> None:
    """Lay the small free blocks.

    As many as the cache blocks lack cache for lie where reclaim was last, the rest in the other
    blocks of their type.
    """
    spare = max(0, len(cached) * size - counts.cache)
    outside = max(0, counts.cache - len(cached) * size)
    boundary = 0
    if cached:
        boundary = max(0, counts.reclaimed - outside) // size % len(cached)
    near = cached[:boundary][::-1] + cached[boundary:][::-1]
    for order in range(size.bit_length() - 2, -1, -1):
        for kind in range(counts.free.shape[1]):
            number = int(counts.free[order, kind])
            inside = [b for b in near[:8] if b.kind == kind]
            while number and spare >= 1 << order and inside and _lay_one(inside, order):
                spare -= 1 << order
                number -= 1
            if number:
                _spread(old.get(kind, []) or cached, order, number)


def _lay_one(blocks: list[_Block], order: int) -> bool:
    return any(block.lay(order, dense=True) for block in blocks)


def _spread(blocks: list[_Block], order: int, number: int) -> None:
    """Lay free blocks of one order evenly over pageblocks."""
    if not blocks:
        return
    dense = sum(block.held for block in blocks) + (number << order) > len(blocks) * _CROWDED
    while number > 0:
        laid = 0
        for block in sorted(blocks, key=lambda b: b.held):
            if number > 0 and block.lay(order, dense=dense):
                number -= 1
                laid += 1
        if not laid:
            if dense:
                return
            dense = True


def _ages(
    counts: ZoneCounts,
    cached: list[_Block],
    old: Mapping[int, list[_Block]],
    own: int,
) -> Placed:
    """Order the cache by age, and hand out what else is in use."""
    out = Placed()
    whole = _runs(cached)
    left = counts.cache - sum(pages for _, pages in whole)
    mixed = _shared(_runs(old.get(own, [])), left)
    outside = sum(pages for _, pages in mixed)
    given = counts.reclaimed % counts.cache if counts.cache else 0
    if given >= outside:  # the mixed part has been replaced, and the first cache blocks
        out.older = _after(whole, given - outside)
        out.younger = mixed + _cut(whole, given - outside)
    else:
        out.younger = _cut(mixed, given)
        out.older = _after(mixed, given) + whole
    rest = _runs(old.get(mt.MOVABLE, []))
    if own == mt.MOVABLE:
        rest = _without(rest, mixed)
    out.moved = _shared(rest, counts.moved)
    others = _without(rest, out.moved)
    for kind in (mt.UNMOVABLE, mt.RECLAIMABLE):
        runs = _runs(old.get(kind, []))
        others += _without(runs, mixed) if kind == own else runs
    out.hidden = _shared(others, counts.hidden)
    return out


def _shared(runs: list[Run], pages: int) -> list[Run]:
    """Give each run of used pages its share of some cache; the rest stays the kernel's."""
    total = sum(count for _, count in runs)
    if not total:
        return []
    out, before, given = [], 0, 0
    for start, count in runs:
        before += count
        share = min(pages, total) * before // total - given
        given += share
        if share:
            out.append((start, share))
    return out


def _without(runs: list[Run], taken: list[Run]) -> list[Run]:
    """Return runs without the beginnings that were taken of them."""
    gone = dict(taken)
    return [
        (start + gone.get(start, 0), count - gone.get(start, 0))
        for start, count in runs
        if count > gone.get(start, 0)
    ]


def _runs(blocks: list[_Block]) -> list[Run]:
    return [run for block in blocks for run in block.used()]


def _cut(runs: list[Run], pages: int) -> list[Run]:
    """Return the first pages of a series of runs."""
    out = []
    for start, count in runs:
        if pages <= 0:
            break
        out.append((start, min(count, pages)))
        pages -= count
    return out


def _after(runs: list[Run], pages: int) -> list[Run]:
    """Return a series of runs without its first pages."""
    out = []
    for start, count in runs:
        skip = min(count, pages)
        pages -= skip
        if count > skip:
            out.append((start + skip, count - skip))
    return out
