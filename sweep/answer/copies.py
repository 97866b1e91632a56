"""Cells that are copies of each other, since an axis has no effect on them."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sweep.answer.cells import Cells
from sweep.answer.stats import ROUNDING, Bools, Floats


def no_effect(cells: Cells, dims: Sequence[str], axis: str) -> Bools:
    """Return where an axis has no effect: all results are equal at all of its values.

    Sums of times may differ in their last bits; that is no effect.

    Parameters
    ----------
    cells
        The dataset.
    dims
        Axes of the cells.
    axis
        The compared axis; copies are equal at each of its values.

    Returns
    -------
    NDArray
        (cell, dim) bool; False on axes with a single value.
    """
    shape = tuple(cells.root.sizes[dim] for dim in dims)
    if not dims:
        return np.zeros((1, 0), dtype=np.bool_)
    same = np.ones((len(dims), *shape), dtype=bool)
    several = [d for d, size in enumerate(shape) if size > 1]
    same[[d for d in range(len(dims)) if d not in several]] = False
    for values in _everything(cells, (*dims, axis)):
        several = [d for d in several if same[d].any()]
        if not several:
            break
        for d in several:
            first: Floats = np.take(values, [0], axis=d)
            near = np.abs(values - first) <= ROUNDING * np.abs(first)
            equal = near | ((values != values) & (first != first))
            inner = tuple(range(len(dims), equal.ndim))
            same[d] &= equal.all(axis=(d, *inner)).reshape(
                [1 if k == d else n for k, n in enumerate(shape)]
            )
    return np.asarray(same.reshape(len(dims), -1).T, dtype=np.bool_)


def originals(same: Bools, shape: Sequence[int]) -> NDArray[np.int64]:
    """Return, for each cell, the number of the cell that it is a copy of; its own if of none.

    Parameters
    ----------
    same
        (cell, dim), from `no_effect`.
    shape
        Number of values on each dim.
    """
    cells = np.arange(len(same))
    strides = np.cumprod([1, *shape[:0:-1]], dtype=np.int64)[::-1]
    # one axis at a time: a step along one may end where another axis has an effect
    for _ in shape:
        for dim, (stride, size) in enumerate(zip(strides.tolist(), shape, strict=True)):
            cells = cells - np.where(same[cells, dim], (cells // stride) % size, 0) * stride
    return cells


def _everything(cells: Cells, order: tuple[str, ...]) -> Iterator[Floats]:
    yield cells.status(order).astype(np.float64)
    for name in cells.scalars:
        yield cells.values(name, order)
