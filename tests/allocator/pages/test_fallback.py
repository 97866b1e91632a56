"""Taking other types' blocks: rows, sizes and pageblocks (page_alloc.c, both generations)."""

import pytest

from allocator.kernels import kernel_named
from allocator.pages import migratetype as mt
from allocator.pages.buddy import Buddy
from allocator.pages.fallback import alloc_block, alloc_blocks
from allocator.pages.runs import expand

V6_1, V6_12, V7_3 = "v6_1", "v6_12", "v7_3"
BOTH = pytest.mark.parametrize("kernel", [V6_1, V6_12])


def make(kernel: str, *blocks: tuple[int, int, int], end: int = 8192) -> Buddy:
    """Return lists with (first page, order, type) blocks, in pageblocks of their types."""
    buddy = Buddy(kernel_named(kernel).page, start=0, end=end)
    for pfn, order, migratetype in blocks:
        buddy.set_type(pfn, order, migratetype)
        buddy.put(pfn, order, migratetype, tail=True)
    return buddy


@BOTH
def test_a_whole_block_turns_with_its_pageblocks(kernel):
    buddy = make(kernel, (0, 10, mt.MOVABLE), (1024, 10, mt.MOVABLE))
    assert alloc_block(buddy, 0, mt.UNMOVABLE) == 0
    assert buddy.block_type[:4].tolist() == [mt.UNMOVABLE] * 2 + [mt.MOVABLE] * 2
    assert buddy.nr_free[:, mt.UNMOVABLE].tolist() == [1] * 10 + [0]
    assert alloc_block(buddy, 3, mt.UNMOVABLE) == 8


@BOTH
@pytest.mark.parametrize(
    ("wanted", "first"),
    [(mt.UNMOVABLE, mt.RECLAIMABLE), (mt.MOVABLE, mt.RECLAIMABLE), (mt.RECLAIMABLE, mt.UNMOVABLE)],
)
def test_types_are_asked_in_the_order_of_their_row(kernel, wanted, first):
    others = [t for t in (mt.UNMOVABLE, mt.MOVABLE, mt.RECLAIMABLE) if t != wanted]
    blocks = {t: (1024 * place, 10, t) for place, t in enumerate(others)}
    buddy = make(kernel, *blocks.values())
    assert alloc_block(buddy, 0, wanted) == blocks[first][0]


@BOTH
def test_the_largest_foreign_block_goes_first(kernel):
    buddy = make(kernel, (0, 9, mt.MOVABLE), (1024, 10, mt.MOVABLE))
    assert alloc_block(buddy, 0, mt.UNMOVABLE) == 1024


def test_until_6_14_the_free_pages_of_a_used_pageblock_move_along():
    buddy = make(V6_1, (0, 4, mt.MOVABLE), (32, 5, mt.MOVABLE))
    boosts = []
    buddy.on_boost = lambda: boosts.append(1)
    buddy.movable_in_use = lambda start, stop: 400  # too many to turn the pageblock
    assert alloc_block(buddy, 0, mt.UNMOVABLE) == 0
    assert buddy.type_of(0) == mt.MOVABLE
    assert buddy.lists[5][mt.UNMOVABLE].blocks().tolist() == [32]
    assert boosts == [1]


def test_from_6_15_a_used_pageblock_keeps_its_free_pages():
    buddy = make(V6_12, (0, 4, mt.MOVABLE), (32, 5, mt.MOVABLE))
    buddy.movable_in_use = lambda start, stop: 400
    assert alloc_block(buddy, 0, mt.UNMOVABLE) == 0
    assert buddy.type_of(0) == mt.MOVABLE
    assert buddy.lists[5][mt.MOVABLE].blocks().tolist() == [32]
    assert buddy.nr_free[:, mt.UNMOVABLE].sum() == 0


@BOTH
@pytest.mark.parametrize(("movable", "turns"), [(256, True), (257, False)])
def test_a_pageblock_turns_when_half_of_it_is_free_or_alike(kernel, movable, turns):
    buddy = make(kernel, (0, 4, mt.MOVABLE))
    buddy.movable_in_use = lambda start, stop: movable  # the others are kernel pages
    alloc_block(buddy, 0, mt.UNMOVABLE)
    assert (buddy.type_of(0) == mt.UNMOVABLE) is turns


@BOTH
@pytest.mark.parametrize(("movable", "turns"), [(240, True), (239, False)])
def test_for_movable_requests_movable_pages_are_alike(kernel, movable, turns):
    buddy = make(kernel, (0, 4, mt.UNMOVABLE))
    buddy.movable_in_use = lambda start, stop: movable
    alloc_block(buddy, 0, mt.MOVABLE)
    assert (buddy.type_of(0) == mt.MOVABLE) is turns


def test_a_movable_request_takes_the_smallest_of_small_blocks():
    for kernel in (V6_1, V6_12):
        buddy = make(kernel, (0, 3, mt.UNMOVABLE), (512, 1, mt.UNMOVABLE))
        assert alloc_block(buddy, 0, mt.MOVABLE) == 512
        owner = mt.MOVABLE if kernel == V6_1 else mt.UNMOVABLE
        assert buddy.lists[0][owner].blocks().tolist() == [513]


@BOTH
def test_nofragment_leaves_small_foreign_blocks_alone(kernel):
    buddy = make(kernel, (0, 8, mt.MOVABLE))
    assert alloc_block(buddy, 0, mt.UNMOVABLE, nofragment=True) == -1
    assert alloc_block(buddy, 0, mt.UNMOVABLE) == 0
    whole = make(kernel, (0, 9, mt.MOVABLE))
    assert alloc_block(whole, 0, mt.UNMOVABLE, nofragment=True) == 0


def test_claiming_ends_at_small_orders_when_a_block_is_met_or_at_once():
    for kernel in (V6_12, V7_3):
        buddy = make(kernel, (0, 2, mt.RECLAIMABLE))
        buddy.movable_in_use = lambda start, stop: 512
        assert alloc_block(buddy, 0, mt.MOVABLE) == 0
        assert buddy.type_of(0) == mt.RECLAIMABLE


def test_a_refill_that_had_to_steal_does_not_look_back():
    """Claimed pageblocks are gone after the first steal of one hold of the zone lock."""
    buddy = make(V6_12, (0, 0, mt.MOVABLE), (4, 1, mt.MOVABLE), (512, 2, mt.RECLAIMABLE))
    buddy.movable_in_use = lambda start, stop: 500
    taken = expand(alloc_blocks(buddy, 9, 0, mt.UNMOVABLE))
    assert taken.tolist() == [0, 4, 5, 512, 513, 514, 515]
    assert buddy.free_pages == 0


@BOTH
def test_a_series_is_the_same_as_single_requests(kernel):
    blocks = [(0, 10, mt.MOVABLE), (1024, 5, mt.RECLAIMABLE), (2048, 3, mt.UNMOVABLE)]
    one, many = make(kernel, *blocks), make(kernel, *blocks)
    series = expand(alloc_blocks(many, 1500, 0, mt.RECLAIMABLE)).tolist()
    single = []
    while (pfn := alloc_block(one, 0, mt.RECLAIMABLE)) >= 0:
        single.append(pfn)
    assert series == single
    assert sorted(series) == [*range(1024), *range(1024, 1056), *range(2048, 2056)]
