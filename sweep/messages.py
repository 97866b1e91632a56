"""Hydra's errors in one line: the key, what was found there, what was expected."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import get_type_hints

from hydra.errors import (
    ConfigCompositionException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from allocator.errors import ConfigError
from allocator.kernel import Kernel
from allocator.point import GROUPS
from allocator.workloads.registry import PLACES, workload_named
from sweep.axes import number_hint
from sweep.baseline import nearest


def hydra_message(error: Exception) -> str:
    """Return one line that says what is wrong with a command line or configuration."""
    if isinstance(error, ConfigError):
        return _line(f"{error}{number_hint(error.found)}")
    if isinstance(error, OverrideParseException):
        text = _line(str(error).split("See https", 1)[0])
        return f"{error.override}: cannot be read as an override ({text})"
    if isinstance(error, MissingConfigException):
        return _missing(error)
    cause = error.__cause__
    if isinstance(error, ConfigCompositionException) and isinstance(cause, OmegaConfBaseException):
        return _omegaconf(cause, str(error))
    if isinstance(error, OmegaConfBaseException):
        return _omegaconf(error, "")
    return _line(str(error))


def yaml_message(error: YAMLError) -> str:
    """Return one line that says where a file is no YAML."""
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return _line(str(error))
    mark = error.problem_mark
    return _line(f"{mark.name}:{mark.line + 1}: found YAML that cannot be read ({error.problem})")


def is_from_hydra(error: Exception) -> bool:
    """Return whether Hydra or OmegaConf raised an error, of whatever type."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in ("hydra", "omegaconf", "antlr4")


def _missing(error: MissingConfigException) -> str:
    """Name the options of the group whose option is missing."""
    path = (error.missing_cfg_file or "").lstrip("/")
    group, _, option = path.rpartition("/")
    options = ", ".join(error.options or ())
    if not group:
        return _line(str(error).split("Search path", 1)[0].split("Config search", 1)[0])
    return f"{group}: found {option!r}, expected one of {options or 'no option: no such group'}"


def _omegaconf(error: OmegaConfBaseException, said: str) -> str:
    """Name the key in full, and its neighbours."""
    key = error.full_key or (str(error.key) if error.key is not None else "")
    parent = error.parent_node
    reason = _line(str(error).split("full_key", 1)[0])
    if "is not in struct" in reason and parent is not None:
        within, _, name = key.rpartition(".")
        if policy := _fields(within):
            return f"{key}: no such key yet: +{within}.KEY=... sets one of {nearest(name, policy)}"
        known = [str(name) for name in parent if name != "hydra"]
        where = f"keys of {_choice(within, parent)}" if within else "keys and groups"
        return f"{key}: no such key{_elsewhere(within, name)}; {where}: {nearest(name, known)}"
    text = f"{key}: {reason}" if key and not reason.startswith(key) else reason
    said = re.sub(r"\s*Set the environment.*", "", said)
    return text or _line(said)


def _fields(section: str) -> list[str]:
    """Return what a section of a kernel may hold: its policy's fields (`+` adds one)."""
    group, _, part = section.partition(".")
    if group != "kernel" or part not in ("slab", "page"):
        return []
    return [field.name for field in fields(get_type_hints(Kernel)[part])]


def _choice(section: str, parent: Iterable[object]) -> str:
    """Name a section, and the option of its group that is chosen (`workload=hugepages`)."""
    name = parent.get("name") if isinstance(parent, Mapping) else None
    return f"{section}={name}" if section in GROUPS and isinstance(name, str) else section


def _elsewhere(section: str, key: str) -> str:
    """Say which workloads have a key that the chosen one lacks."""
    if section != "workload":
        return ""
    having = [name for name in PLACES if hasattr(workload_named(name), "__dataclass_fields__")]
    having = [n for n in having if key in workload_named(n).__dataclass_fields__]  # type: ignore[attr-defined]
    return f" in all workloads of this grid (it is one of {', '.join(having)})" if having else ""


def _line(text: str) -> str:
    return "; ".join(part.strip() for part in text.strip().splitlines() if part.strip())
