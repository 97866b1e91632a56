"""A response surface: the metric of one machine and workload as a formula of the axes.

Fitted to the mean of each point's replicates, weighted by their number: a residual is then lack of
fit and the noise of a mean, and leaving a point out asks for what nobody simulated. The noise
between replicates stands beside it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from allocator.errors import ConfigError
from sweep.answer.cells import Cells, known
from sweep.answer.stats import Floats, summarise
from sweep.fit.basis import Basis, Curve, basis_of
from sweep.fit.choose import choose
from sweep.fit.design import Design, identified
from sweep.fit.quality import Quality, noise_of, quality_of
from sweep.fit.rows import Rows, rows_of
from sweep.fit.stored import from_dataset, to_dataset

LEVEL = 0.95
"""Confidence of a prediction's interval."""
UNKNOWN = 1e-6
"""A prediction that needs more than this of a coefficient nobody knows is refused."""


class Prediction(NamedTuple):
    """A predicted metric, with the interval in which 95 % of further points' means would lie."""

    value: "Floats | xr.DataArray | float"
    low: "Floats | xr.DataArray | float"
    high: "Floats | xr.DataArray | float"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response(Quality):
    """The surface of one machine and workload."""

    machine: str
    """Machine, or "" where none is known."""
    workload: str
    """Workload, or "" where none is known."""
    metric: str
    units: str
    long_name: str
    logarithm: bool
    """Whether the formula gives the natural logarithm of the metric."""
    design: Design
    idle: tuple[Basis, ...]
    """Axes with a single value, or that make no difference."""
    kept: NDArray[np.bool_]
    """Which of the design's terms the data can tell apart, (term of the design,)."""
    coefficients: Floats
    """(term,)"""
    covariance: Floats
    """Of the coefficients, (term, term)."""
    variance: float
    """Variance of a point's mean about the surface, on the formula's scale."""
    freedom: int
    """Degrees of freedom of that variance."""
    alias: Floats
    """Each unknown term as a sum of the known ones, (term, unknown term)."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms; what one belongs to is in `design.bases`."""
        return tuple(np.array(self.design.terms)[self.kept].tolist())

    @property
    def unidentified(self) -> tuple[str, ...]:
        """Terms that the data cannot tell from others, and that are left out."""
        return tuple(np.array(self.design.terms)[~self.kept].tolist())

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Axes with a single value, or that make no difference."""
        return tuple(basis.axis for basis in self.idle)

    @property
    def scale(self) -> str:
        """What the formula gives: `metric` or `logarithm`, the one with less error."""
        return "logarithm" if self.logarithm else "metric"

    @property
    def stderr(self) -> Floats:
        """Standard errors of the coefficients, (term,); NaN if nothing tells the noise."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Range of each axis of numbers, outside of which nothing is predicted."""
        bases = self.design.bases + self.idle
        return {b.axis: (b.levels[0], b.levels[-1]) for b in bases if isinstance(b, Curve)}

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """Values of each axis of categories, the one first that the others are compared with."""
        bases = self.design.bases + self.idle
        return {b.axis: b.levels for b in bases if not isinstance(b, Curve)}

    def predict(self, **axes: object) -> Prediction:
        """Return the metric at some place within what was run.

        Parameters
        ----------
        **axes
            A value, an array or a `DataArray` for each axis; those of `without_effect` may be left
            out. Dots may be underscores.

        Returns
        -------
        Prediction
            Of the shape that the values have together; `DataArray`s give `DataArray`s.

        Raises
        ------
        ConfigError
            If an axis is missing or unknown, a value lies outside of what was run, or the values
            are a combination of which no point tells.
        """
        given = {re.sub(r"[./@]", "_", name): value for name, value in axes.items()}
        bases = self.design.bases + self.idle
        unknown = given.keys() - {basis.axis for basis in bases}
        if unknown:
            names = ", ".join(basis.axis for basis in bases)
            raise ConfigError("axis", min(unknown), f"one of {names or '(none was swept)'}")
        for basis in self.idle:
            if basis.axis in given:
                basis.places(given[basis.axis])
        for basis in self.design.bases:
            if basis.axis not in given:
                raise ConfigError(basis.axis, None, f"a value: {basis.range}")
        values = [given[basis.axis] for basis in self.design.bases]
        if not values:
            return Prediction(*(array.item() for array in self._at([])))
        outputs = [()] * 3
        return Prediction(*xr.apply_ufunc(self._shaped, *values, output_core_dims=outputs))

    def to_dataset(self) -> xr.Dataset:
        """Return the surface with names and units; see `sweep.fit.stored`."""
        return to_dataset(self)

    @classmethod
    def from_dataset(cls, data: xr.Dataset) -> "Response":
        """Return the surface that `to_dataset` wrote, also after a file has held it."""
        return from_dataset(data)

    def _shaped(self, *values: object) -> tuple[Floats, ...]:
        """Predict at values that broadcast against each other."""
        together = np.broadcast_arrays(*map(np.asarray, values))
        found = self._at(together)
        shape = together[0].shape
        return tuple(array.reshape(shape)[()] for array in found)

    def _at(self, values: Sequence[NDArray[np.generic]]) -> tuple[Floats, Floats, Floats]:
        """Return value, low and high at rows of values."""
        from scipy.stats import t  # slow to import

        places = [b.places(v) for b, v in zip(self.design.bases, values, strict=True)]
        full = self.design.matrix(places)
        rows = full[:, self.kept]
        off = np.abs(full[:, ~self.kept] - rows @ self.alias) > UNKNOWN
        if off.any():
            row = int(off.any(axis=1).argmax())
            axes = [basis.axis for basis in self.design.bases]
            at = [str(np.ravel(value)[row]) for value in values]
            raise ConfigError(", ".join(axes), ", ".join(at), "a combination that the run has")
        middle = rows @ self.coefficients
        variance = ((rows @ self.covariance) * rows).sum(axis=1) + self.variance
        reach = t.ppf((1 + LEVEL) / 2, self.freedom) * np.sqrt(variance) if self.freedom else np.nan
        sides = (middle, middle - reach, middle + reach)
        if self.logarithm:
            return tuple(np.exp(side) for side in sides)  # type: ignore[return-value]
        return sides


def responses(cells: Cells, metric: str | None = None) -> list[Response]:
    """Fit a surface to each machine and workload that has results.

    Parameters
    ----------
    cells
        The dataset.
    metric
        Variable to fit; without it each workload's own.

    Raises
    ------
    ConfigError
        If the dataset does not have the metric.
    """
    from threadpoolctl import threadpool_limits

    # the number of threads decides the last bits; and they wait for each other on a busy machine
    with threadpool_limits(limits=1, user_api="blas"):
        return [_fitted(rows, cells) for rows in rows_of(cells, metric) if len(rows.codes)]


def chosen(
    found: Sequence[Response], *, machine: str | None = None, workload: str | None = None
) -> list[Response]:
    """Return the surfaces of a machine, of a workload, or of both; None means all.

    Raises
    ------
    ConfigError
        If there is none; the text lists those that there are.
    """
    kept = list(found)
    for axis, wanted in (("machine", machine), ("workload", workload)):
        names = list(dict.fromkeys(getattr(response, axis) for response in kept))
        if wanted is not None:
            if wanted not in names:
                raise ConfigError(axis, wanted, f"one with results: {', '.join(names) or 'none'}")
            kept = [response for response in kept if getattr(response, axis) == wanted]
    if not kept:
        raise ConfigError("dataset", "no point with a result", "at least one to fit a surface to")
    return kept


def _fitted(rows: Rows, cells: Cells) -> Response:
    """Choose a design, and let statsmodels fit it."""
    from statsmodels.regression.linear_model import WLS  # slow to import

    summary = summarise(rows.values)
    mean, weight = summary.mean, summary.runs / summary.runs.mean()
    choice = choose(rows, mean, weight)
    side = np.log(mean) if choice.logarithm else mean
    columns = choice.columns * np.sqrt(weight)[:, None]
    terms = identified(np.linalg.qr(columns)[1])
    model = WLS(side, choice.columns[:, terms], weights=weight)
    with np.errstate(divide="ignore", invalid="ignore"):  # no degrees of freedom: handled below
        fit = model.fit(method="qr")
    noise, noise_freedom = noise_of(np.log(rows.values) if choice.logarithm else rows.values)
    freedom = len(mean) - int(terms.sum())
    variance = float(fit.scale) if freedom else noise**2 / float(summary.runs.mean())
    meaning = known(rows.metric, cells.root[rows.metric].attrs)
    alias = np.linalg.lstsq(columns[:, terms], columns[:, ~terms], rcond=None)[0]
    fitted = np.exp(fit.fittedvalues) if choice.logarithm else fit.fittedvalues
    quality = quality_of(rows, summary, fitted, int(terms.sum()), choice.loo_rmse)
    return Response(
        machine=rows.machine,
        workload=rows.workload,
        metric=rows.metric,
        units=meaning.units,
        long_name=meaning.long_name,
        logarithm=choice.logarithm,
        design=choice.design,
        idle=tuple(basis_of(axis, levels, 1) for axis, levels in rows.idle.items()),
        kept=terms,
        coefficients=np.asarray(fit.params, dtype=np.float64),
        covariance=np.asarray(fit.normalized_cov_params, dtype=np.float64) * variance,
        variance=variance,
        freedom=freedom or noise_freedom,
        alias=alias,
        **{field.name: getattr(quality, field.name) for field in fields(Quality)},
    )
