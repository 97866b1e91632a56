"""One value of an axis against the others: what changed, by how much, and where it hurts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from allocator.counters import CAUSES, MAIN
from allocator.errors import ConfigError
from sweep.answer.cells import REPLICATE, Cells, known
from sweep.answer.stats import METRIC_RATIO, Bools, Floats, Summary, change, changed, summarise
from sweep.dataset import STATUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All cells of a dataset, one value of an axis against the others.

    A cell is one combination of the other axes; cells are numbered in the order of `dims`.
    """

    cells: Cells
    """The dataset."""
    axis: str
    """The compared axis."""
    order: tuple[int, ...]
    """Positions on the axis: the baseline, then what is compared with it."""
    metrics: tuple[str, ...]
    """Metric at each place of `metric_dim`; a single one where that is None."""
    metric_dim: str | None = None
    """Dim along which the workload, and with it the metric, varies."""

    @property
    def dims(self) -> tuple[str, ...]:
        """Axes of the cells."""
        return tuple(dim for dim in self.cells.axes if dim != self.axis)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values on each of `dims`."""
        return tuple(self.cells.root.sizes[dim] for dim in self.dims)

    @property
    def labels(self) -> tuple[str, ...]:
        """Compared values, the baseline first."""
        labels = self.cells.labels(self.axis)
        return tuple(labels[position] for position in self.order)

    def where(self, cell: int) -> dict[str, str]:
        """Return the axis values of a cell."""
        return self.places([cell])[0]

    def places(self, cells: Sequence[int]) -> list[dict[str, str]]:
        """Return the axis values of several cells."""
        if not self.dims:
            return [{} for _ in cells]
        index = np.unravel_index(np.asarray(cells, dtype=np.int64), self.shape)
        columns = {}
        for dim, along in zip(self.dims, index, strict=True):
            for part in self.cells.parts(dim):
                labels = self.cells.labels(part)
                columns[part] = [labels[i] for i in along.tolist()]
        return [{part: column[k] for part, column in columns.items()} for k in range(len(cells))]

    def values(self, name: str, table: str = "", chosen: NDArray[np.int64] | None = None) -> Floats:
        """Return a variable of all or of the chosen cells.

        Returns
        -------
        NDArray
            (cell, value, replicate); a table has one more dim, the label.
        """
        full = self.cells.values(name, (*self.dims, self.axis), table)
        rows = full.reshape((-1, *full.shape[len(self.dims) :]))
        return (rows if chosen is None else rows[chosen])[:, self.order]

    def status(self) -> NDArray[np.int8]:
        """Return `status` as (cell, value, replicate)."""
        full = self.cells.status((*self.dims, self.axis))
        return full.reshape((-1, *full.shape[len(self.dims) :]))[:, self.order]

    def metric_of_cell(self) -> NDArray[np.int64]:
        """Return the position in `metrics` of each cell's metric, (cell,)."""
        ncells = int(np.prod(self.shape, dtype=np.int64))
        if self.metric_dim is None:
            return np.zeros(ncells, dtype=np.int64)
        index = np.unravel_index(np.arange(ncells), self.shape)
        return np.asarray(index[self.dims.index(self.metric_dim)], dtype=np.int64)

    def metric_values(self) -> Floats:
        """Return each cell's own metric, (cell, value, replicate)."""
        which = self.metric_of_cell()
        values = self.values(self.metrics[0])
        for name in dict.fromkeys(self.metrics[1:]):
            mine = np.array([metric == name for metric in self.metrics])[which]
            values[mine] = self.values(name)[mine]
        return values

    def better(self) -> NDArray[np.int64]:
        """Return +1 where a higher metric is better, -1 where a lower is, (cell,)."""
        signs = [known(m, self.cells.root[m].attrs).better for m in self.metrics]
        return np.array(signs, dtype=np.int64)[self.metric_of_cell()]

    def better_array(self) -> xr.DataArray:
        """Return `better` with the dims of the cells."""
        return xr.DataArray(self.better().reshape(self.shape), dims=self.dims)

    def absolute(self) -> Bools:
        """Return where the metric is a percentage, (cell,)."""
        return np.array([self.is_absolute(m) for m in self.metrics])[self.metric_of_cell()]

    def units(self, name: str, table: str = "") -> str:
        """Return the units of a variable, `1` where it has none."""
        source = self.cells.tables[table] if table else self.cells.root
        return known(name, source[name].attrs, table).units

    def is_absolute(self, name: str, table: str = "") -> bool:
        """Return whether a variable is a percentage, whose change is a difference of points."""
        return self.units(name, table) in ("percent", "%")

    @property
    def data(self) -> xr.Dataset:
        """The comparison as arrays: dims are the other axes and the compared values.

        `baseline` and `mean` (in the metric's units), `stddev`, `change` (percent, or points of
        percent), `changed` (lkp's rule) and `regressed` (changed for the worse), `runs`.
        """
        summary = summarise(self.metric_values())
        moved = self.moves(summary)
        delta = self.changes(summary)
        inner = (*self.shape, len(self.order) - 1)
        dims = (*self.dims, self.axis)
        worse = moved & (delta * self.better()[:, None] < 0)

        def of_others(array: NDArray[np.generic]) -> tuple[tuple[str, ...], NDArray[np.generic]]:
            return dims, array.reshape(inner)

        data = xr.Dataset(
            {
                "baseline": (self.dims, summary.mean[:, 0].reshape(self.shape)),
                "mean": of_others(summary.mean[:, 1:]),
                "stddev": of_others(summary.std[:, 1:]),
                "change": of_others(delta),
                "changed": of_others(moved),
                "regressed": of_others(worse),
                "runs": of_others(summary.runs[:, 1:]),
            },
            coords={dim: self.cells.root[dim] for dim in self.dims if dim in self.cells.root.coords}
            | {self.axis: self._others()},
        )
        data.attrs = {"baseline": f"{self.axis}={self.labels[0]}", "metrics": list(self.metrics)}
        data["change"].attrs = {"units": "percent", "long_name": "change against the baseline"}
        return data

    def _others(self) -> NDArray[np.generic]:
        """Return the coordinate of the compared values, of the type that the dataset has."""
        if self.axis not in self.cells.root.coords:
            return np.array(self.order[1:], dtype=np.int64)
        return np.asarray(self.cells.root[self.axis].values)[list(self.order[1:])]

    def changes(self, summary: Summary) -> Floats:
        """Return the change of each cell's metric, (cell, value - 1)."""
        return np.where(
            self.absolute()[:, None], change(summary.mean, True), change(summary.mean, False)
        )

    def moves(self, summary: Summary) -> Bools:
        """Return whether each cell's metric changed, (cell, value - 1)."""
        return changed(summary, METRIC_RATIO)

    def failures(self) -> dict[str, NDArray[np.int64]]:
        """Return how many runs of each cell gave no result, by reason, (cell, value).

        Reasons are the statuses of the dataset but `ok`; cells that the grid leaves out count as
        `excluded`.
        """
        status = self.status()
        counts = {name: (status == code).sum(axis=-1) for code, name in enumerate(STATUSES) if code}
        return {name: count for name, count in counts.items() if count.any()}

    def causes(self, cells: NDArray[np.int64] | None = None) -> xr.Dataset:
        """Return the shares that may lie behind a change, (cell, value), percent.

        Only causes whose variables the dataset has; see `allocator.counters.CAUSES`.
        """
        known_names = set(self.cells.scalars)
        shares = {}
        for name, cause in CAUSES.items():
            parts = [self.values(v, chosen=cells) for v in cause.part if v in known_names]
            if not parts or not set(cause.whole) <= known_names:
                continue
            whole = sum((self.values(v, chosen=cells) for v in cause.whole), np.zeros(1))
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(whole > 0, 100.0 * sum(parts, np.zeros(1)) / whole, np.nan)
            attrs = {"units": "percent", "long_name": cause.long_name}
            shares[name] = (("cell", self.axis, REPLICATE), share, attrs)
        return xr.Dataset(shares)


def compare(
    cells: Cells, baseline: str, *, metric: str | None = None, against: Sequence[str] = ()
) -> Comparison:
    """Compare the other values of an axis with the baseline.

    Parameters
    ----------
    cells
        The dataset.
    baseline
        `axis=value`, e.g. `kernel=v6_1`.
    metric
        Variable to judge by; without it each workload's own (`allocator.counters.MAIN`).
    against
        Values to compare; without them all others of the axis.

    Raises
    ------
    ConfigError
        If the axis, a value or the metric does not exist; the text lists those that do.
    """
    name, equals, value = baseline.partition("=")
    if not equals:
        raise ConfigError("baseline", baseline, f"AXIS=VALUE, AXIS one of {', '.join(cells.axes)}")
    axis = cells.axis(name)
    dim = cells.carrier(axis) or axis
    first = cells.position(axis, value)
    others = [cells.position(axis, text) for text in against] or range(cells.root.sizes[dim])
    order = (first, *(position for position in others if position != first))
    if len(order) < 2:
        raise ConfigError(axis, value, "a second value on this axis to compare it with")
    workloads = cells.carrier("workload")
    metric_dim = workloads if workloads != dim and metric is None else None
    return Comparison(
        cells=cells,
        axis=dim,
        order=order,
        metrics=metrics_of(cells, metric, metric_dim),
        metric_dim=metric_dim,
    )


def metrics_of(cells: Cells, metric: str | None, dim: str | None) -> tuple[str, ...]:
    """Return the metric to judge by at each place of a dim, or a single one.

    Parameters
    ----------
    cells
        The dataset.
    metric
        The metric asked for; None: at each place the first of `allocator.counters.MAIN` that has
        values there.
    dim
        Dim of the workloads; None: one metric for all.

    Raises
    ------
    ConfigError
        If the dataset does not have this metric, or none at all.
    """
    if metric is not None:
        if metric not in cells.scalars:
            raise ConfigError("metric", metric, f"one of {', '.join(cells.scalars)}")
        return (metric,)
    judged = [name for name in cells.scalars if known(name, cells.root[name].attrs).better]
    candidates = [name for name in (*MAIN, *judged, *cells.scalars) if name in cells.scalars]
    if not candidates:
        raise ConfigError("dataset", "no numeric variable", "at least one result to compare")
    split = (dim,) if dim else ()
    order = (*split, *(axis for axis in cells.axes if axis not in split))
    found: list[str] = [""] * (cells.root.sizes[dim] if dim else 1)
    for name in dict.fromkeys(candidates):
        values = cells.values(name, order)
        rows = values.reshape((len(found), -1))
        given = (np.nan_to_num(rows) != 0).any(axis=1)  # counts are 0 where not given
        found = [metric or name * bool(there) for metric, there in zip(found, given, strict=True)]
        if all(found):
            break
    return tuple(metric or candidates[0] for metric in found)
