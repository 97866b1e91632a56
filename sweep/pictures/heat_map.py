"""Heat maps: a surface per machine, and all machines side by side, on one scale of colours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from sweep.answer.lkp import unit_text
from sweep.pictures.heat_cells import ANNOTATED, HATCHED, draw_cells
from sweep.pictures.panels import Panel, Surface
from sweep.pictures.shades import colour_bar

if TYPE_CHECKING:  # matplotlib takes a second to import; only a picture needs it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 24
"""Panels of one picture; of more, those with the largest changes are drawn."""
MOST_SIDE_BY_SIDE = 6
"""Machines in the picture of all; of more, those with the largest changes."""
MOST_ROWS = 6
"""Rows of panels in that picture."""
CELL_WIDTH, CELL_HEIGHT = 0.82, 0.42
"""Inches."""
LARGEST = 15.0
"""Inches that the panels of a picture take at most, each way."""
LABEL = 0.15
"""Inches between tick labels."""
UPRIGHT = 5
"""Characters of labels that are rather left out than slanted."""
MOST_LABELS = 40
"""Tick labels of an axis."""
CHARACTER, TITLE_CHARACTER = 0.068, 0.105
"""Inches that a character of a label, and of the title, takes."""
PANEL_CHARACTER = 0.08
"""Inches that a character of a panel's title takes."""
MOST_NAMES = 6
"""Panels that are named although they are not drawn."""
LONGEST_LABEL = 34
"""Characters of a row's label; what is more is cut in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """Size of the panels of a picture, inches."""

    width: float
    height: float
    left: float
    """Room for the labels of rows."""


def figure_of(surface: Surface, limit: float) -> "Figure":
    """Draw one surface as a matplotlib figure, without touching global state.

    Parameters
    ----------
    surface
        What to draw.
    limit
        Change at which the colours end, percent; see `shades.colour_limit`.
    """
    loud = loud_panels([surface])
    panels = strongest([surface.panels[k] for k in loud], MOST_PANELS)
    workloads = len(dict.fromkeys(panel.workload for panel in panels))
    by_workload = 1 < workloads <= 6 and len(panels) % workloads == 0
    across = workloads if by_workload else min(len(panels), 3)
    up = math.ceil(len(panels) / across)
    titles = [_panel_title(surface, panel) for panel in panels]
    size = _size(surface, across, up, titles)
    figure, grid = _figure(size, across, up)
    ordered = list(grid.T.flat if by_workload else grid.flat)
    for spot in ordered[len(panels) :]:
        spot.set_axis_off()
    for spot, panel, title in zip(ordered, panels, titles, strict=False):
        draw_cells(spot, surface, panel, limit, (size.width, size.height))
        _ticks(spot, surface, size)
        spot.set_title(title, fontsize=9)
    if len(panels) == grid.size:
        _outer_labels_only(grid)
    most = int(figure.get_figwidth() / TITLE_CHARACTER)
    title = _title(surface, surface.machine, most)
    _finish(figure, title, _legend([surface], panels, len(loud)))
    if surface.baseline:
        colour_bar(figure, list(grid.flat), panels, limit)
    return figure


def overview_of(surfaces: Sequence[Surface], limit: float) -> "Figure":
    """Draw all machines side by side: a column for each, a row for each workload and value.

    At most `MOST_SIDE_BY_SIDE` machines and `MOST_ROWS` rows, those with the largest changes; the
    legend says how many there are.

    Parameters
    ----------
    surfaces
        Surfaces of several machines, of the same axes.
    limit
        Change at which the colours end, percent.
    """
    sizes = [max(map(largest, surface.panels)) for surface in surfaces]
    shown = [surfaces[k] for k in first(sizes, MOST_SIDE_BY_SIDE)]
    loud = loud_panels(shown)
    heights = [max(largest(surface.panels[k]) for surface in shown) for k in loud]
    rows = [loud[k] for k in first(heights, MOST_ROWS)]
    titles = [_panel_title(shown[0], shown[0].panels[k]) for k in rows]
    size = _size(shown[0], len(shown), len(rows), [surface.machine for surface in shown])
    figure, grid = _figure(size, len(shown), len(rows))
    for column, surface in enumerate(shown):
        for row, number in enumerate(rows):
            spot = grid[row, column]
            draw_cells(spot, surface, surface.panels[number], limit, (size.width, size.height))
            _ticks(spot, surface, size)
        above = titles[0].count("\n") + 1
        grid[0, column].set_title(surface.machine + "\n" * above, fontsize=9, weight="bold")
    for spot, title in zip(grid[:, 0], titles, strict=True):
        spot.set_title(title, fontsize=9, loc="left")
    _outer_labels_only(grid)
    most = int(figure.get_figwidth() / TITLE_CHARACTER)
    drawn = [surface.panels[number] for surface in shown for number in rows]
    notes = [_legend(shown, drawn, len(drawn))]
    if len(shown) < len(surfaces):
        notes.append(f"the {len(shown)} of {len(surfaces)} machines with the largest numbers")
    if len(rows) < len(loud):
        notes.append(f"the {len(rows)} of {len(loud)} rows with the largest numbers")
    _finish(figure, _title(shown[0], "", most), "; ".join(notes))
    if shown[0].baseline:
        colour_bar(figure, list(grid.flat), drawn, limit)
    return figure


def loud_panels(surfaces: Sequence[Surface]) -> list[int]:
    """Return the numbers of the panels that are not 0.0 in all cells of all machines.

    All of them where there is none: who asks for a picture of nothing gets it.
    """
    numbers = range(len(surfaces[0].panels))
    if not surfaces[0].baseline:
        return list(numbers)
    loud = [k for k in numbers if not all(surface.panels[k].quiet for surface in surfaces)]
    return loud or list(numbers)


def strongest(panels: Sequence[Panel], most: int) -> tuple[Panel, ...]:
    """Return the panels with the largest changes, in their order."""
    return tuple(panels[number] for number in first([largest(p) for p in panels], most))


def largest(panel: Panel) -> float:
    """Return the largest change of a panel, whatever its sign."""
    return float(np.abs(panel.cells[np.isfinite(panel.cells)]).max(initial=0.0))


def first(sizes: Sequence[float], most: int) -> list[int]:
    """Return the numbers of the largest, in their order."""
    return sorted(sorted(range(len(sizes)), key=lambda k: sizes[k], reverse=True)[:most])


def _size(surface: Surface, across: int, up: int, titles: Sequence[str]) -> _Size:
    rows, columns = surface.panels[0].cells.shape
    title = max(len(line) for text in titles for line in text.split("\n")) * PANEL_CHARACTER
    widest = max(2.6, LARGEST / across)
    return _Size(
        width=max(min(max(2.6, columns * CELL_WIDTH), widest), min(title, widest)),
        height=min(max(0.9, rows * CELL_HEIGHT), max(0.9, LARGEST / up)),
        left=0.35 + CHARACTER * min(max(map(len, surface.rows), default=0), LONGEST_LABEL),
    )


def _figure(size: _Size, across: int, up: int) -> "tuple[Figure, np.ndarray]":
    from matplotlib.figure import Figure

    wide = max(6.5, size.left + across * (size.width + 0.35) + 1.3)
    figure = Figure(figsize=(wide, 1.6 + up * (size.height + 0.85)), layout="constrained")
    return figure, figure.subplots(up, across, squeeze=False)


def _outer_labels_only(grid: np.ndarray) -> None:
    for spot in grid[:-1, :].flat:
        spot.set_xticklabels([])
        spot.set_xlabel("")
    for spot in grid[:, 1:].flat:
        spot.set_yticklabels([])
        spot.set_ylabel("")


def _ticks(spot: "Axes", surface: Surface, size: _Size) -> None:
    """Label columns and rows, with steps where they are too many."""
    rows, columns = len(surface.rows), len(surface.columns)
    longest = max(map(len, surface.columns))
    room = LABEL if longest > UPRIGHT else CHARACTER * (longest + 1.5)
    step_x = math.ceil(max(columns * room / size.width, columns / MOST_LABELS))
    step_y = math.ceil(max(rows * LABEL / size.height, rows / MOST_LABELS))
    slanted = longest * CHARACTER > size.width / columns * step_x
    places, names = range(columns)[::step_x], surface.columns[::step_x]
    if slanted:
        spot.set_xticks(places, names, fontsize=8, rotation=30, ha="right", rotation_mode="anchor")
    else:
        spot.set_xticks(places, names, fontsize=8)
    spot.set_yticks(range(rows)[::step_y], map(_cut, surface.rows[::step_y]), fontsize=8)
    spot.tick_params(length=0)
    spot.set_xlabel(surface.column_axis, fontsize=9)
    spot.set_ylabel(surface.row_axis, fontsize=9)


def _cut(text: str) -> str:
    half = LONGEST_LABEL // 2
    return text if len(text) <= LONGEST_LABEL else f"{text[: half - 1]}…{text[-half:]}"


def _panel_title(surface: Surface, panel: Panel) -> str:
    metric = panel.metric + unit_text(panel.units)
    several = len({p.value for p in surface.panels}) > 1
    first = f"{panel.workload}: {metric}" if panel.workload else metric
    return f"{first}\n{surface.axis}={panel.value}" if several else first


def _title(surface: Surface, machine: str, most: int) -> str:
    """Say what is shown, in no more characters than there is room for."""
    where = f"{machine}   " if machine else ""
    if not surface.baseline:
        return f"{where}{', '.join(dict.fromkeys(panel.metric for panel in surface.panels))}"
    against = f"against {surface.baseline.partition('=')[2]}"
    full = f"{where}{surface.axis}: {', '.join(surface.values)} {against}"
    return full if len(full) <= most else f"{where}{surface.axis} {against}"


def _legend(surfaces: Sequence[Surface], drawn: Sequence[Panel], loud: int) -> str:
    """Say what colours, signs and hatches mean; only of what is there."""
    surface = surfaces[0]
    runs = surface.replicates
    notes = [f"mean of {runs} runs" if runs > 1 else "single runs"]
    if surface.baseline:
        notes.append("blue is better, red is worse")
        if any((~panel.sure & (panel.missing == "")).any() for panel in drawn):
            fine = drawn[0].cells.size > HATCHED
            why = (
                "not significant after correction" if surface.tested else "no change by lkp's rule"
            )
            notes.append(f"{'faded' if fine else 'hatched'}: {why}")
    else:
        notes.append("the metric itself, brighter is more")
    if any((panel.missing != "").any() for panel in drawn):
        notes.append("crossed: no result")
    small = drawn[0].cells.size <= ANNOTATED
    if small and any(len(np.unique(panel.copy_of)) < panel.copy_of.size for panel in drawn):
        notes.append("(any ...): that axis has no effect there")
    if loud > len(drawn):
        notes.append(f"the {len(drawn)} of {loud} panels with the largest numbers")
    return "; ".join([*notes, *_left_out(surfaces)])


def _left_out(surfaces: Sequence[Surface]) -> list[str]:
    """Name the panels that are not drawn since they are 0.0 everywhere."""
    loud = loud_panels(surfaces)
    surface = surfaces[0]
    quiet = [panel for k, panel in enumerate(surface.panels) if k not in loud]
    several = len(surface.values) > 1
    names = [
        " ".join(filter(None, (p.workload, f"{surface.axis}={p.value}" if several else "")))
        for p in quiet
    ]
    if len(names) > MOST_NAMES:
        names = [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"]
    return [f"not drawn, 0.0 in all cells: {', '.join(names)}"] if names else []


def _finish(figure: "Figure", title: str, legend: str) -> None:
    figure.suptitle(title, fontsize=11, x=0.01, ha="left", weight="bold")
    text = fill(legend, int(figure.get_figwidth() / CHARACTER))
    figure.supxlabel(text, fontsize=8, x=0.01, ha="left", color="#333333")
