"""Boost, Highatomic blocks, and the counter that lags (page_alloc.md 2.3, 2.5, 2.8)."""

import pytest

from allocator.pages import migratetype as mt
from tests.allocator.pages.zones_of_tests import zone


def test_a_boost_grows_by_a_pageblock_up_to_its_limit():
    """Test vector 15: high 25557, factor 15000."""
    made = zone(marks=(14769, 20163, 25557), end=1 << 20, released=False)
    for _ in range(100):
        made.buddy.on_boost()
    assert made.boost == 38335
    assert made.mark("min") == 53104


@pytest.mark.parametrize(
    ("kernel", "pages", "boost"),
    [("v5_10", 2047, 0), ("v5_10", 2048, 512), ("v5_3", 2047, 512), ("v3_13", 1 << 20, 0)],
)
def test_which_zones_are_boosted(kernel, pages, boost):
    made = zone(kernel, end=pages, released=False)
    made.buddy.on_boost()
    assert made.boost == boost


def test_no_boost_with_factor_0():
    made = zone()
    made.boost_factor = 0
    made.buddy.on_boost()
    assert made.boost == 0


@pytest.mark.parametrize(
    ("kernel", "managed", "blocks"),
    [
        ("v5_10", 31919, 2),  # below 1/100 plus a block
        ("v6_1", 31919, 2),
        ("v6_12", 31919, 0),  # 1/100 is less than a block
        ("v6_12", 51200, 1),
        ("v6_12", 51300, 2),  # rounded up
    ],
)
def test_how_many_blocks_become_highatomic(kernel, managed, blocks):
    made = zone(kernel, end=managed)
    made.buddy.take_runs(5 * 512, 0, mt.MOVABLE)
    for block in range(5):
        made.reserve_highatomic(0, 512 * block, 3)
    assert made.highatomic == 512 * blocks
    assert (made.buddy.block_type == mt.HIGHATOMIC).sum() == blocks


def test_free_pages_of_a_reserved_block_move_along_and_come_back():
    made = zone("v6_1")
    pfn = made.alloc_block(3, mt.UNMOVABLE)
    made.reserve_highatomic(0, pfn, 3)
    assert made.buddy.nr_free[:, mt.HIGHATOMIC].tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0]
    assert not made.unreserve_highatomic(0, mt.UNMOVABLE, force=False)  # one block is kept
    assert made.unreserve_highatomic(0, mt.UNMOVABLE, force=True)
    assert made.highatomic == 0
    assert made.buddy.nr_free[:, mt.HIGHATOMIC].sum() == 0


def test_the_counter_lags_by_what_cpus_keep():
    made = zone(threshold=4, released=False)
    made.buddy.release(0, 1000)
    for kept in (-1, -2, -3, -4):
        made.count(0, -1)
        assert made.pending[0] == kept
    made.count(0, -1)
    assert made.pending[0] == 0
    made.count(1, 7)  # more than the threshold is folded at once
    assert made.pending[1] == 0
    made.count(1, 3)
    made.buddy.free_pages += 3
    assert made.free == 1000


@pytest.mark.parametrize("pages", [1, -1, 2, -3, 4, 5, -8])
@pytest.mark.parametrize("kept", [-4, 0, 3])
def test_many_equal_changes_are_counted_as_single_ones(pages, kept):
    for times in range(40):
        one, many = zone(released=False), zone(released=False)
        one.pending[0] = many.pending[0] = kept
        many.count(0, pages, times)
        for _ in range(times):
            one.count(0, pages)
        assert one.pending == many.pending


def test_raw_runs_ignore_marks_and_lists():
    made = zone(marks=(9000, 9001, 9002))
    starts, lengths = made.alloc_run(3000, mt.MOVABLE)
    assert (starts.tolist(), lengths.tolist()) == ([0, 1024, 2048], [1024, 1024, 952])
    made.free_run(0, 3000)
    assert made.buddyinfo() == [0] * 10 + [8]
    assert made.pcp_pages() == 0
