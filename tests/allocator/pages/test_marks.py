"""The watermark test and the rights that lower marks (page_alloc.md 2.5)."""

import pytest

from allocator import gfp as flags
from allocator.kernels import kernel_named
from allocator.pages import migratetype as mt
from allocator.pages.marks import last_failing, lowered, watermark_fast, watermark_ok
from tests.allocator.pages.zones_of_tests import zone

HIGH, HARDER = flags.RIGHT_MIN_RESERVE, flags.RIGHT_HARDER
NON_BLOCK, OOM = flags.RIGHT_NON_BLOCK, flags.RIGHT_OOM


@pytest.mark.parametrize(
    ("kernel", "rights", "left"),
    [
        ("v5_10", 0, 1000),
        ("v5_10", HIGH, 500),
        ("v5_10", HARDER, 750),
        ("v5_10", HIGH | HARDER, 375),
        ("v5_10", OOM, 500),
        ("v5_10", OOM | HARDER, 500),
        ("v6_1", HIGH, 500),
        ("v6_1", NON_BLOCK, 1000),
        ("v6_1", HIGH | NON_BLOCK, 375),
        ("v6_1", OOM, 500),
        ("v6_1", HIGH | NON_BLOCK | OOM, 188),
        ("v7_3", HIGH | NON_BLOCK, 375),
    ],
)
def test_what_is_left_of_a_mark(kernel, rights, left):
    assert lowered(kernel_named(kernel).page, 1000, rights) == left


def huge(marks=(11086, 13857, 16628)):
    """17000 free pages, a block of order 9 among them."""
    made = zone(marks=marks, end=1 << 18, released=False)
    made.buddy.put(0, 9, mt.MOVABLE)
    made.buddy.release(2048, 2048 + 16488)
    return made


def test_order_9_at_the_low_and_the_high_mark():
    """Test vector 18."""
    made = huge()
    assert made.free == 17000
    assert watermark_ok(made, 9, made.mark("low"), 2, 0)
    assert not watermark_ok(made, 9, made.mark("high"), 2, 0)


def test_a_count_just_above_passes():
    made = huge()
    limit = last_failing(made, 9, made.mark("low"), 2, 0)
    assert limit == 13857 + 511
    assert watermark_ok(made, 9, made.mark("low"), 2, 0, limit + 1)
    assert not watermark_ok(made, 9, made.mark("low"), 2, 0, limit)


def test_plenty_of_pages_without_a_block_of_the_order_do_not_pass():
    made = zone(released=False)
    for pfn in range(0, 4096, 16):
        made.buddy.put(pfn, 3, mt.MOVABLE)
    assert watermark_ok(made, 3, made.mark("low"), 2, 0)
    assert not watermark_ok(made, 4, made.mark("low"), 2, 0)


@pytest.mark.parametrize("kernel", ["v5_10", "v6_1", "v6_12"])
def test_highatomic_blocks_count_only_for_those_who_may_use_them(kernel):
    made = zone(kernel, released=False, marks=(10, 12, 14))
    made.buddy.set_type(0, 9, mt.HIGHATOMIC)
    made.buddy.put(0, 5, mt.HIGHATOMIC)
    made.highatomic = 512
    may = HARDER if kernel == "v5_10" else flags.RIGHT_HIGHATOMIC
    assert not watermark_ok(made, 3, 12, 2, 0)
    assert not watermark_ok(made, 3, 12, 2, HIGH)  # the pages count in 6.1, the block does not
    assert watermark_ok(made, 3, 12, 2, may)


def test_only_free_pages_of_highatomic_blocks_are_held_back_from_6_12():
    held = {}
    for kernel in ("v6_1", "v6_12"):
        made = zone(kernel, released=False)
        made.buddy.put(0, 5, mt.HIGHATOMIC)
        made.highatomic = 512
        held[kernel] = last_failing(made, 0, 100, 2, 0) - 100
    assert held == {"v6_1": 512, "v6_12": 32}


def test_protection_counts_by_the_highest_zone_of_the_request():
    made = zone(name="DMA32", protection=(0, 0, 3000, 3000), marks=(100, 125, 150))
    assert last_failing(made, 0, 100, 1, 0) == 100
    assert last_failing(made, 0, 100, 2, 0) == 3100


@pytest.mark.parametrize(
    ("kernel", "gfp", "rights", "passes"),
    [
        ("v5_3", flags.ATOMIC, HIGH, False),
        ("v5_10", flags.ATOMIC, HIGH, True),
        ("v5_10", 0, HIGH, False),
        ("v6_1", flags.ATOMIC, HIGH, True),
        ("v6_12", 0, HIGH, True),
        ("v6_12", flags.ATOMIC, 0, False),
    ],
)
def test_who_may_ignore_a_boost(kernel, gfp, rights, passes):
    made = zone(kernel, marks=(100, 125, 150), released=False)
    made.buddy.release(0, 512)
    made.boost = 1000
    assert watermark_fast(made, 0, "min", 2, rights, gfp) is passes
    assert not watermark_fast(made, 0, "low", 2, rights, gfp)


def test_3_13_asks_each_lower_order_to_leave_enough():
    made = zone("v3_13", marks=(100, 125, 150), released=False)
    for pfn in range(0, 4096, 2):
        made.buddy.put(pfn, 0, mt.MOVABLE)
    made.buddy.release(4096, 4096 + 64)
    assert watermark_ok(made, 1, 125, 2, 0)
    made.marks["low"] = 140
    assert not watermark_ok(made, 1, 140, 2, 0)  # 63 pages above order 0, 70 are asked for
