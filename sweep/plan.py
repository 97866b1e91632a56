"""How many points go into the next task: pure decisions from measured times.

Points are put into classes whose lanes can advance together; a chunk has points of one class. A
task's time is taken as `fixed + per_point * points`: a vectorised model pays much of its time per
step, whatever the number of lanes, so more lanes per chunk are cheaper than more chunks.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

PROBES = (8, 32)
"""Sizes of the first chunks of a class, before any time of it is known."""

SHORTEST_TASK = 0.2
"""Seconds below which a task is mostly overhead."""

LARGEST_CHUNK = 50_000
"""Points; bounds a chunk's results."""

EFFICIENCY = 0.8
"""Share of a task's time that points, not the fixed part, should take; may exceed the target."""

GROWTH = 8
"""Largest step from the largest chunk that was timed to the next."""

SHRINKAGE = 2
"""Largest step down: one size alone does not tell a fixed time from a time per point."""

MAX_DEATHS = 2
"""Workers that may die on a chunk before it is split, or its only point is given up."""

MAX_LOSSES = 10
"""Nodes that may be lost under a chunk before the run gives up."""


@dataclass(slots=True)
class Cost:
    """Times of the tasks of one class."""

    times: list[tuple[int, float]] = field(default_factory=list)
    """Points and seconds of finished tasks, the latest last."""

    def tell(self, points: int, seconds: float) -> None:
        """Add a finished task; only the latest count."""
        self.times = [*self.times[-15:], (points, max(seconds, 1e-9 * points))]

    @property
    def sizes(self) -> tuple[int, int]:
        """Points of the smallest and the largest task that was timed."""
        sizes = [points for points, _ in self.times]
        return min(sizes), max(sizes)

    def fit(self) -> tuple[float, float]:
        """Return the fixed seconds and the seconds per point, neither negative."""
        sizes = np.array([points for points, _ in self.times], dtype=np.float64)
        seconds = np.array([time for _, time in self.times], dtype=np.float64)
        mean = float(seconds.sum() / sizes.sum())
        spread = sizes - sizes.mean()
        if float(spread @ spread) < 0.1 * sizes.mean() ** 2:  # sizes too alike to tell apart
            return 0.0, mean
        slope = float(spread @ (seconds - seconds.mean()) / (spread @ spread))
        fixed = float(seconds.mean() - slope * sizes.mean())
        if slope <= 0.0:  # all fixed, as far as can be seen
            return float(seconds.mean()), 0.02 * mean
        return (0.0, mean) if fixed < 0.0 else (fixed, slope)


def chunk_size(cost: Cost, *, left: int, workers: int, target: float) -> int:
    """Return how many of a class's points the next task should simulate.

    Parameters
    ----------
    cost
        Times of the class's tasks, at least one.
    left
        Points of the class that are not given out yet.
    workers
        Tasks that run at once.
    target
        Seconds that a task should last.
    """
    fixed, per_point = cost.fit()
    wanted = (target - fixed) / per_point
    efficient = EFFICIENCY / (1 - EFFICIENCY) * fixed / per_point
    size = max(wanted, efficient, 1.0)
    share = math.ceil(left / workers)  # the last tasks should end together
    floor = max(1.0, (SHORTEST_TASK - fixed) / per_point, efficient / 4)
    smallest, largest = cost.sizes
    size = max(min(size, GROWTH * largest), smallest / SHRINKAGE)
    return max(1, min(int(min(size, max(share, floor))), LARGEST_CHUNK, left))


@dataclass(slots=True, kw_only=True)
class Chunk:
    """The points of one task."""

    number: int
    """Number of the chunk in this session."""
    kind: int
    """Class of its points."""
    points: NDArray[np.int64]
    """Numbers of its points, (point,)."""
    deaths: int = 0
    """Workers that died on it."""
    losses: int = 0
    """Nodes that were lost under it."""


class Planner:
    """Gives out chunks, learns from the times of tasks, and takes back what was lost."""

    def __init__(
        self,
        points: NDArray[np.int64],
        kinds: NDArray[np.int64],
        *,
        workers: int,
        target: float,
        fixed_size: int | None = None,
    ) -> None:
        """Plan the given points.

        Parameters
        ----------
        points
            Numbers of the points to simulate, (point,).
        kinds
            Class of each, (point,).
        workers
            Tasks that run at once; may change later.
        target
            Seconds that a task should last.
        fixed_size
            Points per chunk; None: by measured time.
        """
        order = np.argsort(kinds, kind="stable")
        self._points, ranked = points[order], kinds[order]
        found, starts = np.unique(ranked, return_index=True)
        ends = [*starts.tolist()[1:], len(ranked)]
        self._left: dict[int, list[int]] = {
            kind: [first, end]
            for kind, first, end in zip(
                found.tolist(), starts.tolist(), ends, strict=len(ranked) > 0
            )
        }
        self._costs: dict[int, Cost] = {kind: Cost() for kind in self._left}
        self._asked: dict[int, int] = dict.fromkeys(self._left, 0)
        self._again: list[Chunk] = []
        self._numbers = self._count()
        self._target, self._fixed_size = target, fixed_size
        self.workers = workers

    def ask(self) -> Chunk | None:
        """Return the next chunk; None if all points are given out."""
        if self._again:
            return self._again.pop()
        kind = self._next_kind()
        if kind is None:
            return None
        first, end = self._left[kind]
        size = self._size(kind, end - first)
        self._asked[kind] += 1
        self._left[kind][0] = first + size
        if first + size == end:
            del self._left[kind]
        return Chunk(
            number=next(self._numbers), kind=kind, points=self._points[first : first + size]
        )

    def tell(self, chunk: Chunk, seconds: float) -> None:
        """Learn how long a chunk's task took."""
        self._costs[chunk.kind].tell(chunk.points.size, seconds)

    def lost(self, chunk: Chunk) -> None:
        """Take back a chunk whose node was lost: not its points' fault."""
        chunk.losses += 1
        self._again.append(chunk)

    def died(self, chunk: Chunk) -> bool:
        """Take back a chunk whose worker died, split if that happened before.

        Returns
        -------
        bool
            False if the chunk is one point that killed its worker `MAX_DEATHS` times: it is given
            up, and the caller records the failure.
        """
        chunk.deaths += 1
        if chunk.deaths < MAX_DEATHS:
            self._again.append(chunk)
            return True
        if chunk.points.size == 1:
            return False
        self.split(chunk, deaths=MAX_DEATHS - 1)
        return True

    def split(self, chunk: Chunk, *, deaths: int = 0) -> None:
        """Give a chunk out again in two halves."""
        for half in np.array_split(chunk.points, 2):
            self._again.append(
                Chunk(number=next(self._numbers), kind=chunk.kind, points=half, deaths=deaths)
            )

    def _next_kind(self) -> int | None:
        """Return a class that has not been probed yet, else one whose times are known."""
        if not self._left:
            return None
        return min(self._left, key=self._urgency)

    def _urgency(self, kind: int) -> tuple[bool, bool, float]:
        """Return a key: classes to probe come first, then known ones, the longest first."""
        asked = self._asked[kind] >= len(PROBES)
        unknown = asked and not self._costs[kind].times
        return unknown, asked, -self._remaining_seconds(kind)

    def _remaining_seconds(self, kind: int) -> float:
        first, end = self._left[kind]
        fixed, per_point = self._costs[kind].fit() if self._costs[kind].times else (0.0, 0.0)
        return float(fixed + per_point * (end - first))

    def _size(self, kind: int, left: int) -> int:
        if self._fixed_size is not None:
            return min(self._fixed_size, left)
        cost = self._costs[kind]
        if not cost.times:
            probe = PROBES[min(self._asked[kind], len(PROBES) - 1)]
            return min(probe, max(1, math.ceil(left / self.workers)), left)
        return chunk_size(cost, left=left, workers=self.workers, target=self._target)

    @staticmethod
    def _count() -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1
