"""Explain records whose repeats differ: by the CPUs' flush order, or by draws that failed.

python -m tests.reference.slub_explain FILE...
"""

import sys
from collections.abc import Sequence
from itertools import count, permutations
from pathlib import Path
from typing import Any

from allocator.records.record import Record, load
from tests.reference.slub_truth import differences, replay

EVERYTHING = {"counts": True, "place": True, "results": True}
FAILS = 1023


def flush_order(record: Record) -> tuple[int, ...] | None:
    """Return an order of the CPUs' flush works that makes the reference equal, the usual first."""
    cpus = record.section("env").integer("cpus")
    for order in permutations(range(cpus)):
        if not list(differences(record, EVERYTHING, replay(record, flush_order=order))):
            return order
    return None


def failed_draws(record: Record) -> tuple[list[int], int] | None:
    """Return which get_any_partial() draws failed, and how many there were.

    The search is greedy: the failure that makes the longest run of objects lie where the kernel
    put them is kept, until all do.
    """
    assert record.measured is not None
    measured: Any = record.measured["snapshots"]
    want = _placed(measured)
    failed: list[int] = []
    best, draws, snapshots = _try(record, failed, want)
    while best < len(want):
        options = [number for number in range(draws) if number not in failed]
        tried = [(_try(record, [*failed, number], want)[0], number) for number in options]
        reached, number = max(tried, default=(0, 0))
        if reached <= best:
            return None
        failed.append(number)
        best, draws, snapshots = _try(record, failed, want)
    if list(differences(record, EVERYTHING, snapshots)):
        return None
    return sorted(failed), draws


def _try(
    record: Record, failed: Sequence[int], want: Sequence[tuple[int, int]]
) -> tuple[int, int, list[dict[str, Any]]]:
    """Return how many objects lie right, how many draws were made, and the snapshots."""
    numbers = count()
    snapshots = replay(record, draw=lambda: FAILS if next(numbers) in failed else 0)
    got = _placed(snapshots)
    right = next(
        (n for n, pair in enumerate(zip(want, got, strict=True)) if pair[0] != pair[1]), len(want)
    )
    return right, next(numbers), snapshots


def _placed(snapshots: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    """Return (id, slab) of all objects, in the order of ids within each snapshot."""
    return [
        (first + number, slab)
        for snapshot in snapshots
        for runs in snapshot["place"]["placed"].values()
        for first, length, slab in runs
        for number in range(length)
    ]


def main(files: Sequence[str]) -> int:
    """Print an explanation for each record."""
    unexplained = 0
    for file in files:
        record = load(Path(file))
        if not list(differences(record, EVERYTHING, replay(record))):
            print(f"{record.kernel} {record.name}: equal with every draw and flush as usual")
            continue
        draws = failed_draws(record)
        if draws is not None:
            print(f"{record.kernel} {record.name}: of {draws[1]} draws these failed: {draws[0]}")
            continue
        order = flush_order(record)
        print(
            f"{record.kernel} {record.name}: "
            + (f"CPUs flushed in order {order}" if order else "?")
        )
        unexplained += order is None
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
