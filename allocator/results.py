"""What a batch of lanes gives back: arrays by name, the lane first."""

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64] | NDArray[np.float64]


class Status(IntEnum):
    """How a point ended."""

    OK = 0
    OOM = 1
    FAILED = 2
    PENDING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Results with one more dim than the lane (caches, nodes, locks, zones)."""

    labels: tuple[str, ...]
    """Coordinate of the second dim, e.g. cache names."""
    values: dict[str, Array]
    """Variables, each (lane, label)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Results of a batch."""

    scalars: dict[str, Array]
    """Variables, each (lane,); names and units are in `counters.VARIABLES`."""
    tables: dict[str, Table] = field(default_factory=dict)
    """Tables by group: `caches`, `nodes`, `locks`, `zones`."""
    status: NDArray[np.int8]
    """`Status` of each lane, (lane,)."""
    errors: dict[int, str] = field(default_factory=dict)
    """Text for lanes whose status is not OK."""


def stack(parts: list[tuple[NDArray[np.int64], Results]], lanes: int) -> Results:
    """Put the results of sub-batches back in lane order.

    Variables that a sub-batch does not give are 0 (counts) or NaN (floats) in its lanes.

    Parameters
    ----------
    parts
        Lane numbers of each sub-batch and its results.
    lanes
        Number of lanes in all.
    """
    status = np.full(lanes, Status.PENDING, dtype=np.int8)
    errors: dict[int, str] = {}
    scalars: dict[str, Array] = {}
    labels: dict[str, dict[str, int]] = {}
    for where, part in parts:
        status[where] = part.status
        errors.update({int(where[lane]): text for lane, text in part.errors.items()})
        for name, values in part.scalars.items():
            if name not in scalars:
                scalars[name] = _blank((lanes,), values.dtype)
            scalars[name][where] = values
        for group, table in part.tables.items():
            known = labels.setdefault(group, {})
            for label in table.labels:
                known.setdefault(label, len(known))
    tables = {group: _stack_table(group, known, parts, lanes) for group, known in labels.items()}
    return Results(scalars=scalars, tables=tables, status=status, errors=errors)


def _stack_table(
    group: str, known: dict[str, int], parts: list[tuple[NDArray[np.int64], Results]], lanes: int
) -> Table:
    values: dict[str, Array] = {}
    for where, part in parts:
        table = part.tables.get(group)
        if table is None:
            continue
        columns = np.array([known[label] for label in table.labels], dtype=np.int64)
        for name, array in table.values.items():
            if name not in values:
                values[name] = _blank((lanes, len(known)), array.dtype)
            values[name][np.ix_(where, columns)] = array
    return Table(labels=tuple(known), values=values)


def _blank(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    if np.issubdtype(dtype, np.floating):
        return np.full(shape, np.nan)
    return np.zeros(shape, dtype=np.int64)
