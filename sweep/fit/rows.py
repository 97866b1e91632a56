"""The points of one machine and workload as a table: a row per point, a code per axis."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.answer.cells import Cells
from sweep.answer.compare import metrics_of
from sweep.answer.stats import ROUNDING, Bools, Floats
from sweep.dataset import EXCLUDED

APART = ("machine", "workload")
"""Axes of which every value gets a fit of its own."""

Ints = NDArray[np.int64]
Levels = NDArray[np.generic]
"""Values of an axis, numbers or text, each once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Points that have a result, copies of each other left out.

    A code is the position of a row's value in the axis's levels.
    """

    machine: str
    """Machine, or "" where it was not swept and the provenance does not name it."""
    workload: str
    """Workload, in the same way."""
    metric: str
    levels: Mapping[str, Levels]
    """Values by axis, of the axes that make a difference."""
    idle: Mapping[str, Levels]
    """Values by axis, of the axes that have one value here or make no difference."""
    codes: Ints
    """(row, axis of `levels`)."""
    values: Floats
    """(row, replicate), NaN where a run has no result."""
    missing: int
    """Points of the grid that have no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All points of a dataset, row by row, in the order of its dims."""

    levels: Mapping[str, Levels]
    """Values by axis; axes that were paired or sampled together are each there."""
    codes: Ints
    """(row, axis)."""

    def code(self, axis: str) -> Ints:
        """Return the codes of one axis, (row,); zeros where it was not swept."""
        names = list(self.levels)
        if axis not in names:
            return np.zeros(len(self.codes), dtype=np.int64)
        return self.codes[:, names.index(axis)]


def grid_of(cells: Cells, dims: tuple[str, ...]) -> Grid:
    """Lay out the points of some dims of a dataset."""
    shape = tuple(cells.root.sizes[dim] for dim in dims)
    points = int(np.prod(shape, dtype=np.int64))
    index = np.indices(shape).reshape(len(dims), points)
    levels, columns = {}, [np.zeros((points, 0), dtype=np.int64)]
    for dim, along in zip(dims, index, strict=True):
        for part in cells.parts(dim):
            values = (
                np.asarray(cells.root[part].values)
                if part in cells.root.coords
                else np.arange(cells.root.sizes[dim])
            )
            levels[part], code = coded(values)
            columns.append(code[along][:, None])
    return Grid(levels=levels, codes=np.concatenate(columns, axis=1))


def rows_of(cells: Cells, metric: str | None = None) -> Iterator[Rows]:
    """Yield the points of each machine and workload, in the order of the dataset.

    Raises
    ------
    ConfigError
        If the dataset does not have the metric.
    """
    dims = cells.axes
    carrier = cells.carrier("workload") if metric is None else None
    names = metrics_of(cells, metric, carrier)
    grid = grid_of(cells, dims)
    position = np.zeros(len(grid.codes), dtype=np.int64)
    if carrier is not None:
        shape = tuple(cells.root.sizes[dim] for dim in dims)
        position = np.indices(shape)[dims.index(carrier)].reshape(-1)
    status = cells.status(dims)
    expected = (status != EXCLUDED).any(axis=-1).reshape(-1)
    read = {n: cells.values(n, dims).reshape(-1, status.shape[-1]) for n in dict.fromkeys(names)}
    for place, chosen in apart(grid):
        name = names[position[chosen[0]]]
        alive = np.isfinite(read[name][chosen]).any(axis=1)
        here = chosen[alive]
        codes, values = grid.codes[here], read[name][here]
        levels, idle, codes, first = reduced(grid.levels, codes, values)
        yield Rows(
            machine=place.get("machine", cells.fixed().get("machine", "")),
            workload=place.get("workload", cells.fixed().get("workload", "")),
            metric=name,
            levels=levels,
            idle={axis: found for axis, found in idle.items() if axis not in APART},
            codes=codes,
            values=values[first],
            missing=int((expected[chosen] & ~alive).sum()),
        )


def apart(grid: Grid) -> Iterator[tuple[dict[str, str], Ints]]:
    """Yield machine and workload, and the rows that have both."""
    pair = np.stack([grid.code(axis) for axis in APART], axis=1)
    found, inverse = np.unique(pair, axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    edges = np.cumsum(np.bincount(inverse.reshape(-1), minlength=len(found)))[:-1]
    for codes, rows in zip(found.tolist(), np.split(order, edges), strict=True):
        where = {
            a: str(grid.levels[a][c]) for a, c in zip(APART, codes, strict=True) if a in grid.levels
        }
        yield where, rows


def reduced(
    levels: Mapping[str, Levels], codes: Ints, values: Floats
) -> tuple[dict[str, Levels], dict[str, Levels], Ints, Ints]:
    """Drop the axes that make no difference, and the rows that are copies then.

    Copies carry no information of their own: a point left out would be predicted from its copy.

    Parameters
    ----------
    codes
        (row, axis).
    values
        Results, (row, any); an axis makes no difference if they are equal along it.

    Returns
    -------
    tuple
        Levels of the axes kept, levels of those dropped, codes (row kept, axis kept), and the
        positions of the rows kept.
    """
    names = list(levels)
    kept, rows = list(range(len(names))), np.arange(len(codes))
    for axis in range(len(names)):
        others = [other for other in kept if other != axis]
        if _is_idle(codes[rows][:, axis], codes[rows][:, others], values[rows]):
            kept = others
            _, first = np.unique(codes[rows][:, kept], axis=0, return_index=True)
            rows = rows[np.sort(first)] if kept else rows[:1]
    idle = {n: _used(levels[n], codes[:, i])[0] for i, n in enumerate(names) if i not in kept}
    used, columns = {}, np.zeros((len(rows), len(kept)), dtype=np.int64)
    for column, axis in enumerate(kept):
        used[names[axis]], columns[:, column] = _used(levels[names[axis]], codes[rows, axis])
    return used, idle, columns, rows


def coded(values: Levels) -> tuple[Levels, Ints]:
    """Return the values, each once - numbers in their order, text as it comes - and their codes."""
    found, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    if values.dtype.kind in "iuf":
        return found, inverse
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return found[order], rank[inverse]


def _used(levels: Levels, codes: Ints) -> tuple[Levels, Ints]:
    found, inverse = np.unique(codes, return_inverse=True)
    return levels[found], inverse.reshape(-1)


def _is_idle(codes: Ints, others: Ints, values: Floats) -> Bools | bool:
    """Return whether rows that differ on one axis only have equal results."""
    if len(codes) == 0 or (codes == codes[0]).all():
        return True
    order = np.lexsort(others.T) if others.shape[1] else np.arange(len(codes))
    ranked, sorted_values = others[order], values[order]
    near = (ranked[1:] == ranked[:-1]).all(axis=1)
    one, other = sorted_values[1:], sorted_values[:-1]
    equal = np.abs(one - other) <= ROUNDING * np.abs(other)
    equal |= np.isnan(one) & np.isnan(other)
    return bool(near.any() and equal[near].all())
