"""A run from end to end: a command line becomes a grid, a journal, a dataset and a report."""

import importlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import numpy as np
from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig, OmegaConf

from sweep.check import check_points, kinds_of
from sweep.compose import Composer, tables_of, verified
from sweep.executors import Executor, ExecutorError, executor_of
from sweep.executors.reachable import check_reachable
from sweep.journal import Journal, JournalError, flush_folder, write_whole
from sweep.plan import Planner
from sweep.points import Points, points_of
from sweep.progress import Progress, log_no_more, log_to
from sweep.request import Request, request_of
from sweep.resume import check_unchanged, flags_of, remembered
from sweep.runner import Runner, Tally
from sweep.store import (
    CONFIG_FILE,
    DATASET,
    JOURNAL,
    LOG_FILE,
    Located,
    StoreError,
    drop_reports,
    located,
    locked,
    new_folder,
    read_run,
    why_unwritten,
    write_run,
)
from sweep.summary import (
    Clock,
    resume_command,
    say_dropped,
    say_failures,
    say_grid,
    say_times,
)

log = logging.getLogger(__name__)

MOST_VERIFIED = 4
"""Points whose configuration is composed in full, to prove that the shortcut is exact: one, and one
per dim along which groups are composed."""

MOST_REPORTED = 300_000
"""Cells of the largest dataset that is reported at once; `sweep.report` reads any."""

INTERRUPTED = 130
"""Exit status after Ctrl-C."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM."""


def run(loader: ConfigLoader, master: DictConfig, arguments: list[str]) -> int:
    """Sweep the grid that the overrides ask for.

    Parameters
    ----------
    loader
        Hydra's loader of configurations.
    master
        The configuration as Hydra composed it to find the sweeper.
    arguments
        Overrides of the task.

    Returns
    -------
    int
        0; any other status is raised.

    Raises
    ------
    SystemExit
        With status 1 if points failed or the run could not go on, 130 if it was interrupted.
    ConfigError, HydraException, OmegaConfBaseException
        If the command line or the configuration is wrong; nothing was made then.
    """
    clock = Clock()
    hydra = [str(text) for text in master.hydra.overrides.hydra]
    composer = Composer(loader, str(master.hydra.job.config_name), hydra)
    request = request_of(loader, composer, master, arguments)
    tables = tables_of(composer, request.fixed, request.grid)
    points = points_of(request.grid, tables, request.seeds)
    check_points(points)
    if request.settings.executor.name == "ray":
        check_reachable(request.settings.executor.address)
    folder, resumed = _folder(request, master)
    screen = log_to(None)
    try:
        with locked(folder):
            handlers = log_to(folder / LOG_FILE)
            try:
                return _in_folder(folder, resumed, request, composer, points, clock, hydra)
            finally:
                log_no_more(handlers)
    except (StoreError, JournalError, ExecutorError) as error:
        log.error("slabsweep: %s", _one_line(error))
        if not isinstance(error, StoreError):
            log.error("finished points are kept; to go on: %s", resume_command(folder))
        raise SystemExit(1) from None
    finally:
        log_no_more(screen)


def _in_folder(
    folder: Path,
    resumed: bool,
    request: Request,
    composer: Composer,
    points: Points,
    clock: Clock,
    hydra: list[str],
) -> int:
    """Run in a directory that is ours."""
    now = remembered(points.tables, request.grid, request.seeds)
    if resumed:
        check_unchanged(_mapping(read_run(folder).get("remembered")), now)
    started = datetime.now(UTC)
    journal = Journal(folder / JOURNAL)
    chunks = journal.read()
    found = located(points.keys, chunks)
    executor = _executor(request, found)  # Ray starts while we go on
    with interruptible(), _closing(executor, folder):
        _write_files(folder, request, now, hydra)
        checked = _verified(points, request, composer)
        if checked is not points:
            points, found = checked, located(checked.keys, chunks)
        say_grid(folder, points, found)
        say_dropped(request.dropped)
        tally = _simulate(points, found, journal, executor, request, clock)
        simulated = clock.elapsed()
        counts = _write(folder, points, found, request, started, _kept(hydra))
        log.debug("dataset written after %.2f s", clock.elapsed())
        say_times(tally, clock, simulated, executor)
        executor.close()
        log.debug("executor closed after %.2f s", clock.elapsed())
        reported = _report(folder, points, request)
    log.info("%s: %s", folder / DATASET, ", ".join(f"{n} {s}" for s, n in counts.items() if n))
    log.debug("all done after %.2f s", clock.elapsed())
    if counts["failed"] or counts["pending"]:
        say_failures(points, found, folder)
        raise SystemExit(1)
    if not reported:
        raise SystemExit(1)
    return 0


@contextmanager
def _closing(executor: Executor, folder: Path) -> Iterator[None]:
    """Close the executor if anything goes wrong; say how to go on after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        log.warning("interrupted; finished points are kept; to go on: %s", resume_command(folder))
        if not executor.close():
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise SystemExit(INTERRUPTED) from None
    except BaseException:
        executor.close()
        raise


def _executor(request: Request, found: Located) -> Executor:
    """Return the executor; none is started for a run that has all its points already."""
    settings = request.settings.executor
    if (found.file >= 0).all():
        return executor_of(replace(settings, name="inline"))
    return executor_of(settings)


def _load_slow_modules(report: bool) -> None:
    """Load what the end needs, while workers simulate and this process waits for them."""
    with suppress(ImportError):  # said where they are needed
        importlib.import_module("sweep.dataset")
        if report:
            importlib.import_module("sweep.report")


def _verified(points: Points, request: Request, composer: Composer) -> Points:
    """Compose a sample of points in full; if the shortcut fails, find all points anew."""
    cells = points.without_replicates()
    rng = np.random.default_rng(0)
    composed = {dim for table in points.tables.values() for dim in table.composed_dims}
    count = min(1 + len(composed), MOST_VERIFIED, cells.size)
    chosen = rng.choice(cells, count, replace=False)
    tables = verified(composer, request.fixed, request.grid, points.tables, chosen)
    log.debug("%d configurations composed", composer.count)
    if tables == points.tables:
        return points
    found = points_of(request.grid, tables, request.seeds)
    check_points(found)
    return found


def _simulate(
    points: Points,
    found: Located,
    journal: Journal,
    executor: Executor,
    request: Request,
    clock: Clock,
) -> Tally:
    missing = np.flatnonzero(found.file < 0)
    progress = Progress(len(points.cells), known=len(points.cells) - missing.size)
    settings = request.settings

    def first_chunk() -> None:
        if clock.first_point is None:
            clock.first_point = clock.elapsed()
            if settings.executor.name == "ray":
                small = settings.report and points.grid.size <= MOST_REPORTED
                threading.Thread(target=_load_slow_modules, args=(small,), daemon=True).start()

    planner = Planner(
        missing,
        kinds_of(points)[missing],
        workers=1,
        target=settings.executor.task_seconds,
        fixed_size=settings.executor.chunk,
    )
    runner = Runner(
        points,
        found,
        journal,
        executor,
        stop_on_error=settings.stop_on_error,
        on_chunk=first_chunk,
    )
    if not missing.size:
        return runner.tally
    try:
        executor.workers()
        clock.ready = clock.elapsed()
        tally = runner.run(planner, progress)
        log.debug("%s", progress.line())
        return tally
    except KeyboardInterrupt:
        runner.drain(planner, progress)
        raise
    finally:
        progress.close()


def _folder(request: Request, master: DictConfig) -> tuple[Path, bool]:
    """Return the run's directory, and whether it is that of an earlier run."""
    resume = request.config.get("resume")
    if resume is not None:
        return Path(str(resume)), True
    chosen = any(str(text).startswith("hydra.sweep.dir=") for text in master.hydra.overrides.hydra)
    try:
        return new_folder(Path(str(master.hydra.sweep.dir)).absolute(), chosen=chosen), False
    except StoreError as error:
        print(f"slabsweep: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _write_files(
    folder: Path, request: Request, now: Mapping[str, object], hydra: list[str]
) -> None:
    """Write the resolved configuration, and what a resume needs."""
    config = OmegaConf.to_yaml(OmegaConf.create(dict(request.config)))
    axes = [f"  {axis.key}: {json.dumps(list(axis.values))}\n" for axis in request.grid.axes]
    text = config + ("axes:\n" + "".join(axes) if axes else "axes: {}\n")  # JSON is YAML, and quick
    write_whole(folder / CONFIG_FILE, text.encode())
    write_run(
        folder,
        {
            "overrides": [
                *_kept(hydra),
                *(t for t in request.spelled if not t.startswith("resume=")),
            ],
            "flags": flags_of(sys.argv[1:]),
            "remembered": now,
        },
    )


def _kept(hydra: list[str]) -> list[str]:
    """Return the overrides of Hydra's own that another run needs, too."""
    return [text for text in hydra if not text.startswith(("hydra.sweep.dir=", "hydra.mode="))]


def _write(
    folder: Path,
    points: Points,
    found: Located,
    request: Request,
    started: datetime,
    hydra: list[str],
) -> dict[str, int]:
    """Write the dataset beside its place, then put it there at once."""
    from sweep.dataset import provenance_attributes, write_dataset  # netCDF4 loads while Ray starts
    from sweep.provenance import provenance

    path = folder / DATASET
    temporary = path.with_name(path.name + ".tmp")
    axes = {axis.key: list(axis.values) for axis in request.grid.axes}
    record = provenance(
        config=request.config,
        axes=axes,
        seeds=list(request.seeds),
        started=started,
        overrides=[*hydra, *request.repeated],
        flags=flags_of(sys.argv[1:]),
        groups=remembered(points.tables, request.grid, request.seeds)["groups"],
    )
    try:
        counts = write_dataset(temporary, points, found, provenance_attributes(record))
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        drop_reports(folder)
        temporary.replace(path)
        flush_folder(folder)
    except (OSError, RuntimeError) as error:  # HDF5's own errors are of both kinds
        why = why_unwritten(folder, error)
        temporary.unlink(missing_ok=True)
        raise JournalError(0, f"cannot write {path}: {why}") from error
    except BaseException:  # Ctrl-C
        temporary.unlink(missing_ok=True)
        raise
    return counts


def _report(folder: Path, points: Points, request: Request) -> bool:
    """Print the comparison and draw the picture; False if that failed."""
    if not request.settings.report:
        return True
    if points.grid.size > MOST_REPORTED:
        log.info("a large dataset is reported on demand: python -m sweep.report %s", folder)
        return True
    import xarray as xr  # slow to load, and needed only now

    from sweep.report import finish

    try:
        with xr.open_datatree(folder / DATASET, engine="netcdf4") as tree:
            finish(folder, tree, request.config)
    except Exception as error:  # the dataset is safe, and that matters more than its picture
        log.error("the dataset is written, but its report failed: %s", _one_line(error))
        log.debug("why the report failed", exc_info=True)
        return False
    return True


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM raise `Interrupted` here."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        before = [signal.signal(number, stop) for number in numbers]
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _one_line(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
