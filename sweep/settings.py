"""What a run is told beside its points: checked and typed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from allocator.errors import ConfigError
from allocator.point import GROUPS

KEYS = ("seed", "replicates", "on_error", "report", "resume", "sweep", "executor", "compare")
"""Keys of the configuration beside the groups of a point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSettings:
    """The `sweep` section; `sweep.grid` says what the keys mean."""

    zip: tuple[tuple[str, ...], ...]
    """Keys of axes that share a dim."""
    exclude: tuple[str, ...]
    """Clauses that name cells to leave out."""
    grids: Mapping[str, Mapping[str, str]]
    """Named grids that are united: values by key, as in an override."""
    samples: int
    """Samples of interval axes."""
    sampler: str
    """How intervals are sampled."""

    @classmethod
    def from_config(cls, config: object) -> Self:
        """Check the section.

        Raises
        ------
        ConfigError
            If a key is unknown or a value has another type.
        """
        given = _mapping("sweep", config, ("zip", "exclude", "grids", "samples", "sampler"))
        grids = {}
        for name, grid in _mapping("sweep.grids", given.get("grids") or {}).items():
            axes = _mapping(f"sweep.grids.{name}", grid)
            grids[name] = {
                key: values_text(f"sweep.grids.{name}.{key}", v) for key, v in axes.items()
            }
        return cls(
            zip=tuple(
                tuple(_texts(f"sweep.zip[{i}]", pair))
                for i, pair in enumerate(_list("sweep.zip", given.get("zip")))
            ),
            exclude=tuple(_texts("sweep.exclude", given.get("exclude"))),
            grids=grids,
            samples=_whole("sweep.samples", given.get("samples", 16), 1),
            sampler=_text("sweep.sampler", given.get("sampler", "latin_hypercube")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """The `executor` group."""

    name: str
    """`ray` or `inline`."""
    address: str = "local"
    """Which Ray: `local` (a new one), `auto`, `host:port`, `ray://host:port`."""
    cpus: int | None = None
    """CPUs to use; None: all."""
    auth: str | None = None
    """`RAY_AUTH_MODE`; None: `disabled` for a local Ray, else what the environment has."""
    ship: bool = True
    """Whether this code is sent to a cluster's workers."""
    task_seconds: float = 0.8
    """How long one task should last."""
    chunk: int | None = None
    """Points per task; None: by measured time."""

    @classmethod
    def from_config(cls, config: object) -> Self:
        """Check the group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        given = _mapping("executor", config, tuple(cls.__dataclass_fields__))
        name = given.get("name")
        if name not in ("ray", "inline"):
            raise ConfigError("executor.name", name, "ray or inline")
        seconds = given.get("task_seconds", 0.8)
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds <= 0:
            raise ConfigError("executor.task_seconds", seconds, "a positive number of seconds")
        auth = given.get("auth")
        if auth not in (None, "disabled", "token"):
            raise ConfigError("executor.auth", auth, "disabled, token or null")
        cpus, chunk = given.get("cpus"), given.get("chunk")
        return cls(
            name=str(name),
            address=_text("executor.address", given.get("address", "local")),
            cpus=None if cpus is None else _whole("executor.cpus", cpus, 1),
            auth=None if auth is None else str(auth),
            ship=_flag("executor.ship", given.get("ship", True)),
            task_seconds=float(seconds),
            chunk=None if chunk is None else _whole("executor.chunk", chunk, 1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareSettings:
    """The `compare` section: what a run reports at its end."""

    baseline: str | None = None
    """`axis=value` to compare the axis's other values with; None: no comparison."""
    metric: str | None = None
    """Variable to judge by; None: each workload's own."""
    html: bool = True
    """Whether a self-contained page is written, too."""

    @classmethod
    def from_config(cls, config: object) -> Self:
        """Check the section.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        given = _mapping("compare", config, tuple(cls.__dataclass_fields__))
        baseline, metric, html = (given.get(key) for key in cls.__dataclass_fields__)
        if baseline is not None:
            axis, equals, value = _text("compare.baseline", baseline).partition("=")
            if not (equals and value) or re.split(r"[./@]", axis)[0] not in (*GROUPS, "seed"):
                able = f"AXIS=VALUE, an axis in {', '.join(GROUPS)}"
                raise ConfigError("compare.baseline", baseline, able)
        if html not in (None, False, True):
            raise ConfigError("compare.html", html, "true or false")
        return cls(
            baseline=None if baseline is None else str(baseline),
            metric=None if metric is None else _text("compare.metric", metric),
            html=html is not False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of it."""

    seed: int
    """Root seed."""
    replicates: int
    """Size of the dim `replicate`."""
    stop_on_error: bool
    """Whether no new points start after the first failure."""
    report: bool
    """Whether tables and pictures are made at the end."""
    grid: GridSettings
    """How axes become a grid."""
    executor: ExecutorSettings
    """Where chunks run."""
    compare: CompareSettings
    """What is reported at the end."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check the configuration beside its groups.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        _mapping("", config, (*KEYS, *GROUPS))
        on_error = config.get("on_error")
        if on_error not in ("continue", "stop"):
            raise ConfigError("on_error", on_error, "continue or stop")
        return cls(
            seed=_whole("seed", config.get("seed"), 0),
            replicates=_whole("replicates", config.get("replicates"), 1),
            stop_on_error=on_error == "stop",
            report=_flag("report", config.get("report", True)),
            grid=GridSettings.from_config(config.get("sweep") or {}),
            executor=ExecutorSettings.from_config(config.get("executor") or {}),
            compare=CompareSettings.from_config(config.get("compare") or {}),
        )


def values_text(key: str, value: object) -> str:
    """Return the values of an axis as the right-hand side of an override.

    Raises
    ------
    ConfigError
        If they are neither text (`"0,1,2"`) nor a list nor one value.
    """
    if isinstance(value, list):
        return f"choice({','.join(_item(key, item) for item in value)})"
    return _item(key, value)


def _item(key: str, value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigError(key, value, 'values as in an override, such as "0,1,2" or [0, 1, 2]')


def _mapping(key: str, value: object, known: tuple[str, ...] | None = None) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigError(key, value, "a mapping")
    for name in value:
        if known is not None and name not in known:
            path = f"{key}.{name}" if key else str(name)
            raise ConfigError(path, value[name], f"one of the keys {', '.join(known)}")
    return {str(name): item for name, item in value.items()}


def _list(key: str, value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigError(key, value, "a list")
    return value


def _texts(key: str, value: object) -> list[str]:
    return [_text(key, item) for item in _list(key, value)]


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(key, value, "text")
    return value


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(key, value, "true or false")
    return value


def _whole(key: str, value: object, least: int) -> int:
    if type(value) is not int or value < least:
        raise ConfigError(key, value, f"a whole number of at least {least}")
    return value
