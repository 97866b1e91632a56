"""Command lines: what makes this run again, and what runs its worst points on real hardware."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from allocator.errors import ConfigError
from allocator.point import GROUPS, Point, parse_group
from allocator.real_machine import RealRun, real_run
from sweep.answer.cells import Cells, label
from sweep.answer.compare import Comparison
from sweep.axes import label as as_typed


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHardware:
    """How to run one point on real hardware, for each compared value."""

    where: str
    runs: tuple[tuple[str, str], ...]
    """What it is for (`kernel=v6_1`), and lines for a shell; those that differ only in the kernel
    are one, with all kernels."""


def reproducing(provenance: Mapping[str, object]) -> str:
    """Return the command that makes the same run again, "" where the dataset does not tell.

    Parameters
    ----------
    provenance
        `Cells.provenance()`.
    """
    overrides = provenance.get("overrides")
    if isinstance(overrides, list):
        flags = provenance.get("flags")
        words = [*map(str, flags if isinstance(flags, list) else ()), *map(str, overrides)]
        return shlex.join(["python", "-m", "sweep", *words])
    command = provenance.get("command")  # of runs made before there were overrides
    words = shlex.split(command)[1:] if isinstance(command, str) else []
    if not words or any(word.startswith("resume=") for word in words):
        return ""
    dropped = ("--multirun", "hydra.sweep.dir=")
    return shlex.join(["python", "-m", "sweep", *(w for w in words if not w.startswith(dropped))])


def on_hardware(comparison: Comparison, points: Sequence[int]) -> list[OnHardware]:
    """Return how to run points on real hardware, baseline and compared values.

    Parameters
    ----------
    comparison
        What is compared.
    points
        Numbers of points in it.

    Returns
    -------
    list
        Nothing where the dataset does not hold the configurations of its groups.
    """
    cells = comparison.cells
    provenance = cells.provenance()
    found = []
    for place in comparison.places(points):
        runs: dict[RealRun, list[tuple[str, str]]] = {}
        for text in comparison.labels:
            compared = _values(cells, comparison.axis, text) if comparison.axis else {}
            try:
                point = point_of(provenance, {**place, **compared})
            except (ConfigError, KeyError, TypeError):  # made by another version of the model
                continue
            if point is None:
                return []
            name = " ".join(f"{key}={value}" for key, value in compared.items())
            run = real_run(point)
            runs.setdefault(replace(run, kernel=""), []).append((name, run.kernel))
        where = ", ".join(f"{axis}={value}" for axis, value in place.items())
        pairs = [
            (", ".join(name for name, _ in of if name), _lines(run, [kernel for _, kernel in of]))
            for run, of in runs.items()
        ]
        found.append(OnHardware(where=where, runs=tuple(pairs)))
    return found


def point_of(provenance: Mapping[str, object], place: Mapping[str, str]) -> Point | None:
    """Put a point of the grid together; None where the dataset does not hold what is needed.

    Parameters
    ----------
    provenance
        `Cells.provenance()`, of which `groups` and `axes` count.
    place
        Axis values as the dataset writes them.

    Raises
    ------
    ConfigError
        If this version of the model does not take the configuration.
    """
    groups, axes = provenance.get("groups"), provenance.get("axes")
    if not isinstance(groups, Mapping) or not isinstance(axes, Mapping):
        return None
    chosen = {key: place[name] for key in axes if (name := re.sub(r"[./@]", "_", key)) in place}
    parts = {}
    for group in GROUPS:
        table = groups[group]
        base = next(
            entry["config"]
            for entry in table["bases"]
            if all(chosen.get(key, text) == text for key, text in entry["choice"].items())
        )
        config = dict(base)
        for key in table["swept"]:
            _put(config, key.split(".")[1:], _value(axes[key], chosen[key]))
        parts[group] = parse_group(group, config)
    return Point.of(**parts)  # type: ignore[arg-type]


def _value(values: Sequence[object], text: str) -> object:
    """Return the value of an axis that the dataset writes as `text`."""
    return next(v for v in values if text in (as_typed(v), label(v)))


def _values(cells: Cells, axis: str, text: str) -> dict[str, str]:
    """Return the values of all axes along the compared dim at one of its values."""
    number = cells.labels(axis).index(text)
    return {part: cells.labels(part)[number] for part in cells.parts(axis)}


def _put(config: dict[str, object], path: Sequence[str], value: object) -> None:
    for key in path[:-1]:
        inner = config.get(key)
        config[key] = dict(inner) if isinstance(inner, Mapping) else {}
        config = config[key]  # type: ignore[assignment]
    config[path[-1]] = value


def _lines(run: RealRun, kernels: Sequence[str]) -> str:
    """Return lines for a shell, with what no shell can do as comments."""
    lines = [f"# machine  {run.machine}"]
    lines += ["# other CPUs and memory than the profile's; in qemu:"] if run.qemu else []
    lines += [f"#   {option}" for option in run.qemu]
    lines += [f"# kernel   {kernel}" for kernel in dict.fromkeys(kernels)]
    lines += [f"# boot     {' '.join(run.boot)}"] if run.boot else []
    lines += [f"# flags    {run.flags}, as the kernel's code has it"] if run.flags else []
    return "\n".join([*lines, *run.setup, run.command])
