"""A comparison as plain columns, one row per distinct point and compared value.

Columns, in this order and under these names in every format:

- one for each axis but the compared one: its value, `*` where it has no effect on the row;
- `axis`, `baseline`, `value`: the compared axis, and the two values that the row compares;
- `metric`, `units`: what is judged;
- `baseline_mean`, `baseline_stddev`, `baseline_runs`, `baseline_failed`, `mean`, `stddev`, `runs`,
  `failed`: over the runs that ended well, how many these are and how many failed;
- `difference`, `difference_low`, `difference_high`: in these units, with its 95 % interval;
- `change`, `change_low`, `change_high`, `change_units`: the same in `percent` of the baseline, or
  in `points` where the metric is a percentage;
- `p_value`, `p_adjusted`, `significant`, `changed`, `regressed`, `improved`: see `Comparison.data`;
- `cause_1`, `cause_1_points` to `cause_3`, `cause_3_points`: shares that moved most, and by how
  many points of percent; empty where fewer moved.

Rows: the worst regression (or most additional failures) first, then gains, then by size of change.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from allocator.results import Status
from sweep.answer.cells import known
from sweep.answer.compare import Comparison
from sweep.answer.groups import ANY, CAP, MOVED_POINTS, gains
from sweep.answer.stats import change, changed, summarise

if TYPE_CHECKING:
    from pandas import DataFrame

CAUSES_SHOWN = 3
OF_BASELINE = {
    "baseline": "baseline_mean",
    "baseline_stddev": "baseline_stddev",
    "baseline_runs": "baseline_runs",
}
"""Columns by the variable of `Comparison.data` that they show; all others have its name."""
Ints = NDArray[np.int64]
Columns = dict[str, NDArray[Any]]


def frame(comparison: Comparison) -> "DataFrame":
    """Return all rows as a table."""
    from pandas import DataFrame  # slow to import

    cell, value = ordered(comparison)
    return DataFrame(axes(comparison, cell, marked=True) | columns(comparison, cell, value))


def worst(comparison: Comparison, n: int) -> xr.Dataset:
    """Return the first `n` rows that became worse, as a dataset with one dim `point`.

    Coordinates are the axes, at their first value where they have no effect; the variable
    `no_effect` names these.
    """
    cell, value = ordered(comparison)
    gain, failures = gains(comparison)
    loss = np.maximum(-gain, failures)[cell, value]
    chosen = np.flatnonzero(loss > 0)[:n]
    cell, value = cell[chosen], value[chosen]
    parts = [", ".join(comparison.cells.parts(dim)) for dim in comparison.dims]
    found = columns(comparison, cell, value)
    found["no_effect"] = np.array(
        [
            ", ".join(part for part, copy in zip(parts, row, strict=True) if copy)
            for row in comparison.same[cell].tolist()
        ],
        dtype=object,
    )
    coords = axes(comparison, cell, marked=False)
    return xr.Dataset(
        {name: ("point", column) for name, column in found.items()},
        coords={name: ("point", column) for name, column in coords.items()},
        attrs=comparison.data.attrs,
    )


def ordered(comparison: Comparison) -> tuple[Ints, Ints]:
    """Return cell and compared value of each row, in the order of the table."""
    first = comparison.originals == np.arange(len(comparison.originals))
    gain, failures = gains(comparison)
    loss = np.maximum(-gain, failures)
    best = np.maximum(gain, -failures)
    size = np.nan_to_num(np.abs(np.clip(comparison.changes(comparison.summary), -CAP, CAP)))
    cell, value = np.nonzero(np.broadcast_to(first[:, None], loss.shape))
    order = np.lexsort(
        (-size[cell, value], -best[cell, value], -np.maximum(loss[cell, value], 0.0))
    )
    return cell[order], value[order]


def axes(comparison: Comparison, cell: Ints, *, marked: bool) -> Columns:
    """Return the value of each axis in each row; `ANY` where it has no effect if `marked`."""
    found: Columns = {}
    if not comparison.dims:
        return found
    root = comparison.cells.root
    for d, along in enumerate(np.unravel_index(cell, comparison.shape)):
        for part in comparison.cells.parts(comparison.dims[d]):
            values = root[part].values if part in root.coords else np.arange(comparison.shape[d])
            column = np.asarray(values)[along]
            if marked:
                column = np.where(comparison.same[cell, d], ANY, column.astype(object))
            found[part] = column
    return found


def columns(comparison: Comparison, cell: Ints, value: Ints) -> Columns:
    """Return everything but the axes, by name; see the top of this file."""
    rows = len(cell)
    root, labels = comparison.cells.root, np.array(comparison.labels, dtype=object)
    which = comparison.metric_of_cell()[cell]
    variables = [known(metric, root[metric].attrs) for metric in comparison.metrics]
    absolute = comparison.absolute()[cell]
    status = comparison.status()
    failed = ((status == Status.OOM) | (status == Status.FAILED)).sum(axis=-1)
    found: Columns = {
        "axis": np.full(rows, comparison.axis, dtype=object),
        "baseline": np.full(rows, labels[0], dtype=object),
        "value": labels[1:][value],
        "metric": np.array(comparison.metrics, dtype=object)[which],
        "units": np.array([variable.units for variable in variables], dtype=object)[which],
    }
    for name, array in comparison.data.data_vars.items():
        flat = array.values.reshape(len(comparison.originals), -1)
        column = OF_BASELINE.get(str(name), str(name))
        found[column] = flat[cell, 0] if column in OF_BASELINE.values() else flat[cell, value]
        if name == "baseline_runs":
            found["baseline_failed"] = failed[cell, 0]
        elif name == "runs":
            found["failed"] = failed[cell, 1 + value]
        elif name == "change_high":
            found["change_units"] = np.where(absolute, "points", "percent").astype(object)
    return found | _causes(comparison, cell, value)


def _causes(comparison: Comparison, cell: Ints, value: Ints) -> Columns:
    """Return the shares that moved most, and by how many points."""
    chosen, row = np.unique(cell, return_inverse=True)
    shares = comparison.causes(chosen)
    names = np.array([*map(str, shares.data_vars), ""], dtype=object)
    moved = np.zeros((len(names), len(cell)))
    for k, share in enumerate(shares.data_vars.values()):
        summary = summarise(np.asarray(share.values))
        points = change(summary.mean, absolute=True)
        listed = changed(summary) & (np.abs(points) >= MOVED_POINTS)
        moved[k] = np.where(listed, points, 0.0)[row, value]
    order = np.argsort(-np.abs(moved), axis=0, kind="stable")
    found: Columns = {}
    for place in range(CAUSES_SHOWN):
        which = order[place] if place < len(names) else np.full(len(cell), len(names) - 1)
        points = moved[which, np.arange(len(cell))]
        found[f"cause_{place + 1}"] = np.where(points != 0, names[which], "")
        found[f"cause_{place + 1}_points"] = np.where(points != 0, points, np.nan)
    return found
