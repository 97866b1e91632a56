"""Where slabs get their pages: the protocol, and a source that never fragments."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class PageSource(Protocol):
    """Pages by order, for many requests at once."""

    def plenty(self, lane: Ints, node: Ints, order: Ints) -> bool:
        """Tell whether all these requests are sure to be served, in whatever order.

        If not, slabs are made one by one within a lane, so that a second attempt of one comes
        before the first of the next. A source may always say no.
        """
        ...

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
        """Allocate one block per request, served in array order.

        Parameters
        ----------
        lane
            (n,) machine.
        cpu
            (n,) CPU that allocates.
        node
            (n,) node whose zonelist is used.
        order
            (n,) order of the block.
        gfp
            (n,) flags as `allocator.gfp` lays them out.
        thisnode
            (n,) only this node may serve it.

        Returns
        -------
        tuple
            (n,) handle of the block, -1 if none could be had; (n,) its node.
        """
        ...

    def free(self, lane: Ints, cpu: Ints, page: Ints, order: Ints) -> None:
        """Give blocks back, in array order."""
        ...


class Bottomless:
    """Pages without zones or fragmentation: nearest node first, until its memory is used up.

    A block's handle is its node. Use it where only the number of slabs matters.

    Parameters
    ----------
    pages
        (lane, node) pages that each node can give.
    fallback
        (lane, node, hop) nodes that a request for `node` is tried on, nearest first, padded by -1.
    """

    def __init__(self, pages: Ints, fallback: Ints) -> None:
        self.free_pages = pages.astype(np.int64)
        """(lane, node): pages left."""
        self.used_pages = np.zeros_like(self.free_pages)
        """(lane, node): pages given."""
        self._fallback = fallback

    def plenty(self, lane: Ints, node: Ints, order: Ints) -> bool:
        """Tell whether the nearest nodes have the pages of all these requests."""
        first = self._fallback[lane, node, 0]
        return bool((self._asked(lane, first, order) <= self.free_pages).all())

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
        first = self._fallback[lane, node, 0]
        size = np.int64(1) << order
        if not (thisnode & (first != node)).any():
            asked = self._asked(lane, first, order)
            if (asked <= self.free_pages).all():
                self.free_pages -= asked
                self.used_pages += asked
                return first, first
        return self._one_by_one(lane, node, size, thisnode)

    def free(self, lane: Ints, cpu: Ints, page: Ints, order: Ints) -> None:
        """Give blocks back."""
        freed = self._asked(lane, page, order)
        self.free_pages += freed
        self.used_pages -= freed

    def _asked(self, lane: Ints, node: Ints, order: Ints) -> Ints:
        """Return the pages asked of each (lane, node)."""
        asked = np.zeros(self.free_pages.size, dtype=np.int64)
        np.add.at(asked, lane * self.free_pages.shape[1] + node, np.int64(1) << order)
        return asked.reshape(self.free_pages.shape)

    def _one_by_one(
        self, lane: Ints, node: Ints, size: Ints, thisnode: NDArray[np.bool_]
    ) -> tuple[Ints, Ints]:
        """Serve requests of a window in which some node runs out of memory."""
        where = np.full(len(lane), -1, dtype=np.int64)
        for i, (machine, wanted) in enumerate(zip(lane.tolist(), node.tolist(), strict=True)):
            for hop in self._fallback[machine, wanted].tolist():
                if hop < 0 or (thisnode[i] and hop != wanted):
                    continue
                if self.free_pages[machine, hop] >= size[i]:
                    self.free_pages[machine, hop] -= size[i]
                    self.used_pages[machine, hop] += size[i]
                    where[i] = hop
                    break
        return where, where
