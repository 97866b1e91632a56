"""Going on with a run: its command line is taken up again, and what changed since is looked at."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from allocator.errors import ConfigError
from allocator.simulate import MODEL_VERSION
from sweep.compose import GroupTable
from sweep.grid import Grid
from sweep.points import leaves
from sweep.store import read_run

KEY = "resume"


def taken_up(arguments: Sequence[str]) -> list[str]:
    """Put a resumed run's own command line before what is given now.

    An override that is given now replaces the run's own of the same key, at its place, so that axes
    keep their order.

    Parameters
    ----------
    arguments
        Command line; returned as it is without a `resume=DIR`.

    Raises
    ------
    ConfigError
        If DIR is not a run's directory.
    """
    wanted = [text.split("=", 1)[1] for text in arguments if _key(text) == KEY]
    if not wanted or wanted[-1] in ("", "null"):
        return list(arguments)
    folder = Path(wanted[-1].strip("'\"")).resolve()
    run = read_run(folder)
    given = {_key(text): text for text in arguments if "=" in text and not text.startswith("-")}
    given.pop(KEY, None)
    flags = [text for text in arguments if text not in given.values() and _key(text) != KEY]
    saved_flags = [str(text) for text in _list(run.get("flags"))]
    merged = [given.pop(_key(text), text) for text in map(str, _list(run["overrides"]))]
    place = [f"{KEY}='{folder}'", f"hydra.sweep.dir='{folder}'"]
    return [*saved_flags, *flags, *merged, *given.values(), *place]


def flags_of(arguments: Sequence[str]) -> list[str]:
    """Return the flags of a command line that a resumed run needs again: `--config-dir`."""
    kept = []
    for place, text in enumerate(arguments):
        if text in ("--config-dir", "-cd") and place + 1 < len(arguments):
            kept += ["--config-dir", os.path.abspath(arguments[place + 1])]
        elif text.startswith("--config-dir="):
            kept += ["--config-dir", os.path.abspath(text.split("=", 1)[1])]
    return kept


def remembered(
    tables: Mapping[str, GroupTable], grid: Grid, seeds: Sequence[int]
) -> dict[str, object]:
    """Return what a later resume compares itself with, as plain data."""
    return {
        "model_version": MODEL_VERSION,
        "seeds": list(seeds),
        "groups": {group: _remembered(table, grid) for group, table in tables.items()},
    }


def check_unchanged(old: Mapping[str, object], new: Mapping[str, object]) -> None:
    """Refuse to go on where points of the run would not be what they were.

    Parameters
    ----------
    old, new
        What `remembered` gave for the run, and gives now.

    Raises
    ------
    ConfigError
        If the model, the seed or a configuration changed; the text shows the difference.
    """
    hint = "; start a new run, or put it back"
    if old.get("model_version") != new["model_version"]:
        was = f"the run was made by version {old.get('model_version')} of the model{hint}"
        raise ConfigError("model_version", new["model_version"], f"no change: {was}")
    if not set(_list(old.get("seeds"))) & set(_list(new["seeds"])):
        was = f"{old.get('seeds')}, as in the run{hint}"
        raise ConfigError("seed", new["seeds"], was)
    old_groups, new_groups = old.get("groups"), new["groups"]
    if isinstance(old_groups, Mapping) and isinstance(new_groups, Mapping):
        for group, now in new_groups.items():
            if group in old_groups:
                _check_group(group, old_groups[group], now, hint)


def _check_group(
    group: str, old: Mapping[str, object], new: Mapping[str, object], hint: str
) -> None:
    """Compare a group where the choices are the same; without any, where they do not disagree."""
    swept = [str(key) for table in (old, new) for key in _list(table["swept"])]
    pairs = [
        (was["choice"] == now["choice"], _difference(group, was["config"], now["config"], swept))
        for was in _list(old["bases"])
        for now in _list(new["bases"])
        if isinstance(was, dict) and isinstance(now, dict) and _agree(was["choice"], now["choice"])
    ]
    same = [difference for is_same, difference in pairs if is_same]
    changed = [difference for difference in same if difference is not None]
    if not same and all(difference is not None for _, difference in pairs):
        changed = [difference for _, difference in pairs if difference is not None]
    if changed:
        key, found, expected = changed[0]
        raise ConfigError(key, found, f"{expected} as in the run{hint}")


def _agree(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return all(one[key] == other[key] for key in one.keys() & other.keys())


def _difference(
    group: str, was: object, now: object, swept: Sequence[str]
) -> tuple[str, object, object] | None:
    """Return key, new and old value of the first setting that differs."""
    before, after = dict(leaves(group, was, swept)), dict(leaves(group, now, swept))
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            found, expected = after.get(key, '"nothing"'), before.get(key, '"nothing"')
            return key, json.loads(found), json.loads(expected)
    return None


def _remembered(table: GroupTable, grid: Grid) -> dict[str, object]:
    bases = []
    for number, config in enumerate(table.bases):
        choice, rest = {}, number
        for dim in reversed(table.composed_dims):
            rest, place = divmod(rest, grid.dims[dim].size)
            for axis in grid.dims[dim].axes:
                choice[axis.key] = axis.labels[place]
        bases.append({"choice": choice, "config": config})
    return {"swept": [axis.key for _, axis in table.plain], "bases": bases}


def _key(text: str) -> str:
    return text.split("=", 1)[0].lstrip("+~") if "=" in text else text


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else []
