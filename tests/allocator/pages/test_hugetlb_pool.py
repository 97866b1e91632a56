"""The pool: rotation over nodes, pages that are given back, surplus."""

import pytest

from allocator import gfp as flags
from allocator.pages.hugetlb import KERNEL_FLAGS, POOL_MASK
from allocator.pages.pagecache import read_file
from tests.allocator.pages.machine_of_tests import GIB, machine

FULL = 1 << 18


def by_node(pool: object) -> list[int]:
    return [len(pages) for pages in pool.free.values()]  # type: ignore[attr-defined]


def test_nodes_give_in_turn_and_the_turn_is_kept() -> None:
    _, pool = machine(memory=(GIB, GIB))
    assert pool.write(5) == 5
    assert by_node(pool) == [3, 2]
    assert pool.write(8) == 8
    assert by_node(pool) == [4, 4]


def test_when_one_node_has_no_more_the_others_go_on() -> None:
    _, pool = machine(memory=(GIB // 4, GIB))
    got = pool.write(300)
    small, large = by_node(pool)
    assert got == 300
    assert small < 128 < large
    assert pool._allocator.counters["htlb_buddy_alloc_fail"] >= 1


def test_a_node_s_file_asks_that_node_only() -> None:
    _, pool = machine(memory=(GIB, GIB))
    pool.write(4)
    assert pool.write(10, node=1) == 10
    assert by_node(pool) == [2, 10]


def test_pages_are_given_back_to_the_lists() -> None:
    reclaimer, pool = machine("v5_10")
    free = sum(zone.free for zone in reclaimer.allocator.zones)
    pool.write(100)
    assert sum(zone.free for zone in reclaimer.allocator.zones) == free - 100 * 512
    assert pool.write(0) == 0
    assert sum(zone.free for zone in reclaimer.allocator.zones) == free


def test_pages_in_use_become_surplus() -> None:
    _, pool = machine()
    pool.write(10)
    pool.free[0], pool.used[0] = pool.free[0][:2], 8
    assert pool.write(4) == 4
    assert (pool.total, pool.surplus[0]) == (8, 4)
    assert pool.write(6) == 6
    assert (pool.total, pool.surplus[0]) == (8, 2)


def test_reserved_pages_stay() -> None:
    _, pool = machine()
    pool.write(10)
    pool.reserved = 6
    pool.write(0)
    assert pool.total == 6


def test_a_node_that_failed_is_asked_with_less_force_until_it_gives() -> None:
    reclaimer, pool = machine("v6_1", memory=(GIB // 4, GIB // 4))
    masks: list[tuple[int, bool]] = []
    alloc = reclaimer.allocator.alloc

    def note(cpu: int, order: int, mask: int, node: int) -> int:
        masks.append((node, bool(mask & flags.RETRY_MAYFAIL)))
        return alloc(cpu, order, mask, node) if node else -1

    reclaimer.allocator.alloc = note  # type: ignore[assignment,method-assign]
    pool.write(4)
    assert masks == [(0, True), (1, True)] + [(0, False), (1, True)] * 3
    assert reclaimer.allocator.counters["htlb_buddy_alloc_fail"] == 4


def test_5_3_asks_with_full_force_each_time() -> None:
    reclaimer, pool = machine("v5_3")
    masks: list[bool] = []

    def note(cpu: int, order: int, mask: int, node: int) -> int:
        masks.append(bool(mask & flags.RETRY_MAYFAIL))
        return -1

    reclaimer.allocator.alloc = note  # type: ignore[assignment,method-assign]
    pool.write(3)
    pool.write(3)
    assert masks == [True, True]


@pytest.mark.parametrize(
    ("kernel", "low", "high"),
    [("v5_3", 256, 256), ("v5_4rc_bailout", 10, 13), ("v5_4", 256, 256), ("v6_1_bailout", 9, 13)],
)
def test_the_seed_s_numbers(kernel: str, low: int, high: int) -> None:
    reclaimer, pool = machine(kernel)
    read_file(reclaimer, FULL, node=0, movable=False)
    assert low <= pool.write(256) <= high


def test_under_the_bail_out_free_pages_and_the_min_mark_decide() -> None:
    for fill, thp in ((FULL, True), (FULL // 2, True), (FULL, False)):
        reclaimer, pool = machine("v5_4rc_bailout", thp=thp, kswapd_pages=0)
        read_file(reclaimer, fill, node=0, movable=False)
        zone = reclaimer.allocator.zones[-1]
        expected = -(-(zone.free - 511 - zone.mark("min")) // 512)
        small = reclaimer.allocator.zones[0]
        spare = small.free - 511 - small.mark("min") - small.reserve[3]
        expected += max(0, -(-spare // 512))
        assert abs(pool.write(256) - expected) <= 1


def test_a_mask_without_retry_gives_up_with_generations_and_not_with_lists() -> None:
    once = (POOL_MASK | KERNEL_FLAGS) & ~flags.RETRY_MAYFAIL
    got = {}
    for kernel in ("v6_1", "v6_12"):
        reclaimer, pool = machine(kernel, mask=once)
        read_file(reclaimer, FULL, node=0, movable=False)
        got[kernel] = pool.write(256)
    assert got["v6_1"] == 256
    assert got["v6_12"] < 64


def test_no_such_node_and_no_such_count() -> None:
    _, pool = machine()
    for count, node in ((-1, None), (1, 7)):
        with pytest.raises(ValueError, match="nr_hugepages"):
            pool.write(count, node)
