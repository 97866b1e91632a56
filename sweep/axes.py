"""An axis: one swept override, and the values it takes."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hydra.core.override_parser.types import (
    ChoiceSweep,
    IntervalSweep,
    Override,
    QuotedString,
    RangeSweep,
    Sweep,
    Transformer,
)
from numpy.typing import NDArray

from allocator.errors import ConfigError
from allocator.point import GROUPS

Value = Any
"""A value of an axis: str, int, float, bool, None, or a list or dict of them (Hydra's types)."""

Coordinate = NDArray[np.int64] | NDArray[np.float64] | NDArray[np.str_]

DIGITS = 12
"""Significant digits kept of a float: `range(1.0,2.0,0.1)` ends at 1.9, not 1.9000000000000001."""

MAX_VALUES = 10_000_000
"""Longest axis and largest grid; more is taken for a slip of the pen."""

_NUMBER_LIKE = re.compile(r"0[xX][0-9a-fA-F]+|\d+(\.\d+)?[kKmMgGtT]i?[bB]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One swept override."""

    key: str
    """The override's key: a group (`machine`) or the path of a value (`slab.max_order`)."""
    element: str
    """The key as typed, with its `+` or `++` if it has one."""
    is_group: bool
    """Whether the values are options of a group, rather than values of one key."""
    values: tuple[Value, ...]
    """The values, in the order given."""
    texts: tuple[str, ...]
    """Each value as an override spells it."""

    @property
    def name(self) -> str:
        """Name of the dim or coord: the key with underscores for dots."""
        return re.sub(r"[./@]", "_", self.key)

    @property
    def group(self) -> str:
        """First component of the key."""
        return re.split(r"[./@]", self.key, maxsplit=1)[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """Each value as one would type it, without quotes."""
        return tuple(label(value) for value in self.values)

    def overrides(self) -> list[str]:
        """Return the override that chooses each value."""
        return [f"{self.element}={text}" for text in self.texts]

    def coordinate(self) -> Coordinate:
        """Return the coordinate, (value,).

        Numbers stay numbers (int64 if all are whole numbers, else float64). An axis with anything
        else - options of a group, `null`, `true`, text, lists - has a text coordinate, each value
        as it is typed in an override: `ds.sel(slab_max_order="null")`.
        """
        if all(type(value) is int and abs(value) < 1 << 63 for value in self.values):
            return np.array(self.values, dtype=np.int64)
        if all(type(value) in (int, float) for value in self.values):
            return np.array(self.values, dtype=np.float64)
        return np.array(self.labels, dtype=np.str_)

    def with_values(self, values: Sequence[Value], texts: Sequence[str]) -> "Axis":
        """Return the same axis with other values."""
        return Axis(
            key=self.key,
            element=self.element,
            is_group=self.is_group,
            values=tuple(values),
            texts=tuple(texts),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An axis that is not enumerated yet: `interval(low, high)`, sampled later."""

    axis: Axis
    """The axis, without values."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""
    whole: bool
    """Whether the samples are whole numbers: `int(interval(...))`, both ends included."""
    log: bool
    """Whether the samples are spread evenly in the logarithm: `tag(log, interval(...))`."""


def label(value: Value) -> str:
    """Return a value as one would type it."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else Transformer.str(value)


def axis_of(override: Override, options: Sequence[str]) -> Axis | Interval:
    """Read one swept override.

    Parameters
    ----------
    override
        A parsed override for which `is_sweep_override()` holds.
    options
        Options of the configuration group that the key names; empty if it names a value.

    Raises
    ------
    ConfigError
        If the key cannot be swept, the values are nested, shuffled, repeated or none, or a group
        has no such option.
    """
    key, given = override.key_or_group, _given(override)
    root = re.split(r"[./@]", key, maxsplit=1)[0]
    if override.is_delete() or (root not in GROUPS and key != "seed"):
        able = f"one value (an axis lies in {', '.join(GROUPS)}, or is seed)"
        raise ConfigError(key, given, able)
    element = override.get_key_element()
    empty = Axis(key=key, element=element, is_group=bool(options), values=(), texts=())
    sweep = override.value()
    if isinstance(sweep, IntervalSweep):
        return _interval(empty, sweep, given)
    if isinstance(sweep, ChoiceSweep | RangeSweep) and sweep.shuffle:
        raise ConfigError(key, given, "an order: shuffle() means nothing on an axis of a grid")
    if isinstance(sweep, RangeSweep) and _length(sweep) > MAX_VALUES:
        raise ConfigError(key, given, f"at most {MAX_VALUES:,} values")
    elements = list(override.sweep_iterator())
    if any(isinstance(element, Sweep) for element in elements):
        raise ConfigError(key, given, "one flat list of values, such as 64,128,256")
    axis = filled(empty, [_rounded(element) for element in elements], given)
    for value in axis.values:
        if options and value not in options:
            raise ConfigError(key, value, f"one of {', '.join(options)}")
    return axis


def filled(axis: Axis, elements: Sequence[Value], given: object) -> Axis:
    """Give an axis its values.

    Raises
    ------
    ConfigError
        If there are none, or one comes twice.
    """
    if not elements:
        raise ConfigError(axis.key, given, "at least one value")
    values = [_plain(element) for element in elements]
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        raise ConfigError(axis.key, given, "finite numbers")
    full = axis.with_values(values, [Transformer.str(element) for element in elements])
    seen: dict[object, str] = {}
    for place, name in zip(full.coordinate().tolist(), full.labels, strict=True):
        if place in seen:
            raise ConfigError(axis.key, given, f"each value once ({name} comes twice)")
        seen[place] = name
    return full


def number_hint(value: object) -> str:
    """Return a hint for text that looks like a number to a person and not to Hydra, or nothing."""
    if isinstance(value, str) and _NUMBER_LIKE.fullmatch(value):
        return f" ({value} is text to Hydra: write the number out in decimal)"
    return ""


def _given(override: Override) -> str:
    """Return the right-hand side as typed."""
    line = override.input_line or ""
    return line.split("=", 1)[1] if "=" in line else line


def _length(sweep: RangeSweep) -> float:
    """Return how many values a range has, without making them."""
    if sweep.start is None or sweep.stop is None or not sweep.step:
        return math.inf
    return math.ceil((sweep.stop - sweep.start) / sweep.step)


def _plain(element: Value) -> Value:
    """Return a parsed element as plain data."""
    if isinstance(element, QuotedString):
        return element.text
    if isinstance(element, list):
        return [_plain(item) for item in element]
    if isinstance(element, dict):
        return {str(_plain(key)): _plain(item) for key, item in element.items()}
    return element


def _rounded(element: Value) -> Value:
    return float(f"{element:.{DIGITS}g}") if isinstance(element, float) else element


def _interval(axis: Axis, sweep: IntervalSweep, given: str) -> Interval:
    low, high = sweep.start, sweep.end
    if low is None or high is None or not low < high:
        raise ConfigError(axis.key, given, "interval(low, high) with low < high")
    log = "log" in sweep.tags
    if log and low <= 0:
        raise ConfigError(axis.key, given, "a positive low end for a logarithmic interval")
    whole = type(low) is int and type(high) is int
    return Interval(axis=axis, low=float(low), high=float(high), whole=whole, log=log)
