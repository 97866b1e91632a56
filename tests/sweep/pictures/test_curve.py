"""Curves along a numeric axis: growth, the largest value, and where a cause passes a mark."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from allocator.errors import ConfigError
from sweep.answer.cells import Cells, cells_of
from sweep.pictures.curve import curve_table, curves
from sweep.report import main

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
