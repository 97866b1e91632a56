"""Where a replay script's objects are: what the records call `place`.

Slabs are numbered in each cache by the first object handed out; a slab that was given back and
made again is a new number.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.pool import CPU, FREE, PARTIAL
from allocator.slabs.ranks import ragged
from allocator.slabs.state import State
from allocator.workloads.script_run import UNKNOWN, Watcher

Ints = NDArray[np.int64]


@dataclass(slots=True)
class _Known:
    """Slabs of one cache that objects were handed out of, by number."""

    by_rcu: bool
    """TYPESAFE_BY_RCU: pages outlive their slab by a grace period, and are seen until then."""
    slab: list[int] = field(default_factory=list)
    """Engine's number."""
    node: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    """Ids that are held."""
    freed: list[bool] = field(default_factory=list)
    """The slab was given back."""
    gone: list[bool] = field(default_factory=list)
    """So were its pages, as far as anybody sees."""
    told_gone: set[int] = field(default_factory=set)
    placed: list[tuple[int, int, int]] = field(default_factory=list)
    """Runs handed out since the last snapshot: first id, how many, number of their slab."""


class Placement:
    """Observer of a run with one lane."""

    def __init__(self) -> None:
        self.caches: dict[int, _Known] = {}
        self._numbers: dict[int, tuple[int, int]] = {}  # engine's number -> cache, number

    def watcher(self) -> Watcher:
        """Return what to give to a `ScriptRun`."""
        return Watcher(took=self._took, gave=self._gave, moved=self._moved)

    def add(self, cache: int, *, by_rcu: bool) -> None:
        """Begin with a cache."""
        self.caches[cache] = _Known(by_rcu)

    def drop(self, cache: int) -> None:
        """Forget a cache."""
        del self.caches[cache]

    def end_grace_period(self) -> None:
        """Let pages of slabs that were given back be gone, by RCU or not."""
        for known in self.caches.values():
            known.gone = list(known.freed)

    def tell(self, state: State, names: dict[str, int]) -> dict[str, object]:
        """Return what a snapshot tells, and forget what it told of ids and lost slabs."""
        for known in self.caches.values():
            if not known.by_rcu:
                known.gone = list(known.freed)
        caches = {name: self.caches[cache] for name, cache in names.items()}
        return {
            "placed": {name: _placed(known) for name, known in caches.items()},
            "slabs": {name: _slabs(known, state) for name, known in caches.items()},
            "gone": {name: _gone(known) for name, known in caches.items()},
        }

    def bind(self, state: State) -> None:
        """Look at slabs there."""
        self._state = state

    def _took(self, cache: int, first: int, slabs: Ints) -> None:
        known = self.caches[cache]
        pool, nodes = self._state.pool, self._state.nr_nodes
        got = slabs[0]
        got = got[: int(np.argmax(got == UNKNOWN))] if (got == UNKNOWN).any() else got
        starts, count = _runs(got)
        for slab, at, objects in zip(got[starts].tolist(), starts.tolist(), count, strict=True):
            number = self._numbers.get(slab)
            if number is None:
                number = cache, len(known.slab)
                self._numbers[slab] = number
                known.slab.append(slab)
                known.node.append(int(pool.home[slab]) % nodes)
                known.objects.append(int(pool.objects[slab]))
                known.live.append(0)
                known.freed.append(False)
                known.gone.append(False)
            known.live[number[1]] += objects
            known.placed.append((first + at, objects, number[1]))

    def _gave(self, cache: int, slabs: Ints) -> None:
        known = self.caches[cache]
        gave = slabs[0][slabs[0] != UNKNOWN]
        starts, count = _runs(gave)
        for slab, objects in zip(gave[starts].tolist(), count, strict=True):
            known.live[self._numbers[slab][1]] -= objects

    def _moved(self, moves: Ints) -> None:
        for slab in moves[moves[:, 3] == 0, 1].tolist():
            at = self._numbers.pop(slab, None)
            if at is not None and at[0] in self.caches:
                self.caches[at[0]].freed[at[1]] = True


def _runs(slabs: Ints) -> tuple[Ints, list[int]]:
    """Return where runs of equal slabs begin, and how long they are."""
    starts = np.flatnonzero(np.diff(slabs, prepend=UNKNOWN))
    return starts, np.diff(starts, append=len(slabs)).tolist()


def _placed(known: _Known) -> list[list[int]]:
    """Return [first id, count, slab] of ids handed out since the last snapshot."""
    if not known.placed:
        return []
    first, count, number = np.array(known.placed, dtype=np.int64).T
    known.placed.clear()
    slab = np.full(int((first + count).max()), UNKNOWN, dtype=np.int64)
    slab[ragged(first, count)] = np.repeat(number, count)  # an id that was given again: the last
    starts, length = _runs(slab)
    return [
        [at, objects, where]
        for at, objects, where in zip(starts.tolist(), length, slab[starts].tolist(), strict=True)
        if where != UNKNOWN
    ]


def _slabs(known: _Known, state: State) -> list[list[int]]:
    """Return [slab, how many alike, node, objects, live, inuse, frozen] of slabs that exist."""
    slab = np.array(known.slab, dtype=np.int64)
    freed = np.array(known.freed, dtype=bool)
    word = np.where(freed, 0, state.pool.word[slab])
    in_use = np.where(freed, 0, np.array(known.objects, dtype=np.int64) - (word & FREE))
    holds = CPU | PARTIAL if state.policy.freezing == "taken" else CPU
    frozen = (word & holds) != 0
    each = zip(
        known.gone,
        known.node,
        known.objects,
        known.live,
        in_use.tolist(),
        frozen.astype(int).tolist(),
        strict=True,
    )
    runs: list[list[int]] = []
    for number, (gone, *what) in enumerate(each):
        if gone:
            continue
        if runs and runs[-1][0] + runs[-1][1] == number and runs[-1][2:] == what:
            runs[-1][1] += 1
        else:
            runs.append([number, 1, *what])
    return runs


def _gone(known: _Known) -> list[int]:
    """Return slabs given back since the last snapshot."""
    gone = [n for n, gone in enumerate(known.gone) if gone and n not in known.told_gone]
    known.told_gone.update(gone)
    return gone
