"""Draws curves: each with its own colour, stroke and marker, and its band of confidence."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from allocator.counters import CAUSES
from sweep.answer.lkp import unit_text
from sweep.answer.stats import Floats
from sweep.pictures.curve import CONFIDENCE, Curves, Line
from sweep.pictures.shades import short

if TYPE_CHECKING:  # matplotlib takes a second to import; only a picture needs it
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS, MOST_LINES = 12, 16
"""Of one picture; panels with the largest differences between their lines come first."""
ACROSS = 3
"""Panels in a row."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Of Okabe and Ito: told apart by the colour-blind."""
STROKES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v")
"""Seven colours, four strokes and five markers repeat together after 140 lines."""
WIDE_RANGE = 8.0
"""Ratio of the largest to the smallest value from which on an axis is logarithmic."""
CHARACTER = 0.018
"""Width of a character of a label, in widths of the axis."""


def curves_figure(found: Sequence[Curves], *, growth: bool) -> "Figure":
    """Draw curves, a panel each.

    Parameters
    ----------
    found
        What to draw, all along one axis.
    growth
        Draw multiples of each curve's first value and the line of proportion, on logarithmic axes;
        otherwise the metric in its units.
    """
    from matplotlib.figure import Figure

    panels = _most_different(found)
    across = min(len(panels), ACROSS)
    up = math.ceil(len(panels) / across)
    labels = list(dict.fromkeys(line.label for one in panels for line in one.lines))[:MOST_LINES]
    longest = max(map(len, labels), default=0)
    figure = Figure(figsize=(1.4 + 0.075 * longest + 4.6 * across, 1.2 + 3.6 * up))
    figure.set_layout_engine("constrained")
    grid = figure.subplots(up, across, squeeze=False)
    for spot in list(grid.flat)[len(panels) :]:
        spot.set_axis_off()
    for spot, one in zip(grid.flat, panels, strict=False):
        _panel(spot, one, labels, growth)
    handles: dict[str, Artist] = {}
    for spot in grid.flat:
        handles |= dict(zip(*spot.get_legend_handles_labels()[::-1], strict=True))
    ordered = [label for label in labels if label and label in handles]
    if len(ordered) > 0:
        figure.legend(
            [handles[label] for label in ordered],
            ordered,
            loc="outside right center",
            fontsize=8,
            frameon=False,
            handlelength=3.5,
        )
    figure.supxlabel(_legend(found, panels, labels, growth), fontsize=8, x=0.01, ha="left")
    return figure


def _most_different(found: Sequence[Curves]) -> list[Curves]:
    """Return the panels to draw, in their order."""

    def spread(one: Curves) -> float:
        ends = np.array([line.y[-1] for line in one.lines])
        return float(np.ptp(ends) / max(abs(ends).max(), 1e-300))

    kept = sorted(range(len(found)), key=lambda k: -spread(found[k]))[:MOST_PANELS]
    return [found[k] for k in sorted(kept)]


def _legend(
    found: Sequence[Curves], panels: Sequence[Curves], labels: Sequence[str], growth: bool
) -> str:
    lines = {line.label for one in found for line in one.lines}
    notes = []
    if any(np.isfinite(line.low).any() for one in panels for line in one.lines):
        notes.append(f"bands: {100 * CONFIDENCE:.0f} % t interval of the mean over the runs")
    if growth:
        notes.append("grey dots: in proportion")
    first = found[0]
    if first.cause:
        meaning = CAUSES[first.cause].long_name
        notes.append(f"black square: from here on, {meaning} is at least {first.percent:g} %")
    if len(panels) < len(found):
        notes.append(f"{len(panels)} of {len(found)} panels, those whose lines differ most")
    if len(labels) < len(lines):
        notes.append(f"{len(labels)} of {len(lines)} lines")
    return ";\n".join(notes)


def _panel(spot: "Axes", one: Curves, labels: Sequence[str], growth: bool) -> None:
    """Draw one panel."""
    x = np.unique(np.concatenate([line.x for line in one.lines]))
    logarithmic = growth and x[0] > 0
    if logarithmic:
        spot.plot(x, x / x[0], ":", color="#999999", linewidth=1)
    for k, line in enumerate(one.lines):
        if line.label in labels:
            # of lines on top of each other, those below are broader
            above = len(one.lines) - 1 - k if len(one.lines) <= len(COLOURS) else 0
            _line(spot, line, labels.index(line.label), growth, 1.2 + 0.6 * above)
    wide = x[0] > 0 and x[-1] / x[0] >= WIDE_RANGE
    if logarithmic or wide:
        spot.set_xscale("log", base=2)
    if logarithmic:
        spot.set_yscale("log", base=2)
    elif min(float(line.y.min()) for line in one.lines) >= 0:
        spot.set_ylim(bottom=0)
    known = dict(one.ticks)
    written = [known.get(value, f"{value:g}") for value in x.tolist()]
    shown = _spread(x, written, logarithmic or wide)
    spot.set_xticks(x[shown], [written[k] for k in shown])
    spot.set_xticks([], minor=True)
    spot.yaxis.set_major_formatter("{x:g}x" if growth else lambda value, _: short(value))
    spot.tick_params(labelsize=8)
    spot.grid(alpha=0.3)
    spot.set_xlabel(one.axis, fontsize=9)
    unit = unit_text(one.units)
    told = f"{one.metric}, multiples of that at {known.get(float(x[0]), f'{x[0]:g}')}"
    spot.set_ylabel(told if growth else f"{one.metric}{unit}", fontsize=9)
    spot.set_title(one.title, fontsize=10)


def _line(spot: "Axes", line: Line, number: int, growth: bool, width: float) -> None:
    """Draw one curve with its band."""
    colour = COLOURS[number % len(COLOURS)]
    scale = line.y[0] if growth else 1.0
    if np.isfinite(line.low).any():
        spot.fill_between(
            line.x, line.low / scale, line.high / scale, color=colour, alpha=0.18, linewidth=0
        )
    spot.plot(
        line.x,
        line.y / scale,
        STROKES[number % len(STROKES)],
        color=colour,
        marker=MARKERS[number % len(MARKERS)],
        markersize=3 + width,
        markerfacecolor="white",
        label=line.label,
        linewidth=width,
    )
    if line.passes is not None:
        at = int(np.flatnonzero(line.x == line.passes)[0])
        spot.plot(line.x[at], line.y[at] / scale, "s", markersize=5, color="black", zorder=3)


def _spread(x: Floats, written: Sequence[str], logarithmic: bool) -> list[int]:
    """Return the numbers of the values that have room under an axis; the last is among them."""
    place = np.log(x) if logarithmic else x
    place = (place - place[0]) / max(float(place[-1] - place[0]), 1e-300)
    kept = [len(x) - 1]
    for k in range(len(x) - 2, -1, -1):
        room = CHARACTER * (1 + (len(written[k]) + len(written[kept[-1]])) / 2)
        if place[kept[-1]] - place[k] >= room:
            kept.append(k)
    return kept[::-1]
