"""One free list in the kernel's own order, as an array with room at both ends."""

import numpy as np
from numpy.typing import NDArray

_DEAD = -1
_ROOM = 64


class FreeList:
    """Blocks of one order and type, head to tail (struct free_area, free_list[type]).

    A block that leaves from the middle leaves a hole; `where` tells its place. Entries below -1
    stand for whole ranges of blocks that nobody touched yet. Single entries are read and written
    through memoryviews: several times faster than through arrays.

    Parameters
    ----------
    where
        (page,) int32: place in its list of each free block, shared by all lists of a zone.
    base
        Page frame number of `where[0]`.
    """

    __slots__ = ("_buf", "_head", "_places", "_slots", "_tail", "base", "live", "runs", "where")

    def __init__(self, where: NDArray[np.int32], base: int) -> None:
        self.where = where
        self._places = memoryview(where)  # type: ignore[arg-type]
        self.base = base
        self.live = 0
        """Blocks on the list."""
        self.runs: list[list[range]] = []
        """Untouched ranges of page frame numbers, by number of the entry that stands for them."""
        self._buf: NDArray[np.int64] = np.full(2 * _ROOM, _DEAD, dtype=np.int64)
        self._slots = memoryview(self._buf)  # type: ignore[arg-type]
        self._head = self._tail = _ROOM

    def __len__(self) -> int:
        return self.live

    def push_head(self, pfn: int) -> None:
        """Put one block first."""
        if self._head == 0:
            self._reserve(1, 0)
        self._head = first = self._head - 1
        self._slots[first] = pfn
        self._places[pfn - self.base] = first
        self.live += 1

    def push_tail(self, pfn: int) -> None:
        """Put one block last."""
        if self._tail == len(self._buf):
            self._reserve(0, 1)
        self._slots[self._tail] = pfn
        self._places[pfn - self.base] = self._tail
        self._tail += 1
        self.live += 1

    def push_heads(self, pfns: NDArray[np.int64]) -> None:
        """Put blocks first, one after the other: the last of them becomes the head."""
        n = len(pfns)
        if self._head < n:
            self._reserve(n, 0)
        self._head -= n
        self._buf[self._head : self._head + n] = pfns[::-1]
        first = self._head
        self.where[pfns - self.base] = np.arange(first + n - 1, first - 1, -1)
        self.live += n

    def push_tails(self, pfns: NDArray[np.int64]) -> None:
        """Put blocks last, one after the other: the last of them becomes the tail."""
        n = len(pfns)
        if len(self._buf) - self._tail < n:
            self._reserve(0, n)
        self._buf[self._tail : self._tail + n] = pfns
        first = self._tail
        self.where[pfns - self.base] = np.arange(first, first + n)
        self._tail += n
        self.live += n

    def push_run(self, pfns: range) -> None:
        """Put an untouched range of blocks last, as one entry."""
        if not pfns:
            return
        if self._tail == len(self._buf):
            self._reserve(0, 1)
        self._buf[self._tail] = -2 - len(self.runs)
        self.runs.append([pfns])
        self._tail += 1
        self.live += len(pfns)

    def head(self) -> int:
        """Return the first block, -1 if there is none."""
        slots = self._slots
        while self._head < self._tail:
            entry = slots[self._head]
            if entry >= 0:
                return entry
            if entry < _DEAD and self.runs[-2 - entry]:
                return self.runs[-2 - entry][0].start
            self._head += 1
        self._recentre()
        return -1

    def pop(self) -> int:
        """Take the first block, -1 if there is none."""
        pfn = self.head()
        if pfn >= 0:
            self._drop_head()
        return pfn

    def pops(self, count: int) -> NDArray[np.int64]:
        """Take up to `count` blocks from the head, in list order."""
        parts: list[NDArray[np.int64]] = []
        left = min(count, self.live)
        while left > 0:
            entry = int(self._buf[self._head])
            taken = self._pop_run(-2 - entry, left) if entry < _DEAD else self._pop_plain(left)
            parts.append(taken)
            left -= len(taken)
            self.live -= len(taken)
        if self.live == 0:
            self._recentre()
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def remove(self, pfn: int) -> None:
        """Take one block out, wherever it is (it must be on the list, and no untouched one)."""
        self._slots[self._places[pfn - self.base]] = _DEAD
        self.live -= 1
        if self.live == 0:
            self._recentre()

    def removes(self, pfns: NDArray[np.int64]) -> None:
        """Take blocks out, wherever they are (none of them untouched)."""
        self._buf[self.where[pfns - self.base]] = _DEAD
        self.live -= len(pfns)
        if self.live == 0:
            self._recentre()

    def remove_untouched(self, pfn: int) -> None:
        """Take one block out of an untouched range.

        Raises
        ------
        LookupError
            If no untouched range holds it.
        """
        for ranges in self.runs:
            for i, pfns in enumerate(ranges):
                if pfn in pfns:
                    at = pfns.index(pfn)
                    ranges[i : i + 1] = [part for part in (pfns[:at], pfns[at + 1 :]) if part]
                    self.live -= 1
                    return
        raise LookupError(f"block {pfn} is in no untouched range")

    def blocks(self, limit: int | None = None) -> NDArray[np.int64]:
        """Return the blocks in list order, at most `limit` of them; nothing is taken."""
        entries = self._entries()
        if limit is not None:
            entries = entries[:limit]
        if not self.runs or not (entries < _DEAD).any():
            return entries.copy()
        parts = [np.empty(0, dtype=np.int64)]
        for entry in entries.tolist():
            if entry >= 0:
                parts.append(np.array([entry], dtype=np.int64))
            else:
                parts += [np.arange(r.start, r.stop, r.step) for r in self.runs[-2 - entry]]
        found: NDArray[np.int64] = np.concatenate(parts)
        return found if limit is None else found[:limit]

    def _entries(self) -> NDArray[np.int64]:
        window = self._buf[self._head : self._tail]
        entries: NDArray[np.int64] = window[window != _DEAD]
        return entries

    def _drop_head(self) -> None:
        entry = self._slots[self._head]
        if entry >= 0:
            self._head += 1
        else:
            ranges = self.runs[-2 - entry]
            ranges[0] = ranges[0][1:]
            if not ranges[0]:
                del ranges[0]
        self.live -= 1
        if self.live == 0:
            self._recentre()

    def _pop_plain(self, left: int) -> NDArray[np.int64]:
        """Take plain entries in front of the next range; at most `left`, maybe none."""
        stop = min(self._tail, self._head + left)
        window = self._buf[self._head : stop]
        ranged = np.flatnonzero(window < _DEAD)
        if len(ranged):
            window = window[: ranged[0]]
        self._head += len(window)
        plain: NDArray[np.int64] = window[window >= 0]
        return plain

    def _pop_run(self, number: int, left: int) -> NDArray[np.int64]:
        """Take blocks of an untouched range; a range that is used up goes."""
        ranges = self.runs[number]
        if not ranges:
            self._head += 1
            return np.empty(0, dtype=np.int64)
        pfns = ranges[0][:left]
        ranges[0] = ranges[0][left:]
        if not ranges[0]:
            del ranges[0]
        return np.arange(pfns.start, pfns.stop, pfns.step, dtype=np.int64)

    def _recentre(self) -> None:
        """Start afresh in the middle; the list is empty."""
        self._head = self._tail = len(self._buf) // 2
        self.runs.clear()

    def _reserve(self, front: int, back: int) -> None:
        """Squeeze out the holes, and make room at both ends."""
        entries = self._entries()
        n = len(entries)
        spare = max(_ROOM, n // 2)
        buf = np.full(front + back + n + 2 * spare, _DEAD, dtype=np.int64)
        start = front + spare
        buf[start : start + n] = entries
        self._buf, self._head, self._tail = buf, start, start + n
        self._slots = memoryview(buf)  # type: ignore[arg-type]
        plain = np.flatnonzero(entries >= 0)
        self.where[entries[plain] - self.base] = plain + start
