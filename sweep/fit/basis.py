"""What an axis adds to a surface: contrasts of categories, or a curve over numbers."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.errors import ConfigError
from sweep.answer.cells import label
from sweep.answer.stats import Floats
from sweep.fit.rows import Levels

SPLINE_VALUES = 6
"""An axis of numbers with fewer values gets a polynomial only."""
MOST_DEGREE = 3
_SIZE = re.compile(r"\[?(\d+)\s*([KMGT])(?:iB)?\]?")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Categories:
    """An axis of names, or of anything that is not a number: each against the first."""

    axis: str
    levels: tuple[str, ...]
    """Categories as text; the first one is what the others are compared with."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(f"{self.axis}[{level}]" for level in self.levels[1:])

    @property
    def range(self) -> str:
        """What may be asked for."""
        return f"one of {', '.join(self.levels)}"

    def places(self, values: object) -> Floats:
        """Return the position of each value in `levels`.

        Raises
        ------
        ConfigError
            If the run does not have a value.
        """
        texts = np.array(
            [label(value) for value in np.ravel(np.asarray(values)).tolist()], dtype="U"
        )
        places = np.full(texts.shape, -1.0)
        for place, level in enumerate(self.levels):
            places[texts == level] = place
        if (places < 0).any():
            raise ConfigError(self.axis, str(texts[places < 0][0]), self.range)
        return places

    def columns(self, places: Floats) -> Floats:
        """Return 1 where a row has a category, (row, category - 1)."""
        return np.asarray(places[:, None] == np.arange(1, len(self.levels)), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """An axis of numbers: a polynomial, or a natural cubic spline through knots.

    A number becomes z = (number - centre) / spread, of its logarithm to base 2 where `logarithm`.
    A coefficient of a polynomial belongs to a power of z. One of a spline, at a knot, is how far
    the metric there is from that at the first knot.
    """

    axis: str
    levels: tuple[float, ...]
    """Values that were run, ascending."""
    logarithm: bool
    centre: float
    spread: float
    degree: int = 1
    """Degree of the polynomial; 0 for a spline."""
    knots: tuple[float, ...] = ()
    """Knots of the spline, some of `levels`, ends included."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the columns."""
        if self.knots:
            return tuple(f"{self.axis}@{knot:g}" for knot in self.knots[1:])
        return tuple(f"{self.axis}^{n}" if n > 1 else self.axis for n in range(1, self.degree + 1))

    @property
    def range(self) -> str:
        """What may be asked for."""
        return f"{label(self.levels[0])} to {label(self.levels[-1])}, as was run"

    def places(self, values: object) -> Floats:
        """Return z of each number.

        Raises
        ------
        ConfigError
            If one is not a number or outside of what was run.
        """
        given = np.ravel(np.asarray(values))
        found = numbers(given)
        if found is None:
            raise ConfigError(self.axis, str(given[0]), self.range)
        inside = (found >= self.levels[0]) & (found <= self.levels[-1])
        if not inside.all():
            raise ConfigError(self.axis, given[~inside][0].item(), self.range)
        return self._scaled(found)

    def columns(self, places: Floats) -> Floats:
        """Return powers of z, or the spline's basis without that of the first knot, (row, term)."""
        if not self.knots:
            return places[:, None] ** np.arange(1, self.degree + 1)
        from patsy import cr  # slow to import

        ends = self._scaled(np.array(self.knots))
        # rounding may put an end of the data beyond that of the knots
        inside = np.clip(places, ends[0], ends[-1])
        basis = cr(inside, knots=ends[1:-1], lower_bound=ends[0], upper_bound=ends[-1])
        return np.asarray(basis, dtype=np.float64)[:, 1:]

    def _scaled(self, found: Floats) -> Floats:
        return ((np.log2(found) if self.logarithm else found) - self.centre) / self.spread


Basis = Categories | Curve


def numbers(levels: Levels | NDArray[np.generic]) -> Floats | None:
    """Return values as numbers, None if they are not: text is, where all of it is sizes (512MiB).

    An axis with `null` among its numbers is text in the dataset, and so are its numbers.
    """
    if levels.dtype.kind in "iuf":
        return levels.astype(np.float64)
    sizes = [_SIZE.fullmatch(str(value)) for value in levels.tolist()]
    if not sizes or not all(sizes):
        return None
    return np.array([float(int(size[1]) * _UNITS[size[2]]) for size in sizes if size])


def basis_of(axis: str, levels: Levels, freedom: int, logarithms: bool = True) -> Basis:
    """Choose how an axis takes part.

    Parameters
    ----------
    levels
        Its values, each once; of categories the first is what the others are compared with.
    freedom
        Most columns of a curve.
    logarithms
        Take numbers in their logarithm where they are spread more evenly there (1, 2, 4, 8, ...).
    """
    found = numbers(levels)
    if found is None:
        return Categories(axis=axis, levels=tuple(label(value) for value in levels.tolist()))
    values = np.unique(found)
    logarithm = logarithms and values[0] > 0 and _is_even(np.log2(values), than=values)
    scale = np.log2(values) if logarithm else values
    knots: tuple[float, ...] = ()
    if len(values) >= SPLINE_VALUES and freedom >= MOST_DEGREE:
        at = np.linspace(0, len(values) - 1, min(freedom + 1, len(values))).round().astype(int)
        knots = tuple(values[at].tolist())
    return Curve(
        axis=axis,
        levels=tuple(values.tolist()),
        logarithm=bool(logarithm),
        centre=float(scale[0] + scale[-1]) / 2,
        spread=float(scale[-1] - scale[0]) / 2 or 1.0,
        degree=0 if knots else max(1, min(freedom, len(values) - 1, MOST_DEGREE)),
        knots=knots,
    )


def _is_even(one: Floats, than: Floats) -> bool:
    """Return whether the steps between values vary less, relative to their mean."""
    steps, others = np.diff(one), np.diff(than)
    return bool(steps.std() * others.mean() < (1 - 1e-9) * others.std() * steps.mean())
