"""What a command line asks for: axes, overrides that hold for all points, and their grid."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from allocator.errors import ConfigError
from sweep.axes import Axis, Interval, axis_of, filled
from sweep.baseline import check_compare
from sweep.compose import Composer
from sweep.grid import Dim, Grid, grid_of, narrowed
from sweep.sampling import sampled
from sweep.settings import GridSettings, Settings, values_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A grid, and what it took to ask for it."""

    grid: Grid
    """The grid."""
    fixed: tuple[str, ...]
    """Overrides that hold for all points."""
    spelled: tuple[str, ...]
    """Every override, the axes of a default grid too: what a resume repeats."""
    repeated: tuple[str, ...]
    """Overrides that ask for the same grid in a new run."""
    dropped: Mapping[str, str]
    """Axes of the experiment that are not swept, since others are typed; values by key."""
    settings: Settings
    """Everything beside the points."""
    config: Mapping[str, object]
    """The resolved configuration, axes at their default."""
    seeds: tuple[int, ...]
    """Root seed, or the values of the axis `seed`."""


class Reader:
    """Reads overrides."""

    def __init__(self, loader: ConfigLoader, master: DictConfig) -> None:
        """Read against a configuration, which knows the groups and their choices."""
        self._loader = loader
        self._parser = OverridesParser.create(config_loader=loader)
        self.choices: Mapping[str, object] = dict(master.hydra.runtime.choices)

    def parse(self, texts: Sequence[str]) -> list[Override]:
        """Parse overrides."""
        return list(self._parser.parse_overrides(list(texts)))

    def options(self, group: str) -> list[str]:
        """Return the options of a group."""
        return list(self._loader.get_group_options(group))

    def axis(self, override: Override) -> Axis | Interval:
        """Return the axis that a swept override is."""
        return axis_of(override, self._loader.get_group_options(override.key_or_group))

    def default_axes(self, master: DictConfig) -> dict[str, str]:
        """Return the grid that is swept when the command line has no axes.

        It is `hydra.sweeper.params`; those of an experiment replace those of the primary
        configuration, where Hydra by itself would mix the two.
        """
        plain = OmegaConf.to_container(master.hydra.sweeper.params, resolve=True)
        params = {str(key): value for key, value in dict(plain or {}).items()}  # type: ignore[arg-type]
        experiment = self.choices.get("experiment")
        if isinstance(experiment, str):
            own = _raw_params(self._loader, f"experiment/{experiment}")
            if own is not None:
                params = {key: params[key] for key in own}
        return {
            str(key): values_text(f"hydra.sweeper.params.{key}", v) for key, v in params.items()
        }


def request_of(
    loader: ConfigLoader, composer: Composer, master: DictConfig, arguments: Sequence[str]
) -> Request:
    """Turn a command line into a grid.

    Parameters
    ----------
    loader
        Hydra's loader of configurations.
    composer
        Composes configurations.
    master
        The configuration as Hydra composed it to find the sweeper.
    arguments
        Overrides of the task.

    Raises
    ------
    ConfigError
        If an axis or the grid cannot be used.
    HydraException, OmegaConfBaseException
        If an override cannot be read or does not fit.
    """
    reader = Reader(loader, master)
    overrides = reader.parse(arguments)
    swept = [override for override in overrides if override.is_sweep_override()]
    fixed = [str(override.input_line) for override in overrides if override not in swept]
    given = {override.key_or_group for override in overrides}
    if not any(override.is_delete() for override in overrides):
        composer.know(fixed, master)  # Hydra left the axes out
    typed = bool(swept)
    settings = Settings.from_config(composer.resolved(fixed))
    resuming = composer.resolved(fixed).get("resume") is not None
    if typed and not resuming:
        settings = replace(settings, grid=_only_typed(settings.grid, given))
    extra: list[str] = []
    dropped: dict[str, str] = {}
    if typed and not resuming and reader.choices.get("experiment"):
        dropped = {k: v for k, v in reader.default_axes(master).items() if k not in given}
    if not typed and not settings.grid.grids:
        for key, text in reader.default_axes(master).items():
            if key not in given:
                (override,) = reader.parse([f"{key}={text}"])
                extra.append(f"{key}={text}")
                if override.is_sweep_override():
                    swept.append(override)
                else:
                    fixed.append(f"{key}={text}")
        settings = Settings.from_config(composer.resolved(fixed))
    if "sweep.exclude" not in given:
        settings = replace(settings, grid=_around(settings.grid, overrides))
    config = composer.resolved(fixed)
    if settings.grid.grids and not typed:
        grid = _united(reader, settings, config)
    elif settings.grid.grids:
        keys = ", ".join(settings.grid.grids)
        raise ConfigError(
            "sweep.grids", keys, "no axes beside named grids: put them into the grids"
        )
    else:
        grid = _product([reader.axis(override) for override in swept], settings)
    check_compare(settings.compare, grid, typed="compare.baseline" in given, options=reader.options)
    seeds = next((axis.values for axis in grid.axes if axis.key == "seed"), (settings.seed,))
    for seed in seeds:
        if type(seed) is not int or seed < 0:
            raise ConfigError("seed", seed, "a whole number of at least 0")
    return Request(
        grid=grid,
        fixed=tuple(fixed),
        spelled=(*arguments, *extra),
        repeated=_repeated(arguments, settings.grid if typed and resuming else None, given),
        dropped=dropped,
        settings=settings,
        config=config,
        seeds=tuple(seeds),
    )


def _repeated(
    arguments: Sequence[str], resumed: GridSettings | None, given: set[str]
) -> tuple[str, ...]:
    """Return what asks for the same grid in a new run.

    What is typed is enough, but for a resumed run whose own axes were written out: axes that are
    typed in a new run drop the pairs and exclusions of the configuration.
    """
    kept = [text for text in arguments if not text.startswith("resume=")]
    if resumed is not None:
        for key, value in (("zip", resumed.zip), ("exclude", resumed.exclude)):
            if value and f"sweep.{key}" not in given:
                kept.append(f"sweep.{key}={json.dumps(value)}")
    return tuple(kept)


def _raw_params(loader: ConfigLoader, path: str) -> list[str] | None:
    """Return the keys of `hydra.sweeper.params` in one file of the configuration."""
    found = loader.repository.load_config(path)  # type: ignore[attr-defined]
    params = None if found is None else OmegaConf.select(found.config, "hydra.sweeper.params")
    return [str(key) for key in params] if params else None


def _only_typed(grid: GridSettings, given: set[str]) -> GridSettings:
    """Forget what the configuration says about its own axes, once others are typed."""
    return replace(
        grid,
        zip=grid.zip if "sweep.zip" in given else (),
        exclude=grid.exclude if "sweep.exclude" in given else (),
        grids=grid.grids if any(re.match(r"sweep\.grids\b", key) for key in given) else {},
    )


def _around(grid: GridSettings, overrides: Sequence[Override]) -> GridSettings:
    """Fit the configuration's exclusions to the axes that were given one value each."""
    pinned = {}
    for override in overrides:
        if not override.is_sweep_override() and not override.is_delete():
            key, text = override.key_or_group, override.get_value_element_as_str()
            pinned[key] = Axis(
                key=key, element=key, is_group=False, values=(override.value(),), texts=(text,)
            )
    return replace(grid, exclude=narrowed(grid.exclude, pinned))


def _product(axes: Sequence[Axis | Interval], settings: Settings) -> Grid:
    """Return the product of axes, intervals sampled."""
    intervals = [axis for axis in axes if isinstance(axis, Interval)]
    samples: dict[str, Axis] = {}
    if intervals:
        found = sampled(
            intervals,
            samples=settings.grid.samples,
            sampler=settings.grid.sampler,
            seed=settings.seed,
        )
        samples = {axis.key: axis for axis in found}
    return grid_of(
        [samples[a.axis.key] if isinstance(a, Interval) else a for a in axes],
        replicates=settings.replicates,
        paired=settings.grid.zip,
        samples=list(samples),
        exclude=settings.grid.exclude,
    )


def _united(reader: Reader, settings: Settings, config: Mapping[str, object]) -> Grid:
    """Return the union of named grids."""
    if settings.grid.zip:
        raise ConfigError("sweep.zip", settings.grid.zip, "nothing, where sweep.grids is given")
    grids = {
        name: {key: _axis_in_union(reader, key, text) for key, text in grid.items()}
        for name, grid in settings.grid.grids.items()
    }
    axes: dict[str, Axis] = {}
    for key in dict.fromkeys(key for grid in grids.values() for key in grid):
        parts = [grid[key] for grid in grids.values() if key in grid]
        if len(parts) < len(grids):
            parts.append(_default(reader, parts[0], config))
        axes[key] = _joined(parts)

    def inside(dims: Sequence[Dim]) -> NDArray[np.bool_]:
        cells = np.zeros([dim.size for dim in dims], dtype=np.bool_)
        for grid in grids.values():
            sides = []
            for (axis,) in (dim.axes for dim in dims):
                part = grid.get(axis.key) or _default(reader, axis, config)
                sides.append(np.array([name in part.labels for name in axis.labels]))
            cells[np.ix_(*sides)] = True
        return cells

    return grid_of(
        list(axes.values()),
        replicates=settings.replicates,
        exclude=settings.grid.exclude,
        inside=inside,
    )


def _axis_in_union(reader: Reader, key: str, text: str) -> Axis:
    (override,) = reader.parse([f"{key}={text}"])
    if not override.is_sweep_override():
        (override,) = reader.parse([f"{key}=choice({text})"])
    axis = reader.axis(override)
    if isinstance(axis, Interval):
        raise ConfigError(f"sweep.grids.*.{key}", text, "enumerated values in a named grid")
    return axis


def _default(reader: Reader, axis: Axis, config: Mapping[str, object]) -> Axis:
    """Return an axis with the single default of its key."""
    if axis.is_group:
        return filled(axis, [str(reader.choices[axis.key])], "default")
    return filled(axis, [OmegaConf.select(OmegaConf.create(dict(config)), axis.key)], "default")


def _joined(parts: Sequence[Axis]) -> Axis:
    """Return an axis with the values of all, each once, in order."""
    values: dict[str, tuple[object, str]] = {}
    for part in parts:
        for name, value, text in zip(part.labels, part.values, part.texts, strict=True):
            values.setdefault(name, (value, text))
    return parts[0].with_values(
        [value for value, _ in values.values()], [text for _, text in values.values()]
    )
