"""The hugetlb pool: growing and shrinking it through nr_hugepages.

mm/hugetlb.c set_max_huge_pages(), alloc_pool_huge_folio(), remove_pool_hugetlb_folio(),
adjust_pool_surplus(). Sizes that the buddy lists do not hold (gigantic pages) are not here.
"""

from collections.abc import Sequence

from allocator import gfp as gfp_bits
from allocator.pages import migratetype as mt
from allocator.pages.alloc import PageAllocator
from allocator.pages.reclaimer import Reclaimer
from allocator.pages.uses import Use

POOL_MASK = (
    gfp_bits.DIRECT_RECLAIM
    | gfp_bits.KSWAPD_RECLAIM
    | gfp_bits.IO
    | gfp_bits.FS
    | gfp_bits.HARDWALL
    | gfp_bits.HIGHMEM
    | gfp_bits.MOVABLE
    | gfp_bits.COMP
    | gfp_bits.NOWARN
)
"""GFP_HIGHUSER_MOVABLE for a compound page, failures unreported (htlb_alloc_mask())."""
KERNEL_FLAGS = gfp_bits.THISNODE | gfp_bits.RETRY_MAYFAIL
"""What the kernel adds for a pool page (alloc_buddy_hugetlb_folio())."""

_POOL = Use.POOL  # looking a member up in its class is slow
_FEW = 4


class HugetlbPool:
    """The pool of huge pages of the default size.

    Parameters
    ----------
    allocator, reclaimer
        The machine.
    order
        Order of a huge page.
    nodes
        Nodes with memory, ascending.
    mask
        GFP mask of a pool page; another one shows what a kernel change would do.
    cpu
        CPU that writes.
    """

    def __init__(
        self,
        allocator: PageAllocator,
        reclaimer: Reclaimer,
        *,
        order: int,
        nodes: Sequence[int],
        mask: int = POOL_MASK | KERNEL_FLAGS,
        cpu: int = 0,
    ) -> None:
        self._allocator = allocator
        self._reclaimer = reclaimer
        self._order = order
        self._nodes = list(nodes)
        self._mask = mask
        self._cpu = cpu
        self._next = self._nodes[0]
        self._give_next = self._nodes[0]
        self.free: dict[int, list[int]] = {node: [] for node in self._nodes}
        """First pages of the free huge pages of each node."""
        self.used: dict[int, int] = dict.fromkeys(self._nodes, 0)
        """Huge pages of each node that tasks hold."""
        self.surplus: dict[int, int] = dict.fromkeys(self._nodes, 0)
        """Pages of each node beyond the pool's size."""
        self.reserved = 0
        """Free pages that are promised to mappings."""

    @property
    def total(self) -> int:
        """Huge pages, surplus included (HugePages_Total)."""
        return sum(map(len, self.free.values())) + sum(self.used.values())

    @property
    def persistent(self) -> int:
        """Pages that stay in the pool: what nr_hugepages reads back."""
        return self.total - sum(self.surplus.values())

    def write(self, count: int, node: int | None = None) -> int:
        """Write nr_hugepages, of the machine or of one node; return what it reads afterwards.

        Parameters
        ----------
        count
            Pages wanted.
        node
            The node whose file is written.

        Raises
        ------
        ValueError
            If the count is negative or the node has no memory.
        """
        if count < 0 or (node is not None and node not in self.free):
            raise ValueError(f"nr_hugepages: {count} pages on node {node}; nodes {self._nodes}")
        allowed = self._nodes if node is None else [node]
        if node is not None:
            count += self.persistent - self._persistent_of(node)
        self._adopt(count, allowed)
        if count > self.persistent:
            self._grow(count, allowed)
        else:
            self._shrink(count, allowed)
        return self.persistent if node is None else self._persistent_of(node)

    def _persistent_of(self, node: int) -> int:
        return len(self.free[node]) + self.used[node] - self.surplus[node]

    def _adopt(self, count: int, allowed: Sequence[int]) -> None:
        """Make surplus pages persistent before asking for new ones."""
        for node in allowed:
            turned = max(0, min(count - self.persistent, self.surplus[node]))
            self.surplus[node] -= turned

    def _grow(self, count: int, allowed: Sequence[int]) -> None:
        gave_up: set[int] = set()
        self._grow_freely(count, allowed)
        while self.persistent < count and self._one_more(allowed, gave_up):
            pass

    def _grow_freely(self, count: int, allowed: Sequence[int]) -> None:
        """Make the turns at once in which every node is sure to give a page on the fast path.

        kswapd sleeps meanwhile, so nothing else happens between them.
        """
        order = self._order
        sure = [self._sure(node) for node in allowed]
        turns = min(min(sure), (count - self.persistent) // len(allowed))
        if turns < _FEW or any(self._reclaimer.nodes[node].kswapd.awake for node in allowed):
            return
        first = self._next if self._next in allowed else _after(allowed, self._next)
        start = list(allowed).index(first)
        for node in [*allowed[start:], *allowed[:start]]:
            pfns = self._allocator.alloc_many(self._cpu, order, self._mask, turns, node)
            for pfn in pfns.tolist():
                self._count("success")
                self._add(pfn)
        self._next = first

    def _sure(self, node: int) -> int:
        """Huge pages that the node's highest zone gives before it is near its low mark."""
        zone = self._reclaimer.nodes[node].zones[-1]
        above = zone.free - zone.mark("low") - max(zone.reserve)
        blocks = sum(
            one.live << (have - self._order)
            for have, row in enumerate(zone.buddy.lists)
            if have >= self._order
            for one in row[: mt.PCP_TYPES]
        )
        return min(above >> self._order, blocks) - _FEW

    def _one_more(self, allowed: Sequence[int], gave_up: set[int]) -> bool:
        """Ask one node after the other for a page, beginning with the next in turn."""
        for _ in allowed:
            node = self._next if self._next in allowed else _after(allowed, self._next)
            self._next = _after(allowed, node)
            mask = self._mask
            if node in gave_up:
                mask &= ~gfp_bits.RETRY_MAYFAIL
            pfn = self._allocator.alloc(self._cpu, self._order, mask, node)
            self._reclaimer.tick()
            self._count("success" if pfn >= 0 else "fail")
            if pfn >= 0:
                gave_up.discard(node)
                self._add(pfn)
                return True
            if self._allocator.policy.hugetlb_noretry:
                gave_up.add(node)
        return False

    def _add(self, pfn: int) -> None:
        zone = self._allocator.zone_at(pfn)
        self._reclaimer.nodes[zone.node].uses[zone.index].set(pfn, 1 << self._order, _POOL)
        self.free[zone.node].append(pfn)

    def _count(self, what: str) -> None:
        counters = self._allocator.counters
        name = f"htlb_buddy_alloc_{what}"
        counters[name] = counters.get(name, 0) + 1

    def _shrink(self, count: int, allowed: Sequence[int]) -> None:
        """Give free pages back, one node after the other; what tasks hold becomes surplus."""
        free = sum(map(len, self.free.values()))
        least = max(count, self.reserved + self.total - free)
        while self.persistent > least and self._one_less(allowed):
            pass
        for node in allowed:
            over = min(self.persistent - count, self.used[node] - self.surplus[node])
            self.surplus[node] += max(0, over)

    def _one_less(self, allowed: Sequence[int]) -> bool:
        for _ in allowed:
            node = self._give_next if self._give_next in allowed else allowed[0]
            self._give_next = _after(allowed, node)
            if self.free[node]:
                pfn = self.free[node].pop()
                reclaim = self._reclaimer.nodes[node]
                zone = reclaim.zone_at(pfn)
                reclaim.uses[zone.index].clear(pfn, 1 << self._order, _POOL)
                self._allocator.free(self._cpu, pfn, self._order)
                return True
        return False


def _after(nodes: Sequence[int], node: int) -> int:
    """Return the allowed node that follows another, in a circle."""
    later = [other for other in nodes if other > node]
    return later[0] if later else nodes[0]
