"""How sure a difference of means is: Welch's t test, its interval, and many tests at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.answer.stats import ROUNDING, Bools, Floats, Summary

CONFIDENCE, SIGNIFICANCE = 0.95, 0.05
"""Confidence of the intervals, and below which p value a difference is significant."""
TEST = "Welch's t test, two-sided"
INTERVAL = "95 % Welch t interval of the difference of means"
SHORT_CORRECTION = "Benjamini-Hochberg"
CORRECTION = f"{SHORT_CORRECTION}, false discovery rate over the distinct points of the grid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Welch:
    """Differences from the first value of the axis, (..., value - 1); NaN with a single run."""

    difference: Floats
    """Difference of the means, in the units of the values."""
    low: Floats
    """Lower end of the `CONFIDENCE` interval."""
    high: Floats
    """Upper end."""
    p_value: Floats
    """Chance of such a difference, or a larger one, where there is none."""


def welch(summary: Summary) -> Welch:
    """Test each value of the axis against the first; spreads may differ.

    Without any spread on both sides the means are known: the interval has no width, and the
    p value is 1 where they are equal and else 0.

    Parameters
    ----------
    summary
        (..., value), the baseline first.
    """
    from scipy.stats import t, ttest_ind_from_stats  # slow to import

    base, other = np.s_[..., :1], np.s_[..., 1:]
    mean, std, runs = summary.mean, summary.std, summary.runs
    difference = mean[other] - mean[base]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = std**2 / runs
        both = error[other] + error[base]
        freedom = both**2 / (
            error[other] ** 2 / (runs[other] - 1) + error[base] ** 2 / (runs[base] - 1)
        )
        p_value = ttest_ind_from_stats(
            *(mean[other], std[other], runs[other]),
            *(mean[base], std[base], runs[base]),
            equal_var=False,
        ).pvalue
        half = t.ppf((1 + CONFIDENCE) / 2, freedom) * np.sqrt(both)
    certain = (std[base] <= ROUNDING * np.abs(mean[base])) & (
        std[other] <= ROUNDING * np.abs(mean[other])
    )
    size = np.maximum(np.abs(mean[base]), np.abs(mean[other]))
    equal = np.abs(difference) <= ROUNDING * size
    half = np.where(certain, 0.0, half)
    return Welch(
        difference=difference,
        low=difference - half,
        high=difference + half,
        p_value=np.where(certain, np.where(equal, 1.0, 0.0), p_value),
    )


def adjusted(p_value: Floats, originals: NDArray[np.int64]) -> Floats:
    """Correct p values for how many tests there are, by Benjamini and Hochberg.

    Parameters
    ----------
    p_value
        (cell, value); NaN where nothing could be tested.
    originals
        (cell,), the cell that each is a copy of: a simulation counts once, however many cells
        show it.

    Returns
    -------
    NDArray
        (cell, value), the largest share of false finds among all that are at least as sure.
    """
    from scipy.stats import false_discovery_control  # slow to import

    distinct = originals == np.arange(len(originals))
    tested = distinct[:, None] & ~np.isnan(p_value)
    found = np.full(p_value.shape, np.nan)
    if tested.any():
        found[tested] = false_discovery_control(p_value[tested])
    return np.asarray(found[originals], dtype=np.float64)


def significant(p_adjusted: Floats) -> Bools:
    """Return what is significant; nothing where there is no p value."""
    return np.asarray(p_adjusted < SIGNIFICANCE, dtype=np.bool_)
