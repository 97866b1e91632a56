"""The loop of a run: chunks out, results in, each chunk in the journal before anything else."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.results import Status
from sweep.executors import Done, Executor, ExecutorError, Fault
from sweep.journal import Journal
from sweep.plan import MAX_LOSSES, Chunk, Planner
from sweep.points import Points
from sweep.progress import Progress
from sweep.store import Located, failed

log = logging.getLogger(__name__)

WINDOW = 2
"""Tasks in flight per worker: one that runs, and one that is there when it ends."""

PATIENCE = 1.0
"""Seconds to wait for a task before looking around."""

MADE_UP_TEXT = "the worker died every time it simulated this point (killed, or out of memory)"


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a run did in this session."""

    points: int = 0
    """Points that ended."""
    failed: int = 0
    """Those of them that failed."""
    chunks: int = 0
    """Chunks that ended."""
    busy_seconds: float = 0.0
    """Wall time of all tasks in workers."""
    stopped: bool = False
    """Whether the run stopped at a failure."""


class Runner:
    """Simulates the points that the journal does not have yet."""

    def __init__(
        self,
        points: Points,
        found: Located,
        journal: Journal,
        executor: Executor,
        *,
        stop_on_error: bool = False,
        on_chunk: Callable[[], None] | None = None,
    ) -> None:
        """Prepare a run.

        Parameters
        ----------
        points
            The points of the grid.
        found
            Where the journal has them; grows with the run.
        journal
            The journal.
        executor
            Where tasks run.
        stop_on_error
            Whether to give out no more points after the first failure.
        on_chunk
            Called after each chunk is in the journal.
        """
        self._points, self._found = points, found
        self._journal, self._executor = journal, executor
        self._stop_on_error = stop_on_error
        self._on_chunk = on_chunk
        self._flying: dict[int, Chunk] = {}
        self.tally = Tally()

    def run(self, planner: Planner, progress: Progress) -> Tally:
        """Simulate all that the planner gives out.

        Raises
        ------
        ExecutorError
            If nodes are lost again and again.
        JournalError
            If a chunk cannot be written.
        """
        while True:
            planner.workers = self._executor.workers()
            while len(self._flying) < WINDOW * planner.workers and not self.tally.stopped:
                chunk = planner.ask()
                if chunk is None:
                    break
                self._flying[chunk.number] = chunk
                self._executor.submit(chunk.number, self._points.tasks(self._cells(chunk)))
            if not self._flying:
                return self.tally
            for done in self._executor.next_done(PATIENCE):
                self._take(done, planner, progress)

    def drain(self, planner: Planner, progress: Progress) -> None:
        """Keep what has ended already; used when a run is interrupted."""
        for done in self._executor.next_done(0.0):
            if done.results is not None:
                self._take(done, planner, progress)

    def _take(self, done: Done, planner: Planner, progress: Progress) -> None:
        chunk = self._flying.pop(done.number)
        if done.results is not None:
            planner.tell(chunk, done.seconds)
            self.tally.busy_seconds += done.seconds
            if done.text:
                log.debug("the model raised in chunk %d: %s", chunk.number, done.text)
            bad = int(np.count_nonzero(done.results.status == Status.FAILED))
            self._found.add(chunk.points, self._journal.write(self._keys(chunk), done.results))
            log.debug(
                "chunk %d: %d points in %.3f s, %d failed",
                *(chunk.number, chunk.points.size, done.seconds, bad),
            )
            self._count(chunk.points.size, bad, progress)
        elif done.fault is Fault.LOST:
            log.warning(
                "a node was lost (%s): %d points go elsewhere", done.text, chunk.points.size
            )
            planner.lost(chunk)
            if chunk.losses > MAX_LOSSES:
                raise ExecutorError(f"nodes were lost {chunk.losses} times under the same points")
        elif done.fault is Fault.DIED:
            log.warning("a worker died on %d points (%s)", chunk.points.size, done.text)
            if not planner.died(chunk):
                self._give_up(chunk, MADE_UP_TEXT, progress)
        else:
            log.warning("a task of %d points is split: %s", chunk.points.size, done.text)
            if chunk.points.size > 1:
                planner.split(chunk)
            else:
                self._give_up(chunk, done.text.partition("\n")[0], progress)

    def _give_up(self, chunk: Chunk, text: str, progress: Progress) -> None:
        size = chunk.points.size
        written = self._journal.write(self._keys(chunk), failed(size, text))
        self._found.add(chunk.points, written)
        self._count(size, size, progress)

    def _count(self, points: int, bad: int, progress: Progress) -> None:
        self.tally.points += points
        self.tally.failed += bad
        self.tally.chunks += 1
        if bad and self._stop_on_error:
            self.tally.stopped = True
        progress.add(points, bad)
        if self._on_chunk is not None:
            self._on_chunk()

    def _cells(self, chunk: Chunk) -> NDArray[np.int64]:
        return self._points.cells[chunk.points]

    def _keys(self, chunk: Chunk) -> NDArray[np.uint64]:
        return self._points.keys[chunk.points]
