"""Lists of free pages that each CPU keeps of each zone (struct per_cpu_pages)."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allocator.pages import migratetype as mt
from allocator.pages.policy import PagePolicy
from allocator.pages.runs import Pfns

COSTLY_ORDER = 3
"""PAGE_ALLOC_COSTLY_ORDER."""

_ROOM = 64


class PageList:
    """Blocks of one order, head to tail, with the type each will be freed as."""

    __slots__ = ("_head", "_pfns", "_tail", "_types")

    def __init__(self) -> None:
        self._pfns: Pfns = np.empty(2 * _ROOM, dtype=np.int64)
        self._types: NDArray[np.int8] = np.empty(2 * _ROOM, dtype=np.int8)
        self._head = self._tail = _ROOM

    def __len__(self) -> int:
        return self._tail - self._head

    def push_heads(self, pfns: Pfns, types: NDArray[np.int8]) -> None:
        """Put blocks first, one after the other: the last of them becomes the head."""
        n = len(pfns)
        if self._head < n:
            self._reserve(n, 0)
        self._head -= n
        self._pfns[self._head : self._head + n] = pfns[::-1]
        self._types[self._head : self._head + n] = types[::-1]

    def push_head(self, pfn: int, migratetype: int) -> None:
        """Put one block first."""
        if self._head == 0:
            self._reserve(1, 0)
        self._head -= 1
        self._pfns[self._head] = pfn
        self._types[self._head] = migratetype

    def push_tails(self, pfns: Pfns, migratetype: int) -> None:
        """Put blocks of one type last, one after the other."""
        n = len(pfns)
        if len(self._pfns) - self._tail < n:
            self._reserve(0, n)
        self._pfns[self._tail : self._tail + n] = pfns
        self._types[self._tail : self._tail + n] = migratetype
        self._tail += n

    def pop_heads(self, count: int) -> Pfns:
        """Take up to `count` blocks from the head, in list order."""
        stop = min(self._head + count, self._tail)
        taken = self._pfns[self._head : stop].copy()
        self._head = stop
        return taken

    def pop_head(self) -> int:
        """Take the head; the list must not be empty."""
        self._head += 1
        return int(self._pfns[self._head - 1])

    def pop_tails(self, count: int) -> tuple[Pfns, NDArray[np.int8]]:
        """Take up to `count` blocks from the tail, the last one first, with their types."""
        start = max(self._tail - count, self._head)
        pfns = self._pfns[start : self._tail][::-1].copy()
        types = self._types[start : self._tail][::-1].copy()
        self._tail = start
        return pfns, types

    def blocks(self) -> Pfns:
        """Return the blocks in list order."""
        return self._pfns[self._head : self._tail].copy()

    def _reserve(self, front: int, back: int) -> None:
        n = len(self)
        spare = max(_ROOM, n // 2)
        start = front + spare
        for name in ("_pfns", "_types"):
            old = getattr(self, name)
            new = np.empty(start + n + back + spare, dtype=old.dtype)
            new[start : start + n] = old[self._head : self._tail]
            setattr(self, name, new)
        self._head, self._tail = start, start + n


@dataclass(slots=True, kw_only=True)
class Pcp:
    """What one CPU keeps of one zone."""

    batch: int
    """Pages of an ordinary refill or drain."""
    high_min: int
    """Pages at which it drains; where it tunes itself, the low end."""
    high_max: int
    """High end of the tuned limit; equal to `high_min` where nothing is tuned."""
    large_slice: bool = True
    """The CPU's share of its largest data cache exceeds 3 batches (PCPF_FREE_HIGH_BATCH, 6.7)."""
    high: int = -1
    """Limit in use."""
    count: int = 0
    """Pages on all lists."""
    free_factor: int = 0
    """Doublings of the next drain (6.1)."""
    alloc_factor: int = 0
    """Doublings of the next refill (6.7)."""
    free_count: int = 0
    """Pages freed lately without an allocation between (6.7)."""
    expire: int = 0
    """Refreshes until pages of another node are given back, 0: not counting."""
    freed_high_order: bool = False
    """The previous free was of order 1 to 3 (PCPF_PREV_FREE_HIGH_ORDER, 6.7)."""
    lists: list[PageList] = field(default_factory=list)
    """Lists by `list_number()`."""

    def __post_init__(self) -> None:
        if self.high < 0:
            self.high = self.high_min


def nr_lists(policy: PagePolicy) -> int:
    """Return how many lists a CPU has in a zone (NR_PCP_LISTS)."""
    return mt.PCP_TYPES * len(policy.pcp_orders) + 2 * policy.pcp_thp


def is_pcp_order(policy: PagePolicy, order: int, pageblock_order: int) -> bool:
    """Tell whether blocks of an order are kept on CPUs' lists (pcp_allowed_order())."""
    return order in policy.pcp_orders or (policy.pcp_thp and order == pageblock_order)


def list_number(policy: PagePolicy, order: int, migratetype: int) -> int:
    """Return the number of a list, in which order lists are also drained (order_to_pindex())."""
    if order > COSTLY_ORDER:
        return mt.PCP_TYPES * len(policy.pcp_orders) + (migratetype == mt.MOVABLE)
    return mt.PCP_TYPES * order + migratetype


def list_order(policy: PagePolicy, number: int, pageblock_order: int) -> int:
    """Return the order of the blocks of a list (pindex_to_order())."""
    low = mt.PCP_TYPES * len(policy.pcp_orders)
    return pageblock_order if number >= low else number // mt.PCP_TYPES


def drain_robin(pcp: Pcp, pages: int) -> tuple[Pfns, NDArray[np.int8]]:
    """Take pages off lists in turn, more from a list when others are empty (until 5.12).

    Returns
    -------
    tuple
        (page,) page frame numbers in the order of giving back, and their types.
    """
    parts: list[tuple[Pfns, NDArray[np.int8]]] = []
    left = min(pages, pcp.count)
    pcp.count -= left
    which = visit = 0
    while left:
        while True:
            visit += 1
            which = (which + 1) % mt.PCP_TYPES
            if len(pcp.lists[which]):
                break
        if visit == mt.PCP_TYPES:
            visit = left
        taken = pcp.lists[which].pop_tails(min(visit, left))
        parts.append(taken)
        visit -= len(taken[0])
        left -= len(taken[0])
    return np.concatenate([p for p, _ in parts]), np.concatenate([t for _, t in parts])


def drain_lists(
    policy: PagePolicy, pcp: Pcp, number: int, pages: int, pageblock_order: int
) -> list[tuple[Pfns, NDArray[np.int8], int]]:
    """Take about `pages` pages off the tails, list after list from `number` on (5.13 and later).

    Returns
    -------
    list
        Blocks, their types and their order, in the order of giving back.
    """
    parts = []
    left = min(pages, pcp.count)
    for step in range(len(pcp.lists)):
        if left <= 0:
            break
        at = (number + step) % len(pcp.lists)
        order = list_order(policy, at, pageblock_order)
        pfns, types = pcp.lists[at].pop_tails(-(-left >> order))
        left -= len(pfns) << order
        pcp.count -= len(pfns) << order
        if len(pfns):
            parts.append((pfns, types, order))
    return parts
