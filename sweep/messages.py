"""Hydra's errors in one line: the key, what was found there, what was expected."""

import re

from hydra.errors import (
    ConfigCompositionException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from allocator.errors import ConfigError
from sweep.axes import number_hint


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
    path = (error.missing_cfg_file or "").strip("/")
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
        known = [str(name) for name in parent if name != "hydra"]
        within = key.rpartition(".")[0]
        where = f"keys of {within}" if within else "keys and groups"
        names = ", ".join(known) or f"none yet, +{key}=... adds one"
        return f"{key}: no such key; {where}: {names}"
    text = f"{key}: {reason}" if key and not reason.startswith(key) else reason
    said = re.sub(r"\s*Set the environment.*", "", said)
    return text or _line(said)


def _line(text: str) -> str:
    return "; ".join(part.strip() for part in text.strip().splitlines() if part.strip())
