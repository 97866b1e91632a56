"""Axes become a grid: a product of dims, less what is paired, excluded or in no named grid.

The grid is described by the `sweep` section of the configuration::

    sweep.zip=[[machine,slab.max_order]]                  # paired: first with first, ...
    sweep.exclude=["machine=graviton2 & slab.max_order=3|null", "gfp!=atomic & slab.min_order>1"]
    sweep.grids={coarse: {slab.max_order: "0,1,2"}, fine: {slab.min_objects: "range(4,32,4)"}}
    sweep.samples=64 sweep.sampler=sobol                  # for interval(low,high) axes

Paired axes share one dim, named by their names joined with `__`; each stays a coord on it. Several
intervals share the dim `sample`. Named grids are products that are united: the axes are those of
all grids, and a grid that does not mention an axis takes the key's single default there.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.errors import ConfigError
from allocator.point import GROUPS
from sweep.axes import MAX_VALUES, Axis

REPLICATE = "replicate"
"""Name of the last dim."""

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CLAUSE = re.compile(r"\s*([\w./@-]+)\s*(!=|<=|>=|=|<|>)\s*(.+?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """One dim of the grid: an axis, or several that are paired."""

    name: str
    """Name of the dim."""
    axes: tuple[Axis, ...]
    """The axes along it, of one length."""

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.axes[0].values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All cells of a sweep."""

    dims: tuple[Dim, ...]
    """The dims in the order of the dataset, without `replicate`."""
    replicates: int
    """Size of the dim `replicate`, which comes last."""
    allowed: NDArray[np.bool_] | None
    """Cells that are simulated, shape of the dims without `replicate`; None: all."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all dims, `replicate` last."""
        return (*(dim.size for dim in self.dims), self.replicates)

    @property
    def size(self) -> int:
        """Number of cells, excluded ones too."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all dims, `replicate` last."""
        return (*(dim.name for dim in self.dims), REPLICATE)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes."""
        return tuple(axis for dim in self.dims for axis in dim.axes)

    def place(self, key: str) -> int:
        """Return the number of the dim along which an axis lies."""
        for number, dim in enumerate(self.dims):
            if any(axis.key == key for axis in dim.axes):
                return number
        raise KeyError(key)

    def describe(self, cell: int) -> str:
        """Return the overrides that choose a cell, for messages."""
        *where, replicate = np.unravel_index(cell, self.shape)
        chosen = [
            f"{axis.key}={axis.labels[int(index)]}"
            for index, dim in zip(where, self.dims, strict=True)
            for axis in dim.axes
        ]
        return " ".join([*chosen, f"replicate={int(replicate)}"])


def grid_of(
    axes: Sequence[Axis],
    *,
    replicates: int,
    paired: Sequence[Sequence[str]] = (),
    samples: Sequence[str] = (),
    exclude: Sequence[str] = (),
    inside: Callable[[Sequence[Dim]], NDArray[np.bool_]] | None = None,
) -> Grid:
    """Build the grid.

    Parameters
    ----------
    axes
        The axes. Dims are in the order of a point's groups, then of keys, however the axes were
        given, so the same grid is the same dataset.
    replicates
        Size of the dim `replicate`.
    paired
        Keys of axes that share a dim, per dim.
    samples
        Keys of axes that are sampled together and share the dim `sample`.
    exclude
        Clauses that name cells to leave out; see `excluded`.
    inside
        Given the dims, the cells that belong to the grid (of a union); None: all.

    Raises
    ------
    ConfigError
        If axes cannot be paired, names clash, a clause is wrong or nothing is left.
    """
    if type(replicates) is not int or replicates < 1:
        raise ConfigError("replicates", replicates, "a whole number of at least 1")
    dims = _dims(sorted(axes, key=_rank), paired, samples)
    names = [name for dim in dims for name in {dim.name, *(axis.name for axis in dim.axes)}]
    for name in [*names, REPLICATE]:
        if [*names, REPLICATE].count(name) > 1:
            raise ConfigError(name, name, "a name of its own for each dim (two axes spell it so)")
    size = replicates
    for dim in dims:
        size *= dim.size
    if size > MAX_VALUES:
        sizes = " x ".join(f"{dim.name} {dim.size}" for dim in dims)
        raise ConfigError("grid", f"{sizes} x {replicates}", f"at most {MAX_VALUES:,} points")
    allowed = None if inside is None else inside(dims)
    for clause in exclude:
        out = excluded(clause, dims)
        allowed = ~out if allowed is None else allowed & ~out
    if allowed is not None and not allowed.any():
        raise ConfigError("sweep.exclude", list(exclude), "at least one point left to simulate")
    return Grid(dims=tuple(dims), replicates=replicates, allowed=allowed)


def excluded(clause: str, dims: Sequence[Dim]) -> NDArray[np.bool_]:
    """Return the cells that a clause names, in the shape of the dims.

    A clause is one or more conditions joined by `&`: `key=value`, `key=value|value`, `key!=value`,
    `key<number` (also `<=`, `>`, `>=`). A value is written as in an override.

    Raises
    ------
    ConfigError
        If the clause cannot be read, or names no axis or value of the grid.
    """
    shape = tuple(dim.size for dim in dims)
    cells = np.ones(shape, dtype=np.bool_)
    for part in clause.split("&"):
        match = _CLAUSE.fullmatch(part)
        if match is None:
            raise ConfigError("sweep.exclude", clause, "key=value & key!=value & key<number ...")
        key, sign, right = match.groups()
        number, axis = _find(key, dims, clause)
        chosen = _chosen(axis, sign, right, clause)
        cells &= chosen.reshape([-1 if d == number else 1 for d in range(len(dims))])
    return cells


def narrowed(clauses: Sequence[str], pinned: Mapping[str, Axis]) -> tuple[str, ...]:
    """Return clauses of a configuration for a grid of which some axes have one value only.

    A condition that a pinned value meets falls away; a clause with one that it does not meet names
    no cell, and falls away as a whole.

    Raises
    ------
    ConfigError
        If a clause names all cells that are left.
    """
    kept = []
    for clause in clauses:
        parts = clause.split("&")
        found = [_CLAUSE.fullmatch(part) for part in parts]
        keys = [match.group(1) if match else "" for match in found]
        met = [
            key not in pinned or _is_met(pinned[key], *match.groups()[1:])
            for key, match in zip(keys, found, strict=True)
            if match is not None
        ]
        if not all(met):
            continue
        left = [part for part, key in zip(parts, keys, strict=True) if key not in pinned]
        if not left:
            raise ConfigError("sweep.exclude", clause, "at least one point left to simulate")
        kept.append("&".join(left))
    return tuple(kept)


def _is_met(pinned: Axis, sign: str, right: str) -> bool:
    """Tell whether the only value of an axis meets a condition, which may name others."""
    if sign in _COMPARISONS:
        return bool(_chosen(pinned, sign, right, right)[0])
    texts = (text.strip().strip("'\"") for text in (right, *right.split("|")))
    return any(_means(text, pinned, 0) for text in texts) == (sign == "=")


def _rank(axis: Axis) -> tuple[int, str]:
    return GROUPS.index(axis.group) if axis.group in GROUPS else len(GROUPS), axis.key


def _dims(
    axes: Sequence[Axis], paired: Sequence[Sequence[str]], samples: Sequence[str]
) -> list[Dim]:
    """Put axes that share a dim together, at the place of the first."""
    by_key = {axis.key: axis for axis in axes}
    if len(by_key) < len(axes):
        keys = [axis.key for axis in axes]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(twice, twice, "each axis once")
    shared: dict[str, Dim] = {}
    for pair in paired:
        shared.update(dict.fromkeys(pair, _paired(list(pair), by_key, shared)))
    if len(samples) > 1:
        dim = Dim(name="sample", axes=tuple(by_key[key] for key in samples))
        shared.update(dict.fromkeys(samples, dim))
    dims: list[Dim] = []
    for axis in axes:
        dim = shared.get(axis.key) or Dim(name=axis.name, axes=(axis,))
        if dim not in dims:
            dims.append(dim)
    return dims


def _paired(keys: list[str], by_key: Mapping[str, Axis], taken: Mapping[str, Dim]) -> Dim:
    for key in keys:
        if key not in by_key:
            raise ConfigError("sweep.zip", key, f"an axis: one of {', '.join(by_key) or 'none'}")
        if key in taken or keys.count(key) > 1:
            raise ConfigError("sweep.zip", key, "each axis in one pair only")
    axes = tuple(by_key[key] for key in keys)
    if len(axes) < 2:
        raise ConfigError("sweep.zip", keys, "at least two axes")
    sizes = {axis.key: len(axis.values) for axis in axes}
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{key} has {size}" for key, size in sizes.items())
        raise ConfigError("sweep.zip", found, "axes with equally many values")
    return Dim(name="__".join(axis.name for axis in axes), axes=axes)


def _find(key: str, dims: Sequence[Dim], clause: str) -> tuple[int, Axis]:
    for number, dim in enumerate(dims):
        for axis in dim.axes:
            if axis.key == key:
                return number, axis
    known = ", ".join(axis.key for dim in dims for axis in dim.axes)
    raise ConfigError("sweep.exclude", clause, f"conditions on axes of the grid ({known})")


def _chosen(axis: Axis, sign: str, right: str, clause: str) -> NDArray[np.bool_]:
    """Return which values of an axis meet a condition, (value,)."""
    if sign in _COMPARISONS:
        try:
            bound = float(right)
        except ValueError:
            raise ConfigError("sweep.exclude", clause, f"a number after {sign}") from None
        compare = _COMPARISONS[sign]
        return np.array(
            [_is_number(value) and compare(float(str(value)), bound) for value in axis.values]
        )
    named = np.zeros(len(axis.values), dtype=np.bool_)
    whole = any(_means(right, axis, i) for i in range(len(axis.values)))
    for text in [right] if whole else right.split("|"):
        hits = [_means(text.strip().strip("'\""), axis, i) for i in range(len(axis.values))]
        if not any(hits):
            some = ", ".join(axis.labels[:20])
            raise ConfigError("sweep.exclude", clause, f"values of {axis.key}: {some}")
        named |= hits
    return ~named if sign == "!=" else named


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _means(text: str, axis: Axis, index: int) -> bool:
    value = axis.values[index]
    if _is_number(value):
        try:
            return bool(float(text) == value)
        except ValueError:
            return False
    return text == axis.labels[index]
