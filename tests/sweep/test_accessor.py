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


def test_regressions_are_a_list_of_points():
    worst = lab().slab.regressions("kernel=v6_1")
    assert worst.sizes == {"point": 2 * 3 * 3}  # epyc and icx, 3 orders, 3 GFP flags
    assert set(worst.coords) == {"machine", "slab_max_order", "gfp", "workload"}
    assert (worst["change"].diff("point") >= -1e-9).all()
    assert set(worst["value"].values) == {"v6_1_order_v2"}


def test_a_dataset_and_its_tree_say_the_same():
    ds = lab()
    tree = xr.DataTree(ds)
    assert str(tree.slab.compare("kernel=v6_1")) == str(ds.slab.compare("kernel=v6_1"))


def test_a_selection_can_be_compared():
    ds = lab().sel(workload="hackbench_sockets", slab_max_order=[0, 3])
    report = ds.slab.compare("kernel=v6_1")
    assert report.data["change"].dims == ("machine", "slab_max_order", "gfp", "kernel")
    assert "workload/machine/slab_max_order/gfp:\n  hackbench_sockets/icx/3/*" in report.text()


def test_unknown_machines_list_those_that_exist():
    with pytest.raises(ConfigError, match="machine: found 'm1', expected one of epyc, icx, gravi"):
        lab().slab.picture("kernel=v6_1", machine="m1")


def test_other_datasets_are_refused():
    with pytest.raises(ConfigError, match="expected the dataset of a sweep"):
        xr.Dataset({"a": 1}).slab.compare("kernel=v6_1")
