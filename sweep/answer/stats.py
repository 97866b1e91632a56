"""Means, spread and change over replicates, and the rule by which lkp calls a stat changed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GAP_DISTANCE = 2
"""lkp's default: ranges apart by more than 1/2 of the difference of the means."""
METRIC_RATIO = 1.01
"""lkp lists a change of a test's own metric from 1 percent on, ..."""
OTHER_RATIO = 1.05
"""... and of anything else from 5 percent on (lib/stats.rb skip_small_change?)."""
ROUNDING = 1e-9
"""Relative difference up to which results are the same."""

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Means and spread over the replicates that ended well; NaN where there is none."""

    mean: Floats
    """Mean, (..., value)."""
    std: Floats
    """Standard deviation of the sample, (..., value); NaN for a single run."""
    low: Floats
    """Smallest run, (..., value)."""
    high: Floats
    """Largest run, (..., value)."""
    runs: NDArray[np.int64]
    """Runs that ended well, (..., value)."""

    def rows(self, chosen: NDArray[np.int64]) -> "Summary":
        """Return the summary of some cells."""
        return Summary(
            mean=self.mean[chosen],
            std=self.std[chosen],
            low=self.low[chosen],
            high=self.high[chosen],
            runs=self.runs[chosen],
        )


def summarise(values: Floats) -> Summary:
    """Sum up the replicates.

    Parameters
    ----------
    values
        (..., value, replicate), NaN where a run did not end well.
    """
    there = ~np.isnan(values)
    runs = there.sum(axis=-1)
    filled = np.where(there, values, 0.0)
    missing = np.where(runs == 0, np.nan, 0.0)
    mean = filled.sum(axis=-1) / np.maximum(runs, 1) + missing
    spread = np.where(there, values - mean[..., None], 0.0)
    variance = (spread**2).sum(axis=-1) / np.maximum(runs - 1, 1)
    low = np.where(there, values, np.inf).min(axis=-1, initial=np.inf)
    high = np.where(there, values, -np.inf).max(axis=-1, initial=-np.inf)
    return Summary(
        # equal runs have this mean to the last bit, so that no change is no change
        mean=np.where(low == high, low, mean),
        std=np.where(low == high, 0.0, np.sqrt(variance)) + np.where(runs < 2, np.nan, 0.0),
        low=low + missing,
        high=high + missing,
        runs=runs,
    )


def changed(summary: Summary, ratio: float = 1.0) -> Bools:
    """Say which values of the axis differ from the first by lkp's rule.

    The ranges must not overlap, and the gap between them must be wider than 1/2 of the difference
    of the means; with fewer than 3 runs, than twice the longer of the two ranges
    (lib/changed_stat.rb change?()). The larger mean must be more than `ratio` times the smaller.

    Returns
    -------
    NDArray
        (..., value - 1) bool.
    """
    base = np.s_[..., :1]
    other = np.s_[..., 1:]
    low, high, mean, runs = summary.low, summary.high, summary.mean, summary.runs
    gap = np.maximum(low[other] - high[base], low[base] - high[other])
    distance = np.abs(mean[other] - mean[base])
    longest = np.maximum(high[base] - low[base], high[other] - low[other])
    few = np.minimum(runs[base], runs[other]) < 3
    needed = np.where(few, GAP_DISTANCE * longest, distance / GAP_DISTANCE)
    larger = np.maximum(np.abs(mean[base]), np.abs(mean[other]))
    smaller = np.minimum(np.abs(mean[base]), np.abs(mean[other]))
    opposite = mean[base] * mean[other] < 0
    return (gap > 0) & (gap > needed) & (opposite | (larger > ratio * smaller))


def change(mean: Floats, absolute: bool) -> Floats:
    """Return the change against the first value of the axis.

    Parameters
    ----------
    mean
        (..., value).
    absolute
        The stat is a percentage: its change is a difference. Otherwise it is in percent of the
        baseline; from a baseline of zero it is infinite.

    Returns
    -------
    NDArray
        (..., value - 1).
    """
    base, other = mean[..., :1], mean[..., 1:]
    difference = other - base
    if absolute:
        return difference
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = 100.0 * difference / np.abs(base)
    return np.where(difference == 0, 0.0, percent)
