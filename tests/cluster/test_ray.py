"""Runs on a real Ray: workers that die, workers that fail, the same bits as in this process."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from allocator.results import Status
from sweep.dataset import write_dataset
from sweep.executors import Executor
from sweep.executors.inline import InlineExecutor
from sweep.executors.ray import RayExecutor
from sweep.grid import grid_of
from sweep.journal import Journal
from sweep.plan import Planner
from sweep.points import Points
from sweep.progress import Progress
from sweep.runner import Runner
from sweep.store import located
from tests.sweep.grids import axis, plain_points

pytestmark = pytest.mark.ray


def points_of(*texts: str, replicates: int = 4) -> Points:
    axes = [axis("slab.max_order=0,1,2,3"), *(axis(text) for text in texts)]
    return plain_points(grid_of(axes, replicates=replicates))


def go(folder: Path, points: Points, executor: Executor, size: int | None) -> xr.DataTree:
    journal = Journal(folder)
    found = located(points.keys, journal.read())
    missing = np.flatnonzero(found.file < 0)
    planner = Planner(missing, np.zeros_like(missing), workers=2, target=0.2, fixed_size=size)
    Runner(points, found, journal, executor).run(planner, Progress(len(points.cells)))
    write_dataset(folder / "out.nc", points, found, {})
    with xr.open_datatree(folder / "out.nc", engine="netcdf4") as tree:
        return tree.load()


@pytest.mark.parametrize("size", [None, 3])
def test_ray_gives_what_this_process_gives(
    tmp_path: Path, local_ray: RayExecutor, size: int | None
) -> None:
    (tmp_path / "inline").mkdir()
    (tmp_path / "ray").mkdir()
    points = points_of("workload.lane_ms=0.0,1.0")
    expected = go(tmp_path / "inline", points, InlineExecutor(), 7)
    found = go(tmp_path / "ray", points, local_ray, size)
    xr.testing.assert_identical(found, expected)


def test_a_worker_that_was_killed_is_replaced(tmp_path: Path, local_ray: RayExecutor) -> None:
    flag = tmp_path / "died"
    points = points_of("workload.kills_at=choice(1)", f"workload.die_once=choice('{flag}')")
    found = go(tmp_path, points, local_ray, 4)
    assert flag.exists()
    assert (found.status == Status.OK).all()


def test_a_point_that_kills_its_worker_is_isolated(tmp_path: Path, local_ray: RayExecutor) -> None:
    points = points_of("workload.kills_at=choice(3)", replicates=1)
    found = go(tmp_path, points, local_ray, 4)
    assert found.status.values.ravel().tolist() == [0, 0, 0, 2]
    assert "worker died" in str(found.error.values.ravel()[3])


def test_a_point_that_raises_is_a_status_with_its_text(
    tmp_path: Path, local_ray: RayExecutor
) -> None:
    points = points_of("workload.fails_at=choice(2)", replicates=2)
    found = go(tmp_path, points, local_ray, 8)
    failed = found.sel(slab_max_order=2)
    assert (failed.status == Status.FAILED).all()
    assert (failed.error == "ArithmeticError: order 2 is too much").all()
    assert (found.status.sel(slab_max_order=[0, 1, 3]) == Status.OK).all()


def test_workers_use_one_thread_and_stay(local_ray: RayExecutor) -> None:
    points = points_of()
    tasks = points.tasks(points.cells[:1])
    for number in range(8):
        local_ray.submit(number, tasks)
    done, end = [], time.monotonic() + 30
    while len(done) < 8 and time.monotonic() < end:
        done += local_ray.next_done(1.0)
    assert sorted(task.number for task in done) == list(range(8))
    assert all(task.fault is None for task in done)
    assert os.environ["OMP_NUM_THREADS"] == "1"
