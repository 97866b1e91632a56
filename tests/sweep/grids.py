"""Grids of the tests, built without Hydra."""

from collections.abc import Mapping, Sequence

import numpy as np
from hydra.core.override_parser.overrides_parser import OverridesParser

from allocator.point import GROUPS
from sweep.axes import Axis, Interval, axis_of
from sweep.compose import GroupTable
from sweep.grid import Grid
from sweep.points import Points, points_of

OPTIONS = {"kernel": ["v6_1", "v6_1_order_v2"], "machine": ["a", "b", "c"], "gfp": ["x", "y"]}

BASES: Mapping[str, Mapping[str, object]] = {
    "machine": {
        "name": "small",
        "arch": "x86_64",
        "cores_per_socket": 2,
        "node_memory_gib": {"value": 1, "source": "a test"},
        "frequency_ghz": {"value": 2.0, "source": "a test"},
        "transfer_ns": {"same_socket": {"value": 50.0, "source": "a test"}},
        "dram_ns": {
            "local": {"value": 100.0, "source": "a test"},
            "remote": {"value": 150.0, "source": "a test"},
        },
    },
    "topology": {},
    "kernel": {"preset": "v6_1", "slab": {}, "page": {}},
    "slab": {"max_order": None, "min_order": None, "min_objects": None},
    "gfp": {"flags": "GFP_KERNEL"},
    "workload": {"name": "counted"},
}


def axis(text: str) -> Axis:
    """Return the axis of an override."""
    found = interval_or_axis(text)
    assert isinstance(found, Axis)
    return found


def interval_or_axis(text: str) -> Axis | Interval:
    override = OverridesParser.create().parse_override(text)
    return axis_of(override, OPTIONS.get(override.key_or_group, []))


def plain_tables(
    grid: Grid, bases: Mapping[str, Mapping[str, object]] = BASES
) -> dict[str, GroupTable]:
    """Return tables for a grid whose axes are all plain values."""
    tables = {}
    for group in GROUPS:
        plain = tuple(
            (number, axis)
            for number, dim in enumerate(grid.dims)
            for axis in dim.axes
            if axis.group == group
        )
        dims = tuple(sorted({number for number, _ in plain}))
        tables[group] = GroupTable(
            group=group,
            dims=dims,
            sizes=tuple(grid.dims[number].size for number in dims),
            composed_dims=(),
            bases=(dict(bases[group]),),
            plain=plain,
        )
    return tables


def plain_points(grid: Grid, seeds: Sequence[int] = (0,)) -> Points:
    """Return the points of such a grid."""
    return points_of(grid, plain_tables(grid), seeds)


def numbers(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64)
