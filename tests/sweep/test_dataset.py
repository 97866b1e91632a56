import json
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

from allocator.counters import SCALARS
from allocator.results import Results, Status, Table
from sweep.dataset import blocks, layouts, provenance_attributes, write_dataset
from sweep.grid import grid_of
from sweep.journal import Journal
from sweep.points import Points
from sweep.store import failed, located
from tests.sweep.grids import axis, plain_points


def written(folder: Path, points: Points) -> Path:
    """Write a dataset of numbers that tell their point."""
    journal = Journal(folder)
    found = located(points.keys, [])
    order = np.random.default_rng(0).permutation(len(points.cells))
    for part in np.array_split(order, 3):
        count = part.astype(np.int64)
        found.add(
            part,
            journal.write(
                points.keys[part],
                Results(
                    scalars={"throughput": count / 8, "operations": count + 2**53},
                    tables={
                        "caches": Table(
                            labels=("kmalloc-16", "kmalloc-8"),
                            values={"objects": np.stack([count, -count], axis=1)},
                        )
                    },
                    status=np.zeros(part.size, dtype=np.int8),
                ),
            ),
        )
    path = folder / "dataset.nc"
    counts = write_dataset(path, points, found, provenance_attributes({"a": [1], "b": "text"}))
    assert counts["ok"] == np.count_nonzero(points.point_of_cell >= 0)
    return path


AXES = ["slab.max_order=null,3", "workload.rate=range(0.0,1.0,0.1)"]


@pytest.fixture
def points() -> Points:
    return plain_points(grid_of([axis(text) for text in AXES], replicates=2))


def test_root_opens_with_xarray_and_has_the_grids_dims(tmp_path: Path, points: Points) -> None:
    with xr.open_dataset(written(tmp_path, points), engine="netcdf4") as data:
        sizes = {"slab_max_order": 2, "workload_rate": 10, "replicate": 2}
        assert dict(data.sizes) == sizes
        assert data.slab_max_order.values.tolist() == ["null", "3"]
        assert data.workload_rate.values.tolist() == [n / 10 for n in range(10)]
        assert data.throughput.dtype == np.float64
        assert data.operations.dtype == np.int64
        cell = data.sel(slab_max_order="3", workload_rate=0.3, replicate=1)
        flat = int(np.ravel_multi_index((1, 3, 1), points.grid.shape))
        point = int(points.point_of_cell[flat])
        assert float(cell.throughput) == point / 8
        assert int(cell.operations) == point + 2**53
        assert data.throughput.attrs["units"] == SCALARS["throughput"].units
        assert data.throughput.attrs["long_name"] == SCALARS["throughput"].long_name
        assert data.slab_max_order.attrs["override"] == "slab.max_order"
        assert json.loads(data.attrs["a"]) == [1]


def test_groups_have_one_more_dim_in_natural_order(tmp_path: Path, points: Points) -> None:
    with xr.open_datatree(written(tmp_path, points), engine="netcdf4") as tree:
        caches = tree["caches"]
        assert caches.cache.values.tolist() == ["kmalloc-8", "kmalloc-16"]
        assert caches.objects.dims == (*points.grid.names, "cache")
        np.testing.assert_array_equal(
            caches.objects.sel(cache="kmalloc-16"), tree.throughput.values * 8
        )
        np.testing.assert_array_equal(
            caches.objects.sel(cache="kmalloc-8"), -8 * tree.throughput.values
        )


def test_plain_netcdf4_reads_it(tmp_path: Path, points: Points) -> None:
    with netCDF4.Dataset(written(tmp_path, points)) as file:
        assert file.data_model == "NETCDF4"
        assert list(file.variables)[:3] == ["slab_max_order", "workload_rate", "replicate"]
        assert "_FillValue" not in file["operations"].ncattrs()
        assert np.isnan(file["throughput"].getncattr("_FillValue"))
        status = file["status"]
        assert status.dtype == np.int8
        assert status.flag_meanings.split() == ["ok", "oom", "failed", "pending", "excluded"]
        assert status.flag_values.tolist() == [0, 1, 2, 3, 4]


def test_blocks_write_the_same_file(
    tmp_path: Path, points: Points, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = written(tmp_path, points)
    monkeypatch.setattr("sweep.dataset.BLOCK_BYTES", 8 * points.grid.size)
    (tmp_path / "small").mkdir()
    small = written(tmp_path / "small", points)
    with xr.open_datatree(whole) as one, xr.open_datatree(small) as other:
        xr.testing.assert_identical(one, other)


def test_cells_without_results_say_why(tmp_path: Path) -> None:
    axes = [axis("slab.max_order=0,1,2,3")]
    points = plain_points(grid_of(axes, replicates=1, exclude=["slab.max_order=1"]))
    journal = Journal(tmp_path)
    found = located(points.keys, [])
    ok = Results(
        scalars={"throughput": np.ones(1), "operations": np.ones(1, dtype=np.int64)},
        status=np.zeros(1, dtype=np.int8),
    )
    found.add(np.array([0]), journal.write(points.keys[[0]], ok))
    found.add(np.array([2]), journal.write(points.keys[[2]], failed(1, "ValueError: no")))
    write_dataset(tmp_path / "out.nc", points, found, {})
    with xr.open_dataset(tmp_path / "out.nc") as data:
        assert data.status[:, 0].values.tolist() == [Status.OK, 4, Status.PENDING, Status.FAILED]
        assert data.error[:, 0].values.tolist() == ["", "", "", "ValueError: no"]
        assert np.isnan(data.throughput[:, 0].values).tolist() == [False, True, True, True]
        assert data.operations[:, 0].values.tolist() == [1, 0, 0, 0]


def test_paired_and_sampled_axes_are_coords_of_a_shared_dim(tmp_path: Path) -> None:
    axes = [axis("slab.max_order=0,1"), axis("slab.min_objects=4,8")]
    grid = grid_of(axes, replicates=1, paired=[["slab.max_order", "slab.min_objects"]])
    path = written(tmp_path, plain_points(grid))
    with xr.open_dataset(path) as data:
        assert dict(data.sizes) == {"slab_max_order__slab_min_objects": 2, "replicate": 1}
        pair = data.sel(slab_max_order__slab_min_objects="1,8")
        assert int(pair.slab_max_order) == 1
        assert int(pair.slab_min_objects) == 8


def test_variables_are_in_the_order_of_the_registry() -> None:
    columns = {
        ("", "zzz", ""): "<i8",
        ("", "operations", ""): "<i8",
        ("nodes", "pages", "node10"): "<i8",
        ("nodes", "pages", "node9"): "<f8",
        ("", "throughput", ""): "<f8",
    }
    found = layouts(columns)
    assert [layout.name for layout in found] == ["throughput", "operations", "zzz", "pages"]
    assert found[-1].labels == ("node9", "node10")
    assert found[-1].dtype == "f8"
    assert layouts(dict(reversed(columns.items()))) == found


def test_caches_are_in_the_order_of_their_size() -> None:
    sizes = ["dma-kmalloc-8", "kmalloc-8", "kmalloc-96", "kmalloc-512", "kmalloc-1k", "kmalloc-8k"]
    columns = {("caches", "objects", name): "<i8" for name in sizes[::-1]}
    assert list(layouts(columns)[0].labels) == sizes


def test_blocks_cover_every_label_once() -> None:
    columns = {("caches", "objects", f"c{n}"): "<i8" for n in range(7)}
    columns |= {("", f"v{n}", ""): "<f8" for n in range(5)}
    found = layouts(columns)
    parts = [
        (layout.name, label)
        for block in blocks(found, 96 * 2**20 // 8 // 3)  # three columns fit
        for layout, part in block
        for label in layout.labels[part]
    ]
    assert sorted(parts) == sorted((x.name, label) for x in found for label in x.labels)
