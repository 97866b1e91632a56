"""One value of an axis against the others: what changed, by how much, and where it hurts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from allocator.counters import CAUSES, MAIN
from allocator.errors import ConfigError
from sweep.answer.cells import REPLICATE, Cells, known
from sweep.answer.changes import changes_of
from sweep.answer.copies import no_effect, originals
from sweep.answer.stats import METRIC_RATIO, Bools, Floats, Summary, change, changed, summarise
from sweep.dataset import STATUSES


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All cells of a dataset, one value of an axis against the others.

    A cell is one combination of the other axes; cells are numbered in the order of `dims`. What
    takes a pass over the dataset is computed once and kept.
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

    @cached_property
    def summary(self) -> Summary:
        """Mean and spread of each cell's own metric, (cell, value)."""
        return summarise(self.metric_values())

    @cached_property
    def same(self) -> Bools:
        """Whether an axis has no effect on a cell, (cell, dim)."""
        return no_effect(self.cells, self.dims, self.axis)

    @cached_property
    def originals(self) -> NDArray[np.int64]:
        """Number of the cell that each cell is a copy of, its own if it is none, (cell,)."""
        return originals(self.same, self.shape)

    @cached_property
    def data(self) -> xr.Dataset:
        """The comparison as arrays: dims are the other axes and the compared values.

        NaN where there is no result. The baseline has, without a dim of the compared values,
        `baseline`, `baseline_stddev` and `baseline_runs`; the other values have `mean`, `stddev`,
        `runs`; `difference` in the metric's units and `change` in percent (points where the metric
        is a percentage), each with `_low` and `_high`, the ends of its interval; `p_value` and
        `p_adjusted`, corrected over the grid; `significant`, `changed` by lkp's rule, `regressed`
        and `improved`. The attributes name the methods.
        """
        return changes_of(self)

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
        If the axis, a value or the metric does not exist; the text lists those that do. If no run
        ended well.
    """
    name, equals, value = baseline.partition("=")
    if not equals:
        raise ConfigError("baseline", baseline, f"AXIS=VALUE, AXIS one of {', '.join(cells.axes)}")
    axis = cells.axis(name)
    dim = cells.carrier(axis) or axis
    first = cells.position(axis, value)
    others = [cells.position(axis, text) for text in dict.fromkeys(against)]
    if first in others:
        raise ConfigError("against", against[others.index(first)], f"values other than {value}")
    order = (first, *(others or (k for k in range(cells.root.sizes[dim]) if k != first)))
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


def default_baseline(cells: Cells) -> str:
    """Return the baseline where none is named, as `axis=value`.

    The run's own, if it was swept; else the first value of `kernel`, else of the first axis with
    several values.

    Raises
    ------
    ConfigError
        If no axis has several values.
    """
    asked = configured(cells, "baseline")
    own = asked and swept_baseline(cells, asked)
    several = [axis for axis in cells.axes if cells.root.sizes[axis] > 1]
    if not several:
        raise ConfigError("baseline", "no axis with several values", "something to compare")
    axis = "kernel" if "kernel" in several else several[0]
    return own or f"{axis}={cells.labels(axis)[0]}"


def configured(cells: Cells, key: str) -> str | None:
    """Return a key of the run's own `compare` section, from its provenance."""
    config = cells.provenance().get("config")
    section = config.get("compare") if isinstance(config, Mapping) else None
    value = section.get(key) if isinstance(section, Mapping) else None
    return None if value is None else str(value)


def swept_baseline(cells: Cells, baseline: str) -> str | None:
    """Return a baseline, or the first value of its axis; None if that axis was not swept."""
    axis, _, value = baseline.partition("=")
    try:
        dim = cells.carrier(cells.axis(axis))
    except ConfigError:
        return None
    if dim is None or cells.root.sizes[dim] < 2:
        return None
    labels = cells.labels(cells.axis(axis))
    return baseline if value in labels else f"{axis}={labels[0]}"


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
        If the dataset does not have this metric, or none at all, or no run ended well.
    """
    if not cells.ended_well:
        raise ConfigError("status", cells.endings(), "at least one run that ended well")
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
