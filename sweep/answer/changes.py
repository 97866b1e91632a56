"""A comparison as one labelled dataset: what changed, by how much, and how sure that is."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sweep.answer.cells import REPLICATE, known
from sweep.answer.significance import (
    CORRECTION,
    INTERVAL,
    SIGNIFICANCE,
    TEST,
    adjusted,
    significant,
    welch,
)
from sweep.answer.stats import Floats

if TYPE_CHECKING:
    from sweep.answer.compare import Comparison

RULE = "lkp's rule: ranges of the runs apart by more than half the difference of the means"
ABOUT = {
    "baseline": "mean of the baseline's runs",
    "baseline_stddev": "standard deviation of the baseline's runs",
    "baseline_runs": "runs of the baseline that ended well",
    "mean": "mean of the runs",
    "stddev": "standard deviation of the runs",
    "runs": "runs that ended well",
    "difference": "mean less the baseline's mean",
    "difference_low": "lower end of the interval of the difference",
    "difference_high": "upper end of the interval of the difference",
    "change": "change against the baseline",
    "change_low": "lower end of the interval of the difference, as a change",
    "change_high": "upper end of the interval of the difference, as a change",
    "p_value": "chance of such a difference if there is none",
    "p_adjusted": "p value corrected for the number of points",
    "significant": f"corrected p value below {SIGNIFICANCE}",
    "changed": RULE,
    "regressed": "changed for the worse",
    "improved": "changed for the better",
}
"""Variables of the dataset, and their long names."""
OF_METRIC = ("baseline", "baseline_stddev", "mean", "stddev")
"""Variables in the units of the metric, as those of the difference are."""


def changes_of(comparison: "Comparison") -> xr.Dataset:
    """Build the dataset; see `Comparison.data`."""
    summary = comparison.summary
    test = welch(summary)
    moved = comparison.moves(summary)
    change = comparison.changes(summary)
    gain = change * comparison.better()[:, None]
    p_adjusted = adjusted(test.p_value, comparison.originals)
    others = {
        "mean": summary.mean[:, 1:],
        "stddev": summary.std[:, 1:],
        "runs": summary.runs[:, 1:],
        "difference": test.difference,
        "difference_low": test.low,
        "difference_high": test.high,
        "change": change,
        "change_low": _as_change(comparison, test.low),
        "change_high": _as_change(comparison, test.high),
        "p_value": test.p_value,
        "p_adjusted": p_adjusted,
        "significant": significant(p_adjusted),
        "changed": moved,
        "regressed": moved & (gain < 0),
        "improved": moved & (gain > 0),
    }
    firsts = {
        "baseline": summary.mean[:, 0],
        "baseline_stddev": summary.std[:, 0],
        "baseline_runs": summary.runs[:, 0],
    }
    shape, dims = comparison.shape, comparison.dims
    inner = (*shape, len(comparison.order) - 1)
    data = xr.Dataset(
        {name: (dims, array.reshape(shape)) for name, array in firsts.items()}
        | {name: ((*dims, comparison.axis), array.reshape(inner)) for name, array in others.items()}
    )
    data = data.assign_coords(_coords(comparison))
    return _described(comparison, data)


def _as_change(comparison: "Comparison", difference: Floats) -> Floats:
    """Return differences from the baseline as the metric's changes are, (cell, value - 1)."""
    base = comparison.summary.mean[:, :1]
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = 100.0 * difference / np.abs(base)
    points = comparison.absolute()[:, None] | (difference == 0)
    return np.where(points, difference, percent)


def _coords(comparison: "Comparison") -> dict[str, object]:
    """Return the coordinates that stay, of the types that the dataset has, and the metric."""
    root, axis, positions = comparison.cells.root, comparison.axis, list(comparison.order[1:])
    kept: dict[str, object] = {
        str(name): coord
        for name, coord in root.coords.items()
        if axis not in coord.dims and REPLICATE not in coord.dims
    }
    for part in {axis, *comparison.cells.parts(axis)}:
        values: NDArray[np.generic] = np.array(positions, dtype=np.int64)
        if part in root.coords:
            values = np.asarray(root[part].values)[positions]
        kept[part] = (axis, values)
    named = comparison.metric_dim is not None
    kept["metric"] = (
        (comparison.metric_dim, list(comparison.metrics)) if named else comparison.metrics[0]
    )
    return kept


def _described(comparison: "Comparison", data: xr.Dataset) -> xr.Dataset:
    """Add units, long names and the names of the methods."""
    root = comparison.cells.root
    units = {known(metric, root[metric].attrs).units for metric in comparison.metrics}
    own = units.pop() if len(units) == 1 else "those of the metric"
    points = set(comparison.absolute().tolist())
    kinds = {False: "percent", True: "points of percent"}
    change = " or ".join(kinds[kind] for kind in sorted(points))
    for name, text in ABOUT.items():
        data[name].attrs["long_name"] = text
        if name in OF_METRIC or name.startswith("difference"):
            data[name].attrs["units"] = own
        elif name.startswith("change_") or name == "change":
            data[name].attrs["units"] = change
    data.attrs = {
        "baseline": f"{comparison.axis}={comparison.labels[0]}",
        "metrics": list(dict.fromkeys(comparison.metrics)),
        "test": TEST,
        "interval": INTERVAL,
        "correction": CORRECTION,
        "changed": RULE,
    }
    return data
