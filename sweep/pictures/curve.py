"""Curves: a metric along a numeric axis, how sure it is, and where a cause passes a mark."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.counters import CAUSES
from allocator.errors import ConfigError
from sweep.answer.cells import Cells, known
from sweep.answer.compare import Comparison
from sweep.answer.effects import without_comparison
from sweep.answer.groups import ANY
from sweep.answer.stats import Floats, Summary, summarise

CONFIDENCE = 0.95
"""Of the bands around curves."""
FEWEST = 3
"""Values of an axis from which on it is drawn as curves without being asked to."""
ONLY = "all points"
"""Label in the table of a line that has none."""
SIZES = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
"""Units that values of an axis may have, bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve: all axes but one have a value."""

    label: str
    """Values of the other swept axes, joined by `/`."""
    x: Floats
    """(point,) values of the axis that have a result, rising."""
    y: Floats
    """(point,) metric, the mean of the replicates."""
    low: Floats
    """(point,) lower end of the mean's t interval; NaN for a single run."""
    high: Floats
    """(point,) upper end."""
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
    """The curves of one panel."""

    title: str
    """Workload, and the machine where machines have panels of their own; "" if not swept."""
    axis: str
    """Swept axis that they run along."""
    metric: str
    """What grows."""
    units: str
    """Units of the metric, `1` where it has none."""
    better: int
    """+1 where a higher metric is better, -1 where a lower is, 0 if neither."""
    ticks: tuple[tuple[float, str], ...]
    """Values of the axis, and how they are written."""
    cause: str
    """Cause that is marked; "": none."""
    percent: float
    """At how many percent."""
    lines: tuple[Line, ...]


def curves(
    cells: Cells,
    axis: str,
    *,
    metric: str | None = None,
    mark: str = "",
    apart: Sequence[str] = ("workload",),
    flat: bool = True,
) -> list[Curves]:
    """Cut a dataset into curves along an axis, one panel for each workload.

    Lines that would be the same are one; the values by which they differ are not in its label.

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
    apart
        Axes whose values get panels of their own.
    flat
        Keep lines on which the axis has no effect.

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
    x = numbers(cells.labels(name))
    if np.isfinite(x).sum() < 1 or (np.isnan(x) & (np.array(cells.labels(name)) != "null")).any():
        found = ", ".join(cells.labels(name))
        raise ConfigError("--curve", axis, f"an axis of numbers, not of {found}")
    shares = whole.causes()
    if cause and cause not in shares:
        raise ConfigError("--mark", mark, f"a cause of this run: {', '.join(map(str, shares))}")
    summary = summarise(whole.metric_values()[:, 0])
    low, high = interval(summary)
    share = summarise(shares[cause].values[:, 0]).mean if cause else np.full_like(low, np.nan)
    ticks = tuple((float(v), t) for v, t in zip(x, cells.labels(name), strict=True) if v == v)
    panels: dict[str, list[Line]] = {}
    metrics: dict[str, str] = {}
    for row, where, is_flat in sorted(_rows(whole, name), key=lambda r: r[1].get("workload", "")):
        if is_flat and not flat:
            continue
        rising = row[np.argsort(x)]
        good = rising[np.isfinite(summary.mean[rising]) & np.isfinite(np.sort(x))]
        if not len(good):
            continue
        along = x[np.searchsorted(row, good)]
        panel = {key: where.pop(key) for key in apart if key in where}
        title = ", ".join(f"any {k}" if text == ANY else text for k, text in panel.items())
        over: Floats = along[share[good] >= percent]
        line = Line(
            label="/".join(text for text in where.values() if text != ANY),
            x=along,
            y=summary.mean[good],
            low=low[good],
            high=high[good],
            passes=float(over[0]) if len(over) else None,
        )
        panels.setdefault(title, []).append(line)
        metrics[title] = whole.metrics[whole.metric_of_cell()[row[0]]]
    return [
        Curves(
            title=title,
            axis=name,
            metric=metrics[title],
            units=whole.units(metrics[title]),
            better=known(metrics[title], cells.root[metrics[title]].attrs).better,
            ticks=ticks,
            cause=cause,
            percent=percent,
            lines=tuple(lines),
        )
        for title, lines in panels.items()
    ]


def axis_of_curves(cells: Cells, without: str = "") -> str | None:
    """Return the axis that curves are drawn along where nobody names one; None: there is none.

    It is the dim with the most numbers, if there are at least `FEWEST`.
    """
    found = {
        dim: int(np.isfinite(numbers(cells.labels(dim))).sum())
        for dim in cells.axes
        if dim not in (without, "seed", "sample") and len(cells.parts(dim)) == 1
    }
    best = max(found, key=lambda dim: found[dim], default="")
    return best if best and found[best] >= FEWEST else None


def numbers(labels: Sequence[str]) -> Floats:
    """Read values of an axis: numbers, and sizes such as `[512MiB]`; NaN for anything else."""
    return np.array([_number(text) for text in labels], dtype=np.float64)


def interval(summary: Summary) -> tuple[Floats, Floats]:
    """Return the t interval of each mean at `CONFIDENCE`; NaN for a single run."""
    from scipy.stats import t  # scipy's distributions take half a second to import

    runs = np.where(summary.runs > 1, summary.runs, np.nan)
    half = t.ppf(0.5 + CONFIDENCE / 2, runs - 1) * summary.std / np.sqrt(runs)
    return summary.mean - half, summary.mean + half


def _rows(whole: Comparison, axis: str) -> Iterator[tuple[NDArray[np.int64], dict[str, str], bool]]:
    """Yield cells along an axis, where they are, and whether they are all the same.

    Cells that are copies of others come once, `ANY` in the place of what they do not depend on.
    """
    same = whole.same
    first = whole.originals == np.arange(len(same))
    at = whole.dims.index(axis)
    every = np.moveaxis(np.arange(len(first)).reshape(whole.shape), at, -1)
    names = [whole.cells.parts(dim) for dim in whole.dims]
    for row in every.reshape(-1, whole.shape[at]):
        if not first[row].any():
            continue
        where = whole.where(int(row[0]))
        copied = [bool(same[row, k].all()) for k in range(len(names))]
        for dim, parts, copies in zip(whole.dims, names, copied, strict=True):
            if copies and dim not in ("workload", "machine"):
                where.update(dict.fromkeys(parts, ANY))
        where = {key: text for key, text in where.items() if key not in whole.cells.parts(axis)}
        yield row, where, bool(same[row, at].all())


def _number(text: str) -> float:
    sized = re.fullmatch(r"\[?([0-9.eE+-]+?)([KMGT]iB)?\]?", text)
    try:
        return float(sized[1]) * SIZES[sized[2] or ""] if sized else float("nan")
    except ValueError:
        return float("nan")


def _mark(text: str) -> tuple[str, float]:
    """Read `CAUSE=PERCENT`."""
    if not text:
        return "", 0.0
    cause, _, percent = text.partition("=")
    if cause not in CAUSES:
        raise ConfigError("--mark", text, f"CAUSE=PERCENT, CAUSE one of {', '.join(CAUSES)}")
    try:
        at = float(percent)
    except ValueError:
        at = math.nan
    if not 0 < at <= 100:
        raise ConfigError("--mark", text, "CAUSE=PERCENT, PERCENT a number above 0, to 100")
    return cause, at


def curve_table(found: Sequence[Curves]) -> str:
    """Return a table: of each curve its largest growth, where, and where it passes the mark."""
    lines = []
    for one in found:
        over = f"{one.cause} >= {one.percent:g} %" if one.cause else ""
        head = " ".join(text for text in (one.title, one.metric, "along", one.axis) if text)
        width = max((len(line.label or ONLY) for line in one.lines), default=0)
        lines += [head, f"  {'':{width}s}  {'grows':>8s}  {'best at':>8s}  {over}".rstrip()]
        for line in one.lines:
            passes = "-" if line.passes is None else f"from {line.passes:g}"
            text = f"  {line.label or ONLY:{width}s}  {line.growth.max():7.1f}x  {line.best:8g}"
            lines.append(f"{text}  {passes if one.cause else ''}".rstrip())
        lines.append("")
    return "\n".join(lines)
