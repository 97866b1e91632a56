"""What a heat map shows: the change, or the metric, cut into a surface per machine."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sweep.answer.cells import Cells, known
from sweep.answer.compare import Comparison
from sweep.answer.effects import without_comparison
from sweep.answer.stats import Bools, Floats

APART = ("machine", "workload")
"""Axes that get pictures and panels of their own rather than rows and columns."""

ROUNDS_TO_ZERO = 0.05
"""Percent (or points) below which a change is written as 0.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One small picture: a value over columns and rows."""

    workload: str
    """Workload, or "" where it was not swept."""
    value: str
    """Compared value, or "" where nothing is compared."""
    metric: str
    units: str
    better: int
    """+1 where a higher metric is better, -1 where a lower is, 0 if neither."""
    absolute: bool
    """The metric is a percentage, and a change of it is in points."""
    cells: Floats
    """Change in percent, or the metric itself, (row, column); NaN where there is none."""
    sure: Bools
    """Whether the change is significant; where no point has several runs, whether it is a change by
    lkp's rule, (row, column)."""
    missing: NDArray[np.str_]
    """Why a cell has no value (`oom`, `failed`, `pending`, `none`), (row, column)."""
    copy_of: NDArray[np.int64]
    """Cells of one number are one simulation: an axis has no effect there, (row, column)."""

    @property
    def quiet(self) -> bool:
        """Whether each cell would show a change of 0.0."""
        return not (self.missing != "").any() and bool((np.abs(self.cells) < ROUNDS_TO_ZERO).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """All panels of one machine."""

    machine: str
    """Machine, or "" where it was not swept."""
    baseline: str
    """`axis=value`, or "" where nothing is compared."""
    axis: str
    """Compared axis, or ""."""
    values: tuple[str, ...]
    """Compared values without the baseline; ("",) where nothing is compared."""
    columns: tuple[str, ...]
    """Values of the horizontal axis."""
    column_axis: str
    rows: tuple[str, ...]
    """Values of the vertical axis; several axes are joined by `/`."""
    row_axis: str
    replicates: int
    tested: bool
    """Whether `sure` tells significance, and not lkp's rule."""
    panels: tuple[Panel, ...]

    @property
    def quiet(self) -> bool:
        """Whether nothing is compared that changed at all, or is missing."""
        return bool(self.baseline) and all(panel.quiet for panel in self.panels)


def surfaces(comparison: Comparison) -> list[Surface]:
    """Cut a comparison into one surface per machine, panels by workload and compared value."""
    data = comparison.data
    shape = (-1, len(comparison.order) - 1)
    sure, tested = sure_of(data)
    return _cut(
        comparison,
        values=data["change"].values.reshape(shape),
        sure=sure.reshape(shape),
        tested=tested,
        missing=_missing(comparison),
        shown=comparison.labels[1:],
        baseline=f"{comparison.axis}={comparison.labels[0]}",
    )


def sure_of(data: xr.Dataset) -> tuple[Bools, bool]:
    """Return which changes are sure, and whether that is by a test.

    Parameters
    ----------
    data
        `Comparison.data`.

    Returns
    -------
    NDArray, bool
        (other axes..., compared value): significant after correction. Where no point has several
        runs there is no test; then it is what changed by lkp's rule, and the second is False.
    """
    tested = "p_adjusted" in data and bool(np.isfinite(data["p_adjusted"].values).any())
    return np.asarray(data["significant" if tested else "changed"].values, dtype=np.bool_), tested


def metric_surfaces(cells: Cells, metric: str | None = None) -> list[Surface]:
    """Cut the metric itself into surfaces, where there is nothing to compare."""
    whole = without_comparison(cells, metric)
    summary = whole.summary
    return _cut(
        whole,
        values=summary.mean,
        sure=np.ones(summary.mean.shape, dtype=np.bool_),
        tested=False,
        missing=_missing(whole),
        shown=("",),
        baseline="",
    )


def column_axis(cells: Cells, dims: tuple[str, ...]) -> str:
    """Choose the axis to go along: the longest one of numbers, else the longest.

    Machines go along where there is nothing else; workloads never, their metrics differ.
    """
    free = [dim for dim in dims if dim not in APART] or [dim for dim in dims if dim == "machine"]
    if not free:
        return ""
    return max(free, key=lambda dim: (_numeric(cells.labels(dim)), len(cells.labels(dim))))


def _cut(
    comparison: Comparison,
    *,
    values: Floats,
    sure: Bools,
    tested: bool,
    missing: NDArray[np.str_],
    shown: tuple[str, ...],
    baseline: str,
) -> list[Surface]:
    """Cut (cell, shown value) arrays into panels."""
    cells, dims, shape = comparison.cells, comparison.dims, comparison.shape
    along = column_axis(cells, dims)
    apart = tuple(dim for dim in APART if dim in dims and dim != along)
    down = tuple(dim for dim in dims if dim not in apart and dim != along)
    order = [dims.index(dim) for dim in (*apart, *down, along) if dim]
    lead = [shape[dims.index(dim)] for dim in apart]
    width = len(cells.labels(along)) if along else 1
    stacked = not down and len(shown) > 1
    panels = ("",) if stacked else shown

    def cut(array: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return (apart..., panel, row, column); the values are rows where nothing else is."""
        moved_last = [*order[: len(lead)], len(shape), *order[len(lead) :]]
        boxes = array.reshape((*shape, len(shown))).transpose(moved_last)
        return boxes.reshape((*lead, len(panels), -1, width))

    each = np.arange(len(shown)) * values.shape[0]
    originals = comparison.originals[:, None] + each
    arrays = {"cells": values, "sure": sure, "missing": missing, "copy_of": originals}
    boxes = {name: cut(array) for name, array in arrays.items()}
    rows = tuple("/".join(row) for row in product(*(cells.labels(dim) for dim in down)))
    row_axis = "/".join(part for dim in down for part in cells.parts(dim))
    found = []
    for machine, machine_name in _places(cells, apart, "machine"):
        chosen = []
        for workload, workload_name in _places(cells, apart, "workload"):
            at = tuple(place for place in (machine, workload) if place is not None)
            metric = comparison.metrics[workload or 0 if comparison.metric_dim else 0]
            variable = known(metric, cells.root[metric].attrs)
            chosen += [
                Panel(
                    workload=workload_name,
                    value=value,
                    metric=metric,
                    units=variable.units,
                    better=variable.better,
                    absolute=variable.units in ("percent", "%"),
                    **{name: box[(*at, k)] for name, box in boxes.items()},
                )
                for k, value in enumerate(panels)
            ]
        found.append(
            Surface(
                machine=machine_name,
                baseline=baseline,
                axis=comparison.axis,
                values=shown,
                columns=cells.labels(along) if along else ("",),
                column_axis=along,
                rows=shown if stacked else rows,
                row_axis=comparison.axis if stacked else row_axis,
                replicates=comparison.status().shape[2],
                tested=tested,
                panels=tuple(chosen),
            )
        )
    return found


def _places(cells: Cells, apart: tuple[str, ...], dim: str) -> list[tuple[int | None, str]]:
    if dim in apart:
        return list(enumerate(cells.labels(dim)))
    return [(None, cells.fixed().get(dim, ""))]


def _missing(comparison: Comparison) -> NDArray[np.str_]:
    """Say why a cell cannot be shown, (cell, shown value); the baseline's reason comes first."""
    counts = comparison.failures()
    ok = ~np.isnan(comparison.summary.mean)
    reason = np.where(ok, "", "none").astype("<U8")
    for name, count in counts.items():
        reason[~ok & (count > 0)] = name
    if reason.shape[1] == 1:
        return reason
    return np.where(reason[:, :1] != "", reason[:, :1], reason[:, 1:])


def _numeric(labels: tuple[str, ...]) -> bool:
    def number(text: str) -> bool:
        try:
            float(text)
        except ValueError:
            return text == "null"
        return True

    return all(number(text) for text in labels)
