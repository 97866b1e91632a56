"""Colours of cells, and numbers in few characters."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sweep.answer.stats import Floats
from sweep.pictures.panels import ROUNDS_TO_ZERO, Panel, Surface

if TYPE_CHECKING:  # matplotlib takes a second to import; only a picture needs it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHANGES = "RdBu"
"""Red for worse, blue for better: told apart by the colour-blind."""
ENDS = 0.42
"""How far from its middle the colours are used: the very ends are too dark for hatches."""
METRICS = "cividis"
"""Brightness rises with the value, in black and white as well."""
MOST = 100.0
"""Percent at which the colours end at the latest, so that one huge change does not hide others."""


def colour_limit(surfaces: Sequence[Surface]) -> float:
    """Return the change, in percent, at which the colours end; one for all machines."""
    sizes = [np.abs(panel.cells[np.isfinite(panel.cells)]) for s in surfaces for panel in s.panels]
    largest = max((float(size.max()) for size in sizes if size.size), default=0.0)
    return min(max(largest, 1.0), MOST)


def colours_of(panel: Panel, limit: float, diverging: bool) -> Floats:
    """Return RGBA of each cell, (row, column, 4)."""
    from matplotlib import colormaps

    values = np.nan_to_num(panel.cells, nan=0.0, posinf=1e9, neginf=-1e9)
    if diverging:
        gain = values * (panel.better or 1)
        return np.asarray(colormaps[CHANGES](0.5 + ENDS * np.clip(gain / limit, -1, 1)))
    finite = panel.cells[np.isfinite(panel.cells)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    place = (values - low) / (high - low) if high > low else np.full_like(values, 0.5)
    return np.asarray(colormaps[METRICS](0.15 + 0.85 * place))


def ink(colour: Sequence[float]) -> str:
    """Return black or white, whichever is read better on a colour."""
    return "black" if float(np.dot(colour[:3], (0.3, 0.59, 0.11))) > 0.5 else "white"


def percent(change: float) -> str:
    """Write a change with its sign, a real minus included.

    >>> percent(-12.53), percent(0.01), percent(1234.0), percent(float("inf"))
    ('\N{MINUS SIGN}12.5', '0.0', '+1.2e+03', 'from 0')
    """
    if math.isinf(change):
        return "from 0"
    if abs(change) < ROUNDS_TO_ZERO:
        return "0.0"
    text = f"{change:+.1f}" if abs(change) < 1000 else f"{change:+.2g}"
    return text.replace("-", "\N{MINUS SIGN}", 1) if change < 0 else text


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


def colour_bar(
    figure: "Figure", spots: "list[Axes]", panels: Sequence[Panel], limit: float
) -> None:
    """Add a colour bar: what is better is up, whatever the sign of a change."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    signs = {panel.better or 1 for panel in panels}
    shades = colormaps[CHANGES](np.linspace(0.5 - ENDS, 0.5 + ENDS, 256))
    if signs == {-1}:
        shades = shades[::-1]
    cmap = LinearSegmentedColormap.from_list("gain", list(shades))
    bar = figure.colorbar(
        ScalarMappable(Normalize(-limit, limit), cmap),
        ax=spots,
        shrink=min(0.9, 4.5 / figure.get_figheight()),
        aspect=25,
        fraction=0.05,
        extend="both" if limit >= MOST else "neither",
    )
    kinds = {panel.absolute for panel in panels}
    unit = "points" if kinds == {True} else "%"
    text = f"change, {unit}"
    if len(signs) > 1:
        text = f"gain, {unit} (sign turned where less is better)"
    bar.set_label(text, fontsize=9)
    bar.ax.tick_params(labelsize=8)
