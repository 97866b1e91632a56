"""Which zone serves a request, and what is counted (page_alloc.md 1.2, 3.5, 9.2)."""

import numpy as np
import pytest

from allocator import gfp as flags
from allocator.pages import migratetype as mt
from allocator.pages.walk import avoids_fragments
from tests.allocator.pages.zones_of_tests import machine, zone

KERNEL = flags.DIRECT_RECLAIM | flags.KSWAPD_RECLAIM | flags.IO | flags.FS
NOWAIT = flags.KSWAPD_RECLAIM
MOVABLE = KERNEL | flags.HIGHMEM | flags.MOVABLE


def two_nodes(kernel="v6_1"):
    return machine(
        zone(kernel, node=0, start=0, end=4096),
        zone(kernel, node=1, start=4096, end=8192),
        node_of_cpu={0: 0, 1: 1},
    )


def test_the_first_zone_above_its_low_mark_serves():
    pages = two_nodes()
    given = pages.alloc_many(0, 0, NOWAIT, 8000)
    near = given < 4096
    assert near[:3900].all()
    assert not near[4000:6000].any()  # then the other node, down to its low mark too
    assert pages.zones[0].free == 4096 - 571 * 7  # the refill that went below the min mark


def test_both_nodes_go_to_low_before_either_goes_to_min():
    pages = two_nodes()
    pages.alloc_many(0, 0, NOWAIT, 4096 - 125 + 4096 - 125)
    low = [one.free for one in pages.zones]
    assert all(100 < free <= 125 for free in low)
    pages.alloc_many(0, 0, NOWAIT, 8192)
    assert all(free <= 100 for free in [one.free for one in pages.zones])


def test_thisnode_stays_on_its_node():
    pages = two_nodes()
    given = pages.alloc_many(0, 0, NOWAIT | flags.THISNODE, 9000, 1)
    assert (given >= 4096).all()
    assert 3900 < len(given) < 4096


def test_a_nodemask_excludes_nodes():
    pages = two_nodes()
    assert pages.alloc(0, 0, KERNEL, nodemask=[1]) >= 4096


def test_numa_events_of_a_node_that_is_preferred_and_one_that_helps():
    pages = two_nodes()
    pages.alloc(1, 0, KERNEL, 1)
    pages.alloc(0, 0, KERNEL, 1)
    pages.alloc_many(0, 0, NOWAIT | flags.THISNODE, 9000, 1)
    before = dict(pages.numa)
    assert pages.alloc(1, 0, KERNEL) < 4096
    change = {key: n - before.get(key, 0) for key, n in pages.numa.items()}
    assert {key for key, n in change.items() if n} == {
        ("numa_miss", 0),
        ("numa_foreign", 1),
        ("numa_other", 0),
    }
    assert before["numa_local", 1] == 1
    assert before["numa_other", 1] == before["numa_hit", 1] - 1


def test_a_memoryless_node_is_never_missed():
    """Test vector 21."""
    pages = machine(zone(node=1, start=4096, end=8192), node_of_cpu={0: 0, 1: 1})
    assert pages.alloc(0, 0, KERNEL) >= 4096
    assert pages.numa == {("numa_hit", 1): 1, ("numa_other", 1): 1}
    assert pages.alloc(0, 0, KERNEL | flags.THISNODE, 0) == -1


def test_higher_zones_go_first_and_low_ones_are_protected():
    pages = machine(
        zone(name="DMA32", start=0, end=4096, protection=(0, 0, 1000, 1000)),
        zone(name="Normal", start=4096, end=8192),
    )
    given = pages.alloc_many(0, 0, NOWAIT | flags.MOVABLE, 9000)
    assert (given[:3900] >= 4096).all()
    assert pages.zones[0].free > 1000
    low = pages.alloc_many(0, 0, NOWAIT | flags.MOVABLE | flags.DMA32, 9000)
    assert len(low) > 800
    assert pages.counters["pgalloc_dma32"] + pages.counters["pgalloc_normal"] == len(given) + len(
        low
    )


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        ([("Normal", 0)], True),
        ([("DMA32", 0)], False),
        ([("DMA32", 0), ("Normal", 0)], True),
        ([("Normal", 0), ("Normal", 1)], False),
        ([("DMA32", 0), ("Normal", 0), ("Normal", 1)], True),
    ],
)
def test_who_avoids_fragments_on_the_fast_path(zones, expected):
    made = [
        zone(name=name, node=node, start=4096 * place, end=4096 * (place + 1))
        for place, (name, node) in enumerate(zones)
    ]
    pages = machine(*made)
    assert avoids_fragments(pages.request(0, 0, KERNEL, 0)) is expected


def test_a_lower_zone_is_tried_before_a_pageblock_is_broken():
    pages = machine(
        zone(name="DMA32", start=0, end=4096),
        zone(name="Normal", start=4096, end=8192, released=False),
    )
    normal = pages.zones[1]
    for pfn in range(4096, 8192, 512):
        normal.buddy.put(pfn, 8, mt.MOVABLE, tail=True)
    assert pages.alloc(0, 4, KERNEL) < 4096
    pages.alloc_many(0, 4, NOWAIT, 1000)
    assert normal.buddy.type_of(4096) == mt.UNMOVABLE  # in the end it is


def test_a_boost_wakes_kswapd_once():
    pages = machine(zone(released=False, marks=(10, 12, 700)))
    one = pages.zones[0]
    for pfn in range(0, 8192, 512):
        one.buddy.put(pfn, 8, mt.MOVABLE)
    woken = []
    pages.reclaim.wake_kswapd = lambda zone, order, highest, gfp: woken.append((order, highest))
    pages.alloc(0, 4, KERNEL)
    assert one.boost == 512
    assert woken == [(0, 2)]
    assert not one.boosted


@pytest.mark.parametrize("kernel", ["v6_12", "v7_3"])
def test_below_the_high_mark_lists_do_not_grow(kernel):
    one = zone(kernel, high=60, high_max=300, marks=(100, 125, 4094), end=4096)
    pages = machine(one)
    pages.alloc_many(0, 0, KERNEL, 120)
    assert one.below_high
    assert one.pcps[0].high == 67
    held = pages.alloc_many(0, 0, KERNEL, 500)
    assert one.pcps[0].high == 67
    one.marks["high"] = 150
    pages.free_many(0, held, np.zeros(len(held), dtype=np.int64))
    assert not one.below_high


def test_freed_pages_come_back_last_in_first_out():
    pages = machine(zone())
    held = pages.alloc_many(0, 0, KERNEL, 20)
    for pfn in held[:3].tolist():
        pages.free(0, pfn, 0)
    assert pages.alloc_many(0, 0, KERNEL, 3).tolist() == held[:3][::-1].tolist()
    assert pages.counters == {"pgalloc_normal": 23, "pgfree": 3}


def test_a_cpu_does_not_see_what_another_keeps():
    pages = machine(zone())
    first = pages.alloc(0, 0, KERNEL)
    pages.free(0, first, 0)
    assert pages.alloc(1, 0, KERNEL) != first
    assert pages.alloc(0, 0, KERNEL) == first


def test_a_page_of_no_zone_is_refused():
    with pytest.raises(LookupError, match="page 99999 is in no zone"):
        machine(zone()).free(0, 99999, 0)


@pytest.mark.parametrize(("kernel", "node"), [("v6_12", 0), ("v7_3", 1)])
def test_nodes_whose_kswapd_runs_are_passed_over_in_7_3(kernel, node):
    pages = two_nodes(kernel)
    pages.busy_nodes.add(0)
    assert pages.zone_at(pages.alloc(0, 0, KERNEL)).node == node
    assert pages.zone_at(pages.alloc(0, 0, KERNEL | flags.THISNODE)).node == 0
