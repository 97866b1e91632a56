"""Mean changes along one axis at a time, and a dataset in which nothing is compared."""

import numpy as np
import xarray as xr

from sweep.answer.cells import Cells
from sweep.answer.compare import Comparison, metrics_of
from sweep.answer.stats import Floats


def without_comparison(cells: Cells, metric: str | None = None) -> Comparison:
    """Return all cells of a dataset with a compared axis of length 1, of no name."""
    dim = cells.carrier("workload") if metric is None else None
    return Comparison(
        cells=_with_blank_axis(cells),
        axis="",
        order=(0,),
        metrics=metrics_of(cells, metric, dim),
        metric_dim=dim,
    )


def effects(comparison: Comparison) -> dict[str, xr.DataArray]:
    """Return the mean change at each value of each axis: which axis the change hangs on.

    Where workloads are an axis they are kept apart. Infinite changes (from a baseline of zero)
    and failed runs are left out.

    Returns
    -------
    dict
        By axis: (axis value, compared value), percent; with workloads (workload, axis value,
        compared value).
    """
    delta = comparison.data["change"].where(np.isfinite)
    apart = [comparison.metric_dim] if comparison.metric_dim else []
    found = {}
    for dim in comparison.dims:
        if dim in apart:
            continue
        rest = [other for other in comparison.dims if other not in (dim, *apart)]
        there = delta.notnull().sum(rest)
        mean = delta.fillna(0).sum(rest) / there.where(there > 0)
        found[dim] = mean.transpose(*apart, dim, comparison.axis)
    return found


def means_by_axis(comparison: Comparison, dim: str) -> Floats:
    """Return the baseline's mean metric at each value of another axis.

    Returns
    -------
    NDArray
        (axis value,); with workloads as an axis (workload, axis value).
    """
    base = comparison.data["baseline"]
    apart = [comparison.metric_dim] if comparison.metric_dim else []
    rest = [other for other in comparison.dims if other not in (dim, *apart)]
    return np.asarray(base.mean(rest).transpose(*apart, dim).values, dtype=np.float64)


def _with_blank_axis(cells: Cells) -> Cells:
    """Add an axis of length 1, so that a metric without comparison takes the same way."""
    return Cells(root=cells.root.expand_dims({"": 1}), tables={})
