"""How well a surface fits: what is left, and whether that is noise."""

from dataclasses import dataclass

import numpy as np

from sweep.answer.cells import label
from sweep.answer.stats import Floats, Summary
from sweep.fit.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Figures of a surface, on the metric's own scale whatever the formula gives."""

    n: int
    """Points fitted, each the mean of its runs; copies of one simulation count once."""
    missing: int
    """Points of the grid without a result, left out."""
    nterms: int
    """Terms of the formula."""
    r2: float
    """Share of the variance between points that the surface explains; NaN where saturated."""
    r2_adjusted: float
    """The same, corrected for the number of terms; NaN where saturated."""
    rmse: float
    """Root mean square of the residuals, in units of the metric."""
    loo_rmse: float
    """The same of each point predicted without itself; NaN where a term hangs on one point."""
    largest_residual: float
    """Largest residual (point minus surface), in units of the metric, with its sign."""
    largest_residual_at: str
    """Where that is, `axis=value` by axis."""
    mean: float
    """Mean of the metric over the points."""
    noise: float
    """Standard deviation of one run about its point's mean; NaN where no point ran twice."""
    noise_of_mean: float
    """Standard deviation of a point's mean from that: residuals of this size are noise."""

    @property
    def saturated(self) -> bool:
        """As many terms as points: it passes through all of them, and nothing tests it."""
        return self.n <= self.nterms


def quality_of(rows: Rows, summary: Summary, fitted: Floats, nterms: int, loo: float) -> Quality:
    """Judge a surface.

    Parameters
    ----------
    summary
        Means and spread of the rows.
    fitted
        The surface at each row, in units of the metric, (row,).
    nterms
        Terms fitted.
    loo
        Leave-one-out error.
    """
    residual = summary.mean - fitted
    weight = summary.runs / summary.runs.mean()
    n = len(residual)
    left = float((weight * residual**2).sum())
    about = summary.mean - np.average(summary.mean, weights=weight)
    whole = float((weight * about**2).sum())
    tested = n > nterms and whole > 0
    worst = int(np.abs(residual).argmax())
    noise, _ = noise_of(rows.values)
    return Quality(
        n=n,
        missing=rows.missing,
        nterms=nterms,
        r2=1 - left / whole if tested else np.nan,
        r2_adjusted=1 - left / whole * (n - 1) / (n - nterms) if tested else np.nan,
        rmse=float(np.sqrt((residual**2).mean())),
        loo_rmse=loo if np.isfinite(loo) else np.nan,
        largest_residual=float(residual[worst]),
        largest_residual_at=" ".join(
            f"{axis}={label(levels[code])}"
            for (axis, levels), code in zip(rows.levels.items(), rows.codes[worst], strict=True)
        ),
        mean=float(summary.mean.mean()),
        noise=noise,
        noise_of_mean=noise / float(np.sqrt(summary.runs.mean())),
    )


def noise_of(values: Floats) -> tuple[float, int]:
    """Return the standard deviation within points, pooled, and its degrees of freedom.

    Parameters
    ----------
    values
        (row, replicate), NaN where a run has no result.
    """
    runs = np.isfinite(values).sum(axis=1)
    freedom = int((runs - 1).clip(min=0).sum())
    if not freedom:
        return np.nan, 0
    centred = values - np.nanmean(values, axis=1, keepdims=True)
    return float(np.sqrt(np.nansum(centred**2) / freedom)), freedom
