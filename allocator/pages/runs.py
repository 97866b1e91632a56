"""Runs of consecutive pages, as arrays."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Pfns = NDArray[np.int64]
"""Page frame numbers."""
Runs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""(run,) first page and (run,) length of each run."""


def join_runs(parts: Sequence[Runs]) -> Runs:
    """Return the runs of several parts, one part after the other."""
    if not parts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([one[0] for one in parts]), np.concatenate([one[1] for one in parts])


def expand(runs: Runs, order: int = 0) -> Pfns:
    """Return the first page of each block of runs that are counted in blocks of one order."""
    starts, lengths = runs
    before = np.cumsum(lengths) - lengths
    within = np.arange(int(lengths.sum())) - np.repeat(before, lengths)
    return np.repeat(starts, lengths) + (within << order)


def compact(pfns: Pfns) -> Runs:
    """Return pages as runs of ascending consecutive ones, in the same order."""
    if not len(pfns):
        return pfns, pfns
    first = np.flatnonzero(np.diff(pfns, prepend=pfns[0] - 2) != 1)
    return pfns[first], np.diff(first, append=len(pfns))


def aligned_blocks(start: int, stop: int, max_order: int) -> tuple[Pfns, NDArray[np.int64]]:
    """Cut a range of pages into its largest aligned blocks, from low to high.

    Returns
    -------
    tuple
        (block,) first page and (block,) order of each.
    """
    size = 1 << max_order
    first, last = -(-start // size) * size, stop // size * size
    pfns: list[int] = []
    orders: list[int] = []
    head_stop = min(first, stop)
    while start < head_stop:
        order = (start & -start).bit_length() - 1 if start else max_order
        while start + (1 << order) > head_stop:
            order -= 1
        pfns.append(start)
        orders.append(order)
        start += 1 << order
    n_head = len(pfns)
    start = max(last, start)
    while start < stop:
        order = (stop - start).bit_length() - 1
        pfns.append(start)
        orders.append(order)
        start += 1 << order
    middle = np.arange(first, last, size, dtype=np.int64)
    return (
        np.concatenate(
            [
                np.array(pfns[:n_head], dtype=np.int64),
                middle,
                np.array(pfns[n_head:], dtype=np.int64),
            ]
        ),
        np.concatenate(
            [
                np.array(orders[:n_head], dtype=np.int64),
                np.full(len(middle), max_order, dtype=np.int64),
                np.array(orders[n_head:], dtype=np.int64),
            ]
        ),
    )
