"""Curves along a numeric axis: growth, the largest value, and where a cause passes a mark."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from allocator.errors import ConfigError
from sweep.answer.cells import Cells, cells_of
from sweep.pictures.curve import axis_of_curves, curve_table, curves, numbers
from sweep.pictures.curve_picture import curves_figure
from sweep.report import main
from tests.sweep.synthetic import dataset, lab

CPUS = [4, 1, 2]


def cells() -> Cells:
    """Return two machines by three numbers of CPUs; the small one does not have 4."""
    throughput = np.array([[30.0, 10.0, 20.0], [np.nan, 5.0, 4.0]])
    wait = np.array([[60.0, 0.0, 50.0], [np.nan, 1.0, 90.0]])
    dims = ("machine", "workload_cpus", "replicate")
    both = np.stack([throughput * 0.9, throughput * 1.1], axis=-1)
    data = {
        "throughput": (dims, both),
        "list_lock_wait_ns": (dims, np.stack([wait, wait], axis=-1)),
        "cpu_time_ns": (dims, np.full((2, 3, 2), 100.0)),
        "status": (dims, np.where(np.isfinite(both), 0, 4).astype(np.int8)),
    }
    coords = {"machine": ["large", "small"], "workload_cpus": CPUS, "replicate": [0, 1]}
    return cells_of(xr.Dataset(data, coords=coords))


def test_a_curve_rises_along_the_axis_and_has_no_point_without_a_result() -> None:
    (found,) = curves(cells(), "workload.cpus", mark="list_lock_wait=50")
    large, small = found.lines
    assert (found.metric, found.axis) == ("throughput", "workload_cpus")
    assert large.x.tolist() == [1, 2, 4]
    assert large.growth.tolist() == pytest.approx([1, 2, 3])
    assert small.x.tolist() == [1, 2]
    assert (large.best, small.best) == (4, 1)
    assert (large.passes, small.passes) == (2, 2)


def test_bands_are_scipys_t_intervals() -> None:
    runs = np.array([[10.0, 11.0, 14.0], [20.0, 26.0, 23.0], [5.0, np.nan, np.nan]])
    dims = ("x", "replicate")
    data = {"throughput": (dims, runs), "status": (dims, np.where(runs > 0, 0, 2).astype(np.int8))}
    coords = {"x": [1, 2, 3], "replicate": [0, 1, 2]}
    (found,) = curves(cells_of(xr.Dataset(data, coords=coords)), "x")
    (line,) = found.lines
    for k in (0, 1):
        mean, error = runs[k].mean(), stats.sem(runs[k])
        low, high = stats.t.interval(0.95, 2, loc=mean, scale=error)
        assert (line.low[k], line.high[k]) == (pytest.approx(low), pytest.approx(high))
    assert np.isnan([line.low[2], line.high[2]]).all()
    spot = curves_figure([found], growth=False).axes[0]
    band = spot.collections[0].get_datalim(spot.transData)
    assert (band.ymin, band.ymax) == (pytest.approx(line.low[0]), pytest.approx(line.high[1]))


def test_lines_differ_in_more_than_colour() -> None:
    ds = dataset(
        {"machine": list("abcdefgh"), "x": [1, 2, 3]},
        throughput=lambda machine, x, replicate: x * (9.0 + ord(machine)) + replicate,
    )
    spot = curves_figure(curves(cells_of(ds), "x"), growth=True).axes[0]
    drawn = [line for line in spot.lines if line.get_label() in set("abcdefgh")]
    looks = {(line.get_linestyle(), line.get_marker()) for line in drawn}
    assert len(drawn) == 8
    assert len(looks) == 8
    assert spot.get_ylabel() == "throughput, multiples of that at 1"
    spot = curves_figure(curves(cells_of(ds), "x"), growth=False).axes[0]
    assert (spot.get_xlabel(), spot.get_ylabel()) == ("x", "throughput [1/s]")


def test_lines_that_are_copies_are_one_and_flat_ones_can_be_left_out() -> None:
    ds = lab().isel(machine=[0])
    hackbench, hugepages = curves(cells_of(ds), "slab_max_order")
    assert [line.label for line in hackbench.lines] == ["epyc/v6_1", "epyc/v6_1_order_v2"]
    assert len(hugepages.lines) == 4  # only kernel's flags differ between kernels
    (found,) = curves(cells_of(ds), "slab_max_order", flat=False)
    assert found.title == "hackbench_sockets"
    assert [line.label for line in found.lines] == ["epyc/v6_1_order_v2"]


@pytest.mark.parametrize(
    ("labels", "values"),
    [
        (["1", "2.5", "null"], [1, 2.5, np.nan]),
        (["[256MiB]", "[1GiB]"], [2**28, 2**30]),
        (["kernel", "[1GiB,1GiB]"], [np.nan, np.nan]),
    ],
)
def test_numbers_and_sizes_can_be_gone_along(labels: list[str], values: list[float]) -> None:
    assert numbers(labels).tolist() == pytest.approx(values, nan_ok=True)


def test_the_axis_with_most_numbers_is_taken_if_it_has_three() -> None:
    axes = {"machine": list("abcde"), "x": [1, 2, 3], "y": [1, 2, 3, 4], "kernel": ["k", "l"]}
    found = cells_of(dataset(axes, throughput=lambda **_: 1.0))
    assert axis_of_curves(found) == "y"
    assert axis_of_curves(found, without="y") == "x"
    assert axis_of_curves(cells_of(dataset({"x": [1, 2]}, throughput=lambda **_: 1.0))) is None


def test_without_a_mark_nothing_is_marked() -> None:
    (found,) = curves(cells(), "workload.cpus")
    assert [line.passes for line in found.lines] == [None, None]


def test_the_table_says_where_locks_saturate() -> None:
    text = curve_table(curves(cells(), "workload.cpus", mark="list_lock_wait=55"))
    assert text.splitlines()[2].split() == ["large", "3.0x", "4", "from", "4"]
    assert text.splitlines()[3].split() == ["small", "1.0x", "1", "from", "2"]


@pytest.mark.parametrize(
    ("axis", "mark", "message"),
    [
        ("machine", "", "--curve: found 'machine', expected an axis of numbers"),
        ("nosuch", "", "axis: found 'nosuch', expected one of machine, workload_cpus"),
        ("workload.cpus", "nosuch=5", "--mark: found 'nosuch=5', expected CAUSE=PERCENT"),
        ("workload.cpus", "list_lock_wait=150", "--mark: found 'list_lock_wait=150', expected"),
        ("workload.cpus", "list_lock_wait=nan", "--mark: found 'list_lock_wait=nan', expected"),
        ("workload.cpus", "list_lock_wait=much", "PERCENT a number"),
        ("workload.cpus", "zone_lock_wait=5", "a cause of this run: list_lock_wait"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(axis: str, mark: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        curves(cells(), axis, mark=mark)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_report_writes_table_and_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells().root.to_netcdf(tmp_path / "dataset.nc", engine="netcdf4")
    asked = [str(tmp_path), "--curve", "workload.cpus", "--mark", "list_lock_wait=50"]
    assert main(asked) == 0
    assert (tmp_path / "curve-workload_cpus.png").read_bytes()[:4] == b"\x89PNG"
    assert "from 2" in (tmp_path / "curve-workload_cpus.txt").read_text()
    assert "wrote" in capsys.readouterr().out
    assert main([str(tmp_path), "--mark", "list_lock_wait=50"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
