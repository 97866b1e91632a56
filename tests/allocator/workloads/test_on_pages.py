"""Clocked workloads on real zones: where slabs come from when a node has small free blocks only."""

from typing import Any

import pytest

from allocator.errors import ConfigError
from allocator.point import Point, parse_group
from allocator.results import Results
from allocator.workloads.on_pages import OnPages
from tests.allocator.workloads.test_slab_workloads import SMALL, cell, guest, run, same

ON_ZONES = sorted(SMALL.keys() - {"hackbench_pipes"})


def hackbench(
    order: int, node: int, nodes: int = 2, load: str = "hackbench_sockets", **more: Any
) -> dict[str, Any]:
    """Return a cell on zones whose kmalloc-cg-512 has slabs of an order."""
    one = cell(load, machine=guest(8, nodes), slab__max_order=order, slab__min_objects=64)
    keys = {"pages": "zones", "fragmented_node": node, "fragmented_mib": 64, **more}
    return one | {"workload": one["workload"] | keys}


def numa(results: Results, name: str, lane: int = 0) -> list[int]:
    return results.tables["nodes"].values[name][lane].tolist()


def test_a_high_order_is_remote_while_lower_ones_are_free_on_the_near_node() -> None:
    high, low = run([hackbench(3, 0)]), run([hackbench(2, 0)])
    far = int(high.scalars["numa_other"][0])
    assert far > 0
    assert high.scalars["order_fallback"][0] == 0
    assert numa(high, "numa_foreign") == [far, 0]
    assert numa(high, "numa_miss") == [0, far]
    assert numa(high, "numa_other") == [0, far]
    assert low.scalars["numa_other"][0] == 0
    assert numa(low, "numa_foreign") == [0, 0]


def test_every_slab_is_one_block_of_some_node() -> None:
    found = run([hackbench(3, 0)])
    blocks = sum(numa(found, "numa_hit")) + sum(numa(found, "numa_miss"))
    assert blocks == found.scalars["alloc_slab"][0]


def test_no_slab_is_remote_where_no_node_is_fragmented() -> None:
    found = run([hackbench(3, -1)])
    assert found.scalars["numa_other"][0] == 0
    assert found.scalars["order_fallback"][0] == 0


def test_only_where_no_node_has_a_block_the_smallest_order_is_taken() -> None:
    found = run([hackbench(3, 0, nodes=1, fragmented_order=1)])
    caches = found.tables["caches"]
    fell = dict(zip(caches.labels, caches.values["order_fallback"][0].tolist(), strict=True))
    slabs = dict(zip(caches.labels, caches.values["alloc_slab"][0].tolist(), strict=True))
    assert fell == slabs  # orders 2 and 3 are nowhere to be had
    assert min(slabs.values()) > 0
    # kmalloc-cg-512 then is on single pages, skbuff_head_cache too
    pages = caches.values["num_slabs"][0].sum() * 4096
    assert found.scalars["Slab"][0] == pages


@pytest.mark.parametrize("load", ON_ZONES)
def test_a_lane_on_zones_is_the_same_alone_and_in_a_batch(load: str) -> None:
    cells = [hackbench(3, node, load=load, fragmented_order=1) for node in (0, -1, 1)]
    together = run(cells)
    for lane, one in enumerate(cells):
        same(run([one]), together, slice(0, 1), slice(lane, lane + 1))
    assert (together.scalars["numa_other"] > 0).tolist() == [True, False, True]


def test_a_node_that_is_not_there_is_refused() -> None:
    parts = {group: parse_group(group, config) for group, config in hackbench(3, 2).items()}
    point = Point.of(**parts)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"workload\.fragmented_node: found 2"):
        point.workload.shape(point)


def test_the_default_is_memory_without_end() -> None:
    assert OnPages().pages == "bottomless"
    assert "numa_hit" not in run([cell("hackbench_sockets")]).tables["nodes"].values
