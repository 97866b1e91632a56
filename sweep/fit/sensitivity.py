"""Which axis explains the change: its variance over the grid, split by axis.

Type II analysis of variance, every axis as categories: an axis's share is what it adds to the other
axes, a pair's what it adds to all axes and the other pairs. On a full grid that is the functional
ANOVA, and the shares of single axes are its first order Sobol indices.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import xarray as xr

from sweep.answer.compare import Comparison
from sweep.answer.stats import Bools, Floats
from sweep.fit.basis import numbers
from sweep.fit.design import CROSS
from sweep.fit.rows import APART, Ints, Levels, coded

SAMPLE = "sample"
"""Dim of axes that were sampled together; each of them is an axis here."""
BINS = 8
"""A sampled axis of numbers is cut into as many bins of equally many points."""
MOST_PAIRED = 6
"""Axes whose pairs get shares: those that explain most."""
ROUNDING = 1e-9
"""Standard deviation below this share of the largest change is none."""
EXACT = 1e-12
"""Relative error at which the solver stops."""
REST = "more axes together, or chance"
"""The term of what neither axes nor pairs explain."""
ABOUT = {
    "share": ("share of the variance of the change that a term adds to the others", "percent"),
    "total": ("share that nothing but the axis explains (total Sobol index)", "percent"),
    "noise": ("share that the spread of the runs explains", "percent"),
    "stddev": ("standard deviation of the change over the points", ""),
    "points": ("points with a change", "1"),
}
"""Variables, their long names and units; "" for those of the change."""


def sensitivity(comparison: Comparison, *, by_machine: bool = True) -> xr.Dataset:
    """Split the variance of the change by axis, for each workload.

    Infinite changes (from a baseline of 0) and points without a result are left out.

    Parameters
    ----------
    comparison
        What is compared; where that is several values they are one more axis.
    by_machine
        Split each machine's changes by themselves; else the machine is an axis as others are.

    Returns
    -------
    xr.Dataset
        `share` by `term` (an axis, two joined by ` x `, or `REST`), `total` by `axis`, and `noise`,
        in percent; `stddev` in the units of the change; `points`. Further dims are `machine` with
        `by_machine`, and `workload`, where they were swept and are not compared. Shares are NaN
        where the change does not vary. On a grid with holes they need not add up to 100.
    """
    change = comparison.data["change"]
    apart = [dim for dim in APART if dim in comparison.dims and (by_machine or dim != "machine")]
    dims = [dim for dim in (*comparison.dims, comparison.axis) if dim not in apart]
    shape = tuple(change.sizes[dim] for dim in apart)
    rows = (math.prod(shape), -1)
    values = change.where(np.isfinite(change)).transpose(*apart, *dims).values.reshape(rows)
    chance = _chance(comparison).transpose(*apart, *dims).values.reshape(rows)
    codes = _codes(comparison, dims)
    total = np.array([_totals(row, codes) for row in values])
    terms = _terms(tuple(codes), total)
    found = {
        "share": (np.array([_shares(row, codes, terms) for row in values]), ("term",)),
        "total": (total, ("axis",)),
        "noise": (np.array(list(map(_noise, values, chance))), ()),
        "stddev": (np.array(list(map(_stddev, values))), ()),
        "points": (np.isfinite(values).sum(axis=1), ()),
    }
    data = xr.Dataset(
        {
            name: ((*apart, *more), array.reshape((*shape, *array.shape[1:])))
            for name, (array, more) in found.items()
        },
        coords={dim: change[dim] for dim in apart if dim in change.coords}
        | {"term": [*map(CROSS.join, terms), REST], "axis": list(codes)},
        attrs={"method": "analysis of variance, type II, axes as categories"},
    )
    for name, (text, units) in ABOUT.items():
        data[name].attrs = {"long_name": text, "units": units or change.attrs["units"]}
    return data


def _codes(comparison: Comparison, dims: Sequence[str]) -> dict[str, Ints]:
    """Return which value of each axis a point has, (point,), for axes of several values."""
    sizes = [comparison.data.sizes[dim] for dim in dims]
    codes = {}
    for dim, along in zip(dims, np.indices(sizes).reshape(len(dims), -1), strict=True):
        if dim == SAMPLE:
            for part in comparison.cells.parts(dim):
                codes[part] = _binned(np.asarray(comparison.data[part].values))[along]
        elif comparison.data.sizes[dim] > 1:
            codes[dim] = along
    return codes


def _binned(values: Levels) -> Ints:
    """Return the bin of each number, or the code of each other value, (position,)."""
    found, code = coded(values)
    if numbers(found) is None or len(found) <= BINS:
        return code
    return code * BINS // len(found)


def _terms(axes: Sequence[str], total: Floats) -> list[tuple[str, ...]]:
    """Return the axes, and the pairs of those that explain most; `total` is (place, axis)."""
    most = np.argsort(-np.nansum(total, axis=0), kind="stable")[:MOST_PAIRED]
    paired = [axis for k, axis in enumerate(axes) if k in most and np.nansum(total[:, k]) > 0]
    return [*((axis,) for axis in axes), *combinations(paired, 2)]


def _totals(values: Floats, codes: Mapping[str, Ints]) -> Floats:
    """Return each axis's total share, (axis,): the variance between points that differ in it only.

    Parameters
    ----------
    values
        Changes of one place, (point,), NaN where there is none.
    codes
        By axis, (point,).
    """
    left, there = _centred(values)
    found = []
    for axis in codes:
        others = [code[there] for name, code in codes.items() if name != axis]
        group = _joined(others, len(left))
        mean = np.bincount(group, left) / np.maximum(np.bincount(group), 1)
        found.append(((left - mean[group]) ** 2).sum())
    return _percent(np.array(found), left)


def _shares(values: Floats, codes: Mapping[str, Ints], terms: Sequence[tuple[str, ...]]) -> Floats:
    """Return each term's share and what no term explains, (term + 1,)."""
    left, there = _centred(values)
    columns = [_joined([codes[axis][there] for axis in term], len(left)) for term in terms]
    single = [k for k, term in enumerate(terms) if len(term) == 1]
    found = np.zeros(len(terms) + 1)
    found[-1] = _unexplained(left, columns)
    of_axes = _unexplained(left, [columns[k] for k in single])
    for k in range(len(terms)):
        same_size, whole = (single, of_axes) if k in single else (range(len(terms)), found[-1])
        others = [columns[other] for other in same_size if other != k]
        found[k] = max(_unexplained(left, others) - whole, 0.0)
    return _percent(found, left)


def _unexplained(left: Floats, columns: Sequence[Ints]) -> float:
    """Return the sum of squares that categories leave, fitted together by least squares."""
    from scipy.sparse import csr_array, hstack  # slow to import
    from scipy.sparse.linalg import lsqr

    if not columns or not left.any():
        return float((left**2).sum())
    ones, rows = np.ones(len(left)), np.arange(len(left))
    matrix = hstack([csr_array((ones, (rows, column))) for column in columns], format="csr")
    fit = lsqr(matrix, left, atol=EXACT, btol=EXACT)
    return float(fit[3] ** 2)


def _joined(codes: Sequence[Ints], points: int) -> Ints:
    """Return numbers for the combinations of several axes' values, (point,)."""
    if not codes:
        return np.zeros(points, dtype=np.int64)
    return np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def _centred(values: Floats) -> tuple[Floats, Bools]:
    """Return the changes about their mean, zeros where they do not vary, and where there are."""
    there = np.isfinite(values)
    left = values[there]
    if not len(left) or np.ptp(left) <= ROUNDING * np.abs(left).max():
        return np.zeros(len(left)), there
    return left - left.mean(), there


def _percent(squares: Floats, left: Floats) -> Floats:
    """Return sums of squares as shares of all, NaN where there is nothing to share."""
    whole = float((left**2).sum())
    return 100.0 * squares / whole if whole else np.full(squares.shape, np.nan)


def _stddev(values: Floats) -> float:
    left, _ = _centred(values)
    return float(np.sqrt((left**2).mean())) if len(left) else math.nan


def _noise(values: Floats, chance: Floats) -> float:
    """Return the share of the variance that the runs' spread explains, percent."""
    known = np.isfinite(values) & np.isfinite(chance)
    spread = _stddev(values)
    return 100.0 * float(chance[known].mean()) / spread**2 if known.any() and spread else math.nan


def _chance(comparison: Comparison) -> xr.DataArray:
    """Return the variance of each change, from the spread of its runs; to first order."""
    data = comparison.data
    relative = ~xr.DataArray(comparison.absolute().reshape(comparison.shape), dims=comparison.dims)
    scale = (100.0 / data["baseline"]).where(relative, 1.0)
    ratio = (data["mean"] / data["baseline"]).where(relative, 1.0)
    of_mean = data["stddev"] ** 2 / data["runs"]
    of_baseline = data["baseline_stddev"] ** 2 / data["baseline_runs"]
    variance: xr.DataArray = scale**2 * (of_mean + ratio**2 * of_baseline)
    return variance
