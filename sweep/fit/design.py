"""The terms of a surface: an intercept, each axis's columns, and products of several axes'."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from sweep.answer.stats import Bools, Floats
from sweep.fit.basis import Basis

INTERCEPT = "intercept"
CROSS = " x "
TOLERANCE = 1e-9
"""Share of a column that must be new for its coefficient to be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Which terms a surface may have."""

    bases: tuple[Basis, ...]
    """The axes that take part."""
    together: int
    """How many axes may interact: 1 for none, 2 for each two, 3 for each two and three."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of all terms: `slab_max_order^2`, `kernel[v6_1_order_v2] x slab_max_order`."""
        names = [INTERCEPT, *(term for basis in self.bases for term in basis.terms)]
        for several in self._products():
            names += [CROSS.join(terms) for terms in product(*(basis.terms for basis in several))]
        return tuple(names)

    def matrix(self, places: Sequence[Floats]) -> Floats:
        """Return the columns of all terms.

        Parameters
        ----------
        places
            For each of `bases` what its `places()` gave, (row,).

        Returns
        -------
        NDArray
            (row, term).
        """
        rows = len(places[0]) if places else 1
        own: dict[str, Floats] = {}
        for basis, place in zip(self.bases, places, strict=True):
            # few values, many rows: a curve is worked out once for each
            values, inverse = np.unique(place, return_inverse=True)
            own[basis.axis] = basis.columns(values)[inverse.reshape(-1)]
        columns = [np.ones((rows, 1)), *own.values()]
        for first, *others in self._products():
            block = own[first.axis]
            for basis in others:
                block = (block[:, :, None] * own[basis.axis][:, None, :]).reshape(rows, -1)
            columns.append(block)
        return np.concatenate(columns, axis=1)

    def _products(self) -> Iterator[tuple[Basis, ...]]:
        """Yield the axes of each interaction."""
        for number in range(2, self.together + 1):
            yield from combinations(self.bases, number)


def identified(columns: Floats) -> Bools:
    """Say which columns are not sums of earlier ones, (column,).

    The data cannot tell a column apart that is: two axes that moved together, or two categories
    that never met. Earlier columns, which are the simpler ones, stay.

    Parameters
    ----------
    columns
        (row, column); the triangle of a QR decomposition says the same as the matrix itself.
    """
    length = np.linalg.norm(columns, axis=0)
    new = np.zeros(columns.shape[1], dtype=np.bool_)
    found = np.zeros((columns.shape[0], min(columns.shape)))
    count = 0
    for place in range(columns.shape[1]):
        if count == found.shape[1]:
            break
        rest = columns[:, place]
        for _ in range(2):  # once more, since the first leaves rounding
            rest = rest - found[:, :count] @ (found[:, :count].T @ rest)
        size = np.linalg.norm(rest)
        if size > TOLERANCE * length[place]:
            new[place] = True
            found[:, count] = rest / size
            count += 1
    return new
