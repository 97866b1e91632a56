"""Direct reclaim, kswapd and the way of pages back to the lists."""

import numpy as np
import pytest

from allocator.pages import migratetype as mt
from allocator.pages.pagecache import read_file, shatter
from allocator.pages.reclaimed import Held
from allocator.pages.suitable import Suit, suitable
from allocator.pages.uses import Use
from tests.allocator.pages.machine_of_tests import machine

GIB_PAGES = 1 << 18


def test_reading_leaves_free_memory_at_the_high_mark_and_a_little_more() -> None:
    reclaimer, _ = machine("v5_10")
    assert read_file(reclaimer, GIB_PAGES, node=0, movable=False) == GIB_PAGES
    zone = reclaimer.allocator.zones[-1]
    high = zone.mark("high")
    assert high < zone.free < high + 2 * (high - zone.mark("low"))
    assert reclaimer.counters["pgsteal_kswapd"] > 0
    assert reclaimer.nodes[0].lru.pages + reclaimer.counters["pgsteal_kswapd"] == GIB_PAGES


def test_a_block_device_s_cache_turns_pageblocks_and_a_file_s_does_not() -> None:
    for movable, kind in ((False, mt.UNMOVABLE), (True, mt.MOVABLE)):
        reclaimer, _ = machine()
        read_file(reclaimer, GIB_PAGES // 2, node=0, movable=movable)
        zone = reclaimer.allocator.zones[-1]
        assert (zone.buddy.block_type == kind).sum() > 200


def test_direct_reclaim_of_a_huge_page_goes_on_until_a_block_is_there() -> None:
    reclaimer, _ = machine("v6_1")
    read_file(reclaimer, GIB_PAGES, node=0, movable=False)
    node = reclaimer.nodes[0]
    zone = node.zones[-1]
    while zone.alloc_block(9, mt.MOVABLE) >= 0:  # no block left, free memory low
        pass
    freed = node.shrink(9, 3, 12, retry_mayfail=True)
    assert suitable(node.policy, zone, 9, 3) is not Suit.SKIPPED
    assert 512 <= freed <= zone.mark("low") + 1024 + 512


def test_generations_reclaim_one_batch_and_ask_nobody() -> None:
    reclaimer, _ = machine("v6_12")
    read_file(reclaimer, GIB_PAGES, node=0, movable=False)
    assert reclaimer.nodes[0].shrink(9, 3, 12, retry_mayfail=True) == 64


def test_large_folios_are_reclaimed_whole() -> None:
    reclaimer, _ = machine("v7_3")
    read_file(reclaimer, GIB_PAGES, node=0, movable=False)
    assert reclaimer.nodes[0].shrink(9, 3, 12, retry_mayfail=True) == 512


def test_kswapd_sleeps_when_a_zone_is_above_its_high_mark() -> None:
    reclaimer, _ = machine()
    read_file(reclaimer, GIB_PAGES, node=0, movable=False)
    kswapd = reclaimer.nodes[0].kswapd
    kswapd.wake(0, 3)
    assert not kswapd.awake
    zone = reclaimer.allocator.zones[-1]
    zone.alloc_run(zone.free - zone.mark("low"), mt.MOVABLE)
    kswapd.wake(0, 3)
    assert kswapd.awake
    kswapd.rest()
    assert not kswapd.awake
    reclaimer.nodes[0].drain()
    assert zone.free > zone.mark("high")


def test_kswapd_takes_its_time_and_no_more() -> None:
    reclaimer, _ = machine(kswapd_pages=100)
    read_file(reclaimer, GIB_PAGES, node=0, movable=False)
    zone = reclaimer.allocator.zones[-1]
    zone.alloc_run(zone.free - zone.mark("min") - 100, mt.MOVABLE)
    kswapd = reclaimer.nodes[0].kswapd
    kswapd.wake(9, 3)
    before = reclaimer.counters["pgsteal_kswapd"]
    assert kswapd.tick() == 0  # it takes a while to wake
    for _ in range(20):
        kswapd.tick()
    assert 0 < reclaimer.counters["pgsteal_kswapd"] - before <= 20 * 200


def test_a_step_that_does_nothing_gives_kswapd_less_time() -> None:
    reclaimer, _ = machine(kswapd_pages=100)
    read_file(reclaimer, GIB_PAGES, node=0, movable=False)
    zone = reclaimer.allocator.zones[-1]
    zone.alloc_run(zone.free - zone.mark("min") - 100, mt.MOVABLE)
    kswapd = reclaimer.nodes[0].kswapd
    kswapd.wake(9, 3)
    idle = kswapd.pace.idle
    assert idle < 1 / 3
    before = reclaimer.counters["pgsteal_kswapd"]
    for _ in range(3):
        reclaimer.tick(idle)
    assert reclaimer.counters["pgsteal_kswapd"] == before  # it has not even woken
    for _ in range(3):
        reclaimer.tick()
    assert reclaimer.counters["pgsteal_kswapd"] > before


def test_on_one_cpu_kswapd_gets_one_time_slice() -> None:
    reclaimer, _ = machine(slice_pages=500)
    read_file(reclaimer, GIB_PAGES, node=0, movable=False)
    zone = reclaimer.allocator.zones[-1]
    zone.alloc_run(zone.free - zone.mark("min") - 100, mt.MOVABLE)
    kswapd = reclaimer.nodes[0].kswapd
    kswapd.wake(9, 3)
    assert kswapd.tick() == 500
    assert [kswapd.tick() for _ in range(5)] == [0] * 5


def test_dropping_caches_gives_every_page_back() -> None:
    reclaimer, _ = machine()
    free = sum(zone.free for zone in reclaimer.allocator.zones)
    read_file(reclaimer, GIB_PAGES // 2, node=0, movable=True)
    assert reclaimer.drop_caches() == GIB_PAGES // 2
    assert sum(zone.free for zone in reclaimer.allocator.zones) == free
    assert reclaimer.nodes[0].lru.pages == 0


@pytest.mark.parametrize("kernel", ["v5_10", "v6_1", "v6_12"])
def test_a_list_hands_over_its_oldest_pages_and_loses_none(kernel: str) -> None:
    reclaimer, _ = machine(kernel)
    zone = reclaimer.allocator.zones[-1]
    start = int(zone.alloc_run(4096, mt.MOVABLE)[0][0])
    free = zone.buddy.free_pages
    held = Held(zone)
    for at in range(0, 4096, 128):
        held.pass_on(start + at, 128, active=True)
        assert held.pages <= held.limit(active=True) + 128
        assert zone.buddy.free_pages + held.pages == free + at + 128
    held.drain()
    assert zone.buddy.free_pages == free + 4096


def test_uses_and_free_lists_never_overlap() -> None:
    reclaimer, pool = machine("v6_1")
    read_file(reclaimer, GIB_PAGES, node=0, movable=True)
    pool.write(64)
    for node in reclaimer.nodes.values():
        node.drain()
        for zone in node.zones:
            use = node.uses[zone.index]
            pfns, orders = zone.buddy.free_blocks_in(zone.buddy.start, zone.buddy.end)
            for pfn, order in zip(pfns.tolist(), orders.tolist(), strict=True):
                assert not use.of(pfn, 1 << order).any()
            used = sum(use.total[kind] for kind in Use)
            assert used + zone.buddy.free_pages + zone.pcp_pages() <= zone.managed


def test_a_shattered_node_has_free_blocks_of_one_order_only() -> None:
    reclaimer, _ = machine("v6_1", memory=(GIB_PAGES << 12, GIB_PAGES << 12))
    normal = reclaimer.allocator.own_zones[0][0]
    before = [zone.free for zone in reclaimer.allocator.own_zones[1]]
    high = sum(zone.mark("high") for zone in reclaimer.allocator.own_zones[0])
    free = shatter(reclaimer, 1 << 14, node=0, order=2)
    assert high + (1 << 14) <= free < high + (1 << 14) + 3 * 4
    for zone in reclaimer.allocator.own_zones[0]:
        assert np.flatnonzero(zone.buddy.nr_free.sum(axis=1)).tolist() in ([2], [])
    assert normal.free >= normal.mark("high") + (1 << 14)
    assert [zone.free for zone in reclaimer.allocator.own_zones[1]] == before
    used = reclaimer.nodes[0].lru.pages
    assert used > 200_000 - (1 << 15)
