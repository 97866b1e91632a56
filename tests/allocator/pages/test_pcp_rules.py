"""How many pages move: refills, drains and limits of each generation (page_alloc.md 2.7, 13)."""

import numpy as np
import pytest

from allocator.pages import migratetype as mt
from allocator.pages.pcp import PageList, Pcp, drain_robin
from allocator.pages.pcp_rules import RULES, ZoneState

STILL = ZoneState(below_high=False, reclaim_active=False)
BELOW = ZoneState(below_high=True, reclaim_active=False)
ACTIVE = ZoneState(below_high=False, reclaim_active=True)


def pcp(batch=63, high=378, high_max=None, **state):
    return Pcp(batch=batch, high_min=high, high_max=high_max or high, **state)


def frees_until_drain(rules, lists, order=0, zone=STILL):
    """Return how many frees it takes to drain, and the pages drained."""
    freed = 0
    while True:
        done, pages = rules.frees(lists, order, 1, zone)
        freed += done
        if pages:
            lists.count -= pages
            return freed, pages


@pytest.mark.parametrize(
    ("rules", "order", "size"), [("batch6", 0, 63), ("shared_low", 0, 63), ("shared_low", 3, 7)]
)
def test_refills_of_fixed_size(rules, order, size):
    assert RULES[rules].refill(pcp(), order, STILL) == size


@pytest.mark.parametrize(("batch", "size"), [(1, 1), (7, 2)])
def test_a_refill_of_huge_pages_is_two_blocks_or_one(batch, size):
    assert RULES["shared_low"].refill(pcp(batch=batch), 9, STILL) == size
    assert RULES["tuned"].refill(pcp(batch=batch, high=60), 9, STILL) == size


def test_tuned_refills_double():
    """Test vector 24."""
    lists = pcp(high=6928, high_max=15001)
    sizes = [RULES["tuned"].refill(lists, 0, STILL) for _ in range(7)]
    assert sizes == [63, 126, 252, 504, 1008, 2016, 2016]


def test_a_refill_leaves_room_below_the_limit():
    lists = pcp(batch=7, high=135, alloc_factor=5)
    assert RULES["tuned"].refill(lists, 0, STILL) == 128


def test_each_free_halves_what_refills_had_doubled():
    lists = pcp(high=6928, alloc_factor=5)
    RULES["tuned"].frees(lists, 0, 2, STILL)
    assert lists.alloc_factor == 1


def test_until_5_12_each_drain_is_a_batch():
    lists = pcp(batch=7, high=42)
    drains = [frees_until_drain(RULES["batch6"], lists) for _ in range(3)]
    assert drains == [(42, 7), (7, 7), (7, 7)]


def test_small_zones_keep_nothing_until_5_12():
    assert frees_until_drain(RULES["batch6"], pcp(batch=1, high=0)) == (1, 1)


def test_in_6_1_drains_double_until_only_a_batch_stays():
    lists = pcp(batch=7, high=135)
    drains = [frees_until_drain(RULES["shared_low"], lists)[1] for _ in range(7)]
    assert drains == [7, 14, 28, 56, 112, 128, 128]
    RULES["shared_low"].attempt(lists)
    assert lists.free_factor == 2


def test_in_6_1_a_free_of_order_3_after_a_drain_empties_the_lists():
    lists = pcp(batch=7, high=135)
    frees_until_drain(RULES["shared_low"], lists)
    kept = lists.count
    assert RULES["shared_low"].frees(lists, 3, 5, STILL) == (1, kept + 8)


def test_while_kswapd_works_lists_are_short():
    lists = pcp(batch=7, high=135)
    assert frees_until_drain(RULES["shared_low"], lists, zone=ACTIVE) == (28, 7)
    tuned = pcp(7, 60, 300)
    assert frees_until_drain(RULES["tuned"], tuned, zone=ACTIVE)[0] == 28


def test_tuned_drains_follow_the_pages_freed_lately():
    lists = pcp(batch=7, high=135)
    assert frees_until_drain(RULES["tuned"], lists) == (135, 128)
    assert lists.free_count == 135


def test_the_tuned_limit_grows_with_frees_and_shrinks_below_the_high_mark():
    lists = pcp(batch=7, high=60, high_max=300)
    assert frees_until_drain(RULES["tuned"], lists)[0] == 60
    assert lists.high == 67
    assert frees_until_drain(RULES["tuned"], lists, zone=BELOW)[0] > 0
    assert lists.high == 60


@pytest.mark.parametrize(("rules", "blocks"), [("tuned", 2), ("tuned_v7", 11)])
def test_piled_up_order_3_blocks_go_back(rules, blocks):
    """7.3 lets half of the limit and a batch pile up first."""
    lists = pcp(batch=7, high=135)
    assert frees_until_drain(RULES[rules], lists, order=3) == (blocks, 8 * blocks)


@pytest.mark.parametrize(("rules", "pieces"), [("tuned", [20]), ("tuned_v7", [7, 7, 6])])
def test_7_3_lets_go_of_the_zone_lock_after_each_batch(rules, pieces):
    assert RULES[rules].pieces(pcp(batch=7, high=135), 20) == pieces


def test_an_idle_list_decays_from_6_7():
    lists = pcp(batch=7, high=60, high_max=1000)
    lists.high, lists.count = 800, 790
    assert RULES["tuned"].decay(lists) == 790 - 700
    assert lists.high == 700
    assert RULES["shared_low"].decay(lists) == 0


def test_series_of_frees_equal_single_ones():
    for rules in RULES.values():
        one, many = pcp(7, 60, 300), pcp(7, 60, 300)
        for _ in range(50):
            done, pages = rules.frees(many, 0, 40, STILL)
            single = [rules.frees(one, 0, 1, STILL) for _ in range(done)]
            assert [pages_ for _, pages_ in single] == [0] * (done - 1) + [pages]
            one.count -= pages
            many.count -= pages
            assert one == many


def test_until_5_12_lists_are_drained_in_turn_from_movable_on():
    lists = Pcp(batch=7, high_min=42, high_max=42, lists=[PageList() for _ in range(3)])
    for migratetype, first in ((mt.UNMOVABLE, 0), (mt.MOVABLE, 100), (mt.RECLAIMABLE, 200)):
        lists.lists[migratetype].push_tails(np.arange(first, first + 4), migratetype)
    lists.count = 12
    pfns, types = drain_robin(lists, 5)
    assert pfns.tolist() == [103, 203, 3, 102, 202]
    assert types.tolist() == [1, 2, 0, 1, 2]


def test_until_5_12_empty_lists_give_their_turn_to_the_next():
    lists = Pcp(batch=7, high_min=42, high_max=42, lists=[PageList() for _ in range(3)])
    lists.lists[mt.UNMOVABLE].push_tails(np.arange(4), mt.UNMOVABLE)
    lists.lists[mt.MOVABLE].push_tails(np.arange(100, 104), mt.MOVABLE)
    lists.count = 8
    pfns, _ = drain_robin(lists, 6)
    assert pfns.tolist() == [103, 3, 2, 102, 1, 0]
    assert lists.count == 2
