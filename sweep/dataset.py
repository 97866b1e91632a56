"""The schema of `dataset.nc`, and how the journal becomes that file.

Root group: dims are the grid's, then `replicate`; variables are the scalar results, `status` and,
where a point failed, `error`. Groups `caches`, `nodes`, `locks` and `zones` have one more dim.
Times and rates are NaN and counters 0 where there is no result, and `status` says why.

Coordinates: numbers are numbers, options of a group and mixed values (`null`, `true`) are text as
an override spells it. Paired axes share a dim `a__b` whose coord joins their values with a comma.

The file is written variable by variable from the journal's columns, so memory does not grow with
the number of variables.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
from numpy.typing import NDArray

from allocator.counters import DIMS, SCALARS, TABLES, Variable
from sweep.axes import Axis
from sweep.grid import REPLICATE, Dim, Grid
from sweep.journal import Column
from sweep.points import Points
from sweep.store import Located

SCHEMA_VERSION = 1

EXCLUDED = 4
"""Status of a cell that the grid leaves out; 0 to 3 are `allocator.results.Status`."""

STATUSES = ("ok", "oom", "failed", "pending", "excluded")

BLOCK_BYTES = 96 << 20
"""Cells of variables that are filled at a time, in bytes."""

WORTH = 2.0
"""Ratio from which a variable is compressed.

zlib takes 30 MB/s on noisy floats and saves 10 to 20 % of them; on counters it takes several times
that and saves most. So a sample of each variable decides (tests/benchmarks/bench_storage.py). zlib
and not zstd, since every reader of netCDF4 has it.
"""

SAMPLE = 8192
"""Values of that sample."""

CHUNK_BYTES = 1 << 20
"""Largest chunk of a compressed variable, before compression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One variable of the file and the journal's columns that fill it."""

    group: str
    """Group of the file; "" for the root."""
    name: str
    """Name of the variable."""
    dtype: str
    """`i8` or `f8`."""
    labels: tuple[str, ...]
    """Coordinate of the further dim; ("",) for a variable of the root."""


def layouts(columns: Mapping[Column, str]) -> list[Layout]:
    """Return the variables that the journal's columns make up, in an order of their own.

    The order does not depend on which chunk came first: variables are in the order of
    `allocator.counters`, labels in natural order (`kmalloc-8` before `kmalloc-16`).

    Parameters
    ----------
    columns
        Type of each column.
    """
    labels: dict[str, set[str]] = {}
    types: dict[tuple[str, str], str] = {}
    for (group, name, label), kind in columns.items():
        labels.setdefault(group, set()).add(label)
        floating = "f8" in (kind[1:], types.get((group, name)))
        types[group, name] = "f8" if floating else "i8"
    groups = ["", *TABLES, *sorted(labels.keys() - {"", *TABLES})]
    found = []
    for group in groups:
        known = list(SCALARS if group == "" else TABLES.get(group, {}))
        names = [name for owner, name in types if owner == group]
        ordered = [name for name in known if name in names] + sorted(set(names) - set(known))
        chosen = tuple(sorted(labels.get(group, ()), key=_natural))
        found += [
            Layout(group=group, name=name, dtype=types[group, name], labels=chosen)
            for name in ordered
        ]
    return found


def write_dataset(
    path: Path, points: Points, found: Located, attributes: Mapping[str, object]
) -> dict[str, int]:
    """Write the dataset of a run.

    Parameters
    ----------
    path
        The file, written as it is; see `app` for how it gets its place at once.
    points
        The points of the grid.
    found
        Where the journal has them.
    attributes
        Global attributes: text or numbers.

    Returns
    -------
    dict
        How many cells have each status, by its name.
    """
    grid = points.grid
    columns = {
        column: kind
        for chunk, _, _ in found.by_file()
        for column, (kind, _) in chunk.columns.items()
    }
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        file.set_auto_mask(False)
        file.setncatts(dict(attributes))
        _write_coordinates(file, grid)
        counts = _write_status(file, points, found)
        written = layouts(columns)
        for layout in written:
            if layout.group != "" and layout.group not in file.groups:
                _write_labels(file.createGroup(layout.group), layout.group, layout.labels)
        for block in blocks(written, grid.size):
            _fill(file, block, points, found)
    return counts


def blocks(written: Sequence[Layout], cells: int) -> Iterator[list[tuple[Layout, slice]]]:
    """Split the variables into blocks that fit into `BLOCK_BYTES` each."""
    room = max(1, BLOCK_BYTES // (8 * max(cells, 1)))
    block: list[tuple[Layout, slice]] = []
    used = 0
    for layout in written:
        start = 0
        while start < len(layout.labels):
            take = min(room - used, len(layout.labels) - start)
            block.append((layout, slice(start, start + take)))
            start, used = start + take, used + take
            if used == room:
                yield block
                block, used = [], 0
    if block:
        yield block


def _fill(file: Any, block: Sequence[tuple[Layout, slice]], points: Points, found: Located) -> None:
    """Read a block's columns from the journal, and write them."""
    values = [
        np.full((len(range(*part.indices(len(layout.labels)))), len(points.cells)), blank(layout))
        for layout, part in block
    ]
    for chunk, where, rows in found.by_file():
        for (layout, part), array in zip(block, values, strict=True):
            for number, label in enumerate(layout.labels[part]):
                column = (layout.group, layout.name, label)
                if column in chunk.columns:
                    array[number, where] = chunk.column(column)[rows]
    shape, cell = points.grid.shape, points.point_of_cell
    missing = cell < 0
    for (layout, part), array in zip(block, values, strict=True):
        cells = array[:, cell]
        cells[:, missing] = blank(layout)
        home = file if layout.group == "" else file[layout.group]
        if part.start == 0:
            _create(home, points.grid, layout, compressed=_is_worth(cells[0]))
        if layout.group == "":
            home[layout.name][...] = cells[0].reshape(shape)
        else:
            home[layout.name][..., part] = np.moveaxis(cells.reshape(-1, *shape), 0, -1)


def blank(layout: Layout) -> np.int64 | np.float64:
    """Return what stands where there is no result."""
    return np.float64(np.nan) if layout.dtype == "f8" else np.int64(0)


def _write_coordinates(file: Any, grid: Grid) -> None:
    for dim in grid.dims:
        file.createDimension(dim.name, dim.size)
        if len(dim.axes) == 1:
            _write_axis(file, dim, dim.axes[0])
            continue
        for axis in dim.axes:
            _write_axis(file, dim, axis)
        labels = [",".join(values) for values in zip(*(a.labels for a in dim.axes), strict=True)]
        if dim.name == "sample":
            _write_text_or_numbers(file, dim.name, dim.name, np.arange(dim.size), "sample")
        else:
            joined = " and ".join(axis.key for axis in dim.axes)
            _write_text_or_numbers(file, dim.name, dim.name, np.array(labels), joined)
    file.createDimension(REPLICATE, grid.replicates)
    numbers = np.arange(grid.replicates)
    long_name = "number of the run under other random streams"
    _write_text_or_numbers(file, REPLICATE, REPLICATE, numbers, long_name)


def _write_axis(file: Any, dim: Dim, axis: Axis) -> None:
    what = "choice of the group" if axis.is_group else "value of"
    variable = _write_text_or_numbers(
        file, axis.name, dim.name, axis.coordinate(), f"{what} {axis.key}"
    )
    variable.setncattr("override", axis.key)


def _write_text_or_numbers(
    file: Any, name: str, dim: str, values: NDArray[Any], long_name: str
) -> Any:
    kind = str if values.dtype.kind == "U" else values.dtype
    variable = file.createVariable(name, kind, (dim,), fill_value=None if kind is str else False)
    variable[:] = values.astype(object) if kind is str else values
    variable.setncattr("long_name", long_name)
    return variable


def _write_labels(home: Any, group: str, labels: Sequence[str]) -> None:
    dim = DIMS.get(group, group)
    home.createDimension(dim, len(labels))
    _write_text_or_numbers(home, dim, dim, np.array(labels, dtype=np.str_), f"name of the {dim}")


def _write_status(file: Any, points: Points, found: Located) -> dict[str, int]:
    grid, cell = points.grid, points.point_of_cell
    status = np.where(cell >= 0, found.status()[cell], EXCLUDED).astype(np.int8)
    options = _compressed(grid.shape, 1)
    variable = file.createVariable("status", "i1", grid.names, fill_value=False, **options)
    variable[...] = status.reshape(grid.shape)
    variable.setncatts(
        {
            "long_name": "how the point ended",
            "flag_values": np.arange(len(STATUSES), dtype=np.int8),
            "flag_meanings": " ".join(STATUSES),
        }
    )
    errors = found.errors()
    if errors:
        texts = np.full(len(points.cells) + 1, "", dtype=object)  # the last one: excluded cells
        texts[list(errors)] = list(errors.values())
        variable = file.createVariable("error", str, grid.names)
        variable[...] = texts[cell].reshape(grid.shape)
        variable.setncattr("long_name", "what went wrong")
    counts = np.bincount(status, minlength=len(STATUSES))
    return dict(zip(STATUSES, counts.tolist(), strict=True))


def _create(home: Any, grid: Grid, layout: Layout, *, compressed: bool) -> None:
    dims, shape = grid.names, grid.shape
    known = SCALARS
    if layout.group != "":
        dims = (*dims, DIMS.get(layout.group, layout.group))
        shape = (*shape, len(layout.labels))
        known = TABLES.get(layout.group, {})
    fill = np.nan if layout.dtype == "f8" else False
    options = _compressed(shape, 8) if compressed else {"contiguous": True}
    variable = home.createVariable(layout.name, layout.dtype, dims, fill_value=fill, **options)
    meaning = known.get(layout.name, Variable("1", layout.name))
    variable.setncatts({"units": meaning.units, "long_name": meaning.long_name})


def _is_worth(values: NDArray[Any]) -> bool:
    """Return whether a variable is worth compressing, from a sample of its values."""
    middle = max(0, values.size // 2 - SAMPLE // 2)
    sample = np.ascontiguousarray(values[middle : middle + SAMPLE])
    shuffled = sample.view(np.uint8).reshape(-1, sample.itemsize).T.tobytes()
    return len(shuffled) > WORTH * len(zlib.compress(shuffled, 1))


def _compressed(shape: Sequence[int], itemsize: int) -> dict[str, object]:
    """Return how a compressed variable is stored."""
    chunks = list(shape)
    for place in range(len(chunks)):
        size = int(np.prod(chunks, dtype=np.int64)) * itemsize
        if size > CHUNK_BYTES:
            chunks[place] = max(1, chunks[place] * CHUNK_BYTES // size)
    return {"zlib": True, "complevel": 1, "shuffle": True, "chunksizes": chunks}


def provenance_attributes(record: Mapping[str, object]) -> dict[str, object]:
    """Return provenance as global attributes: text and numbers as they are, the rest as JSON."""
    return {
        key: value
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else json.dumps(value, sort_keys=True)
        for key, value in record.items()
    }


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts numbers within text as numbers, `1k` and `2M` for what they are."""
    factor = {"": 1, "k": 1 << 10, "M": 1 << 20}
    key = []
    for number, unit, other in re.findall(r"(\d+)(?:([kM])(?![a-zA-Z]))?|(\D+)", text):
        key.append((1, int(number) * factor[unit], "") if number else (0, 0, other))
    return key
