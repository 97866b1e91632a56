"""A dataset as a comparison sees it: axes, labels, and values with failed runs out of the way."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from allocator.counters import DIMS, SCALARS, TABLES, Variable
from allocator.errors import ConfigError
from allocator.results import Status
from sweep.dataset import STATUSES

REPLICATE = "replicate"
STATUS = "status"
NAMED = {"machine": "name", "kernel": "preset", "gfp": "flags", "workload": "name"}
"""Key that names the choice of a group in a resolved configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Root and tables of a dataset."""

    root: xr.Dataset
    """Scalar results and `status`; dims are the axes and `replicate`."""
    tables: Mapping[str, xr.Dataset] = field(default_factory=dict)
    """Results with one more dim, by group name (`caches`, `locks`, ...)."""

    def __post_init__(self) -> None:
        if STATUS not in self.root or REPLICATE not in self.root[STATUS].dims:
            raise ConfigError(
                "dataset",
                ", ".join(map(str, self.root.data_vars)) or "no variables",
                f"the dataset of a sweep, with a variable {STATUS!r} that has a dim {REPLICATE!r}",
            )

        if self.root[STATUS].dtype.kind not in "iuf":
            raise ConfigError(STATUS, str(self.root[STATUS].dtype), "numbers, 0 where a run is ok")

    @property
    def ended_well(self) -> bool:
        """Whether at least one run has a result."""
        return bool((self.root[STATUS] == Status.OK).any())

    def endings(self) -> str:
        """Return how the runs ended, and the first error's text if there is one."""
        status = self.status(self.axes)
        counts = {name: int((status == code).sum()) for code, name in enumerate(STATUSES)}
        text = ", ".join(f"{n} of {status.size} runs {name}" for name, n in counts.items() if n)
        texts = self.root["error"].values.ravel() if "error" in self.root else ()
        first = next((str(error).splitlines()[0] for error in texts if error), "")
        return f"{text}: {first}" if first else text or "no runs"

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the swept axes, in the order of the dataset."""
        return tuple(str(dim) for dim in self.root[STATUS].dims if dim != REPLICATE)

    @property
    def scalars(self) -> tuple[str, ...]:
        """Numeric variables of the root that have all axes, without `status`."""
        dims = set(self.root[STATUS].dims)
        return tuple(
            str(name)
            for name, array in self.root.data_vars.items()
            if name != STATUS and set(array.dims) == dims and array.dtype.kind in "iuf"
        )

    def parts(self, dim: str) -> tuple[str, ...]:
        """Return the axes along a dim: itself, or those that were paired or sampled together."""
        along = tuple(
            str(name)
            for name, coord in self.root.coords.items()
            if coord.dims == (dim,) and name != dim
        )
        return along or (dim,)

    def carrier(self, axis: str) -> str | None:
        """Return the dim along which an axis lies; None if it was not swept."""
        return next((dim for dim in self.axes if axis in self.parts(dim)), None)

    def labels(self, axis: str) -> tuple[str, ...]:
        """Return the values of an axis as text; of a dim of several axes, joined by `/`."""
        parts = self.parts(axis) if axis in self.root.dims else (axis,)
        if parts != (axis,):
            return tuple("/".join(row) for row in zip(*map(self.labels, parts), strict=True))
        if axis not in self.root.coords:
            return tuple(str(number) for number in range(self.root.sizes[axis]))
        return tuple(label(value) for value in self.root[axis].values)

    def fixed(self) -> dict[str, str]:
        """Return what was not swept: scalar coords, and what the configuration names."""
        swept = {part for dim in self.axes for part in (dim, *self.parts(dim))}
        config = self.provenance().get("config")
        groups = config if isinstance(config, Mapping) else {}
        found = {}
        for group, key in NAMED.items():
            section = groups.get(group)
            if group not in swept and isinstance(section, Mapping) and key in section:
                found[group] = str(section[key])
        scalars = {n: label(c.values[()]) for n, c in self.root.coords.items() if c.ndim == 0}
        return found | {str(name): text for name, text in scalars.items()}

    def provenance(self) -> dict[str, object]:
        """Return the provenance attributes, JSON texts decoded."""
        found: dict[str, object] = {}
        for name, value in self.root.attrs.items():
            found[str(name)] = _decoded(value)
        inner = found.get("provenance")
        return {**found, **inner} if isinstance(inner, dict) else found

    def status(self, order: tuple[str, ...]) -> NDArray[np.int8]:
        """Return `status` with its dims in this order, the replicate last."""
        status = self.root[STATUS].load()  # once: every variable needs it
        values = status.transpose(*order, REPLICATE).values
        if values.dtype.kind == "f":  # after a selection by xarray's where()
            values = np.nan_to_num(values, nan=Status.PENDING)
        return np.asarray(values, dtype=np.int8)

    def values(self, name: str, order: tuple[str, ...], table: str = "") -> NDArray[np.float64]:
        """Return a variable as floats, NaN where the run did not end well.

        Parameters
        ----------
        name
            A variable of the root, or of `table`.
        order
            Axes in the order wanted.

        Returns
        -------
        NDArray
            (axes in that order..., replicate), and for a table one more dim, the label.
        """
        source = self.tables[table] if table else self.root
        last = (DIMS.get(table) or _label_dim(source, self.axes),) if table else ()
        array = source[name].transpose(*order, REPLICATE, *last)
        floats = np.array(array.values, dtype=np.float64)
        floats[self.status(order) != Status.OK] = np.nan
        return floats

    def entries(self, table: str) -> tuple[str, ...]:
        """Return the labels of a table's own dim."""
        source = self.tables[table]
        dim = DIMS.get(table) or _label_dim(source, self.axes)
        if dim not in source.coords:
            return tuple(str(number) for number in range(source.sizes[dim]))
        return tuple(label(value) for value in source[dim].values)

    def columns(self, table: str) -> Iterator[str]:
        """Yield the numeric variables of a table that have all axes."""
        wanted = len(self.axes) + 2
        for name, array in self.tables[table].data_vars.items():
            if array.ndim == wanted and array.dtype.kind in "iuf":
                yield str(name)

    def axis(self, name: str) -> str:
        """Return the axis that a user means by `slab.max_order` or `slab_max_order`.

        Raises
        ------
        ConfigError
            If no axis has this name; the text lists those that exist.
        """
        axis = re.sub(r"[./@]", "_", name.strip())
        known_axes = {part: None for dim in self.axes for part in (dim, *self.parts(dim))}
        if axis not in known_axes:
            raise ConfigError("axis", name, f"one of {', '.join(known_axes) or '(none was swept)'}")
        return axis

    def position(self, axis: str, value: str) -> int:
        """Return the index of a value, written as the dataset or Hydra writes it.

        Raises
        ------
        ConfigError
            If the axis does not have this value; the text lists those it has.
        """
        labels = self.labels(self.axis(axis))
        if value in labels:
            return labels.index(value)
        numbers = {_number(text): index for index, text in enumerate(labels)}
        number = _number(value)
        if number is not None and number in numbers:
            return numbers[number]
        raise ConfigError(axis, value, f"one of {', '.join(labels)}")


def open_cells(path: Path) -> Cells:
    """Read a finished dataset: a run's directory, or its `dataset.nc`.

    Raises
    ------
    ConfigError
        If there is no such file or it is not the dataset of a sweep.
    """
    file = path / "dataset.nc" if path.is_dir() else path
    if not file.exists() and (path / "run.json").exists():
        wanted = f"a finished run; to finish this one: python -m sweep resume={path}"
        raise ConfigError("dataset", f"no {file}", wanted)
    if not file.exists():
        raise ConfigError("dataset", str(file), "a run's directory or the dataset.nc in it")
    try:
        tree = xr.open_datatree(file, engine="netcdf4")
    except Exception as error:  # any of netCDF4, HDF5 and xarray may refuse it
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError("dataset", str(file), f"a netCDF file ({reason})") from error
    return cells_of(tree)


def cells_of(data: "xr.DataTree | xr.Dataset | Cells") -> Cells:
    """Wrap a dataset or a tree whose root it is.

    Raises
    ------
    ConfigError
        If it is not the dataset of a sweep.
    """
    if isinstance(data, Cells):
        return data
    if isinstance(data, xr.Dataset):
        return Cells(root=data)
    tables = {name: data[name].to_dataset() for name in data.children if name in TABLES}
    return Cells(root=data.to_dataset(), tables=tables)


def label(value: object) -> str:
    """Write a coordinate's value as the command line would.

    >>> label(np.float64(0.5)), label(np.int64(3)), label("atomic"), label(None)
    ('0.5', '3', 'atomic', 'null')
    """
    if isinstance(value, bytes):
        return value.decode()
    if value is None:
        return "null"
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))
    return str(value)


def known(name: str, attrs: Mapping[object, object], table: str = "") -> Variable:
    """Return what is known of a variable: from the registry, else from its attributes."""
    registry = TABLES.get(table, {}) if table else SCALARS
    if name in registry:
        return registry[name]
    return Variable(str(attrs.get("units", "1")), str(attrs.get("long_name", name)))


def _decoded(value: object) -> object:
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value.item() if isinstance(value, np.generic) else value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _label_dim(table: xr.Dataset, axes: tuple[str, ...]) -> str:
    extra = [str(dim) for dim in table.dims if dim not in axes and dim != REPLICATE]
    return extra[0]
