"""Interval axes: seeded, space-filling samples in place of a full product."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allocator.errors import ConfigError
from sweep.axes import DIGITS, Axis, Interval, filled

SAMPLERS = ("latin_hypercube", "sobol")
"""Values of `sweep.sampler`."""

SAMPLE_DIM = "sample"
"""Dim of intervals that are sampled together."""


def sampled(
    intervals: Sequence[Interval], *, samples: int, sampler: str, seed: int
) -> tuple[Axis, ...]:
    """Turn interval axes into axes of sampled values.

    One interval gives an axis of its own, its values ascending. Several are sampled jointly: value
    k of each belongs to sample k, and the axes must be paired in the grid.

    Parameters
    ----------
    intervals
        The interval axes.
    samples
        How many samples; a power of two for Sobol points.
    sampler
        One of `SAMPLERS`.
    seed
        Seed of the sampler; equal seeds give equal samples.

    Raises
    ------
    ConfigError
        If the sampler or the number of samples cannot be used.
    """
    if sampler not in SAMPLERS:
        raise ConfigError("sweep.sampler", sampler, f"one of {', '.join(SAMPLERS)}")
    if samples < 1:
        raise ConfigError("sweep.samples", samples, "a positive number")
    if sampler == "sobol" and samples & (samples - 1):
        raise ConfigError("sweep.samples", samples, "a power of two for Sobol points")
    unit = _unit_samples(len(intervals), samples, sampler, seed)
    columns = [_scaled(interval, unit[:, d]) for d, interval in enumerate(intervals)]
    if len(columns) == 1:
        columns = [sorted(set(columns[0]))]
        return (filled(intervals[0].axis, columns[0], "interval(...)"),)
    return tuple(
        interval.axis.with_values(column, [repr(value) for value in column])
        for interval, column in zip(intervals, columns, strict=True)
    )


def _unit_samples(dims: int, samples: int, sampler: str, seed: int) -> NDArray[np.float64]:
    """Return samples of the unit cube, (sample, dim)."""
    from scipy.stats import qmc  # loads slowly, and few sweeps have intervals

    rng = np.random.default_rng(seed)
    if sampler == "sobol":
        engine = qmc.Sobol(dims, seed=rng)
        return np.asarray(engine.random_base2(samples.bit_length() - 1))
    return np.asarray(qmc.LatinHypercube(dims, seed=rng).random(samples))


def _scaled(interval: Interval, unit: NDArray[np.float64]) -> list[int | float]:
    """Map samples of [0, 1) onto the interval."""
    low, high = interval.low, interval.high
    if interval.log:
        spread = low * (high / low) ** unit
    else:
        spread = low + (high + (1 if interval.whole else 0) - low) * unit
    if interval.whole:
        return [int(value) for value in np.clip(np.floor(spread), low, high)]
    return [float(f"{value:.{DIGITS}g}") for value in spread]
