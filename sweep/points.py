"""Points of a grid: their content, which of them are the same, and what a worker needs.

A point is known by what it contains, never by where it stands: its key is the sum (modulo 2^64, in
two words) of a hash of each effective setting `path=value`, of the seed, the replicate and the
version of the model. Sums of tables over the grid's dims give the keys of a million points in a
fraction of a second. Settings that the workload ignores are left out, so points that cannot differ
have one key and are simulated once.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.point import GROUPS, parse_group
from allocator.simulate import MODEL_VERSION, Tasks
from allocator.streams import content_text
from sweep.compose import GroupTable
from sweep.grid import Grid

Keys = NDArray[np.uint64]
"""(point, 2): content keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """All points of a grid that are to be simulated."""

    grid: Grid
    """The grid."""
    tables: Mapping[str, GroupTable]
    """Configurations by group."""
    seeds: tuple[int, ...]
    """Root seed, or the values of the `seed` axis."""
    cells: NDArray[np.int64]
    """Flat number in the grid of each distinct point, (point,)."""
    keys: Keys
    """Content key of each distinct point, (point, 2)."""
    point_of_cell: NDArray[np.int64]
    """Which distinct point fills each cell of the grid; -1 if excluded, (cell,)."""

    def seed_of(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the root seed of cells, (cell,)."""
        if len(self.seeds) == 1:
            return np.full(cells.shape, self.seeds[0], dtype=np.int64)
        place = _where(self.grid, cells)[self.grid.place("seed")]
        return np.take(np.array(self.seeds, dtype=np.int64), place)

    def without_replicates(self) -> NDArray[np.int64]:
        """Return flat numbers of the distinct points, replicates taken together, ascending."""
        numbers: NDArray[np.int64] = self.cells // self.grid.replicates
        return np.compress(np.diff(numbers, prepend=-1) != 0, numbers)

    def entries(self, cells: NDArray[np.int64], group: str) -> NDArray[np.int64]:
        """Return which entry of a group each cell uses, (cell,)."""
        return self.tables[group].numbers(_where(self.grid, cells)[:-1] or [np.zeros_like(cells)])

    def tasks(self, cells: NDArray[np.int64]) -> Tasks:
        """Return what a worker needs to simulate cells, which share one seed.

        Raises
        ------
        ValueError
            If the cells have several seeds.
        """
        seeds = self.seed_of(cells)
        if (seeds != seeds[0]).any():
            raise ValueError(f"cells of one seed expected, found seeds {set(seeds.tolist())}")
        index = np.empty((cells.size, len(GROUPS)), dtype=np.int64)
        tables = {}
        for column, group in enumerate(GROUPS):
            used, index[:, column] = np.unique(self.entries(cells, group), return_inverse=True)
            tables[group] = self.tables[group].entries(used)
        replicate = _where(self.grid, cells)[-1]
        return Tasks(tables=tables, index=index, replicate=replicate, seed=int(seeds[0]))

    def config(self, cell: int) -> dict[str, dict[str, object]]:
        """Return the resolved configuration of one cell."""
        cells = np.array([cell], dtype=np.int64)
        return {
            group: self.tables[group].entry(int(self.entries(cells, group)[0])) for group in GROUPS
        }


def points_of(grid: Grid, tables: Mapping[str, GroupTable], seeds: Sequence[int]) -> Points:
    """Find the distinct points of a grid.

    Parameters
    ----------
    grid
        The grid.
    tables
        Configurations by group.
    seeds
        The root seed, or one per value of the `seed` axis.

    Raises
    ------
    ConfigError
        If a workload's configuration cannot be used.
    """
    cells = np.arange(grid.size, dtype=np.int64)
    if grid.allowed is not None:
        cells = cells[np.repeat(grid.allowed.reshape(-1), grid.replicates)]
    keys = content_keys(grid, tables, seeds)[cells]
    first, inverse = distinct(keys)
    point_of_cell = np.full(grid.size, -1, dtype=np.int64)
    point_of_cell[cells] = inverse
    return Points(
        grid=grid,
        tables=tables,
        seeds=tuple(seeds),
        cells=cells[first],
        keys=keys[first],
        point_of_cell=point_of_cell,
    )


def content_keys(grid: Grid, tables: Mapping[str, GroupTable], seeds: Sequence[int]) -> Keys:
    """Return the key of every cell of a grid, (cell, 2)."""
    where = [index.astype(np.int64) for index in np.ogrid[tuple(map(slice, grid.shape))]]
    ignores = ignored_by(tables["workload"])
    kinds = sorted(set(ignores), key=sorted)
    kind_of_base = np.array([kinds.index(ignored) for ignored in ignores], dtype=np.int64)
    kind = kind_of_base[tables["workload"].base(where)]
    total = np.zeros((2, *grid.shape), dtype=np.uint64)
    for term, index in _terms(grid, tables, seeds, kinds, where):
        total += np.moveaxis(term[kind, index], -1, 0)
    return np.ascontiguousarray(total.reshape(2, -1).T)


def ignored_by(workloads: GroupTable) -> list[frozenset[str]]:
    """Return what each composed workload ignores: groups, `group.key`, or `replicate`."""
    return [
        type(parse_group("workload", base)).ignores  # type: ignore[attr-defined]
        for base in workloads.bases
    ]


def distinct(keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each distinct key comes first, in that order, and the distinct key of each row.

    Parameters
    ----------
    keys
        (row, 2).

    Returns
    -------
    first : (distinct,) int64
        Rows, ascending.
    inverse : (row,) int64
        Number of the row's key in `first`.
    """
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ranked = keys[order]
    new = np.ones(len(keys), dtype=np.bool_)
    new[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    group = np.cumsum(new) - 1
    first_of_group = order[new]  # lexsort is stable: the first row of each key
    rank = np.empty(first_of_group.size, dtype=np.int64)
    rank[np.argsort(first_of_group, kind="stable")] = np.arange(first_of_group.size)
    inverse = np.empty(len(keys), dtype=np.int64)
    inverse[order] = rank[group]
    return np.sort(first_of_group), inverse


def _terms(
    grid: Grid,
    tables: Mapping[str, GroupTable],
    seeds: Sequence[int],
    kinds: Sequence[frozenset[str]],
    where: Sequence[NDArray[np.int64]],
) -> Iterator[tuple[Keys, NDArray[np.int64]]]:
    """Yield what adds to the keys: a table (kind, entry, 2), and each cell's entry in it."""
    for group, table in tables.items():
        swept = [axis.key for _, axis in table.plain]
        yield (
            _summed([list(leaves(group, base, swept)) for base in table.bases], kinds),
            table.base(where),
        )
        for dim, axis in table.plain:
            yield (
                _summed([[(axis.key, content_text(value))] for value in axis.values], kinds),
                where[dim],
            )
    replicates = [[("replicate", str(number))] for number in range(grid.replicates)]
    yield _summed(replicates, kinds), where[-1]
    version = ("model", str(MODEL_VERSION))
    rows = [[("replicate", f"seed {seed}"), version] for seed in seeds]  # both choose the stream
    yield _summed(rows, kinds), where[grid.place("seed")] if len(seeds) > 1 else where[-1] * 0


def leaves(prefix: str, config: object, without: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield path and value of each setting, as text; an empty mapping counts as no setting."""
    if prefix in without:
        return
    if isinstance(config, Mapping):
        for key, value in config.items():
            yield from leaves(f"{prefix}.{key}", value, without)
    else:
        yield prefix, content_text(config)


def _summed(rows: Sequence[Sequence[tuple[str, str]]], kinds: Sequence[frozenset[str]]) -> Keys:
    """Return the sum of the hashes of each row's settings, for each set of ignored ones."""
    total = np.zeros((len(kinds), len(rows), 2), dtype=np.uint64)
    for number, row in enumerate(rows):
        for path, text in row:
            words = np.frombuffer(
                hashlib.blake2b(f"{path}={text}".encode(), digest_size=16).digest(), dtype="<u8"
            )
            heads = {path, ".".join(path.split(".")[:2]), path.split(".", 1)[0]}
            for kind, ignored in enumerate(kinds):
                if not heads & ignored:
                    total[kind, number] += words
    return total


def _where(grid: Grid, cells: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [np.asarray(index, dtype=np.int64) for index in np.unravel_index(cells, grid.shape)]
