"""Reading a workload's keys: each field of its dataclass is one, with bounds."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from allocator.errors import ConfigError


def read_fields(
    cls: type[Any],
    config: Mapping[str, object],
    *,
    bounds: Mapping[str, tuple[float, float]],
    choices: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """Return checked values for the fields of a workload that a configuration gives.

    Parameters
    ----------
    cls
        The dataclass; an int field takes whole numbers only.
    config
        The `workload` group without `name`.
    bounds
        Smallest and largest value of each number.
    choices
        Words that each text field may be.

    Raises
    ------
    ConfigError
        If a key is unknown or a value is of the wrong type or out of bounds.
    """
    kinds = {item.name: item.type for item in fields(cls)}
    known = ", ".join(kinds)
    values: dict[str, Any] = {}
    for key, value in config.items():
        path = f"workload.{key}"
        if key not in kinds:
            raise ConfigError(path, value, f"no such key; known are {known or 'none'}")
        if key in choices:
            if value not in choices[key]:
                raise ConfigError(path, value, f"one of {', '.join(choices[key])}")
            values[key] = value
            continue
        low, high = bounds[key]
        whole = kinds[key] in (int, "int")
        accepted = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, accepted):
            raise ConfigError(path, value, "a whole number" if whole else "a number")
        if not low <= value <= high:
            raise ConfigError(path, value, f"{low} to {high}")
        values[key] = value if whole else float(value)
    return values
