"""One call of the engine: requests that advance together, and the runs they are given.

A request runs by itself until it must touch something that other CPUs share. Then it waits for the
phase of that kind; phases are served in the order of requests (`Stage`), rounds of phases repeat
until all are done. See `allocator.slabs.slub` for what that promises.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from allocator.gfp import THISNODE
from allocator.slabs.ranks import gathered, group_lengths, stable_order

Ints = NDArray[np.int64]


class Stage(IntEnum):
    """What a request waits for; the order is that of the phases of a round."""

    DONE = 0
    """Nothing: it has all it asked for, or failed."""
    BARN = 1
    """The barn (7.x)."""
    PUT = 2
    """A slab goes to a node list."""
    TAKE = 3
    """Slabs come from the list of the wanted or local node."""
    POP = 4
    """Single objects come from that list (7.x)."""
    ANY = 5
    """Slabs come from another node's list."""
    ANY_POP = 6
    """A single object comes from another node's list (7.x)."""
    NEW = 7
    """A new slab."""
    NEW_ONE = 8
    """A new slab of which one object is used (7.x)."""
    SLAB = 9
    """Objects are freed to their slabs directly (7.x)."""
    FLUSH = 10
    """A sheaf's objects go back to their slabs (7.x)."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Consecutive objects of one slab, handed out together; (run,) each.

    They are sorted by request; runs of one request stand in the order in which it got them.
    """

    request: Ints
    """Number of the request in the call's arrays."""
    slab: Ints
    """Slab of the objects."""
    count: NDArray[np.int32]
    """Objects."""

    def __len__(self) -> int:
        return len(self.slab)

    def by_request(self) -> Self:
        """Return the runs, which are sorted by request."""
        return self

    @classmethod
    def sorted(cls, request: Ints, slab: Ints, count: NDArray[np.int32], requests: int) -> Self:
        """Build from runs in the order in which they were handed out."""
        order = stable_order(request, requests)
        return cls(gathered(request, order), gathered(slab, order), gathered(count, order))


class Window:
    """Requests of one call, (request,) each.

    Parameters
    ----------
    place
        CPU: row * cpus + cpu.
    row
        Row.
    count
        Objects asked for.
    node
        Node asked for, -1 for none; None if no request names one.
    gfp
        Flags as in `allocator.gfp`.
    bulk
        Each request is one bulk call, which gets all or nothing.
    """

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
        size = len(place)
        self.place, self.row, self.gfp = place, row, gfp
        self.need: NDArray[np.int32] = count.astype(np.int32)
        """Objects still wanted."""
        self.stage: NDArray[np.int8] = np.zeros(size, dtype=np.int8)
        """`Stage`."""
        self.named = node is not None
        """Some request names a node."""
        self.node: Ints = np.full(size, -1) if node is None else node
        """Node named, -1 for none."""
        self.want: Ints = self.node.copy()
        """Node that the object now sought must come from; rules may change it."""
        self.slow: NDArray[np.bool_] = np.zeros(size, dtype=bool)
        """In the slow path for the next object."""
        self.loaded: NDArray[np.bool_] = np.zeros(size, dtype=bool)
        """The slow path has found a slab: the next object is its."""
        self.first_pass: NDArray[np.bool_] = np.zeros(size, dtype=bool)
        """Trying the wanted node alone (6.10)."""
        self.search: Ints = np.full(size, -1)
        """Node list to be visited."""
        self.hop: Ints = np.zeros(size, dtype=np.int64)
        """Place in the zonelist of the next node to be tried."""
        self.popped: Ints = np.zeros(size, dtype=np.int64)
        """Slab taken off the cpu partial list that does not suit (6.8)."""
        self.bulk = bulk
        """Each request is one bulk call."""
        self._requests: list[Ints] = []
        self._slabs: list[Ints] = []
        self._counts: list[NDArray[np.int32]] = []

    def waiting(self, stage: Stage) -> Ints:
        """Return the requests that wait for a phase, in order."""
        which: Ints = (self.stage == stage).nonzero()[0]
        return which

    def this_node(self, who: Ints) -> NDArray[np.bool_]:
        """Tell whether only the wanted node may serve a request (now)."""
        told: NDArray[np.bool_] = self.first_pass[who] | ((self.gfp[who] & THISNODE) != 0)
        return told

    def row_bounds(self, rows: int) -> Ints | None:
        """Return the first request of each row and the end, if requests are sorted by row."""
        if bool((self.row[1:] < self.row[:-1]).any()):
            return None
        return np.searchsorted(self.row, np.arange(rows + 1))

    def emit(self, who: Ints, slab: Ints, count: NDArray[np.int32]) -> None:
        """Hand out objects of a slab to each of the requests; 0 objects are no run."""
        some = (count != 0).nonzero()[0]
        if len(some) < len(count):
            who, slab, count = who[some], slab[some], count[some]
        self.emit_all(who, slab, count)

    def emit_all(self, who: Ints, slab: Ints, count: NDArray[np.int32]) -> None:
        """Hand out objects of a slab to each of the requests, at least one."""
        self._requests.append(who)
        self._slabs.append(slab)
        self._counts.append(count)

    def emit_objects(self, who: Ints, slab: Ints) -> None:
        """Hand out single objects, (object,) each; equal neighbours become one run."""
        if not len(who):
            return
        new = np.ones(len(who), dtype=bool)
        new[1:] = (who[1:] != who[:-1]) | (slab[1:] != slab[:-1])
        first = new.nonzero()[0]
        count = group_lengths(first, len(who)).astype(np.int32)
        self.emit(who[first], slab[first], count)

    def runs(self) -> Runs:
        """Return all runs handed out."""
        if not self._requests:
            none = np.zeros(0, dtype=np.int64)
            return Runs(none, none, np.zeros(0, dtype=np.int32))
        return Runs.sorted(
            np.concatenate(self._requests),
            np.concatenate(self._slabs),
            np.concatenate(self._counts),
            len(self.place),
        )

    def withdraw(self, who: Ints) -> Runs:
        """Take back the runs of some requests and return them."""
        runs = self.runs()
        theirs = np.isin(runs.request, who)
        kept = ~theirs
        self._requests = [runs.request[kept]]
        self._slabs = [runs.slab[kept]]
        self._counts = [runs.count[kept]]
        return Runs(runs.request[theirs], runs.slab[theirs], runs.count[theirs])
