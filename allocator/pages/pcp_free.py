"""Blocks back into a zone, by way of the per-CPU lists.

mm/page_alloc.c free_unref_page(), free_pcppages_bulk(), drain_pages_zone(); mm/vmstat.c
refresh_cpu_vm_stats(). A series of frees is one call; it ends as the same frees one by one.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from allocator.pages import migratetype as mt
from allocator.pages.pcp import Pcp, drain_lists, drain_robin, is_pcp_order, list_number
from allocator.pages.pcp_rules import SCALE_MAX
from allocator.pages.runs import Pfns
from allocator.pages.zone import Zone

_FEW = 16
"""Fewer blocks than this are put on the lists one by one: cheaper than arrays."""
_IDLE_TICKS = 3
"""Refreshes without a change after which pages of another node are given back."""


class _Freeing:
    """Blocks on their way back to the buddy lists, in the order of freeing."""

    def __init__(self, zone: Zone, cpu: int) -> None:
        self.zone = zone
        self.cpu = cpu
        self.parts: list[tuple[Pfns, NDArray[np.int8], int]] = []

    def give(self, pfns: Pfns, types: NDArray[np.int8], order: int) -> None:
        """Count blocks as free; they are put on the lists at `flush()`."""
        zone = self.zone
        block = zone.buddy.pageblock_order
        if order > block and zone.policy.list_type == "pageblock":
            each = 1 << (order - block)
            pfns = np.repeat(pfns, each) + np.tile(np.arange(each) << block, len(pfns))
            types, order = zone.buddy.types_of(pfns), block
        elif zone.policy.list_type == "pageblock":
            types = zone.buddy.types_of(pfns)
        self.parts.append((pfns, types, order))
        zone.count(self.cpu, 1 << order, len(pfns))
        zone.in_flight += len(pfns) << order

    def flush(self) -> None:
        """Put the blocks on the lists."""
        if len(self.parts) == 1 and len(self.parts[0][0]) < _FEW:
            pfns, types, order = self.parts.pop()
            self.zone.in_flight -= len(pfns) << order
            for pfn, migratetype in zip(pfns.tolist(), types.tolist(), strict=True):
                self.zone.buddy.free(pfn, order, migratetype)
        elif self.parts:
            pfns = np.concatenate([part[0] for part in self.parts])
            types = np.concatenate([part[1] for part in self.parts])
            orders = np.concatenate([np.full(len(part[0]), part[2]) for part in self.parts])
            self.zone.in_flight -= int((1 << orders).sum())
            self.zone.buddy.free_many(pfns, orders, types)
            self.parts = []

    def drain(self, pcp: Pcp, number: int, pages: int) -> None:
        """Give pages of a CPU's lists back, from list `number` on."""
        zone = self.zone
        before = pcp.count
        if zone.policy.pcp == "batch6":
            self.give(*drain_robin(pcp, pages), 0)
        else:
            for part in drain_lists(zone.policy, pcp, number, pages, zone.buddy.pageblock_order):
                self.give(*part)
        zone.locked(self.cpu, 1, before - pcp.count)


def free_block(zone: Zone, cpu: int, pfn: int, order: int, may_clear: Callable[[], bool]) -> None:
    """Free one block: as `free_blocks()`, for less."""
    freeing = _Freeing(zone, cpu)
    migratetype = zone.buddy.type_of(pfn)
    listed = is_pcp_order(zone.policy, order, zone.buddy.pageblock_order)
    if listed and migratetype != mt.ISOLATE:
        pcp = zone.pcps[cpu]
        kind = migratetype if migratetype < mt.PCP_TYPES else mt.MOVABLE
        number = list_number(zone.policy, order, kind)
        _, pages = zone.pcp_rules.frees(pcp, order, 1, zone.state())
        pcp.lists[number].push_head(pfn, migratetype)
        if pages:
            _drain(freeing, pcp, number, pages, may_clear)
    elif order > zone.buddy.pageblock_order and zone.policy.list_type == "pageblock":
        freeing.give(np.array([pfn]), np.array([migratetype], dtype=np.int8), order)
        zone.locked(cpu, 1, 1 << order)
    else:
        zone.buddy.free(pfn, order, migratetype)
        zone.count(cpu, 1 << order)
        zone.locked(cpu, 1, 1 << order)
    freeing.flush()


def free_blocks(
    zone: Zone, cpu: int, pfns: Pfns, orders: NDArray[np.int64], may_clear: Callable[[], bool]
) -> None:
    """Free blocks one after the other (__free_pages()).

    Parameters
    ----------
    zone
        Zone of all the blocks.
    cpu
        CPU that frees.
    pfns, orders
        (block,) the blocks, in the order of freeing.
    may_clear
        Tells whether the zone is above its high mark again, asked after drains of a zone below it.
    """
    freeing = _Freeing(zone, cpu)
    types = zone.buddy.types_of(pfns)
    kinds = orders * mt.NR_LISTS + types
    bounds = np.flatnonzero(np.diff(kinds, prepend=-1, append=-1)).tolist()
    for start, stop in pairwise(bounds):
        order, migratetype = int(orders[start]), int(types[start])
        part = pfns[start:stop], types[start:stop]
        listed = is_pcp_order(zone.policy, order, zone.buddy.pageblock_order)
        if not listed or migratetype == mt.ISOLATE:
            freeing.give(*part, order)
            zone.locked(cpu, stop - start, (stop - start) << order)
        else:
            _free_to_lists(freeing, part, order, migratetype, may_clear)
    freeing.flush()


def _free_to_lists(
    freeing: _Freeing,
    part: tuple[Pfns, NDArray[np.int8]],
    order: int,
    migratetype: int,
    may_clear: Callable[[], bool],
) -> None:
    """Push blocks of one list, and drain whenever the CPU holds too many."""
    zone = freeing.zone
    pcp = zone.pcps[freeing.cpu]
    number = list_number(
        zone.policy, order, migratetype if migratetype < mt.PCP_TYPES else mt.MOVABLE
    )
    pfns, types = part
    done = 0
    while done < len(pfns):
        freed, pages = zone.pcp_rules.frees(pcp, order, len(pfns) - done, zone.state())
        pcp.lists[number].push_heads(pfns[done : done + freed], types[done : done + freed])
        done += freed
        if pages:
            _drain(freeing, pcp, number, pages, may_clear)


def _drain(
    freeing: _Freeing, pcp: Pcp, number: int, pages: int, may_clear: Callable[[], bool]
) -> None:
    """Give pages back, and see whether the zone has enough of them again."""
    zone = freeing.zone
    for piece in zone.pcp_rules.pieces(pcp, pages):
        if pcp.count:
            freeing.drain(pcp, number, piece)
    if zone.below_high:
        if zone.highatomic:
            freeing.flush()
        if may_clear():
            zone.below_high = False


def drain_cpu(zone: Zone, cpu: int) -> None:
    """Empty the lists that a CPU keeps of a zone (drain_pages_zone())."""
    pcp = zone.pcps[cpu]
    freeing = _Freeing(zone, cpu)
    limit = pcp.batch << SCALE_MAX if zone.policy.pcp.startswith("tuned") else pcp.count
    while pcp.count:
        freeing.drain(pcp, 0, min(limit, pcp.count))
    freeing.flush()


def drain_all(zone: Zone) -> None:
    """Empty the lists that all CPUs keep of a zone (drain_all_pages())."""
    for cpu in zone.cpus:
        drain_cpu(zone, cpu)


def refresh(zone: Zone, cpu: int, *, remote: bool) -> None:
    """Do what a CPU does for a zone about once a second (refresh_cpu_vm_stats()).

    Its share of the counter is folded; a tuned limit decays (6.7); pages of another node that it
    has not touched for three rounds are given back, a batch at a time.

    Parameters
    ----------
    zone, cpu
        Whose lists.
    remote
        The zone is of another node than the CPU.
    """
    pcp = zone.pcps[cpu]
    if zone.pending[cpu]:
        zone.pending[cpu] = 0
        pcp.expire = _IDLE_TICKS
    freeing = _Freeing(zone, cpu)
    excess = zone.pcp_rules.decay(pcp)
    if excess > 0:
        freeing.drain(pcp, 0, excess)
    if pcp.expire and pcp.count:
        pcp.expire = pcp.expire - 1 if remote else 0
        if remote and not pcp.expire:
            freeing.drain(pcp, 0, min(pcp.batch, pcp.count))
    freeing.flush()
