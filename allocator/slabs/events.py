"""What happened in one call, in the order in which it did, for a clock to turn into time.

Every array tells of one kind of event; entries of one call are in the order in which the events
count as done. Requests are numbered as in the call's arrays.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Column:
    """Arrays of one kind of event, gathered during a call."""

    parts: list[tuple[Ints, ...]] = field(default_factory=list)
    """Parts in order; each a tuple of equally long arrays."""

    def add(self, *columns: Ints | int) -> None:
        """Add events; a number holds for all of them."""
        self.parts.append(tuple(np.asarray(column, dtype=np.int64) for column in columns))

    def table(self, width: int) -> Ints:
        """Return all parts as one (event, width) array."""
        if not self.parts:
            return np.zeros((0, width), dtype=np.int64)
        return np.concatenate([np.stack(np.broadcast_arrays(*part), axis=1) for part in self.parts])


class Events:
    """Events of the last call.

    Parameters
    ----------
    record
        Without it nothing is kept.
    """

    def __init__(self, record: bool) -> None:
        self.record = record
        self.clear()

    def clear(self) -> None:
        """Forget the events of the call before."""
        self._locks, self._updates, self._pages = Column(), Column(), Column()
        self._names: Ints | None = None

    @contextmanager
    def named(self, names: Ints | None) -> Iterator[None]:
        """Within it, request i of the rules is request `names[i]` of the caller; None: is i."""
        outer = self._names
        if names is not None:
            self._names = names if outer is None else outer[names]
        try:
            yield
        finally:
            self._names = outer

    def lock(self, request: Ints, where: Ints, units: Ints | int) -> None:
        """Note acquisitions of list_lock."""
        if self.record and len(request):
            self._locks.parts.append(
                (self._name(request), where, np.asarray(units, dtype=np.int64))
            )

    def update(self, request: Ints, slab: Ints, before: Ints, times: Ints | int) -> None:
        """Note updates of slabs' freelist words."""
        if self.record and len(request):
            self._updates.parts.append(
                (self._name(request), slab, before, np.asarray(times, dtype=np.int64))
            )

    def pages(self, request: Ints, slab: Ints, order: Ints, taken: int) -> None:
        """Note slabs that were made (`taken` 1) or given back (0)."""
        if self.record and len(request):
            self._pages.parts.append(
                (self._name(request), slab, order, np.asarray(taken, dtype=np.int64))
            )

    @property
    def locks(self) -> Ints:
        """(event, 3): request, list (row * nodes + node), slabs handled under its list_lock."""
        return self._locks.table(3)

    @property
    def updates(self) -> Ints:
        """(event, 4): request, slab, CPU that changed its word last (-1: none), updates."""
        return self._updates.table(4)

    @property
    def page_moves(self) -> Ints:
        """(event, 4): request, slab, order, 1 taken from or 0 given back to the page allocator."""
        return self._pages.table(4)

    def _name(self, request: Ints) -> Ints:
        return request if self._names is None else self._names[request]
