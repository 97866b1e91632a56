"""What a run is to compare at its end, checked before anything is simulated."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from allocator.counters import SCALARS
from allocator.errors import ConfigError
from allocator.point import GROUPS
from sweep.axes import Axis
from sweep.grid import Grid
from sweep.settings import CompareSettings


def check_compare(
    asked: CompareSettings, grid: Grid, *, typed: bool, options: Callable[[str], Sequence[str]]
) -> None:
    """Refuse a comparison that the finished dataset could not give.

    Parameters
    ----------
    asked
        The section `compare`.
    grid
        The grid.
    typed
        Whether the baseline stands on the command line. That of a configuration need not be in a
        grid that was narrowed: the report takes the next best.
    options
        Options of a group.

    Raises
    ------
    ConfigError
        If the metric is no variable, or the baseline no value of an axis.
    """
    if asked.metric is not None and asked.metric not in SCALARS:
        expected = f"one of {nearest(asked.metric, list(SCALARS))}"
        raise ConfigError("compare.metric", asked.metric, expected)
    if asked.baseline is None:
        return
    key, _, value = asked.baseline.partition("=")
    if key in GROUPS and value not in options(key):
        expected = f"{key}=VALUE, VALUE one of {nearest(value, options(key))}"
        raise ConfigError("compare.baseline", asked.baseline, expected)
    if not typed:
        return
    axes = {name: axis for axis in grid.axes for name in (axis.key, axis.name)}
    if key not in axes:
        names = ", ".join(axis.key for axis in grid.axes) or "none: nothing is swept"
        raise ConfigError("compare.baseline", asked.baseline, f"an axis of this grid: {names}")
    if not _has(axes[key], value):
        labels = ", ".join(axes[key].labels[:40])
        raise ConfigError("compare.baseline", asked.baseline, f"{key} one of {labels}")


def nearest(found: str, known: Sequence[str]) -> str:
    """Return what was expected, the names that look like what was found first.

    >>> nearest("v61", ["v5_10", "v6_1"])
    'v6_1, v5_10'
    """
    close = get_close_matches(found, known, n=3)
    return ", ".join([*close, *(name for name in known if name not in close)])


def _has(axis: Axis, value: str) -> bool:
    if value in axis.labels:
        return True
    try:
        return float(value) in [float(text) for text in axis.labels if text != "null"]
    except ValueError:
        return False
