"""Curves: how a metric grows along a numeric axis, and where a cause passes a mark."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from allocator.counters import CAUSES
from allocator.errors import ConfigError
from sweep.answer.cells import Cells
from sweep.answer.effects import without_comparison

if TYPE_CHECKING:  # matplotlib takes a second to import; only a picture needs it
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

APART = 0.45
"""Least distance of two written values of the axis, in doublings."""
STYLES = ("-", "--", ":")
"""Of lines, once all colours are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve: all axes but one have a value."""

    label: str
    """Values of the other swept axes, joined by `/`."""
    x: Floats
    """(point,) values of the axis that have a result, rising."""
    y: Floats
    """(point,) metric, the mean of the replicates."""
    passes: float | None
    """First value of the axis at which the cause is at or above the mark."""

    @property
    def growth(self) -> Floats:
        """(point,) metric in multiples of its first value."""
        grown: Floats = self.y / self.y[0]
        return grown

    @property
    def best(self) -> float:
        """Value of the axis at which the metric is largest."""
        return float(self.x[int(np.argmax(self.y))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The curves of one workload."""

    workload: str
    """Workload, or "" where it was not swept."""
    axis: str
    """Swept axis that they run along."""
    metric: str
    """What grows."""
    cause: str
    """Cause that is marked; "": none."""
    percent: float
    """At how many percent."""
    lines: tuple[Line, ...]


def curves(cells: Cells, axis: str, *, metric: str | None = None, mark: str = "") -> list[Curves]:
    """Cut a dataset into curves along an axis, those of a workload together.

    Parameters
    ----------
    cells
        The dataset.
    axis
        A swept axis whose values are numbers.
    metric
        Variable; None: each workload's own.
    mark
        `CAUSE=PERCENT` (`list_lock_wait=50`): where to mark a curve; "": nowhere.

    Raises
    ------
    ConfigError
        If the axis, the metric or the cause does not exist, or a value is not a number.
    """
    name = cells.axis(axis)
    cause, percent = _mark(mark)
    whole = without_comparison(cells, metric)
    if name not in whole.dims:
        raise ConfigError("--curve", axis, f"one of the dims {', '.join(whole.dims)}")
    x = _numbers(cells, name)
    metrics = np.array(whole.metrics)[whole.metric_of_cell()]
    shares = whole.causes()
    if cause and cause not in shares:
        raise ConfigError("--mark", mark, f"a cause of this run: {', '.join(map(str, shares))}")
    values = _means(whole.metric_values()[:, 0])
    share = _means(shares[cause].values[:, 0]) if cause else np.full_like(values, np.nan)
    at = whole.dims.index(name)
    number = np.moveaxis(np.arange(len(values)).reshape(whole.shape), at, -1).reshape(-1, len(x))
    groups: dict[str, list[tuple[Line, str]]] = {}
    for row in number:
        good = row[np.isfinite(values[row])]
        if not len(good):
            continue
        where = whole.where(int(row[0]))
        workload = where.pop("workload", "")
        label = "/".join(text for dim, text in where.items() if dim not in cells.parts(name))
        along = x[np.searchsorted(row, good)]
        order = np.argsort(along)
        over: Floats = along[order][share[good][order] >= percent]
        first = float(over[0]) if len(over) else None
        line = Line(label=label, x=along[order], y=values[good][order], passes=first)
        groups.setdefault(workload, []).append((line, str(metrics[row[0]])))
    return [
        Curves(
            workload=workload,
            axis=name,
            metric=found[0][1],
            cause=cause,
            percent=percent,
            lines=tuple(line for line, _ in found),
        )
        for workload, found in groups.items()
    ]


def _mark(text: str) -> tuple[str, float]:
    """Read `CAUSE=PERCENT`."""
    if not text:
        return "", 0.0
    cause, _, percent = text.partition("=")
    if cause not in CAUSES:
        raise ConfigError("--mark", text, f"CAUSE=PERCENT, CAUSE one of {', '.join(CAUSES)}")
    try:
        return cause, float(percent)
    except ValueError:
        raise ConfigError("--mark", text, "CAUSE=PERCENT, PERCENT a number") from None


def _numbers(cells: Cells, axis: str) -> Floats:
    """Return the values of an axis.

    Raises
    ------
    ConfigError
        If one is not a number above 0.
    """
    found = ", ".join(cells.labels(axis))
    try:
        values = np.array([float(text) for text in cells.labels(axis)])
    except ValueError:
        raise ConfigError("--curve", axis, f"an axis of numbers, not of {found}") from None
    if (values <= 0).any():  # the scale is logarithmic
        raise ConfigError("--curve", axis, f"an axis of numbers above 0, not of {found}")
    return values


def _means(values: Floats) -> Floats:
    """Return the mean of the replicates that have a result, (cell,); NaN where none has."""
    there = np.isfinite(values)
    total = np.where(there, values, 0.0).sum(axis=-1)
    number = there.sum(axis=-1)
    result: Floats = np.where(number > 0, total / np.maximum(number, 1), np.nan)
    return result


def curve_table(found: Sequence[Curves]) -> str:
    """Return a table: of each curve its largest growth, where, and where it passes the mark."""
    lines = []
    for one in found:
        over = f"{one.cause} >= {one.percent:g} %" if one.cause else ""
        head = " ".join(text for text in (one.workload, one.metric, "along", one.axis) if text)
        width = max((len(line.label) for line in one.lines), default=0)
        lines += [head, f"  {'':{width}s}  {'grows':>8s}  {'best at':>8s}  {over}".rstrip()]
        for line in one.lines:
            passes = "-" if line.passes is None else f"from {line.passes:g}"
            text = f"  {line.label:{width}s}  {line.growth.max():7.1f}x  {line.best:8g}"
            lines.append(f"{text}  {passes if one.cause else ''}".rstrip())
        lines.append("")
    return "\n".join(lines)


def draw_curves(found: Sequence[Curves], path: Path) -> None:
    """Write a picture: a panel for each workload, growth over the axis, both logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 + 5.2 * len(found), 5.4), layout="constrained")
    spots = figure.subplots(1, len(found), squeeze=False)[0]
    labels = list(dict.fromkeys(line.label for one in found for line in one.lines))
    for spot, one in zip(spots, found, strict=True):
        _panel(spot, one, labels)
    handles, names = spots[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", fontsize=8, frameon=False)
    cause = found[0].cause
    text = "grey dots: in proportion; hollow ring: the largest value"
    if cause:
        meaning = f"{CAUSES[cause].long_name} is at least {found[0].percent:g} %"
        text = f"{text}; black square: from here on, {meaning}"
    figure.supxlabel(text, fontsize=8, x=0.01, ha="left", color="#444444")
    figure.savefig(path, dpi=110)


def _spread(x: Floats) -> list[float]:
    """Return the values that have room under a logarithmic axis; the last is among them."""
    kept = [float(x[-1])]
    for value in x[::-1]:
        if value > 0 and np.log2(kept[-1] / value) >= APART:
            kept.append(float(value))
    return kept[::-1]


def _panel(spot: "Axes", one: Curves, labels: Sequence[str]) -> None:
    """Draw the curves of one workload."""
    import matplotlib

    colours = matplotlib.colormaps["tab10"].colors  # type: ignore[attr-defined]
    x = np.unique(np.concatenate([line.x for line in one.lines]))
    spot.plot(x, x / x[0], ":", color="#999999", linewidth=1)
    for line in one.lines:
        number = labels.index(line.label)
        style = STYLES[number // len(colours) % len(STYLES)]
        colour = colours[number % len(colours)]
        spot.plot(line.x, line.growth, style, color=colour, label=line.label, linewidth=1.4)
        top = int(np.argmax(line.y))
        spot.plot(line.x[top], line.growth[top], "o", markersize=7, fillstyle="none", color=colour)
        if line.passes is not None:
            at = int(np.flatnonzero(line.x == line.passes)[0])
            spot.plot(line.x[at], line.growth[at], "s", markersize=4, color="black", zorder=3)
    spot.set_xscale("log", base=2)
    spot.set_yscale("log", base=2)
    spot.set_xticks(_spread(x))
    spot.set_xticks([], minor=True)
    spot.xaxis.set_major_formatter("{x:g}")
    spot.yaxis.set_major_formatter("{x:g}x")
    spot.tick_params(labelsize=8)
    spot.grid(alpha=0.3)
    spot.set_xlabel(one.axis)
    spot.set_ylabel(f"{one.metric}, multiples of that at {x[0]:g}")
    spot.set_title(one.workload, fontsize=10)
