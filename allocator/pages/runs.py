"""Runs of consecutive pages, as arrays."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Pfns = NDArray[np.int64]
"""Page frame numbers."""
Run = tuple[int, int]
"""First page frame number, and number of pages."""
Runs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""(run,) first page and (run,) length of each run."""


def join_runs(parts: Sequence[Runs]) -> Runs:
    """Return the runs of several parts, one part after the other."""
    if not parts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([one[0] for one in parts]), np.concatenate([one[1] for one in parts])


def joined(runs: Runs) -> Runs:
    """Return runs with those joined that follow each other in memory."""
    starts, lengths = runs
    if not len(starts):
        return runs
    first = np.flatnonzero(np.concatenate([[True], starts[1:] != starts[:-1] + lengths[:-1]]))
    return starts[first], np.add.reduceat(lengths, first)


def by_place(runs: Runs) -> list[tuple[int, int]]:
    """Return the fewest runs, (first page, pages), of the same pages, from low to high."""
    rank = np.argsort(runs[0], kind="stable")
    starts, lengths = joined((runs[0][rank], runs[1][rank]))
    return list(zip(starts.tolist(), lengths.tolist(), strict=True))


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
