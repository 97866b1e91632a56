"""Choosing a surface: of several designs, the one that best predicts a point it has not seen."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from sweep.answer.stats import Floats
from sweep.fit.basis import basis_of
from sweep.fit.design import Design, identified
from sweep.fit.rows import Ints, Rows

FREEDOMS = (1, 2, 3, 5, 7)
"""Most columns that a curve may have, tried in turn."""
MOST_TOGETHER = 3
"""Most axes whose columns are multiplied."""
MOST_TERMS = 300
"""A design with more terms than this is not tried."""
MOST_JUDGES = 2500
"""Points by which designs are judged; of more, as many are drawn, always the same ones."""
WORTH = 0.99
"""More terms are taken if they bring the error below this share of what it was."""
EXACT = 1e-9
"""An error below this share of the metric is rounding."""
ALONE = 1 - 1e-9
"""Leverage from which on a point is the only one that knows of a term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A design, and how it was judged."""

    design: Design
    columns: Floats
    """Its matrix, (row, term)."""
    logarithm: bool
    """Whether the logarithm of the metric is fitted."""
    loo_rmse: float
    """Root mean square error of each point predicted from the others, in units of the metric;
    infinite where a point is the only one that knows of a term."""


def choose(rows: Rows, mean: Floats, weight: Floats) -> Choice:
    """Choose curves, interactions and the scale of the metric by the leave-one-out error.

    Curves become freer in steps, over numbers and over their logarithms; axes do not interact, or
    each two, or each three; the formula gives the metric or, where that is positive, its logarithm.
    A design with more terms must lower the error by more than 1 %. Where no design can do without
    each of its points, it is the first one: straight lines and categories.

    Parameters
    ----------
    mean, weight
        Metric of each row and what it counts, (row,).
    """
    judges = np.arange(len(mean))
    if len(mean) > MOST_JUDGES:
        judges = np.sort(np.random.default_rng(0).permutation(len(mean))[:MOST_JUDGES])
    best, least = None, np.inf
    for design in _designs(rows):
        columns = matrix_of(design, rows, judges)
        for logarithm, error in enumerate(_errors(columns, mean[judges], weight[judges])):
            error = max(error, EXACT * float(np.abs(mean).max()))
            if best is None or error < WORTH * least:
                best, least = (design, bool(logarithm)), error
    assert best is not None  # there is always a first design
    design, scale = best
    columns = matrix_of(design, rows)
    error = _errors(columns, mean, weight)[scale]
    return Choice(design=design, columns=columns, logarithm=scale, loo_rmse=error)


def matrix_of(design: Design, rows: Rows, chosen: Ints | slice = slice(None)) -> Floats:
    """Return a design's matrix for all or for chosen rows, (row, term)."""
    codes = rows.codes[chosen]
    places = [
        basis.places(rows.levels[basis.axis])[codes[:, column]]
        for column, basis in enumerate(design.bases)
    ]
    return design.matrix(places) if places else np.ones((len(codes), 1))


def _designs(rows: Rows) -> Iterator[Design]:
    """Yield the designs to be tried, those with fewer terms first."""
    tried: list[Design] = []
    for freedom, logarithms in product(FREEDOMS, (True, False)):
        bases = tuple(
            basis_of(axis, levels, freedom, logarithms) for axis, levels in rows.levels.items()
        )
        for together in range(1, min(max(len(bases), 1), MOST_TOGETHER) + 1):
            design = Design(bases=bases, together=together)
            if design not in tried:
                tried.append(design)
    yield tried[0]
    rest = sorted(tried[1:], key=lambda design: len(design.terms))
    yield from (design for design in rest if len(design.terms) <= MOST_TERMS)


def _errors(columns: Floats, mean: Floats, weight: Floats) -> tuple[float, float]:
    """Return the leave-one-out error of the metric and of its logarithm.

    Both from one QR decomposition: a residual e becomes e / (1 - leverage) when its point is left
    out (the PRESS statistic).
    """
    root = np.sqrt(weight)[:, None]
    q, r = np.linalg.qr(columns * root)
    known = identified(r)
    if not known.all():
        q = np.linalg.qr(columns[:, known] * root)[0]
    leverage = (q**2).sum(axis=1)
    if (leverage > ALONE).any():
        return np.inf, np.inf
    positive = bool((mean > 0).all())
    sides = np.stack([mean, np.log(mean)] if positive else [mean], axis=1)
    scaled = sides * root
    left_out = (scaled - q @ (q.T @ scaled)) / (1 - leverage)[:, None] / root
    plain = float(np.sqrt((left_out[:, 0] ** 2).mean()))
    if not positive:
        return plain, np.inf
    with np.errstate(over="ignore"):
        off = mean - np.exp(sides[:, 1] - left_out[:, 1])
        return plain, float(np.sqrt((off**2).mean()))
