"""The cells of one panel: colour, number, hatch where a change is not sure, cross where none is."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sweep.answer.stats import Floats
from sweep.pictures.panels import Panel, Surface
from sweep.pictures.shades import colours_of, ink, percent, short

if TYPE_CHECKING:  # matplotlib takes a second to import; only a picture needs it
    from matplotlib.axes import Axes

ANNOTATED = 600
"""Panels with more cells than this are drawn without numbers."""
HATCHED = 2000
"""Panels with more cells than this are too fine for hatches: what is not sure is faded there."""
UNSURE, MISSING = "//", "xx"
"""Hatches of what is not sure, and of what has no result."""
UNSURE_COLOUR, MISSING_COLOUR, MISSING_FACE = "#9c9c9c", "#9a9a9a", "#ececec"
CHARACTER, LINE = 0.07, 0.13
"""Inches that a character takes, and a line."""
FADED = 0.75
"""How much of the way to white the colour of a change that is not sure goes, without hatches."""


def draw_cells(
    spot: "Axes", surface: Surface, panel: Panel, limit: float, size: tuple[float, float]
) -> None:
    """Draw the cells of a panel.

    Parameters
    ----------
    spot
        Where to draw.
    surface, panel
        What to draw.
    limit
        Change at which the colours end, percent.
    size
        Width and height of the panel, inches: numbers stand upright where they have no room.
    """
    rows, columns = panel.cells.shape
    compared = bool(surface.baseline)
    colours = colours_of(panel, limit, compared)
    unsure = ~panel.sure & (panel.missing == "")
    if rows * columns > ANNOTATED:
        _mosaic(spot, panel, colours, unsure)
    else:
        write = percent if compared else short
        for cell, high, wide in blocks(panel.copy_of):
            reason = str(panel.missing[cell])
            text = reason or write(float(panel.cells[cell]))
            axes = _freed(surface, (high, wide), (rows, columns))
            text += f"\n(any {axes})" if axes and not reason else ""
            room = (size[0] * wide / columns, size[1] * high / rows)
            _block(
                spot,
                (*cell, high, wide),
                colours[cell],
                _fitting(text, room),
                bool(unsure[cell]),
                reason != "",
            )
    spot.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    for side in spot.spines.values():
        side.set_visible(False)


def blocks(copy_of: np.ndarray) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Yield (first cell, height, width) of what to draw as one; copies merge if they can."""
    for number in np.unique(copy_of):
        rows, columns = np.nonzero(copy_of == number)
        high, wide = int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1
        if high * wide == len(rows):
            yield (int(rows.min()), int(columns.min())), high, wide
        else:
            yield from (
                ((r, c), 1, 1) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)
            )


def _block(
    spot: "Axes",
    box: tuple[int, int, int, int],
    colour: Floats,
    text: tuple[str, int],
    unsure: bool,
    missing: bool,
) -> None:
    """Draw one rectangle (row, column, height, width) with its number, turned by some degrees."""
    from matplotlib.patches import Rectangle

    row, column, high, wide = box
    corner = (column - 0.5, row - 0.5)
    face = MISSING_FACE if missing else colour
    spot.add_patch(Rectangle(corner, wide, high, facecolor=face, edgecolor="white", linewidth=1.5))
    if unsure or missing:  # a hatch has its edge's colour, and the edge is to stay white
        hatch, shade = (MISSING, MISSING_COLOUR) if missing else (UNSURE, UNSURE_COLOUR)
        spot.add_patch(
            Rectangle(corner, wide, high, fill=False, edgecolor=shade, hatch=hatch, linewidth=0)
        )
    spot.text(
        column + (wide - 1) / 2,
        row + (high - 1) / 2,
        text[0],
        rotation=text[1],
        ha="center",
        va="center",
        fontsize=8,
        style="italic" if unsure or missing else "normal",
        color="#444444" if missing else ink(colour.tolist()),
        bbox={"facecolor": face, "edgecolor": "none", "pad": 1.2}
        if (unsure or missing) and text[0]
        else None,
    )


def _fitting(text: str, room: tuple[float, float]) -> tuple[str, int]:
    """Return a text and how it is turned to fit into (width, height) inches; "" if it does not."""
    for turned, (width, height) in ((0, room), (90, room[::-1])):
        lines = text.split("\n")
        if max(map(len, lines)) * CHARACTER <= width and len(lines) * LINE <= height:
            return text, turned
    return _fitting(text.partition("\n")[0], room) if "\n" in text else ("", 0)


def _mosaic(spot: "Axes", panel: Panel, colours: Floats, unsure: np.ndarray) -> None:
    """Draw a panel of many cells as one image; signs and numbers have no room."""
    missing = panel.missing != ""
    image = np.where(missing[..., None], (0.925, 0.925, 0.925, 1.0), colours)
    hatches = panel.cells.size <= HATCHED
    if not hatches:
        image = np.where(unsure[..., None], FADED + (1 - FADED) * image, image)
    spot.imshow(image, aspect="auto", interpolation="nearest")
    for chosen, hatch, shade in (
        (unsure, UNSURE * 2, UNSURE_COLOUR),
        (missing, MISSING * 2, MISSING_COLOUR),
    ):
        if hatches and chosen.any():
            _hatch(spot, chosen, hatch, shade)


def _hatch(spot: "Axes", chosen: np.ndarray, hatch: str, shade: str) -> None:
    """Hatch cells, those of a row that touch as one."""
    from matplotlib.collections import PolyCollection

    edges = np.diff(np.pad(chosen, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    _, ends = np.nonzero(edges == -1)
    left, right, up, down = starts - 0.5, ends - 0.5, rows - 0.5, rows + 0.5
    corners = np.stack([left, up, right, up, right, down, left, down], axis=1).reshape(-1, 4, 2)
    spot.add_collection(
        PolyCollection(
            list(corners), facecolors="none", edgecolors=shade, hatch=hatch, linewidths=0
        )
    )


def _freed(surface: Surface, block: tuple[int, int], panel: tuple[int, int]) -> str:
    """Name the axes that have no effect within a block."""
    axes = []
    if block[0] > 1:
        axes.append(surface.row_axis if block[0] == panel[0] else "rows")
    if block[1] > 1:
        axes.append(surface.column_axis)
    return ", ".join(axes)
