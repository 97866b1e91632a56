"""Aliases of caches and the names of their directories."""

import pytest

from allocator.kernels import PRESETS
from allocator.slabs.cache import CacheSpec
from allocator.slabs.merging import merge_caches
from allocator.slabs.parameters import SlabParameters
from allocator.topology import Topology

TOPOLOGY = Topology.from_config({"cpus": [2], "memory_bytes": ["1GiB"]})


def spec(name: str, size: int, *flags: str, **more: int) -> CacheSpec:
    return CacheSpec(name=name, object_size=size, flags=frozenset(flags), **more)


def merged(kernel: str, *specs: CacheSpec, **parameters: object) -> dict[str, list[str]]:
    assert TOPOLOGY is not None
    made = merge_caches(specs, PRESETS[kernel].slab, TOPOLOGY, SlabParameters(**parameters))
    return {cache.names[0]: [cache.directory, *cache.names[1:]] for cache in made}


def test_caches_of_nearly_one_size_share_the_oldest() -> None:
    got = merged(
        "v6_1", spec("a", 176, "HWCACHE_ALIGN"), spec("b", 184, "HWCACHE_ALIGN"), spec("c", 192)
    )
    assert got == {"a": [":0000192", "b", "c"]}


def test_flags_that_count_keep_caches_apart_and_name_them() -> None:
    got = merged(
        "v6_1",
        spec("plain", 104),
        spec("reclaimable", 104, "RECLAIM_ACCOUNT"),
        spec("charged", 104, "ACCOUNT"),
        spec("both", 104, "RECLAIM_ACCOUNT", "ACCOUNT"),
    )
    assert [names[0] for names in got.values()] == [
        ":0000104",
        ":a-0000104",
        ":A-0000104",
        ":aA-0000104",
    ]


@pytest.mark.parametrize(
    "second",
    [
        spec("ctor", 192, "CTOR"),
        spec("rcu", 192, "TYPESAFE_BY_RCU"),
        spec("own", 192, "NO_MERGE"),
        spec("copied", 192, usersize=192),
        spec("small", 176),
        spec("large", 200),
    ],
    ids=lambda cache: cache.name,
)
def test_some_caches_stay_alone(second: CacheSpec) -> None:
    got = merged("v6_1", spec("first", 192), second)
    assert got["first"] == [":0000192"]
    assert second.name in got


def test_merging_may_be_switched_off_or_stopped_by_debugging() -> None:
    pair = (spec("a", 64), spec("b", 64))
    assert merged("v6_1", *pair, merge=False) == {"a": ["a"], "b": ["b"]}
    assert merged("v6_1", *pair, debug="P,b") == {"a": [":0000064"], "b": ["b"]}
    assert merged("v6_1", *pair, debug="F") == {"a": [":F-0000064", "b"]}


def test_3_13_merges_into_the_newest_and_marks_trackable_caches() -> None:
    three = (spec("a", 192), spec("b", 200), spec("c", 192))
    assert merged("v3_13", *three)["a"] == [":t-0000192", "c"]
    pair = (spec("a", 192, "HWCACHE_ALIGN"), spec("b", 192, "RECLAIM_ACCOUNT"))
    assert merged("v3_13", *pair)["b"] == [":at-0000192"]


def test_an_explicit_sheaf_capacity_forbids_merging() -> None:
    pair = (spec("a", 64), spec("b", 64, sheaf_capacity=32))
    assert merged("v7_3", *pair) == {"a": [":0000064"], "b": ["b"]}
    assert merged("v6_1", *pair) == {"a": [":0000064", "b"]}


def test_the_largest_alias_sets_the_object_size() -> None:
    assert TOPOLOGY is not None
    made = merge_caches(
        [spec("a", 185), spec("b", 190)], PRESETS["v6_1"].slab, TOPOLOGY, SlabParameters()
    )
    assert [cache.spec.object_size for cache in made] == [190]
