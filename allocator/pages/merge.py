"""Freeing many blocks at once, with the result of freeing them one by one."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from allocator.pages.runs import Pfns

if TYPE_CHECKING:  # the lists call this module
    from allocator.pages.buddy import Buddy


class Merge:
    """Frees of many blocks, level by level instead of one by one.

    Which blocks remain in the end does not depend on the order of freeing; where they lie in their
    lists does: a block is inserted when the last of its parts is freed.
    """

    def __init__(
        self, buddy: "Buddy", pfns: Pfns, orders: NDArray[np.int64], types: NDArray[np.int8]
    ) -> None:
        self.buddy = buddy
        self.new = (pfns, orders, types.astype(np.int64))
        self.freed = int((1 << orders).sum())
        self.done: list[tuple[Pfns, NDArray[np.int64], NDArray[np.int64], int]] = []

    def run(self) -> None:
        """Free the blocks."""
        pfns, orders, types = self.new
        times = np.arange(len(pfns))
        rows = np.stack([pfns, times, types])
        carried = rows[:, :0]
        for order in range(self.buddy.max_order + 1):
            level = np.concatenate([carried, rows[:, orders == order]], axis=1)
            carried = self._level(level[:, np.argsort(level[0])], order)
        self._insert()
        self.buddy.free_pages += self.freed

    def _level(self, level: NDArray[np.int64], order: int) -> NDArray[np.int64]:
        """Merge the new blocks of one order; return those of the next."""
        buddy = self.buddy
        pfns, times, types = level
        if order == buddy.max_order or not len(pfns):
            self.done.append((pfns, times, types, order))
            return level[:, :0]
        twins = np.flatnonzero(pfns[:-1] ^ pfns[1:] == 1 << order)
        mates = (pfns ^ (1 << order)) - buddy.base
        inside = (mates >= 0) & (mates < len(buddy.order_of))
        old = inside.copy()
        old[inside] = buddy.order_of[mates[inside]] == order + 1
        later = twins + (times[twins + 1] > times[twins])
        earlier = 2 * twins + 1 - later
        if order >= buddy.pageblock_order:
            allowed = self._allowed(pfns[earlier], types[later])
            twins, later, earlier = twins[allowed], later[allowed], earlier[allowed]
            old[old] = self._allowed(pfns[old] ^ (1 << order), types[old])
        joined = np.flatnonzero(old)
        gone = mates[joined]
        for migratetype in np.unique(buddy.list_of[gone]).tolist():
            which = gone[buddy.list_of[gone] == migratetype]
            buddy.lists[order][migratetype].removes(which + buddy.base)
        buddy.order_of[gone] = 0
        if order >= buddy.pageblock_order and buddy.policy.list_type == "pageblock":
            self._retag(pfns[earlier], types[later], order)
            self._retag(gone + buddy.base, types[joined], order)
        alone = np.ones(len(pfns), dtype=np.bool_)
        alone[later] = alone[earlier] = alone[joined] = False
        self.done.append((pfns[alone], times[alone], types[alone], order))
        merged = level[:, np.concatenate([later, joined])]
        merged[0] &= ~(1 << order)
        return merged

    def _allowed(self, mates: Pfns, types: NDArray[np.int64]) -> NDArray[np.bool_]:
        others = self.buddy.types_of(mates)
        barred = np.isin(others, self.buddy.barriers) | np.isin(types, self.buddy.barriers)
        allowed: NDArray[np.bool_] = (others == types) | ~barred
        return allowed

    def _retag(self, pfns: Pfns, types: NDArray[np.int64], order: int) -> None:
        for pfn, migratetype in zip(pfns.tolist(), types.tolist(), strict=True):
            self.buddy.set_type(pfn, order, migratetype)

    def _insert(self) -> None:
        """Put the resulting blocks on their lists, by the time of their completion."""
        buddy = self.buddy
        rank = np.argsort(np.concatenate([row[0] for row in self.done]))
        pfns, times, types = (np.concatenate([row[i] for row in self.done])[rank] for i in range(3))
        orders = np.concatenate([np.full(len(row[0]), row[3]) for row in self.done])[rank]
        higher = (pfns & ~(1 << orders)) ^ (2 << orders)
        at = higher - buddy.base
        inside = (at >= 0) & (at < len(buddy.order_of)) & (orders < buddy.max_order - 1)
        likely = inside.copy()
        likely[inside] = buddy.order_of[at[inside]] == orders[inside] + 2
        found = np.searchsorted(pfns, higher)
        found[found == len(pfns)] = 0
        sibling = inside & (pfns[found] == higher) & (orders[found] == orders + 1)
        likely |= sibling & (times[found] < times)
        by_time = np.argsort(times)
        for order in np.unique(orders).tolist():
            for migratetype in np.unique(types[orders == order]).tolist():
                which = by_time[(orders[by_time] == order) & (types[by_time] == migratetype)]
                buddy.mark(pfns[which], order, migratetype)
                target = buddy.lists[order][migratetype]
                target.push_heads(pfns[which[~likely[which]]])
                target.push_tails(pfns[which[likely[which]]])
