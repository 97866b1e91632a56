"""Which ids a replay script holds at each of its lines."""

from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

MAX_IDS = 1 << 22
"""Ids must be smaller: they index tables."""


class Ids:
    """What a script did with each id so far.

    Parameters
    ----------
    fail
        Called with what was found and what was expected when an id cannot be used so; it raises.
    what
        What the ids are of, in these texts.
    """

    def __init__(self, fail: Callable[[object, str], NoReturn], what: str = "id") -> None:
        self.fail, self.what = fail, what
        self.line: NDArray[np.int64] = np.zeros(1024, dtype=np.int64)
        """(id,): n allocated in line n, -n freed in line n, 0 neither."""
        self.owner: NDArray[np.int32] = np.zeros(1024, dtype=np.int32)
        """(id,): number of the cache that gave it."""
        self.owners: dict[str, int] = {}
        self.used = 0

    def take(self, line: int, ids: range, cache: str = "") -> None:
        """Note that consecutive ids are allocated."""
        self._reach(ids[-1])
        where = slice(ids.start, ids[-1] + 1)
        lines = self.line[where]
        if lines.max() > 0:
            at = int(np.argmax(lines > 0))
            since = f"it is held since line {lines[at]}"
            self.fail(f"{self.what} {ids[at]}", f"an {self.what} that is free: {since}")
        lines[:] = line
        self.owner[where] = self.owners.setdefault(cache, len(self.owners))

    def give(self, line: int, ids: range | tuple[int, ...], cache: str) -> None:
        """Note that ids of a cache are freed, in this order."""
        self._reach(max(ids[0], ids[-1]) if isinstance(ids, range) else max(ids))
        number = self.owners.setdefault(cache, len(self.owners))
        if isinstance(ids, range):
            where = self._slice(ids)
            lines = self.line[where]
            if lines.min() > 0 and (self.owner[where] == number).all():
                lines[:] = -line
                return
        for one in ids:
            self.held(one, cache)
            self.line[one] = -line

    def held(self, one: int, cache: str) -> None:
        """Fail unless a cache holds the id."""
        self._reach(one)
        since, number = int(self.line[one]), self.owners.get(cache, -1)
        found, expected = f"{self.what} {one}", f"an {self.what} that {cache} holds"
        if since == 0:
            self.fail(found, f"{expected}: it was never allocated")
        if since < 0:
            self.fail(found, f"{expected}: it was freed in line {-since}")
        if self.owner[one] != number:
            owner = list(self.owners)[self.owner[one]]
            self.fail(found, f"{expected}: it belongs to {owner}")

    def give_if_held(self, ids: range) -> None:
        """Note that ids are free, whether they were held or not (`pfree`)."""
        self._reach(max(ids[0], ids[-1]))
        self.line[self._slice(ids)] = 0

    def give_all(self, line: int, cache: str) -> None:
        """Note that all ids of a cache are freed (`destroy`)."""
        owned = self.owner == self.owners.get(cache, -1)
        self.line[owned & (self.line > 0)] = -line

    def clear(self) -> None:
        """Forget all ids (`reset`)."""
        self.line[:] = 0

    def _reach(self, last: int) -> None:
        """Make room for ids up to `last`."""
        self.used = max(self.used, last + 1)
        if last >= self.line.size:
            more = max(self.line.size, last + 1 - self.line.size)
            self.line = np.concatenate([self.line, np.zeros(more, dtype=np.int64)])
            self.owner = np.concatenate([self.owner, np.zeros(more, dtype=np.int32)])

    @staticmethod
    def _slice(ids: range) -> slice:
        """Return ids as an ascending slice."""
        return slice(min(ids[0], ids[-1]), max(ids[0], ids[-1]) + 1, abs(ids.step))
