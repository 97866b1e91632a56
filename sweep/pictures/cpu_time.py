"""Where CPU time goes: shares of work, allocator and locks, baseline beside what is compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from allocator.counters import CPU_TIME, SCALARS
from sweep.answer.compare import Comparison
from sweep.answer.groups import ANY, Ranking, marked_places
from sweep.answer.stats import Floats, summarise
from sweep.pictures.shades import ink

if TYPE_CHECKING:  # matplotlib takes a second to import; only a picture needs it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_WORKLOADS, MOST_PLACES = 4, 6
"""Panels of the picture, and places in each; the worst come first."""
LOOKS = (
    ("#f0f0f0", ""),
    ("#c6dbef", "..."),
    ("#fdae61", ""),
    ("#d7301f", "///"),
    ("#9ebcda", "xx"),
    ("#54278f", "\\\\\\"),
)
"""Colour and hatch of each part of `CPU_TIME`; waiting is dark in black and white, too."""
WORTH = 1.0
"""Percent that allocator and locks take at least in a workload that is drawn."""
WRITTEN = 6.0
"""Percent from which on a share has its number in the bar."""
BAR = 0.3
"""Inches that a bar takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One point, and its bars."""

    machine: str
    """Machine, or "" where it was not swept."""
    where: str
    """The other axis values."""
    values: tuple[str, ...]
    """Compared values, the baseline first; ("",) where nothing is compared."""
    shares: Floats
    """(value, part) percent of CPU time, parts as in `CPU_TIME`; NaN where there is no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """The places of one workload."""

    workload: str
    """Workload, or "" where it was not swept."""
    places: tuple[Place, ...]
    """One for each machine: where it changed most, or lost most time to locks."""


def breakdowns(comparison: Comparison, ranking: Ranking) -> list[Breakdown]:
    """Find, for each workload and machine, the point to show, and where its CPU time goes.

    It is the point that became worst; where none did, the one with the largest share of locks.

    Parameters
    ----------
    comparison
        What is compared; of `without_comparison`, one value of no name.
    ranking
        Its ranking, which knows the points that are copies of others.

    Returns
    -------
    list of Breakdown
        Nothing where the dataset does not have the parts of CPU time; no place where allocator and
        locks take less than `WORTH`.
    """
    if not {*CPU_TIME, "cpu_time_ns"} <= set(comparison.cells.scalars):
        return []
    cells = np.flatnonzero(ranking.first)
    shares = _shares(comparison, cells)
    with_result = np.isfinite(shares.sum(axis=2)).sum(axis=1) > 0
    outside_work = np.nan_to_num(shares[:, :, 1:].sum(axis=2)).max(axis=1)
    locked = np.nan_to_num(shares[:, :, 2:].sum(axis=2)).max(axis=1)
    loss = np.maximum(ranking.severity[cells], 0)
    order = np.lexsort((-locked, -loss))
    order = order[with_result[order] & (outside_work[order] >= WORTH)]
    index = np.unravel_index(cells[order], comparison.shape) if comparison.dims else ()
    places = dict(zip(comparison.dims, index, strict=True))
    nowhere = np.zeros_like(order)
    kinds = [
        places.get(comparison.cells.carrier(n) or "", nowhere) for n in ("workload", "machine")
    ]
    _, first = np.unique(np.stack(kinds, axis=1), axis=0, return_index=True)
    found: dict[int, list[int]] = {}
    for k in np.sort(first).tolist():
        found.setdefault(int(kinds[0][k]), []).append(int(order[k]))
    return [
        _breakdown(comparison, ranking, cells, shares, which[:MOST_PLACES])
        for which in list(found.values())[:MOST_WORKLOADS]
    ]


def _breakdown(
    comparison: Comparison,
    ranking: Ranking,
    cells: NDArray[np.int64],
    shares: Floats,
    which: list[int],
) -> Breakdown:
    """Return some places of one workload."""
    marked = marked_places(comparison, ranking, cells[which].tolist())
    places = [_place(comparison, at, shares[k]) for at, k in zip(marked, which, strict=True)]
    return Breakdown(workload=marked[0].get("workload", ""), places=tuple(places))


def _shares(comparison: Comparison, cells: NDArray[np.int64]) -> Floats:
    """Return percent of CPU time, (cell, value, part), means over the replicates."""
    whole = comparison.values("cpu_time_ns", chosen=cells)
    parts = []
    for name in CPU_TIME:
        with np.errstate(divide="ignore", invalid="ignore"):
            share = 100.0 * comparison.values(name, chosen=cells) / whole
        parts.append(summarise(share).mean)
    return np.stack(parts, axis=-1)


def _place(comparison: Comparison, place: dict[str, str], shares: Floats) -> Place:
    rest = {key: text for key, text in place.items() if key not in ("machine", "workload")}
    return Place(
        machine=place.get("machine", "").replace(ANY, "any machine"),
        where=", ".join(f"{key}={text}" for key, text in rest.items() if text != ANY),
        values=comparison.labels if comparison.axis else ("",),
        shares=shares,
    )


def cpu_time_figure(found: Sequence[Breakdown], axis: str) -> "Figure":
    """Draw stacked shares, a panel for each workload, a bar for each machine and value.

    Parameters
    ----------
    found
        What to draw, at least one.
    axis
        Compared axis, or "".
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    bars = [sum(len(place.values) for place in one.places) for one in found]
    heights = [0.5 + BAR * (n + 0.9 * len(one.places)) for n, one in zip(bars, found, strict=True)]
    figure = Figure(figsize=(9.0, 1.5 + sum(heights)), layout="constrained")
    grid = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for spot, one in zip(grid, found, strict=True):
        _panel(spot, one)
    grid[-1].set_xlabel("share of the CPU time of all CPUs, %", fontsize=9)
    for spot in grid if axis else ():
        spot.set_ylabel(axis, fontsize=9)
    handles = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="#333333", linewidth=0.5, label=text)
        for (colour, hatch), text in zip(LOOKS, map(_meaning, CPU_TIME), strict=True)
    ]
    figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=2,
        fontsize=8,
        frameon=False,
        handleheight=1.3,
    )
    return figure


def _panel(spot: "Axes", one: Breakdown) -> None:
    y, ticks, labels = 0.0, [], []
    for place in one.places:
        head = ", ".join(filter(None, (place.machine, place.where)))
        if head:
            spot.text(0, y, head, fontsize=8, va="center", weight="bold")
            y += 0.9
        for value, shares in zip(place.values, place.shares, strict=True):
            _bar(spot, y, shares)
            ticks.append(y)
            labels.append(value)
            y += 1.0
    spot.set(xlim=(0, 100), ylim=(y - 0.4, -0.6))
    spot.set_yticks(ticks, labels, fontsize=8)
    spot.tick_params(axis="y", length=0)
    spot.tick_params(axis="x", labelsize=8)
    spot.set_title(one.workload, fontsize=10, loc="left")
    for side in ("top", "right", "left"):
        spot.spines[side].set_visible(False)


def _bar(spot: "Axes", y: float, shares: Floats) -> None:
    if np.isnan(shares).any():
        spot.text(1, y, "no result", fontsize=8, style="italic", va="center")
        return
    starts = np.cumsum(shares) - shares
    for share, start, (colour, hatch) in zip(shares, starts, LOOKS, strict=True):
        spot.barh(
            y, share, left=start, height=0.8, color=colour, hatch=hatch, edgecolor="#333333", lw=0.5
        )
        if share >= WRITTEN:
            spot.text(
                start + share / 2,
                y,
                f"{share:.0f}",
                ha="center",
                va="center",
                fontsize=8,
                color=ink(_rgb(colour)),
                bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.8},
            )


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue


def _meaning(name: str) -> str:
    return SCALARS[name].long_name.removeprefix("CPU time ")
