"""What a run says about itself: its grid, where its time went, what failed, how to go on."""

import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from allocator.results import Status
from sweep.answer.lkp import counted
from sweep.executors import Executor
from sweep.points import Points, ignored_by
from sweep.runner import Tally
from sweep.store import Located

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Clock:
    """Where the time of a run goes."""

    start: float = field(default_factory=time.perf_counter)
    """When the run began, on a clock that only goes forward."""
    began: float = field(default_factory=time.time)
    """The same in seconds since 1970."""
    ready: float = 0.0
    """Seconds until the executor was there."""
    first_point: float | None = None
    """Seconds until the first chunk was finished."""

    def elapsed(self) -> float:
        """Return seconds since the run began."""
        return time.perf_counter() - self.start


def say_grid(folder: Path, points: Points, found: Located) -> None:
    """Say what is swept, what is simulated once for several cells, and what is known already."""
    grid = points.grid
    sizes = " x ".join(f"{dim.name} {dim.size}" for dim in grid.dims)
    log.info("%s: %s x replicate %d", folder, sizes or "one point", grid.replicates)
    cells, distinct = int(np.count_nonzero(points.point_of_cell >= 0)), len(points.cells)
    if grid.size > cells:
        log.info("%d of %d cells are excluded", grid.size - cells, grid.size)
    if distinct < cells:
        log.info(
            "%d points, %d distinct: an axis without effect is simulated once and broadcast",
            *(cells, distinct),
        )
        swept = {axis.key for axis in grid.axes} | {"replicate"}
        workloads = points.tables["workload"]
        for base, ignored in zip(workloads.bases, ignored_by(workloads), strict=True):
            axes = sorted(key for key in swept if _ignores(ignored, key))
            if axes:
                log.info("without effect on %s: %s", base.get("name"), ", ".join(axes))
    known = int(np.count_nonzero(found.file >= 0))
    if known or found.chunks:
        log.info("%d of %d points are in the journal already", known, distinct)


def say_dropped(axes: Mapping[str, str]) -> None:
    """Say which axes of an experiment are not swept, and how to have them back."""
    if axes:
        log.info(
            "the experiment's own axes are not swept, as others are given; to have them, too: %s",
            " ".join(f"{key}={values}" for key, values in axes.items()),
        )


def _ignores(ignored: frozenset[str], key: str) -> bool:
    parts = key.split(".")
    return parts[0] in ignored or ".".join(parts[:2]) in ignored


def say_times(tally: Tally, clock: Clock, simulated: float, executor: Executor) -> None:
    """Say where the time went; `simulated` is when the last point was in the journal, in s."""
    if not tally.points:
        return
    ray = getattr(executor, "start_seconds", 0.0)
    workers = max(executor.workers(), 1)
    wall, busy = max(simulated - clock.ready, 1e-9), tally.busy_seconds / workers
    overhead = 100 * max(wall - busy, 0.0) / wall
    log.info(
        "%s in %s: ready after %.1f s%s, then %.1f s on %s, overhead %.1f %%",
        counted(tally.points, "point"),
        counted(tally.chunks, "chunk"),
        clock.ready,
        f" (Ray's start took {ray:.1f} s)" if ray else "",
        wall,
        counted(workers, "worker"),
        overhead,
    )
    times = {
        "began": clock.began,
        "ray_start": ray,
        "ready": clock.ready,
        "first_chunk": clock.first_point,
        "simulated": simulated,
        "busy": busy,
        "workers": workers,
        "overhead_percent": overhead,
    }
    log.debug("times: %s", json.dumps(times))


def say_failures(points: Points, found: Located, folder: Path) -> None:
    """List failures by what went wrong; the log has each of them."""
    status = found.status()
    alike: dict[str, list[int]] = {}
    for point, text in sorted(found.errors().items()):
        if status[point] == Status.FAILED:
            log.debug("failed: %s: %s", points.grid.describe(int(points.cells[point])), text)
            alike.setdefault(text.partition("\n")[0], []).append(point)
    for text, failed in alike.items():
        where = points.grid.describe(int(points.cells[failed[0]]))
        log.error(
            "failed: %s, the first at %s: %s", counted(len(failed), "distinct point"), where, text
        )
    log.error("to try failed points again, and go on: %s", resume_command(folder))


def resume_command(folder: Path) -> str:
    """Return the command that goes on with a run."""
    short = os.path.relpath(folder)
    return f"{_program()} resume={folder if short.startswith('..') else short}"


def _program() -> str:
    name = Path(sys.argv[0]).name
    return "slabsweep" if name == "slabsweep" else "python -m sweep"
