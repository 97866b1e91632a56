"""Draws surfaces: small multiples, diverging colours centred at 0, one PNG per machine."""

import math
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from sweep.answer.lkp import unit_text
from sweep.pictures.panels import Panel, Surface

if TYPE_CHECKING:  # matplotlib takes a second to import; only a run's end needs it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 24
"""Panels of one picture; of more, those with the largest changes are drawn."""
ANNOTATED = 600
"""Panels with more cells than this are drawn without numbers."""
MISSING = "#d9d9d9"
CELL_WIDTH, CELL_HEIGHT = 0.82, 0.42
"""Inches."""
LARGEST = 18.0
"""Inches that the panels of a picture take at most, each way."""
LABEL = 0.15
"""Inches between tick labels."""
CHARACTER, TITLE_CHARACTER = 0.075, 0.105
"""Inches that a character of a label, and of the title, takes."""
MOST = 100.0
"""Percent at which the colours end at the latest, so that one huge change does not hide others."""
ABOUT_METRICS = "the metric itself, brighter is more"
ABOUT_CHANGES = "blue is better, red is worse; grey italics: no change by lkp's rule"


def draw(surfaces: list[Surface], directory: Path, stem: str = "surface") -> list[Path]:
    """Write one PNG per surface.

    Parameters
    ----------
    surfaces
        What to draw; the colours mean the same in all of them.
    directory
        Where to write `STEM-MACHINE.png`, or `STEM.png` where no machine is named.
    stem
        First part of the names.

    Returns
    -------
    list of Path
        The files, in the order of the surfaces.
    """
    limit = colour_limit(surfaces)
    paths = []
    for surface in surfaces:
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in surface.machine)
        path = directory / (f"{stem}-{name}.png" if name else f"{stem}.png")
        figure = figure_of(surface, limit)
        figure.savefig(path, dpi=110)
        paths.append(path)
    return paths


def colour_limit(surfaces: list[Surface]) -> float:
    """Return the change, in percent, at which the colours end."""
    sizes = [np.abs(panel.cells[np.isfinite(panel.cells)]) for s in surfaces for panel in s.panels]
    largest = max((float(size.max()) for size in sizes if size.size), default=0.0)
    return min(max(largest, 1.0), MOST)


def figure_of(surface: Surface, limit: float) -> "Figure":
    """Draw one surface as a matplotlib figure, without touching global state."""
    from matplotlib.figure import Figure

    panels = _strongest(surface.panels)
    workloads = len(dict.fromkeys(panel.workload for panel in panels))
    by_workload = 1 < workloads <= 6 and len(panels) == len(surface.panels)
    across = workloads if by_workload else min(len(panels), 3)
    up = math.ceil(len(panels) / across)
    rows, columns = panels[0].cells.shape
    width = min(max(2.6, columns * CELL_WIDTH), max(2.6, LARGEST / across))
    height = min(max(0.8, rows * CELL_HEIGHT), max(0.8, LARGEST / up))
    left = 0.35 + 0.075 * max((len(row) for row in surface.rows), default=0)
    figure = Figure(
        figsize=(max(6.5, left + across * (width + 0.35) + 1.3), 1.6 + up * (height + 0.75)),
        layout="constrained",
    )
    grid = figure.subplots(up, across, squeeze=False)
    for number, spot in enumerate(grid.T.flat if by_workload else grid.flat):
        if number >= len(panels):
            spot.set_axis_off()
            continue
        _panel(spot, surface, panels[number], limit)
        _ticks(spot, surface, width, math.ceil(rows * LABEL / height))
    for spot in grid[:-1, :].flat if len(panels) == grid.size else ():
        spot.set_xticklabels([])
        spot.set_xlabel("")
    for spot in grid[:, 1:].flat:
        spot.set_yticklabels([])
        spot.set_ylabel("")
    most = int(figure.get_figwidth() / TITLE_CHARACTER)
    figure.suptitle(_title(surface, most), fontsize=11, x=0.01, ha="left", weight="bold")
    legend = fill(_legend(surface), int(figure.get_figwidth() / CHARACTER))
    figure.supxlabel(legend, fontsize=8, x=0.01, ha="left", color="#444444")
    if surface.baseline:
        _colour_bar(figure, grid, surface, limit)
    return figure


def _strongest(panels: tuple[Panel, ...]) -> tuple[Panel, ...]:
    """Return the panels to draw, in their order."""

    def size(number: int) -> float:
        finite = np.abs(panels[number].cells[np.isfinite(panels[number].cells)])
        return float(finite.max(initial=0.0))

    kept = sorted(range(len(panels)), key=size, reverse=True)[:MOST_PANELS]
    return tuple(panels[number] for number in sorted(kept))


def _panel(spot: "Axes", surface: Surface, panel: Panel, limit: float) -> None:
    from matplotlib.patches import Rectangle

    rows, columns = panel.cells.shape
    colours, numbers = _colours(panel, limit, bool(surface.baseline))
    annotate = rows * columns <= ANNOTATED
    if not annotate:
        _mosaic(spot, panel, colours)
    for (row, column), high, wide in _blocks(panel.copy_of) if annotate else ():
        corner = (column - 0.5, row - 0.5)
        reason = panel.missing[row, column]
        style = (
            {"facecolor": MISSING, "hatch": "////"}
            if reason
            else {"facecolor": colours[row, column]}
        )
        spot.add_patch(Rectangle(corner, wide, high, edgecolor="white", linewidth=1.5, **style))
        plain = reason or not panel.changed[row, column]
        spot.text(
            column + (wide - 1) / 2,
            row + (high - 1) / 2,
            _note(reason, numbers[row, column], (high, wide), (rows, columns), surface),
            ha="center",
            va="center",
            fontsize=8,
            style="italic" if plain else "normal",
            color="#555555" if reason else _ink(colours[row, column], bool(plain)),
            bbox={"facecolor": MISSING, "edgecolor": "none", "pad": 1} if reason else None,
        )
    spot.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    spot.set_title(_panel_title(surface, panel), fontsize=9)
    for side in spot.spines.values():
        side.set_visible(False)


def _mosaic(spot: "Axes", panel: Panel, colours: np.ndarray) -> None:
    """Draw a large panel as one image, missing cells grey."""
    grey = np.array([0.85, 0.85, 0.85, 1.0])
    image = np.where((panel.missing != "")[..., None], grey, colours)
    spot.imshow(image, aspect="auto", interpolation="nearest")


def _blocks(copy_of: np.ndarray) -> list[tuple[tuple[int, int], int, int]]:
    """Return (first cell, height, width) of what to draw as one; copies merge if they can."""
    blocks = []
    for number in np.unique(copy_of):
        rows, columns = np.nonzero(copy_of == number)
        high, wide = int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1
        if high * wide == len(rows):
            blocks.append(((int(rows.min()), int(columns.min())), high, wide))
        else:
            blocks += [((r, c), 1, 1) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)]
    return blocks


def _colours(panel: Panel, limit: float, diverging: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return RGBA of each cell and the text of each number."""
    from matplotlib import colormaps

    values = np.nan_to_num(panel.cells, nan=0.0, posinf=1e9, neginf=-1e9)
    if diverging:
        gain = values * (panel.better or 1)
        shade = colormaps["RdBu"](0.5 + 0.45 * np.clip(gain / limit, -1, 1))
    else:
        finite = panel.cells[np.isfinite(panel.cells)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
        shade = colormaps["viridis"](0.2 + 0.8 * (values - low) / ((high - low) or 1.0))
    write = percent if diverging else short
    if values.size > ANNOTATED:
        return shade, np.full(values.shape, "")
    return shade, np.array([[write(float(value)) for value in row] for row in panel.cells])


def percent(change: float) -> str:
    """Write a change.

    >>> percent(-12.53), percent(0.01), percent(1234.0), percent(float("inf"))
    ('-12.5', '0.0', '+1.2e+03', 'from 0')
    """
    if math.isinf(change):
        return "from 0"
    if abs(change) < 0.05:
        return "0.0"
    return f"{change:+.1f}" if abs(change) < 1000 else f"{change:+.2g}"


def short(value: float) -> str:
    """Write a number in few characters.

    >>> short(0.5), short(1234567.0), short(512.0)
    ('0.5', '1.23M', '512')
    """
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scale = size if letter != "k" else 1e3
            return f"{value / scale:.3g}{letter}"
    return f"{value:.4g}"


def _note(
    reason: str,
    number: str,
    block: tuple[int, int],
    panel: tuple[int, int],
    surface: Surface,
) -> str:
    if reason:
        return reason
    freed = []
    if block[0] > 1:
        freed.append(surface.row_axis if block[0] == panel[0] else "rows")
    if block[1] > 1:
        freed.append(surface.column_axis)
    return f"{number}\n(any {', '.join(freed)})" if freed else number


def _ink(colour: "np.ndarray", plain: bool) -> str:
    brightness = float(np.dot(colour[:3], (0.3, 0.59, 0.11)))
    if plain:
        return "#555555" if brightness > 0.5 else "#dddddd"
    return "black" if brightness > 0.5 else "white"


def _ticks(spot: "Axes", surface: Surface, width: float, step_y: int) -> None:
    """Label columns and rows, with steps where they are too many."""
    columns = len(surface.columns)
    step_x = math.ceil(columns * LABEL / width)
    slanted = max(map(len, surface.columns)) * CHARACTER > width / columns * step_x
    places, names = range(columns)[::step_x], surface.columns[::step_x]
    if slanted:
        spot.set_xticks(places, names, fontsize=8, rotation=30, ha="right")
    else:
        spot.set_xticks(places, names, fontsize=8)
    spot.set_yticks(range(len(surface.rows))[::step_y], surface.rows[::step_y], fontsize=8)
    spot.tick_params(length=0)
    spot.set_xlabel(surface.column_axis, fontsize=9)
    spot.set_ylabel(surface.row_axis, fontsize=9)


def _panel_title(surface: Surface, panel: Panel) -> str:
    metric = panel.metric + unit_text(panel.units)
    several = len({p.value for p in surface.panels}) > 1
    first = f"{panel.workload}: {metric}" if panel.workload else metric
    return f"{first}\n{surface.axis}={panel.value}" if several else first


def _title(surface: Surface, most: int) -> str:
    """Say what is shown, in no more characters than there is room for."""
    where = f"{surface.machine}   " if surface.machine else ""
    if not surface.baseline:
        return f"{where}{', '.join(dict.fromkeys(panel.metric for panel in surface.panels))}"
    against = f"against {surface.baseline.partition('=')[2]}"
    full = f"{where}{surface.axis}: {', '.join(surface.values)} {against}"
    return full if len(full) <= most else f"{where}{surface.axis} {against}"


def _legend(surface: Surface) -> str:
    runs = f"mean of {surface.replicates} runs" if surface.replicates > 1 else "single runs"
    legend = ABOUT_CHANGES if surface.baseline else ABOUT_METRICS
    copies = any(len(np.unique(panel.copy_of)) < panel.copy_of.size for panel in surface.panels)
    notes = [f"{runs}; {legend}"]
    if copies:
        notes.append("(any ...): that axis has no effect there")
    if len(surface.panels) > MOST_PANELS:
        notes.append(f"the {MOST_PANELS} of {len(surface.panels)} panels that change most")
    return "; ".join(notes)


def _colour_bar(figure: "Figure", grid: np.ndarray, surface: Surface, limit: float) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    from matplotlib import colormaps  # isort: skip

    signs = {panel.better or 1 for panel in surface.panels}
    shades = colormaps["RdBu"](np.linspace(0.05, 0.95, 256))
    if signs == {-1}:
        shades = shades[::-1]
    cmap = LinearSegmentedColormap.from_list("gain", list(shades))
    bar = figure.colorbar(
        ScalarMappable(Normalize(-limit, limit), cmap),
        ax=grid,
        shrink=min(0.9, 4.5 / figure.get_figheight()),
        aspect=25,
        fraction=0.05,
        extend="both" if limit >= MOST else "neither",
    )
    kinds = {panel.absolute for panel in surface.panels}
    unit = "points" if kinds == {True} else "%"
    bar.set_label(
        f"change, {unit}"
        if len(signs) == 1
        else f"gain, {unit} (sign turned where less is better)",
        fontsize=9,
    )
    bar.ax.tick_params(labelsize=8)
