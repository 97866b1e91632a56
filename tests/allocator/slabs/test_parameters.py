"""SLUB parameters: what is accepted, what is refused, and how orders are coupled."""

import pytest

from allocator.errors import ConfigError
from allocator.kernels import PRESETS
from allocator.slabs.parameters import SlabParameters
from allocator.topology import Topology

TOPOLOGY = Topology.from_config({"cpus": [2], "memory_bytes": ["1GiB"]})
OLD, NEW = PRESETS["v6_1"].slab, PRESETS["v6_12"].slab


def orders(policy, **parameters: object) -> tuple[int, int]:
    assert TOPOLOGY is not None
    return SlabParameters(**parameters).orders(policy, TOPOLOGY)


def test_null_means_the_kernels_own() -> None:
    assert SlabParameters.from_config({"max_order": None}) == SlabParameters()
    assert orders(OLD) == (0, 3)
    assert orders(PRESETS["v6_1_order_v2"].slab) == (0, 2)


def test_the_largest_buddy_order_caps_slub_max_order() -> None:
    assert orders(OLD, max_order=15) == (0, 10)


def test_6_12_keeps_the_orders_consistent_and_6_1_does_not() -> None:
    assert orders(OLD, max_order=2, min_order=4) == (4, 2)
    assert orders(NEW, max_order=2, min_order=4) == (4, 4)
    assert orders(NEW, max_order=2, min_order=4, min_order_last=False) == (2, 2)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"max_orders": 1}, r"slab\.max_orders: found 1, expected no such key"),
        ({"max_order": "3"}, r"slab\.max_order: found '3', expected null or a number"),
        ({"min_order": -1}, r"slab\.min_order: found -1"),
        ({"min_objects": 2.5}, r"slab\.min_objects: found 2\.5"),
        ({"cpu_partial": True}, r"slab\.cpu_partial: found True"),
        ({"remote_node_defrag_ratio": 101}, r"ratio: found 101, .* from 0 to 100"),
        ({"debug": "FQ"}, r"slab\.debug: found 'FQ', expected letters out of FZPUTAO"),
        ({"merge": 1}, r"slab\.merge: found 1, expected true or false"),
    ],
)
def test_what_cannot_be_used_is_one_line(config: dict, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        SlabParameters.from_config(config)


@pytest.mark.parametrize("name", ["max_order", "min_order"])
def test_an_order_above_the_machines_largest_is_refused(name: str) -> None:
    assert TOPOLOGY is not None
    with pytest.raises(ConfigError, match=rf"^slab\.{name}: found 11, expected at most 10"):
        SlabParameters(**{name: 11}).check(TOPOLOGY)


@pytest.mark.parametrize(
    ("debug", "cache", "letters"),
    [
        (None, "dentry", ""),
        ("", "dentry", "FZPU"),
        ("-", "dentry", "-"),
        ("fz", "dentry", "FZ"),
        (",dentry", "dentry", "FZPU"),
        (",dentry", "filp", ""),
        ("F;U,kmalloc-*", "kmalloc-64", "U"),
        ("F;U,kmalloc-*", "dma-kmalloc-64", "F"),
    ],
)
def test_slub_debug_is_read_as_the_kernel_does(debug: str | None, cache: str, letters: str) -> None:
    assert SlabParameters(debug=debug).debug_letters(cache) == frozenset(letters)
