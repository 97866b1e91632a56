"""Surfaces and comparison as groups of `dataset.nc`, beside the results that they were made of.

`/fit/MACHINE` has the figures of the machine's surfaces by workload, `/fit/MACHINE/WORKLOAD` a
surface (apart by workload, since metrics and their units differ), `/compare` the comparison.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import xarray as xr

from allocator.errors import ConfigError
from sweep.fit.response import Response
from sweep.fit.stored import IN_METRIC, MEANINGS
from sweep.journal import flush_folder
from sweep.store import why_unwritten

FIT, COMPARE = "fit", "compare"
GROUPS = (FIT, COMPARE)
ANY = "any"
"""Name of a group where machine or workload are not known."""
COPY_BYTES = 64 << 20
"""Most of a variable that is copied at a time."""


def save(path: Path, responses: Sequence[Response], comparison: xr.Dataset | None = None) -> None:
    """Put surfaces and a comparison into a dataset, in place of those that it has.

    The new file is written beside the old one and takes its place at once; whatever happens, one of
    the two is there, whole. Nothing else in it changes.

    Parameters
    ----------
    path
        The file.
    responses
        Surfaces.
    comparison
        What `Comparison.data` gives.

    Raises
    ------
    ConfigError
        If the file cannot be read or written.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        # the file itself is not opened: HDF5 may crash where its reader opened it before
        shutil.copyfile(path, temporary)
        _drop_groups(temporary)
        _append(temporary, responses, comparison)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        flush_folder(path.parent)
    except (OSError, RuntimeError) as error:  # HDF5's own errors are of both kinds
        why = why_unwritten(path.parent, error)
        temporary.unlink(missing_ok=True)
        expected = f"a dataset to save fits in ({why})"
        raise ConfigError("dataset", str(path), expected) from error
    except BaseException:  # Ctrl-C
        temporary.unlink(missing_ok=True)
        raise


def group_of(response: Response) -> str:
    """Return the name of a surface's group."""
    return f"{FIT}/{_name(response.machine)}/{_name(response.workload)}"


def summary(responses: Sequence[Response]) -> xr.Dataset:
    """Return the figures of several surfaces of one machine, by workload."""
    names = [response.workload or ANY for response in responses]
    data = xr.Dataset(coords={"workload": names})
    for name in ("metric", "units", *MEANINGS):
        values = [getattr(response, name) for response in responses]
        data[name] = ("workload", values, {"long_name": MEANINGS.get(name, name)})
        if name in IN_METRIC:
            data[name].attrs["units"] = f"see the variable {'units'!r}"
    return data


def _name(text: str) -> str:
    return text.replace("/", "_") or ANY


def _append(path: Path, responses: Sequence[Response], comparison: xr.Dataset | None) -> None:
    with xr.open_dataset(path, engine="netcdf4") as root:
        coords = {name: coord.load() for name, coord in root.coords.items() if name in root.dims}
    found: dict[str, xr.Dataset] = {}
    for machine in dict.fromkeys(response.machine for response in responses):
        mine = [response for response in responses if response.machine == machine]
        found[f"{FIT}/{_name(machine)}"] = _aligned(summary(mine), coords)
    found |= {group_of(response): response.to_dataset() for response in responses}
    if comparison is not None:
        found[COMPARE] = _aligned(comparison, coords)
    tree = xr.DataTree.from_dict(found)
    tree.to_netcdf(path, mode="a", engine="netcdf4")  # all at once: a group at a time is slow


def _aligned(data: xr.Dataset, coords: dict[Any, xr.DataArray]) -> xr.Dataset:
    """Return data along the root's own dims, as the groups of a tree must be."""
    blank = {"i": 0, "u": 0, "b": False, "f": np.nan}
    fill = {name: blank.get(array.dtype.kind, "") for name, array in data.data_vars.items()}
    shared = {dim: coords[dim] for dim in data.dims if dim in coords}
    return data.reindex(shared, fill_value=fill)


def _drop_groups(path: Path) -> None:
    """Drop the groups of an earlier time; netCDF cannot, so all others are copied."""
    without = path.with_name(path.name + ".without")
    try:
        with netCDF4.Dataset(path) as old:
            if not set(GROUPS) & set(old.groups):
                return
            with netCDF4.Dataset(without, "w", format="NETCDF4") as new:
                _copy_group(old, new, GROUPS)
        without.replace(path)
    finally:
        without.unlink(missing_ok=True)


def _copy_group(old: Any, new: Any, without: Sequence[str] = ()) -> None:
    for group in (old, new):
        group.set_auto_maskandscale(False)
    new.setncatts({name: old.getncattr(name) for name in old.ncattrs()})
    for name, dim in old.dimensions.items():
        new.createDimension(name, None if dim.isunlimited() else dim.size)
    for name, variable in old.variables.items():
        _copy_variable(variable, _like(variable, name, new))
    for name, group in old.groups.items():
        if name not in without:
            _copy_group(group, new.createGroup(name))


def _like(variable: Any, name: str, home: Any) -> Any:
    """Make a variable of the same type, storage and attributes."""
    attributes = {key: variable.getncattr(key) for key in variable.ncattrs()}
    fill = attributes.pop("_FillValue", False if variable.dtype is not str else None)
    filters, chunks = variable.filters() or {}, variable.chunking()
    storage: dict[str, Any] = {"contiguous": True} if chunks == "contiguous" else {}
    if isinstance(chunks, list):
        storage = {"chunksizes": chunks, "shuffle": filters.get("shuffle", False)}
        if filters.get("zlib"):
            storage |= {"zlib": True, "complevel": filters["complevel"]}
    if variable.dtype is str or not variable.dimensions:
        storage = {}
    made = home.createVariable(
        name, variable.dtype, variable.dimensions, fill_value=fill, **storage
    )
    made.set_auto_maskandscale(False)
    made.setncatts(attributes)
    return made


def _copy_variable(old: Any, new: Any) -> None:
    """Copy values, a part at a time where they are many."""
    if not old.dimensions:
        new[...] = old[...]
        return
    width = 8 * int(np.prod(old.shape[1:], dtype=np.int64)) or 1
    step = max(1, COPY_BYTES // width)
    for start in range(0, old.shape[0], step):
        new[start : start + step] = old[start : start + step]
