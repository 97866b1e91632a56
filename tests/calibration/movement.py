"""How the counts move from one record to another, in the kernel and in the model.

A count may be right in the middle of all records and still move the wrong way where the machine
changes: that is what a sweep would get wrong, so that it is told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # counts.py prints what is found here
    from tests.calibration.counts import Rate

CACHE = "kmalloc-cg-512"
"""The cache whose counts are followed: its slabs change with order and CPUs as sk_buff's do."""
CHANGES = {
    "order 3 to 2": ("as128-sock-proc-c16-g4", "as128-orderv2-sock-proc-c16-g4"),
    "order 2 to 0": ("sock-proc-c8-g2-maxorder2", "sock-proc-c8-g2-maxorder0"),
    "8 CPUs to 2": ("sock-proc-c8-g2-maxorder2", "sock-proc-c2-g2"),
    "8 CPUs to 4": ("sock-proc-c8-g2-maxorder2", "sock-proc-c4-g2"),
    "8 CPUs to 16": ("sock-proc-c8-g2-maxorder2", "sock-proc-c16-g2"),
    "16 CPUs to 32": ("sock-proc-c16-g2", "sock-proc-c32-g2"),
    "1 group to 6, 8 CPUs": ("sock-proc-c8-g1", "sock-proc-c8-g6"),
    "2 groups to 4, 2 CPUs": ("sock-proc-c2-g2", "sock-proc-c2-g4"),
    "CPU_PARTIAL to none": ("sock-proc-c16-g2", "nocpupartial-sock-proc-c16-g2"),
}
"""What changes between two records; with CPUs the kernel's order changes, too (16 objects in a
slab with 2 and 4 CPUs, 32 with more)."""

STILL = 0.01
"""A smaller move of the model has no direction."""
WIDER = 0.2
"""By how much what the runs' extremes allow is widened at each end."""


@dataclass(frozen=True, slots=True)
class Move:
    """One count of `CACHE` after a change over that before."""

    change: str
    counter: str
    record: float
    """Mean of the runs after over the mean before."""
    low: float
    """The smallest run after over the largest before."""
    high: float
    """The largest run after over the smallest before."""
    model: float

    @property
    def direction(self) -> Literal["up", "down", "either"]:
        """Where the records go; `either` if their two runs do not agree."""
        if self.low > 1:
            return "up"
        return "down" if self.high < 1 else "either"

    @property
    def verdict(self) -> Literal["right", "wrong", "still", ""]:
        """Whether the model goes there, too."""
        if self.direction == "either":
            return ""
        if abs(self.model - 1) < STILL:
            return "still"
        return "right" if (self.model > 1) == (self.direction == "up") else "wrong"

    @property
    def inside(self) -> bool:
        """Whether the model lies in what the extremes allow, widened."""
        return self.low * (1 - WIDER) <= self.model <= self.high * (1 + WIDER)


def moves(found: Sequence["Rate"], counters: Sequence[str]) -> list[Move]:
    """Return how each counter moves with each change whose two records are among the rates.

    Counters that are zero on one side (no drains without CPU_PARTIAL) have no ratio and are left
    out.
    """
    by_key = {(r.record, r.counter): r for r in found if r.cache == CACHE}
    result = []
    for change, (start, end) in CHANGES.items():
        for counter in counters:
            before, after = by_key.get((start, counter)), by_key.get((end, counter))
            if before is None or after is None or before.model == 0:
                continue
            result.append(
                Move(
                    change=change,
                    counter=counter,
                    record=(after.low + after.high) / (before.low + before.high),
                    low=after.low / before.high if before.high else 0.0,
                    high=after.high / before.low if before.low else float("inf"),
                    model=after.model / before.model,
                )
            )
    return result


def move_rows(found: Sequence[Move]) -> str:
    """Return the moves as a markdown table."""
    lines = [
        "| change | count | record | its runs | model | direction | size |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        said = f"{one.direction}, {one.verdict}" if one.verdict else one.direction
        size = "inside" if one.inside else "outside"
        lines.append(
            f"| {one.change} | {one.counter} | {one.record:.2f} | {one.low:.2f} to {one.high:.2f} "
            f"| {one.model:.2f} | {said} | {size} |"
        )
    sure = [one for one in found if one.verdict]
    right = sum(one.verdict == "right" for one in sure)
    inside = sum(one.inside for one in found)
    lines.append(
        f"\nOf {len(sure)} that move one way in both runs, the model moves so in {right}; of all "
        f"{len(found)}, {inside} by as much as the runs allow."
    )
    return "\n".join(lines)
