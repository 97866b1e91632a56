"""Pages for slabs out of real zones: fragmentation, watermarks and per-CPU lists included."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from allocator import gfp as flags
from allocator.pages.alloc import PageAllocator
from allocator.pages.source import Ints


class ZonedPages:
    """A page source (`allocator.pages.source.PageSource`) of one page allocator per lane.

    A block's handle is its first page frame number. Neighbouring equal requests are one call of
    the allocator; others are served one by one.

    Parameters
    ----------
    lanes
        Page allocator of each lane.
    """

    def __init__(self, lanes: Sequence[PageAllocator]) -> None:
        self.lanes = list(lanes)

    def alloc(
        self,
        lane: Ints,
        cpu: Ints,
        node: Ints,
        order: Ints,
        gfp: Ints,
        *,
        thisnode: NDArray[np.bool_],
    ) -> tuple[Ints, Ints]:
        """Allocate one block per request, served in array order."""
        mask = np.where(thisnode, gfp | flags.THISNODE, gfp)
        page = np.full(len(lane), -1, dtype=np.int64)
        where = np.full(len(lane), -1, dtype=np.int64)
        asked = np.stack([lane, cpu, node, order, mask])
        for start, stop in _series(asked):
            machine = self.lanes[int(lane[start])]
            _, on, near, size, bits = asked[:, start].tolist()
            while start < stop:  # a request that fails does not keep the next from being tried
                found = machine.alloc_many(on, size, bits, stop - start, near)
                page[start : start + len(found)] = found
                for zone in machine.zones:
                    mine = (found >= zone.buddy.start) & (found < zone.buddy.end)
                    where[start : start + len(found)][mine] = zone.node
                start += len(found) + 1
        return page, where

    def plenty(self, lane: Ints, node: Ints, order: Ints) -> bool:
        """Promise nothing: slabs are then made one by one, as their pages are asked for."""
        return False

    def free(self, lane: Ints, cpu: Ints, page: Ints, order: Ints) -> None:
        """Give blocks back, in array order."""
        for start, stop in _series(np.stack([lane, cpu])):
            machine = self.lanes[int(lane[start])]
            if stop - start == 1:
                machine.free(int(cpu[start]), int(page[start]), int(order[start]))
            else:
                machine.free_many(int(cpu[start]), page[start:stop], order[start:stop])


def _series(rows: Ints) -> list[tuple[int, int]]:
    """Return start and end of each stretch of equal columns."""
    length = rows.shape[1]
    if not length:
        return []
    changes = np.flatnonzero((rows[:, 1:] != rows[:, :-1]).any(axis=0)) + 1
    return list(pairwise([0, *changes.tolist(), length]))
