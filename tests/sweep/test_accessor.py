"""`ds.slab`, by its own examples."""

import doctest

import pytest
import xarray as xr

import sweep.accessor
import sweep.answer.cells
import sweep.pictures.heat_map
from allocator.errors import ConfigError
from tests.sweep.synthetic import lab


def test_the_examples_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "dataset.nc"
    lab().to_netcdf(path, engine="netcdf4")
    globs = {"path": path, "ds": xr.open_dataset(path, engine="netcdf4")}
    results = doctest.testmod(sweep.accessor, extraglobs=globs)
    assert results.failed == 0
    assert results.attempted >= 10


@pytest.mark.parametrize("module", [sweep.answer.cells, sweep.pictures.heat_map])
def test_the_examples_of_other_modules_hold(module):
    assert doctest.testmod(module).failed == 0


def test_the_worst_are_a_list_of_points():
    worst = lab().slab.worst(baseline="kernel=v6_1")
    assert worst.sizes == {"point": 7}  # a failure, and epyc and icx at 3 orders
    assert set(worst.coords) == {"machine", "slab_max_order", "gfp", "workload"}
    assert worst["machine"].values.tolist() == ["graviton2", *["icx"] * 3, *["epyc"] * 3]
    assert worst["slab_max_order"].values.tolist()[1:] == [3, 2, 1, 3, 2, 1]
    assert worst["no_effect"].values.tolist() == ["slab_max_order", *["gfp"] * 6]
    assert worst["failed"].values.tolist() == [3, *[0] * 6]
    assert worst["change"].values[1:] == pytest.approx([-12.5, -25 / 3, -12.5 / 3, -3, -2, -1], 0.1)
    assert set(worst["value"].values) == {"v6_1_order_v2"}
    assert worst["cause_1"].values.tolist() == ["", *["list_lock_wait"] * 3, *[""] * 3]
    assert worst["cause_1_points"].values[1] == 9.0
    assert worst["p_adjusted"].values[1] < 1e-3
    assert lab().slab.worst(2, "kernel=v6_1").equals(worst.isel(point=slice(2)))


def test_a_dataset_and_its_tree_say_the_same():
    ds = lab()
    tree = xr.DataTree(ds)
    assert str(tree.slab.report("kernel=v6_1")) == str(ds.slab.report("kernel=v6_1"))


def test_the_baseline_need_not_be_named():
    ds = lab()
    assert ds.slab.compare().attrs["baseline"] == "kernel=v6_1"
    other = ds.drop_attrs().isel(kernel=[1, 0])
    assert other.slab.compare().attrs["baseline"] == "kernel=v6_1_order_v2"
    assert other.isel(kernel=0).slab.compare().attrs["baseline"] == "machine=epyc"
    with pytest.raises(ConfigError, match="baseline: found 'no axis with several values'"):
        other.isel(kernel=0, machine=0, slab_max_order=0, gfp=0, workload=0).slab.worst()


def test_a_selection_can_be_compared():
    ds = lab().sel(workload="hackbench_sockets", slab_max_order=[0, 3])
    data = ds.slab.compare()
    assert data["change"].dims == ("machine", "slab_max_order", "gfp", "kernel")
    text = ds.slab.report("kernel=v6_1").text()
    assert "workload/machine/slab_max_order/gfp:\n  hackbench_sockets/icx/3/*" in text


def test_unknown_machines_list_those_that_exist():
    with pytest.raises(ConfigError, match="machine: found 'm1', expected one of epyc, icx, gravi"):
        lab().slab.picture("kernel=v6_1", machine="m1")


def test_other_datasets_are_refused():
    with pytest.raises(ConfigError, match="expected the dataset of a sweep"):
        xr.Dataset({"a": 1}).slab.compare()
