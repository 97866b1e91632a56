"""Requests under sheaves: what a window remembers besides `Window`."""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.ranks import group_lengths, group_starts
from allocator.slabs.state import State
from allocator.slabs.window import Window

Ints = NDArray[np.int64]


class SheafWindow(Window):
    """Allocation requests of one call under sheaves; parameters as for `Window`."""

    def __init__(
        self,
        place: Ints,
        row: Ints,
        count: Ints,
        node: Ints | None,
        gfp: Ints,
        *,
        bulk: bool = False,
    ) -> None:
        super().__init__(place, row, count, node, gfp, bulk=bulk)
        self.target: Ints = np.zeros(len(place), dtype=np.int64)
        """Objects that the refill under way wants."""
        self.filled: Ints = np.zeros(len(place), dtype=np.int64)
        """Objects that it has."""
        self.single: NDArray[np.bool_] = np.zeros(len(place), dtype=bool)
        """The direct allocation under way is of one object, not of all that are needed."""
        self.keeps_part = False
        """Bulk requests fill sheaves, which keep what they got when memory ends."""

    def fill(self, state: State, who: Ints, slab: Ints, count: Ints) -> None:
        """Add objects to refills in filling order; entries of one request stand together.

        A sheaf is filled in the slot of the CPU's spare sheaf; a bulk call's objects are handed
        out at once.
        """
        if not len(who):
            return
        starts = group_starts(who)
        upto = np.cumsum(count) - count
        earlier = upto - np.repeat(upto[starts], group_lengths(starts, len(who)))
        if self.bulk:
            self.emit(who, slab, count.astype(np.int32))
        else:
            assert state.sheaves is not None
            slot = state.sheaves.spare[self.place[who]]
            first = self.filled[who] + earlier
            state.sheaves.write(slot, first, count, np.repeat(slab, count))
        np.add.at(self.filled, who, count)
