"""One test for each rule of the slow path (page_alloc.md 5)."""

import pytest

from allocator import gfp as flags
from allocator.kernels import kernel_named
from allocator.pages import migratetype as mt
from allocator.pages.reclaim_protocol import CompactResult as Result
from allocator.pages.reclaim_protocol import NoReclaim, Priority
from allocator.pages.retry import (
    Trial,
    bails_out,
    can_compact,
    compact_retry,
    compaction_target,
    compacts_first,
    counts_stall,
    may_kill,
    reclaim_retry,
)
from tests.allocator.pages.zones_of_tests import machine, zone

KERNEL = flags.DIRECT_RECLAIM | flags.KSWAPD_RECLAIM | flags.IO | flags.FS
MOVABLE = KERNEL | flags.HIGHMEM | flags.MOVABLE
RETRY, NORETRY, THISNODE = flags.RETRY_MAYFAIL, flags.NORETRY, flags.THISNODE


def request(kernel="v6_1", order=9, gfp=MOVABLE, **of_zone):
    return machine(zone(kernel, **of_zone)).request(0, order, gfp)


def trial(kernel="v6_1", order=9, gfp=MOVABLE, reclaimable=0, **of_zone):
    asked = request(kernel, order, gfp, **of_zone)
    reclaim = NoReclaim()
    reclaim.reclaimable = lambda zone: reclaimable
    asked.allocator.reclaim = reclaim
    return Trial(request=asked, rights=0)


@pytest.mark.parametrize(
    ("kernel", "gfp", "result", "gives_up"),
    [
        # Test vector 22: order 9, RETRY_MAYFAIL, then NORETRY, the first compaction SKIPPED
        ("v5_3", RETRY, Result.SKIPPED, False),
        ("v5_4rc_bailout", RETRY, Result.SKIPPED, True),
        ("v5_4", RETRY, Result.SKIPPED, False),
        ("v5_10", RETRY, Result.SKIPPED, False),
        ("v5_3", NORETRY, Result.SKIPPED, False),
        ("v5_4rc_bailout", NORETRY, Result.SKIPPED, True),
        ("v5_10", NORETRY, Result.SKIPPED, True),
        ("v7_3", NORETRY, Result.SKIPPED, False),
        # and the rest of the table
        ("v5_3", NORETRY, Result.DEFERRED, True),
        ("v5_4", 0, Result.SKIPPED, True),
        ("v5_4", 0, Result.COMPLETE, False),
        ("v5_4rc_bailout", 0, Result.DEFERRED, True),
        ("v5_10", 0, Result.SKIPPED, False),
        ("v5_10", NORETRY, Result.COMPLETE, False),
        ("v6_1", NORETRY, Result.COMPLETE, False),
        ("v6_1", NORETRY | THISNODE, Result.COMPLETE, True),
        ("v6_1", RETRY | THISNODE, Result.SKIPPED, False),
        ("v6_12", NORETRY, Result.DEFERRED, True),
        ("v7_3", NORETRY | THISNODE, Result.COMPLETE, True),
        ("v6_1_bailout", RETRY | THISNODE, Result.SKIPPED, True),
    ],
)
def test_the_bail_out_after_the_first_compaction(kernel, gfp, result, gives_up):
    asked = request(kernel, 9, MOVABLE | gfp)
    assert bails_out(asked.allocator.policy, asked, result) is gives_up


def test_only_pageblocks_and_requests_with_io_are_bailed_out_by_size():
    for order, gfp, gives_up in ((8, MOVABLE, False), (9, MOVABLE & ~flags.IO, False)):
        asked = request("v5_4rc_bailout", order, gfp)
        assert bails_out(asked.allocator.policy, asked, Result.SKIPPED) is gives_up


@pytest.mark.parametrize(
    ("order", "gfp", "first"),
    [
        (9, MOVABLE, True),
        (4, MOVABLE, True),
        (3, MOVABLE, False),
        (3, KERNEL, True),
        (0, KERNEL, False),
        (9, MOVABLE & ~flags.IO, False),
        (9, MOVABLE & ~flags.DIRECT_RECLAIM, False),
        (9, MOVABLE | flags.MEMALLOC, False),
    ],
)
def test_who_compacts_before_reclaiming(order, gfp, first):
    asked = request(order=order, gfp=gfp)
    assert compacts_first(asked.allocator.policy, asked) is first


def test_compaction_needs_io_and_in_7_3_direct_reclaim():
    nowait = flags.KSWAPD_RECLAIM | flags.IO
    assert can_compact(kernel_named("v6_1").page, nowait)
    assert not can_compact(kernel_named("v7_3").page, nowait)
    assert not can_compact(kernel_named("v6_1").page, KERNEL & ~flags.IO)


def test_reclaim_retry_asks_for_a_block_of_the_order():
    """Test vector 23."""
    asked = trial(reclaimable=200_000, released=False)
    assert not reclaim_retry(asked)
    asked.request.zonelist[0].buddy.put(0, 10, mt.MOVABLE)
    asked.no_progress = 0
    answers = [reclaim_retry(asked) for _ in range(17)]
    assert answers == [True] * 16 + [False]


def test_small_orders_with_progress_never_run_out_of_rounds():
    asked = trial(order=0, reclaimable=1000)
    asked.progress = 1
    assert all(reclaim_retry(asked) for _ in range(40))


def test_reserved_blocks_are_given_back_before_a_request_gives_up():
    for kernel, given in (("v5_10", False), ("v6_1", True)):
        asked = trial(kernel, order=3, released=False)
        one = asked.request.zonelist[0]
        one.buddy.set_type(0, 9, mt.HIGHATOMIC)
        one.buddy.put(0, 5, mt.HIGHATOMIC)
        one.highatomic = 512
        assert reclaim_retry(asked) is given
        assert one.highatomic == (0 if given else 512)


@pytest.mark.parametrize("kernel", ["v5_3", "v5_10", "v6_1", "v7_3"])
@pytest.mark.parametrize(("free", "goes_on"), [(8192, True), (600, False)])
def test_after_a_skipped_compaction_zones_are_asked(kernel, free, goes_on):
    marks = (500, 520, 540)
    asked = trial(kernel, released=False, marks=marks, reclaimable=0)
    zone_ = asked.request.zonelist[0]
    for pfn in range(0, free, 2):
        zone_.buddy.put(pfn, 0, mt.MOVABLE)
    asked.result = Result.SKIPPED
    enough = free // 2 > compaction_target(asked.policy, zone_, 9)
    assert compact_retry(asked) is enough
    assert goes_on is enough


@pytest.mark.parametrize("result", [Result.DEFERRED, Result.CONTENDED, Result.PARTIAL_SKIPPED])
def test_other_results_ask_the_zones_until_5_3_and_the_priority_later(result):
    for kernel, goes_on in (("v5_3", True), ("v5_10", False), ("v6_12", False)):
        asked = trial(kernel)
        asked.result = result
        assert compact_retry(asked) is goes_on


def test_small_orders_may_compact_harder_once():
    asked = trial(order=3, gfp=KERNEL)
    asked.result = Result.COMPLETE
    assert compact_retry(asked)
    assert asked.priority is Priority.FULL
    assert not compact_retry(asked)


@pytest.mark.parametrize(("order", "rounds"), [(9, 4), (3, 16)])
def test_compaction_that_succeeds_in_vain_is_tried_so_often(order, rounds):
    asked = trial(order=order, gfp=KERNEL)
    asked.result, asked.priority = Result.SUCCESS, Priority.FULL
    assert [compact_retry(asked) for _ in range(rounds + 1)] == [True] * rounds + [False]


@pytest.mark.parametrize(
    ("kernel", "order", "pages"),
    [("v6_1", 9, 125 + 1024), ("v6_1", 3, 100 + 16), ("v7_3", 9, 125 + 32), ("v7_3", 3, 100 + 16)],
)
def test_pages_that_make_compaction_worth_while(kernel, order, pages):
    asked = request(kernel, order)
    assert compaction_target(asked.allocator.policy, asked.zonelist[0], order) == pages


@pytest.mark.parametrize(
    ("kernel", "counted"),
    [
        ("v5_10", {Result.SKIPPED, Result.DEFERRED, Result.COMPLETE}),
        ("v6_1", {Result.DEFERRED, Result.COMPLETE}),
        ("v7_3", {Result.COMPLETE}),
    ],
)
def test_which_compactions_count_as_stalls(kernel, counted):
    results = (Result.SKIPPED, Result.DEFERRED, Result.COMPLETE)
    assert {one for one in results if counts_stall(kernel_named(kernel).page, one)} == counted


@pytest.mark.parametrize(
    ("order", "gfp", "kills"),
    [
        (0, KERNEL, True),
        (3, KERNEL, True),
        (4, KERNEL, False),
        (0, KERNEL | RETRY, False),
        (0, KERNEL | THISNODE, False),
        (0, KERNEL | flags.DMA32, False),
    ],
)
def test_who_may_have_a_task_killed(order, gfp, kills):
    assert may_kill(request(order=order, gfp=gfp)) is kills
