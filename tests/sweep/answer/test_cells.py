"""Axes and values as users name them, files as they are found."""

import json

import numpy as np
import pytest
import xarray as xr

from allocator.errors import ConfigError
from sweep.answer.cells import Cells, cells_of, label, open_cells
from tests.sweep.synthetic import dataset, lab


def test_an_axis_may_be_named_as_on_the_command_line():
    cells = cells_of(lab())
    assert cells.axis("slab.max_order") == cells.axis("slab_max_order") == "slab_max_order"


def test_unknown_axes_and_values_list_those_that_exist():
    cells = cells_of(lab())
    with pytest.raises(ConfigError, match=r"axis: found 'cpu', expected one of machine, kernel, "):
        cells.axis("cpu")
    with pytest.raises(ConfigError, match=r"kernel: found 'v9', expected one of v6_1, v6_1_order"):
        cells.position("kernel", "v9")


@pytest.mark.parametrize(("text", "index"), [("0.5", 0), (".5", 0), ("1", 1), ("1.0", 1)])
def test_numbers_may_be_written_in_several_ways(text, index):
    cells = cells_of(dataset({"x": [0.5, 1.0]}, y=lambda **_: 1.0))
    assert cells.position("x", text) == index


def test_null_is_a_value():
    cells = cells_of(dataset({"slab_max_order": ["null", "0"]}, y=lambda **_: 1.0))
    assert cells.position("slab.max_order", "null") == 0


def test_paired_axes_share_a_dim_and_keep_their_names():
    ds = dataset({"machine__order": ["epyc,3", "icx,2"]}, y=lambda **_: 1.0)
    ds = ds.assign_coords(
        machine=("machine__order", ["epyc", "icx"]), order=("machine__order", [3, 2])
    )
    cells = cells_of(ds)
    assert cells.parts("machine__order") == ("machine", "order")
    assert cells.labels("machine__order") == ("epyc/3", "icx/2")
    assert cells.carrier("order") == "machine__order"
    assert cells.position("machine", "icx") == 1


def test_what_was_not_swept_is_known_by_the_configuration():
    ds = lab().sel(workload="hugepages", drop=True)
    config = {"workload": {"name": "hugepages"}, "kernel": {"preset": "v6_1"}, "slab": {}}
    ds.attrs = {"config": json.dumps(config)}
    assert cells_of(ds).fixed() == {"workload": "hugepages"}
    assert cells_of(lab().sel(gfp="atomic")).fixed() == {"gfp": "atomic"}


def test_runs_that_did_not_end_well_have_no_values():
    ds = dataset(
        {"x": [0, 1]}, status=lambda x, replicate, **_: int(x == 1), y=lambda x, **_: x + 1
    )
    assert np.isnan(cells_of(ds).values("y", ("x",))[1]).all()
    assert (cells_of(ds).values("y", ("x",))[0] == 1).all()


def test_values_come_in_the_order_of_the_axes_asked_for():
    ds = dataset({"a": [0, 1], "b": [0, 1, 2]}, y=lambda a, b, **_: 10 * a + b)
    assert cells_of(ds).values("y", ("b", "a")).shape == (3, 2, 3)
    assert cells_of(ds).values("y", ("b", "a"))[2, 1, 0] == 12


@pytest.mark.parametrize(
    ("value", "text"),
    [(np.int64(3), "3"), (np.float64(0.1), "0.1"), (True, "true"), (None, "null"), (b"x", "x")],
)
def test_labels_are_written_as_overrides(value, text):
    assert label(value) == text


def test_files_that_are_no_dataset_give_one_line(tmp_path):
    with pytest.raises(
        ConfigError, match=r"dataset: found .*nowhere.*, expected a run's directory"
    ):
        open_cells(tmp_path / "nowhere")
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(ConfigError, match="a netCDF file") as caught:
        open_cells(tmp_path / "text.nc")
    assert "\n" not in str(caught.value)
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "other.nc", engine="netcdf4")
    with pytest.raises(ConfigError, match="found 'a', expected the dataset of a sweep"):
        open_cells(tmp_path / "other.nc")


def test_a_run_is_found_by_its_directory(tmp_path):
    lab().to_netcdf(tmp_path / "dataset.nc", engine="netcdf4")
    assert open_cells(tmp_path).axes == open_cells(tmp_path / "dataset.nc").axes


def test_provenance_is_decoded():
    assert cells_of(lab()).provenance()["config"] == {"compare": {"baseline": "kernel=v6_1"}}


def test_tables_come_with_a_tree():
    ds = lab()
    waits = ds["list_lock_wait_ns"].expand_dims(lock=["a", "b"], axis=-1).rename("wait_ns")
    tree = xr.DataTree.from_dict({"/": ds, "/locks": waits.to_dataset()})
    cells = cells_of(tree)
    assert cells.entries("locks") == ("a", "b")
    assert list(cells.columns("locks")) == ["wait_ns"]
    assert cells.values("wait_ns", cells.axes, "locks").shape == (3, 2, 4, 3, 2, 3, 2)
    assert isinstance(cells, Cells)
