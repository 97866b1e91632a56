"""The pictures of a run, and in words what is seen on each."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from allocator.counters import CPU_TIME
from sweep.answer.cells import Cells
from sweep.answer.compare import Comparison
from sweep.answer.effects import without_comparison
from sweep.answer.groups import Ranking, rank
from sweep.answer.lkp import counted
from sweep.pictures.cpu_time import Breakdown, breakdowns, cpu_time_figure
from sweep.pictures.curve import Curves, axis_of_curves, curves
from sweep.pictures.curve_picture import curves_figure
from sweep.pictures.heat_map import figure_of, largest, overview_of
from sweep.pictures.panels import Surface, metric_surfaces, surfaces
from sweep.pictures.shades import colour_limit, percent, short

if TYPE_CHECKING:  # matplotlib takes a second to import; only a picture needs it
    from matplotlib.figure import Figure

MOST_MACHINES = 12
"""Machines that get a picture of their own; of more, those with the largest changes."""
MOST_CELLS = 40_000
"""Cells of all pictures of single machines: large ones take seconds each."""
MOST_LINES = 8
"""Lines of one panel of curves, before another axis gets panels of its own."""
MOST_CURVE_CELLS = 20_000
"""Cells of the largest dataset of which curves are drawn without being asked for."""
DOTS = 110
"""Dots per inch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture in memory."""

    stem: str
    """File name without its end."""
    title: str
    """What it is, in a few words."""
    alt: str
    """What is seen on it."""
    png: bytes
    apart: bool = False
    """It shows a part of another one larger."""

    @property
    def width(self) -> int:
        """Width in dots (PNG's IHDR)."""
        return int.from_bytes(self.png[16:20], "big")

    @property
    def height(self) -> int:
        """Height in dots."""
        return int.from_bytes(self.png[20:24], "big")


def album_of(comparison: Comparison, ranking: Ranking) -> list[Picture]:
    """Draw a comparison.

    Where each change is 0.0 the baseline's metric is drawn: pictures of nothing tell nothing.

    Parameters
    ----------
    comparison, ranking
        What is compared, and its ranking.
    """
    found = surfaces(comparison)
    if all(surface.quiet for surface in found):
        metric = comparison.metrics[0] if comparison.metric_dim is None else None
        root = comparison.cells.root.isel({comparison.axis: comparison.order[0]})
        return album_of_metric(Cells(root=root), metric)
    pictures = list(_heat_maps(found))
    axis = axis_of_curves(comparison.cells, comparison.axis)
    if axis:
        metric = comparison.metrics[0] if comparison.metric_dim is None else None
        pictures += _curves(comparison.cells, axis, metric, keep=comparison.axis)
    return pictures + _cpu_time(comparison, ranking)


def album_of_metric(cells: Cells, metric: str | None) -> list[Picture]:
    """Draw the metric itself, where nothing is compared or nothing changed."""
    axis = axis_of_curves(cells)
    drawn = _curves(cells, axis, metric, keep="machine") if axis else []
    whole = without_comparison(cells, metric)
    maps = _heat_maps(metric_surfaces(cells, metric), each=not drawn)
    return [*drawn, *maps, *_cpu_time(whole, rank(whole))]


def curves_picture(found: Sequence[Curves], *, growth: bool) -> Picture:
    """Draw curves that were cut already."""
    first = found[0]
    lines = [line for one in found for line in one.lines]
    best = max(lines, key=lambda line: float(line.y[-1] / abs(line.y[0] or 1.0)))
    name = f" ({best.label})" if best.label else ""
    seen = (
        f"Curves of {first.metric} along {first.axis}, {counted(len(lines), 'line')} in"
        f" {counted(len(found), 'panel')}. From {first.axis} {best.x[0]:g} to {best.x[-1]:g} it"
        f" goes from {short(float(best.y[0]))} to {short(float(best.y[-1]))} at most{name}."
    )
    title = f"{first.metric} along {first.axis}"
    figure = curves_figure(found, growth=growth)
    return Picture(stem=f"curve-{first.axis}", title=title, alt=seen, png=_png(figure))


def _heat_maps(found: Sequence[Surface], *, each: bool = True) -> Iterator[Picture]:
    """Draw all machines side by side, and each of them, unless that would show nothing more."""
    limit = colour_limit(found)
    several = len(found) > 1
    if several:
        title = f"All machines: {_what(found[0])}"
        alt = " ".join(_seen(surface) for surface in found)
        yield Picture(stem="surface", title=title, alt=alt, png=_png(overview_of(found, limit)))
    order = sorted(range(len(found)), key=lambda k: -max(map(largest, found[k].panels)))
    cells = sum(panel.cells.size for panel in found[0].panels)
    most = min(MOST_MACHINES, max(1, MOST_CELLS // cells))
    for number in sorted(order[:most]) if each or not several else ():
        surface = found[number]
        if several and surface.quiet:
            continue
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in surface.machine)
        yield Picture(
            stem=f"surface-{name}" if name else "surface",
            title=f"{surface.machine}: {_what(surface)}" if surface.machine else _what(surface),
            alt=_seen(surface),
            png=_png(figure_of(surface, limit)),
            apart=several,
        )


def _what(surface: Surface) -> str:
    metrics = ", ".join(dict.fromkeys(panel.metric for panel in surface.panels))
    return f"change of {metrics}" if surface.baseline else metrics


def _seen(surface: Surface) -> str:
    """Say what a heat map shows: the range, and how many cells are sure or missing."""
    where = f"{surface.machine}: " if surface.machine else ""
    values = [panel.cells[np.isfinite(panel.cells)] for panel in surface.panels]
    every = np.concatenate(values)
    if not every.size:
        return f"{where}no results."
    low, high = float(every.min()), float(every.max())
    missing = sum(int((panel.missing != "").sum()) for panel in surface.panels)
    cells = sum(panel.cells.size for panel in surface.panels)
    lacking = f", {missing} without a result" if missing else ""
    if not surface.baseline:
        return (
            f"{where}{_what(surface)} from {short(low)} to {short(high)} in {cells} cells{lacking}."
        )
    unit = "points" if all(panel.absolute for panel in surface.panels) else "%"
    sure = sum(int((panel.sure & (panel.missing == "")).sum()) for panel in surface.panels)
    how = "significant" if surface.tested else "changed by lkp's rule"
    return (
        f"{where}{_what(surface)} from {percent(low)} to {percent(high)} {unit};"
        f" {sure} of {cells} cells {how}{lacking}."
    )


def _curves(cells: Cells, axis: str, metric: str | None, keep: str) -> list[Picture]:
    """Draw curves along an axis, lines by `keep`, if the axis has any effect."""
    if cells.root["status"].size > MOST_CURVE_CELLS:
        return []
    grows = keep == "machine"
    apart = ["workload"] if grows else ["workload", "machine"]
    free = [dim for dim in cells.axes if dim not in (axis, keep, *apart)]
    while True:
        found = curves(cells, axis, metric=metric, apart=apart, flat=False)
        most = max((len(one.lines) for one in found), default=0)
        if most <= MOST_LINES or not free or grows:
            break
        apart.append(free.pop())
    found = [
        replace(one, lines=lines)
        for one in found
        if (lines := tuple(line for line in one.lines if len(line.x) > 1))
    ]
    if not found:
        return []
    positive = all(line.y[0] > 0 and line.x[0] > 0 for one in found for line in one.lines)
    same_start = len({line.x[0] for one in found for line in one.lines}) == 1
    return [curves_picture(found, growth=grows and positive and same_start)]


def _cpu_time(comparison: Comparison, ranking: Ranking) -> list[Picture]:
    found = breakdowns(comparison, ranking)
    if not found:
        return []
    alt = " ".join(map(_spent, found))
    png = _png(cpu_time_figure(found, comparison.axis))
    where = "where it changed most" if comparison.axis else "where locks take most"
    return [Picture(stem="cpu_time", title=f"Where CPU time goes, {where}", alt=alt, png=png)]


def _spent(one: Breakdown) -> str:
    """Say, of the first place, how much time locks take."""
    place = one.places[0]
    waits = [k for k, name in enumerate(CPU_TIME) if name.endswith("_wait_ns")]
    waiting = place.shares[:, waits].sum(axis=1)
    shares = ", ".join(
        f"{share:.0f} %{f' with {value}' if value else ''}"
        for value, share in zip(place.values, waiting, strict=True)
        if share == share
    )
    where = ", ".join(filter(None, (one.workload, place.machine, place.where)))
    return f"{where}: {shares} of CPU time waits for locks.".lstrip(": ")


def _png(figure: "Figure") -> bytes:
    buffer = io.BytesIO()
    # without the version of matplotlib and a date: the same picture is the same bytes
    figure.savefig(buffer, dpi=DOTS, format="png", metadata={"Software": None})
    return buffer.getvalue()
