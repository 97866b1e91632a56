"""The geometry workload: the same numbers as one cache at a time, shared by lanes."""

from types import SimpleNamespace

import numpy as np
import pytest

from allocator import counters
from allocator.errors import ConfigError
from allocator.kernels import PRESETS
from allocator.results import Results, Status
from allocator.slabs.geometry import cache_geometry
from allocator.slabs.parameters import SlabParameters
from allocator.topology import Topology
from allocator.workloads.geometry import Geometry
from allocator.workloads.registry import workload_from_config

SMALL = Topology.from_config({"cpus": [2], "memory_bytes": ["1GiB"]})
LARGE = Topology.from_config({"cpus": [64, 64], "memory_bytes": ["64GiB", "64GiB"]})


def point(
    kernel: str = "v6_1",
    topology: Topology | None = SMALL,
    workload: Geometry | None = None,
    **slab: object,
) -> SimpleNamespace:
    return SimpleNamespace(
        kernel=PRESETS[kernel],
        topology=topology,
        slab=SlabParameters(**slab),
        workload=workload or Geometry(),
    )


def run(*points: SimpleNamespace) -> Results:
    return points[0].workload.run(points, [])


def test_it_is_registered_with_its_defaults() -> None:
    workload = workload_from_config(
        {"name": "geometry", "kmalloc": True, "caches": {}, "thp": True}
    )
    assert workload == Geometry()


def test_every_cache_equals_its_geometry_alone() -> None:
    points = [
        point(kernel, topology, max_order=order, cpu_partial=objects)
        for kernel in ("v5_10", "v6_1", "v6_1_order_v2", "v6_12", "v7_3")
        for topology in (SMALL, LARGE)
        for order in (None, 0, 2)
        for objects in (None, 7)
    ]
    caches = run(*points).tables["caches"]
    assert caches.labels[:3] == ("kmalloc-8", "kmalloc-16", "kmalloc-32")
    for lane, where in enumerate(points):
        for column, spec in enumerate(where.workload.caches(where)):
            alone = cache_geometry(
                where.kernel.slab,
                where.topology,
                where.slab,
                name=spec.name,
                object_size=spec.object_size,
                align=spec.align,
                flags=spec.flags,
            )
            for name, values in caches.values.items():
                if name != "waste_percent":
                    assert values[lane, column] == getattr(alone, name), (where, spec, name)


def test_lanes_do_not_depend_on_their_company() -> None:
    points = [point(max_order=order, min_objects=n) for order in (0, 1, 3) for n in (None, 4, 30)]
    together = run(*points)
    for lane, alone in enumerate(run(single) for single in points):
        for name, values in together.scalars.items():
            assert values[lane] == alone.scalars[name][0]


def test_the_order_patch_halves_the_objects_and_doubles_the_slabs() -> None:
    base, patched = point("v6_1", LARGE), point("v6_1_order_v2", LARGE)
    result = run(base, patched)
    column = result.tables["caches"].labels.index("kmalloc-512")
    assert result.tables["caches"].values["order"][:, column].tolist() == [3, 2]
    assert result.tables["caches"].values["cpu_partial_slabs"][:, column].tolist() == [2, 4]


def test_zones_and_reserves_follow_the_memory() -> None:
    result = run(point(topology=SMALL), point(topology=LARGE))
    zones = result.tables["zones"]
    assert zones.labels == ("N0.DMA", "N0.DMA32", "N0.Normal", "N1.Normal")
    assert zones.values["managed"][0].tolist()[2:] == [0, 0]
    assert result.scalars["min_free_kbytes"].tolist() == [45056, 90112]
    assert np.all(zones.values["low"] >= zones.values["min"])


def test_further_caches_are_taken_by_name() -> None:
    workload = Geometry.from_config(
        {
            "kmalloc": False,
            "caches": {"a": 700, "b": {"size": 176, "flags": ["HWCACHE_ALIGN"], "align": 16}},
        }
    )
    table = run(point(workload=workload)).tables["caches"]
    assert table.labels == ("a", "b")
    assert table.values["slab_size"].tolist() == [[704, 192]]
    assert table.values["waste_percent"][0, 0] == pytest.approx(100 * (16384 - 23 * 700) / 16384)


def test_a_cache_that_no_order_holds_fails_its_lane_alone() -> None:
    workload = Geometry.from_config({"kmalloc": False, "caches": {"huge": 33000}})
    result = run(*(point(kernel, workload=workload) for kernel in ("v6_1", "v6_1_order_v2")))
    assert result.status.tolist() == [Status.OK, Status.FAILED]
    assert result.errors == {1: "cache huge: no order holds an object"}


def test_every_variable_is_registered() -> None:
    result = run(point())
    assert result.scalars.keys() <= counters.SCALARS.keys()
    for group, table in result.tables.items():
        assert table.values.keys() <= counters.TABLES[group].keys()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"cache": {}}, r"workload\.cache: found {}, expected no such key"),
        ({"caches": [1]}, r"workload\.caches: found \[1\], expected sizes by name"),
        ({"caches": {"a": "big"}}, r"workload\.caches\.a: found 'big'"),
        ({"caches": {"a": 0}}, r"workload\.caches\.a\.object_size: found 0"),
        ({"caches": {"a": {"size": 8, "color": 1}}}, r"workload\.caches\.a\.color: found 1"),
        ({"caches": {"a": {"size": 8, "align": 3}}}, r"workload\.caches\.a\.align: found 3"),
        ({"caches": {"a": {"size": 8, "flags": ["X"]}}}, r"caches\.a\.flags: found 'X'"),
        ({"kmalloc": False}, r"workload\.caches: found {}, expected a cache"),
        ({"thp": "always"}, r"workload\.thp: found 'always', expected true or false"),
    ],
)
def test_bad_configurations_are_one_line(config: dict, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Geometry.from_config(config)
