"""Which slab pages reach the zone: per-CPU page lists in front of zone->lock, by count.

Only the number of pages on each list is kept: a refill takes one batch under one hold of
zone->lock, a drain gives one back (page_alloc.md 2.7, 11). Orders that the kernel keeps on no
per-CPU list go to the zone one by one (every order but 0 until 5.13).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allocator.pages.policy import PagePolicy

Ints = NDArray[np.int64]

BATCH = 63
"""Pages of a refill: pcp->batch of any zone above 1 GiB (zone_batchsize(), v6.1)."""
HIGH_BATCHES = 6
"""A list longer than this many batches is drained (pcp->high until 5.13; larger later)."""


class PcpFront:
    """Pages on the list of each (place, node); a place is lane * cpus + cpu."""

    def __init__(self, places: int, nodes: int, policy: PagePolicy) -> None:
        """Start with one batch on every list."""
        self._nodes = nodes
        self._orders = np.array([order in policy.pcp_orders for order in range(32)])
        self.level: Ints = np.full(places * nodes, BATCH, dtype=np.int64)

    def move(self, place: Ints, node: Ints, order: Ints, taken: Ints) -> tuple[Ints, Ints]:
        """Take or give back blocks, in array order.

        Parameters
        ----------
        place, node, order, taken
            (block,) whose list, of which node, order of the block, 1 taken or 0 given back.

        Returns
        -------
        tuple
            (hold,) block that made the CPU take zone->lock; (hold,) pages handled under it.
        """
        size = np.int64(1) << order
        where = place * self._nodes + node
        listed = self._orders[order]
        event: list[Ints] = [np.flatnonzero(~listed)]
        pages: list[Ints] = [size[~listed]]
        for blocks in rounds(where, np.flatnonzero(listed)):
            lists, step = where[blocks], size[blocks]
            batch = np.maximum(BATCH, 2 * step)
            level = self.level[lists] + np.where(taken[blocks] > 0, -step, step)
            refill = level < 0
            drain = level > np.maximum(HIGH_BATCHES * BATCH, 4 * step)
            self.level[lists] = level + np.where(refill, batch, 0) - np.where(drain, batch, 0)
            held = refill | drain
            event.append(blocks[held])
            pages.append(batch[held])
        return np.concatenate(event), np.concatenate(pages)


def rounds(key: Ints, which: Ints) -> Sequence[Ints]:
    """Split items so that none of a part shares its key, keeping the order within a key.

    Parameters
    ----------
    key
        (item,) keys.
    which
        Items to split, in order.

    Returns
    -------
    Parts of `which`; the first holds each key's first item, and so on.
    """
    if not len(which):
        return ()
    order = np.argsort(key[which], kind="stable")
    ordered = key[which][order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(order)) - np.repeat(first, np.diff(np.r_[first, len(order)]))
    by_rank = np.argsort(rank, kind="stable")
    cuts = np.searchsorted(rank[by_rank], np.arange(1, rank.max() + 1))
    return np.split(which[order][by_rank], cuts)
