"""Laws of a run: what is simulated, in which order and by whom does not show in the results."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocator.results import Status
from sweep.dataset import write_dataset
from sweep.executors import ExecutorError, Fault
from sweep.grid import grid_of
from sweep.journal import Journal
from sweep.plan import Planner
from sweep.points import Points
from sweep.progress import Progress
from sweep.runner import WINDOW, Runner, Tally
from sweep.store import Located, located
from tests.sweep.executors import TableExecutor
from tests.sweep.grids import axis, plain_points

AXES = ["slab.max_order=null,0,1,2,3", "slab.min_order=0,1", "workload.scalars=2,3"]


def points_of_axes(texts: list[str], replicates: int = 3) -> Points:
    return plain_points(grid_of([axis(text) for text in texts], replicates=replicates))


def go(
    folder: Path,
    points: Points,
    executor: TableExecutor,
    *,
    size: int | None = None,
    stop: bool = False,
) -> tuple[Tally, Located]:
    """Simulate what the journal in `folder` lacks."""
    journal = Journal(folder)
    found = located(points.keys, journal.read())
    missing = np.flatnonzero(found.file < 0)
    kinds = points.entries(points.cells[missing], "workload")
    planner = Planner(missing, kinds, workers=2, target=0.05, fixed_size=size)
    runner = Runner(points, found, journal, executor, stop_on_error=stop)
    return runner.run(planner, Progress(len(points.cells))), found


def dataset(folder: Path, points: Points, found: Located) -> xr.DataTree:
    path = folder / "out.nc"
    write_dataset(path, points, found, {})
    with xr.open_datatree(path, engine="netcdf4") as tree:
        return tree.load()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    folder = tmp_path_factory.mktemp("expected")
    points = points_of_axes(AXES)
    tally, found = go(folder, points, TableExecutor())
    assert tally.points == 5 * 2 * 3  # min_order is ignored
    return dataset(folder, points, found)


@settings(
    max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.integers(0, 2**32), st.one_of(st.none(), st.integers(1, 40)), st.integers(1, 5))
def test_order_batches_and_workers_do_not_show(
    tmp_path_factory: pytest.TempPathFactory,
    expected: xr.DataTree,
    seed: int,
    size: int | None,
    workers: int,
) -> None:
    folder = tmp_path_factory.mktemp("run")
    points = points_of_axes(AXES)
    executor = TableExecutor(workers=workers, seed=seed)
    _, found = go(folder, points, executor, size=size)
    assert set(executor.simulated.values()) == {1}
    assert executor.most_waiting <= WINDOW * workers
    xr.testing.assert_identical(dataset(folder, points, found), expected)


@settings(
    max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.integers(1, 10), st.integers(1, 9), st.integers(1, 9))
def test_resumed_is_uninterrupted(
    tmp_path_factory: pytest.TempPathFactory,
    expected: xr.DataTree,
    when: int,
    size: int,
    other_size: int,
) -> None:
    folder = tmp_path_factory.mktemp("run")
    points = points_of_axes(AXES)
    first = TableExecutor(interrupt_at=when)
    with pytest.raises(KeyboardInterrupt):
        go(folder, points, first, size=min(size, 2))
    second = TableExecutor(seed=1)
    _, found = go(folder, points, second, size=other_size)
    assert set((first.simulated + second.simulated).values()) == {1}  # no point twice
    xr.testing.assert_identical(dataset(folder, points, found), expected)


@pytest.mark.parametrize(
    "smaller",
    [
        (["slab.max_order=1,3", *AXES[1:]], 3),  # fewer values
        (AXES[:2], 3),  # an axis less: the default of `scalars` is not in the larger grid
        (AXES, 2),  # fewer replicates
    ],
)
def test_an_extended_run_simulates_only_what_is_missing(
    tmp_path: Path, expected: xr.DataTree, smaller: tuple[list[str], int]
) -> None:
    before = points_of_axes(*smaller)
    go(tmp_path, before, TableExecutor())
    points = points_of_axes(AXES)
    executor = TableExecutor()
    _, found = go(tmp_path, points, executor)
    known = {tuple(key) for key in before.keys.tolist()}
    wanted = {tuple(key) for key in points.keys.tolist()}
    assert executor.simulated.total() == len(wanted - known) < len(wanted) or not wanted & known
    xr.testing.assert_identical(dataset(tmp_path, points, found), expected)


def test_lost_nodes_and_dead_workers_do_not_show(tmp_path: Path, expected: xr.DataTree) -> None:
    faults = {1: Fault.DIED, 2: Fault.LOST, 4: Fault.DIED, 5: Fault.ERROR, 7: Fault.LOST}
    points = points_of_axes(AXES)
    executor = TableExecutor(faults=faults)
    tally, found = go(tmp_path, points, executor, size=4)
    assert tally.failed == 0
    assert executor.calls > len(faults)
    xr.testing.assert_identical(dataset(tmp_path, points, found), expected)


def test_a_poisonous_point_is_a_status_with_a_text(tmp_path: Path, expected: xr.DataTree) -> None:
    points = points_of_axes(AXES)
    tally, found = go(tmp_path, points, TableExecutor(poison=2), size=16)
    tree = dataset(tmp_path, points, found)
    poisoned = tree.status.sel(slab_max_order="2")
    assert tally.failed == 2 * 3
    assert (poisoned == Status.FAILED).all()
    assert (tree.error.sel(slab_max_order="2") != "").all()
    rest = ["null", "0", "1", "3"]
    assert (tree.status.sel(slab_max_order=rest) == Status.OK).all()
    xr.testing.assert_identical(
        tree.throughput.sel(slab_max_order=rest), expected.throughput.sel(slab_max_order=rest)
    )
    assert tree.throughput.sel(slab_max_order="2").isnull().all()
    assert (tree.operations.sel(slab_max_order="2") == 0).all()


def test_stop_on_error_gives_out_no_more(tmp_path: Path) -> None:
    points = points_of_axes(AXES)
    executor = TableExecutor(poison=3)
    tally, found = go(tmp_path, points, executor, size=1, stop=True)
    assert tally.stopped
    status = found.status()
    assert (status == Status.FAILED).sum() >= 1
    assert (status == Status.PENDING).any()


def test_failed_points_are_tried_again(tmp_path: Path, expected: xr.DataTree) -> None:
    points = points_of_axes(AXES)
    go(tmp_path, points, TableExecutor(poison=2))
    executor = TableExecutor()
    _, found = go(tmp_path, points, executor)
    assert executor.simulated.total() == 2 * 3
    xr.testing.assert_identical(dataset(tmp_path, points, found), expected)


def test_a_node_that_is_lost_again_and_again_ends_the_run(tmp_path: Path) -> None:
    points = points_of_axes(AXES[:1], replicates=1)
    faults = dict.fromkeys(range(1, 100), Fault.LOST)
    with pytest.raises(ExecutorError, match="nodes were lost"):
        go(tmp_path, points, TableExecutor(faults=faults), size=100)
