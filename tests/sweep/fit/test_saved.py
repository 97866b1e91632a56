"""Fits in the dataset: they come back whole, and nothing else in the file moves."""

import netCDF4
import numpy as np
import pytest
import xarray as xr

import sweep.fit.saved
from allocator.errors import ConfigError
from sweep.answer.cells import cells_of, open_cells
from sweep.answer.compare import compare
from sweep.fit.response import Response, responses
from sweep.fit.saved import group_of, save
from tests.sweep.synthetic import dataset, lab


def curved() -> xr.Dataset:
    """A spline, categories that never met, a logarithm, missing points, an axis without effect."""
    rng = np.random.default_rng(2)

    def throughput(*, machine, cpus, kernel, **_):
        noise = 1 + 0.01 * rng.normal()
        return noise * cpus**0.7 / (1 + cpus / 40) * (2 if kernel == "new" else 3) + (
            machine == "b"
        )

    def status(*, cpus, kernel, gfp, **_):
        return 4 if kernel == "new" and cpus == 64 else 2 * (cpus == 1 and gfp == "user")

    axes = {
        "machine": ["a", "b/2"],
        "workload": ["w"],
        "kernel": ["old", "new"],
        "cpus": [1, 2, 4, 8, 16, 32, 64],
        "gfp": ["kernel", "user"],
    }
    ds = dataset(axes, status=status, throughput=throughput)
    ds["throughput"][..., 1, :] = ds["throughput"][..., 0, :]
    return ds


@pytest.fixture(params=[lab, curved], ids=["lab", "curved"])
def file(request, tmp_path):
    path = tmp_path / "dataset.nc"
    tree = xr.DataTree.from_dict({"/": request.param(), "/caches": request.param().isel(gfp=0)})
    tree["caches"] = xr.Dataset({"alloc_slab": ("cache", [1, 2])}, coords={"cache": ["x", "y"]})
    tree.to_netcdf(path, engine="netcdf4")
    return path


def groups(path) -> dict[str, xr.Dataset]:
    with netCDF4.Dataset(path) as whole:
        names = ["/", *whole.groups]
    found = {}
    for name in names:
        with xr.open_dataset(path, group=name, engine="netcdf4") as data:
            found[name] = data.load()
    return found


def test_a_surface_read_from_the_file_predicts_the_same_bits(file):
    found = responses(open_cells(file))
    save(file, found)
    for response in found:
        with xr.open_dataset(file, group=group_of(response), engine="netcdf4") as data:
            back = Response.from_dataset(data)
        assert back.to_dataset().identical(response.to_dataset())
        at = {name: np.linspace(*ends, 9) for name, ends in response.ranges.items()}
        at |= {name: values[0] for name, values in response.categories.items()}
        assert np.isfinite(response.predict(**at).value).all()
        np.testing.assert_array_equal(back.predict(**at), response.predict(**at))
    axis = "slab_max_order" if "slab_max_order" in back.ranges else "cpus"
    with pytest.raises(ConfigError, match=f"{axis}: found 99, expected "):
        back.predict(**(at | {axis: 99}))


def test_the_rest_of_the_file_stays_bit_for_bit(file):
    before = groups(file)
    found = responses(open_cells(file))
    for _ in range(2):  # the second time the groups are there already
        save(
            file,
            found,
            compare(open_cells(file), "kernel=" + str(before["/"].kernel.values[0])).data,
        )
        after = groups(file)
        assert set(after) == {*before, "fit", "compare"}
        for name, data in before.items():
            assert after[name].identical(data)
    assert [path.name for path in file.parent.iterdir()] == ["dataset.nc"]


def test_storage_of_variables_survives_a_second_save(tmp_path):
    path = tmp_path / "dataset.nc"
    encoding = {"throughput": {"zlib": True, "complevel": 1, "chunksizes": (3, 1, 4, 3, 2, 3)}}
    lab().to_netcdf(path, engine="netcdf4", encoding=encoding)

    def storage():
        with netCDF4.Dataset(path) as file:
            return {n: (v.dtype, v.filters(), v.chunking()) for n, v in file.variables.items()}

    before = storage()
    assert before["throughput"][1]["zlib"]
    for _ in range(2):
        save(path, responses(open_cells(path)))
        assert storage() == before


def test_a_second_save_replaces_the_first(file):
    cells = open_cells(file)
    save(file, responses(cells))
    with netCDF4.Dataset(file) as whole:
        first = set(whole["fit"].groups)
    save(file, responses(cells)[:1])
    with netCDF4.Dataset(file) as whole:
        assert len(whole["fit"].groups) == 1 < len(first)


def test_terms_have_names_and_units_in_plain_netcdf(tmp_path):
    lab().to_netcdf(tmp_path / "dataset.nc", engine="netcdf4")
    save(tmp_path / "dataset.nc", responses(open_cells(tmp_path)))
    with netCDF4.Dataset(tmp_path / "dataset.nc") as whole:
        group = whole["fit/icx/hackbench_sockets"]
        assert list(group["term"][:]) == [
            "intercept",
            "kernel[v6_1_order_v2]",
            "slab_max_order",
            "kernel[v6_1_order_v2] x slab_max_order",
        ]
        # order = 1.5 + 1.5 z; the patch costs 12.5 % of 1.4e6 at order 3
        assert group["coefficient"][:].tolist() == pytest.approx(
            [1.4e6, -87500, 0, -87500], abs=1e-3
        )
        assert group["coefficient"].units == "s-1"
        axis = group["axis_slab_max_order"]
        assert (axis.kind, axis.centre, axis.spread, axis.degree) == ("polynomial", 1.5, 1.5, 1)
        assert group["axis_kernel"].baseline == "v6_1"
        assert group["axis_gfp"].role == "without effect"
        assert whole["fit/icx"]["n"][:].tolist() == [8, 6]


def test_the_comparison_lies_along_the_axes_of_the_root(file):
    cells = open_cells(file)
    base = cells.labels("kernel")[0]
    comparison = compare(cells, f"kernel={base}").data
    save(file, responses(cells), comparison)
    with xr.open_datatree(file, engine="netcdf4") as tree:
        saved = tree["compare"].to_dataset().load()
    assert saved.sizes["kernel"] == len(cells.labels("kernel"))
    assert saved["change"].sel(kernel=base).isnull().all()
    xr.testing.assert_equal(saved["change"].isel(kernel=slice(1, None)), comparison["change"])
    assert saved["changed"].dtype == bool


def test_a_saved_dataset_is_reported_as_before(file):
    cells = open_cells(file)
    before = responses(cells)
    save(file, before)
    with xr.open_datatree(file, engine="netcdf4") as tree:
        again = cells_of(tree)
        assert set(again.tables) == {"caches"}
        for old, new in zip(before, responses(again), strict=True):
            assert new.to_dataset().identical(old.to_dataset())


def test_a_full_disk_leaves_the_old_file(file, monkeypatch):
    found = responses(open_cells(file))
    before = file.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sweep.fit.saved, "_append", full)
    with pytest.raises(
        ConfigError, match=r"expected a dataset to save fits in \(No space left"
    ) as e:
        save(file, found)
    assert "\n" not in str(e.value)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["dataset.nc"]


def test_no_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"expected a dataset to save fits in \(No such file"):
        save(tmp_path / "dataset.nc", [])


def test_an_interrupt_leaves_the_old_file(file, monkeypatch):
    found = responses(open_cells(file))
    before = file.read_bytes()

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep.fit.saved.os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        save(file, found)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["dataset.nc"]
