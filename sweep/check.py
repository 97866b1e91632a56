"""Points are checked before anything runs, and grouped by which can advance together."""

import numpy as np
from numpy.typing import NDArray

from allocator.errors import ConfigError
from allocator.point import GROUPS, Point, parse_group
from sweep.points import Points

MOST_CHECKED = 1_000
"""Cells that are checked; of a larger grid a seeded sample, and one cell per value of each axis."""

MOST_VALUES = 4_000
"""Values of one axis that are checked; of a longer one an even selection."""

MOST_SHAPES = 4_000
"""Combinations of machine, topology, kernel and workload that are asked for their shape."""


def check_points(points: Points) -> None:
    """Parse configurations and put points together, as workers will.

    Raises
    ------
    ConfigError
        If a configuration cannot be used; the text names the point where it is a combination that
        cannot be.
    """
    cells = cells_to_check(points)
    parsed: dict[str, dict[int, object]] = {}
    columns = {}
    for group in GROUPS:
        columns[group] = points.entries(cells, group)
        used = np.unique(columns[group])
        configs = points.tables[group].entries(used)
        parsed[group] = {
            number: parse_group(group, config)
            for number, config in zip(used.tolist(), configs, strict=True)
        }
    rows = np.stack([columns[group] for group in GROUPS], axis=1)
    rows, first = np.unique(rows, axis=0, return_index=True)
    for row, place in zip(rows.tolist(), first.tolist(), strict=True):
        parts = {group: parsed[group][number] for group, number in zip(GROUPS, row, strict=True)}
        try:
            point = Point.of(**parts)  # type: ignore[arg-type]
            point.workload.shape(point)
        except ConfigError as error:
            where = points.grid.describe(int(cells[place])).rpartition(" ")[0]
            hint = f" (at {where}; sweep.exclude leaves a combination out)" if where else ""
            raise ConfigError(error.key, error.found, f"{error.expected}{hint}") from error


def cells_to_check(points: Points) -> NDArray[np.int64]:
    """Return the cells that `check_points` looks at: all of a small grid, else a sample."""
    replicates = points.grid.replicates
    cells = points.without_replicates() * replicates
    if cells.size <= MOST_CHECKED:
        return cells
    rng = np.random.default_rng(0)
    chosen = [rng.choice(cells, MOST_CHECKED, replace=False)]
    where = np.unravel_index(cells, points.grid.shape)
    for index in where[:-1]:  # with return_index, unique() sorts and does not hash: faster here
        values, first = np.unique(index, return_index=True)
        keep = np.linspace(0, values.size - 1, min(values.size, MOST_VALUES)).astype(np.int64)
        chosen.append(cells[first[np.unique(keep)]])
    return np.unique(np.concatenate(chosen))


def kinds_of(points: Points) -> NDArray[np.int64]:
    """Return a class for each point: those of one class can advance together, (point,).

    A class is a seed and what the workload's `shape` says. Where there are too many machines and
    workloads to ask, it is their configuration as composed, before swept values are put in.
    """
    cells = points.cells
    asked = ("machine", "topology", "kernel", "workload")
    columns = [points.entries(cells, group) for group in asked]
    combined, first, number = _distinct_rows([points.seed_of(cells), *columns])
    if combined > MOST_SHAPES:
        where = np.unravel_index(cells, points.grid.shape)[:-1]
        bases = [points.tables[group].base(where or (cells * 0,)) for group in asked]
        return _distinct_rows([points.seed_of(cells), *bases])[2]
    shapes: dict[object, int] = {}
    kinds = []
    for cell in cells[first].tolist():
        config = points.config(cell)
        point = Point.of(**{g: parse_group(g, config[g]) for g in GROUPS})  # type: ignore[arg-type]
        seed = int(points.seed_of(np.array([cell]))[0])
        shape = (seed, type(point.workload), *point.workload.shape(point))
        kinds.append(shapes.setdefault(shape, len(shapes)))
    return np.array(kinds, dtype=np.int64)[number]


def _distinct_rows(
    columns: list[NDArray[np.int64]],
) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """Return how many rows differ, where each comes first, and which one each row is."""
    number = np.zeros(columns[0].shape, dtype=np.int64)
    for column in columns:
        _, dense = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (int(dense.max(initial=0)) + 1) + dense, return_inverse=True)
    _, first = np.unique(number, return_index=True)
    return first.size, first, number
