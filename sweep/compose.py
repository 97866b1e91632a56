"""Configurations of a grid, composed once per axis value and not once per point.

Hydra needs tens of milliseconds per composition, so a grid of a million points cannot be composed
point by point. Each group of the configuration depends on a few axes only: on its own choice, on
its own swept keys, and on whatever else is found to change it. A group is composed for each
combination of the choices it depends on; swept keys that merely replace one value are put in by
hand. `verified` then composes some points in full, and groups for which the shortcut does not hold
are composed for every combination.
"""

import copy
import itertools
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra.core.config_loader import ConfigLoader
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from allocator.errors import ConfigError
from allocator.point import GROUPS
from sweep.axes import Axis
from sweep.files import FILE_KEYS, with_files_read
from sweep.grid import Grid

Config = dict[str, object]

log = logging.getLogger(__name__)


class Composer:
    """Composes configurations by override lists; equal lists are composed once."""

    def __init__(self, loader: ConfigLoader, name: str, hydra: Sequence[str]) -> None:
        """Compose the primary config `name`, under the given `hydra.*` overrides."""
        self._loader = loader
        self._name = name
        self._hydra = list(hydra)
        self._known: dict[tuple[str, ...], tuple[Config, Config]] = {}
        self.count = 0
        """Compositions made so far."""
        _keep_files(loader)

    def know(self, overrides: Sequence[str], config: DictConfig) -> None:
        """Take over a configuration that Hydra composed already."""
        resolved, raw = _plain(config, resolve=True), _plain(config, resolve=False)
        self._known[tuple(overrides)] = resolved, raw

    def resolved(self, overrides: Sequence[str]) -> Config:
        """Return the whole task configuration as plain data, interpolations resolved."""
        return self._compose(tuple(overrides))[0]

    def group(self, overrides: Sequence[str], group: str) -> dict[str, object]:
        """Return one group of the resolved configuration, files it names read.

        Raises
        ------
        ConfigError
            If the group is not a mapping, or a file cannot be used.
        """
        found = self.resolved(overrides).get(group)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise ConfigError(group, found, "a configuration group, not a value")
        return with_files_read(group, found)

    def raw(self, overrides: Sequence[str]) -> Config:
        """Return the same with interpolations as they are written."""
        return self._compose(tuple(overrides))[1]

    def _compose(self, overrides: tuple[str, ...]) -> tuple[Config, Config]:
        if overrides not in self._known:
            config = self._loader.load_configuration(
                config_name=self._name,
                overrides=[*self._hydra, *overrides],
                run_mode=RunMode.RUN,
                validate_sweep_overrides=False,
            )
            self.count += 1
            self.know(overrides, config)
        return self._known[overrides]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTable:
    """Configurations of one group over the grid."""

    group: str
    """Name of the group."""
    dims: tuple[int, ...]
    """Numbers of the grid's dims that the group depends on, ascending."""
    sizes: tuple[int, ...]
    """Sizes of those dims; an entry's number counts through them in C order."""
    composed_dims: tuple[int, ...]
    """Those of `dims` along which configurations were composed."""
    bases: tuple[Mapping[str, object], ...]
    """Composed configurations, in C order of `composed_dims`."""
    plain: tuple[tuple[int, Axis], ...]
    """Axes whose value is put in by hand, with their dims."""

    def entry(self, number: int) -> dict[str, object]:
        """Return the configuration of one entry."""
        return self.entries(np.array([number], dtype=np.int64))[0]

    def entries(self, numbers: NDArray[np.int64]) -> list[dict[str, object]]:
        """Return the configurations of entries."""
        places = np.unravel_index(numbers, self.sizes) if self.sizes else ()
        where = dict(zip(self.dims, places, strict=True))
        which: NDArray[np.int64] = np.zeros(numbers.shape, dtype=np.int64)
        for dim in self.composed_dims:
            which = which * self.sizes[self.dims.index(dim)] + where[dim]
        configs = [dict(self.bases[number]) for number in which.reshape(-1).tolist()]
        for dim, axis in self.plain:
            path, values = _path(axis), axis.values
            for config, place in zip(configs, where[dim].tolist(), strict=True):
                _put(config, path, values[place])
        return configs

    def base(self, where: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the composed configuration of each point, as `numbers` does the entry."""
        shape = np.broadcast_shapes(*(index.shape for index in where))
        base = np.zeros(shape, dtype=np.int64)
        for dim in self.composed_dims:
            base = base * self.sizes[self.dims.index(dim)] + where[dim]
        return base

    def numbers(self, where: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the entry of each point, given its index along every dim of the grid."""
        shape = np.broadcast_shapes(*(index.shape for index in where))
        entry = np.zeros(shape, dtype=np.int64)
        for dim, size in zip(self.dims, self.sizes, strict=True):
            entry = entry * size + where[dim]
        return entry


def tables_of(composer: Composer, fixed: Sequence[str], grid: Grid) -> dict[str, GroupTable]:
    """Compose what the grid needs, group by group.

    Parameters
    ----------
    composer
        Composes the configurations.
    fixed
        Overrides that hold for all points.
    grid
        The grid.

    Raises
    ------
    HydraException, OmegaConfBaseException
        If an override does not fit the configuration.
    """
    varies = {group: _composed_axes(composer, fixed, grid, group) for group in GROUPS}
    return {group: _table(composer, fixed, grid, group, varies[group]) for group in GROUPS}


def verified(
    composer: Composer,
    fixed: Sequence[str],
    grid: Grid,
    tables: Mapping[str, GroupTable],
    cells: NDArray[np.int64],
) -> dict[str, GroupTable]:
    """Compose some points in full, and every combination of a group that comes out different.

    Parameters
    ----------
    cells
        Flat numbers of the points to compose, without the replicate, (cell,).
    """
    shape = tuple(dim.size for dim in grid.dims)
    right = dict(tables)
    for cell in cells.tolist():
        where = [np.array(i) for i in np.unravel_index(cell, shape)] if shape else []
        chosen = [a.overrides()[int(where[d])] for d, dim in enumerate(grid.dims) for a in dim.axes]
        for group in GROUPS:
            number = int(right[group].numbers(where).reshape(-1)[0])
            if right[group].entry(number) != composer.group([*fixed, *chosen], group):
                log.warning(
                    "%s depends on several axes at once: composing each combination in full", group
                )
                right[group] = _table(composer, fixed, grid, group, grid.axes)
    return right


def _composed_axes(
    composer: Composer, fixed: Sequence[str], grid: Grid, group: str
) -> tuple[Axis, ...]:
    """Return the axes for whose values a group must be composed."""
    corner = [axis.overrides()[0] for axis in grid.axes]
    first = composer.group([*fixed, *corner], group)
    raws = [composer.raw([*fixed, *corner]).get(group)]
    found: list[Axis] = []
    for place, axis in enumerate(grid.axes):
        if not _is_composed(axis):
            continue
        changed = False
        for override in axis.overrides()[1:]:
            varied = [*fixed, *corner[:place], override, *corner[place + 1 :]]
            changed |= composer.group(varied, group) != first
            raws.append(composer.raw(varied).get(group))
        if changed or axis.key == group:
            found.append(axis)
    roots = {root for raw in raws for root in _interpolated(raw)}
    if roots:
        found = [
            axis
            for axis in grid.axes
            if axis in found or axis.group in {group, *roots} or not roots <= {*GROUPS, "seed"}
        ]
    return tuple(found)


def _table(
    composer: Composer, fixed: Sequence[str], grid: Grid, group: str, composed: Sequence[Axis]
) -> GroupTable:
    """Compose a group for each combination of the given axes, the others at their first value."""
    plain = tuple(
        (d, axis)
        for d, dim in enumerate(grid.dims)
        for axis in dim.axes
        if axis.group == group and axis not in composed and not axis.is_group
    )
    composed_dims = sorted({grid.place(axis.key) for axis in composed})
    dims = sorted({*composed_dims, *(d for d, _ in plain)})
    bases = []
    for where in itertools.product(*(range(grid.dims[d].size) for d in composed_dims)):
        chosen = dict(zip(composed_dims, where, strict=True))
        overrides = [
            axis.overrides()[chosen.get(d, 0)]
            for d, dim in enumerate(grid.dims)
            for axis in dim.axes
        ]
        bases.append(composer.group([*fixed, *overrides], group))
    return GroupTable(
        group=group,
        dims=tuple(dims),
        sizes=tuple(grid.dims[d].size for d in dims),
        composed_dims=tuple(composed_dims),
        bases=tuple(bases),
        plain=plain,
    )


def _keep_files(loader: ConfigLoader) -> None:
    """Let Hydra read each file once in a run, and not once in a composition."""
    if isinstance(loader, ConfigLoaderImpl) and not isinstance(loader.repository, _KeptFiles):
        loader.repository = _KeptFiles(loader.repository)  # type: ignore[assignment]


class _KeptFiles(CachingConfigRepository):
    """Hydra copies the repository for each composition; this one is the same in all.

    That takes 0.55 times as long: YAML is read slowly. What is read is copied, since Hydra puts
    overrides into the very object.
    """

    def __deepcopy__(self, memo: dict[int, object]) -> "_KeptFiles":
        return self

    def load_config(self, config_path: str) -> ConfigResult | None:
        return copy.deepcopy(super().load_config(config_path))


def _is_composed(axis: Axis) -> bool:
    """Return whether an axis does more than replace one plain value."""
    if axis.is_group or axis.key in ("workload.name", *FILE_KEYS):
        return True
    return any(
        isinstance(value, dict) or (isinstance(value, str) and "${" in value)
        for value in axis.values
    )


def _interpolated(raw: object) -> set[str]:
    """Return the first keys of all interpolations in a configuration ("?": anything)."""
    if isinstance(raw, dict):
        return {root for value in raw.values() for root in _interpolated(value)}
    if isinstance(raw, list):
        return {root for value in raw for root in _interpolated(value)}
    if not isinstance(raw, str):
        return set()
    roots = set(re.findall(r"\$\{\s*([^.:}\s]*)", raw))
    return {root if root in (*GROUPS, "seed") else "?" for root in roots}


def _path(axis: Axis) -> list[str]:
    return axis.key.split(".")[1:]


def _put(config: dict[str, object], path: Sequence[str], value: object) -> None:
    """Set one key; the mappings on the way are copied, not shared with other entries."""
    for key in path[:-1]:
        inner = config.get(key)
        config[key] = dict(inner) if isinstance(inner, dict) else {}
        config = config[key]  # type: ignore[assignment]
    config[path[-1]] = value


def _plain(config: DictConfig, *, resolve: bool) -> Config:
    """Return a composed configuration as plain data, without Hydra's own part."""
    own = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    plain = OmegaConf.to_container(own, resolve=resolve, throw_on_missing=resolve)
    return {str(key): value for key, value in plain.items()} if isinstance(plain, dict) else {}
