import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.kernels import kernel_named
from allocator.pages import migratetype as mt
from allocator.pages.buddy import Buddy
from allocator.pages.merge import Merge
from allocator.pages.runs import aligned_blocks, compact, expand

V5_10, V6_1, V6_12 = (kernel_named(name).page for name in ("v5_10", "v6_1", "v6_12"))


def make(policy=V6_1, end=4096, released=True):
    made = Buddy(policy, start=0, end=end)
    if released:
        made.release(0, end)
    return made


def lists(buddy):
    return [[one.blocks().tolist() for one in row] for row in buddy.lists]


def test_boot_memory_lies_ascending_from_5_10_and_descending_before():
    assert make(V5_10).lists[10][mt.MOVABLE].blocks().tolist() == [0, 1024, 2048, 3072]
    old = make(kernel_named("v5_3").page)
    assert old.lists[10][mt.MOVABLE].blocks().tolist() == [3072, 2048, 1024, 0]


def test_a_zone_that_begins_at_page_1_is_cut_into_aligned_blocks():
    buddy = make(released=False)
    buddy.release(1, 3000)
    counts = buddy.nr_free[:, mt.MOVABLE].tolist()
    assert counts == [1, 1, 1, 2, 2, 2, 1, 2, 2, 2, 1]
    assert buddy.free_pages == 2999


def test_a_split_hands_out_the_low_end_and_keeps_upper_halves():
    buddy = make()
    assert buddy.take_block(8, mt.MOVABLE) == 0
    assert buddy.lists[8][mt.MOVABLE].blocks().tolist() == [256]
    assert buddy.lists[9][mt.MOVABLE].blocks().tolist() == [512]
    assert buddy.take_block(8, mt.MOVABLE) == 256
    assert buddy.take_block(8, mt.MOVABLE) == 512


def test_a_freed_block_merges_up_to_the_largest_order():
    buddy = make()
    pfns = [buddy.take_block(0, mt.MOVABLE) for _ in range(1024)]
    assert pfns == list(range(1024))
    for pfn in pfns:
        buddy.free(pfn, 0, mt.MOVABLE)
    assert buddy.nr_free.sum() == 4
    assert buddy.lists[10][mt.MOVABLE].head() == 0


def test_a_block_whose_merge_is_likely_goes_to_the_tail():
    buddy = make()
    buddy.take_runs(64, 0, mt.MOVABLE)
    buddy.free(0, 0, mt.MOVABLE)
    buddy.free(34, 1, mt.MOVABLE)  # the next higher buddy of page 33 is now free
    buddy.free(33, 0, mt.MOVABLE)
    assert buddy.lists[0][mt.MOVABLE].blocks().tolist() == [0, 33]
    buddy.free(40, 0, mt.MOVABLE)
    assert buddy.lists[0][mt.MOVABLE].blocks().tolist() == [40, 0, 33]


@pytest.mark.parametrize(
    ("policy", "types", "blocks"),
    [
        (V6_1, (mt.MOVABLE, mt.HIGHATOMIC), 2),
        (V5_10, (mt.MOVABLE, mt.HIGHATOMIC), 1),
        (V5_10, (mt.MOVABLE, mt.ISOLATE), 2),
        (V6_1, (mt.MOVABLE, mt.UNMOVABLE), 1),
    ],
)
def test_pageblocks_of_some_types_do_not_merge(policy, types, blocks):
    buddy = make(policy, end=1024, released=False)
    for place, migratetype in enumerate(types):
        buddy.set_type(512 * place, 9, migratetype)
    buddy.free(512, 9, types[1])
    buddy.free(0, 9, types[0])
    assert buddy.nr_free.sum() == blocks


def test_pageblocks_that_merge_take_one_type_from_6_10():
    for policy, kept in ((V6_1, [mt.MOVABLE, mt.UNMOVABLE]), (V6_12, [mt.MOVABLE] * 2)):
        buddy = make(policy, end=1024, released=False)
        buddy.set_type(512, 9, mt.UNMOVABLE)
        buddy.free(512, 9, mt.UNMOVABLE)
        buddy.free(0, 9, mt.MOVABLE)
        assert buddy.block_type.tolist() == kept


def test_a_terabyte_costs_no_more_than_a_gigabyte_until_it_is_touched():
    large, small = make(end=1 << 28), make(end=1 << 18)
    for buddy in (large, small):
        buddy.take_runs(5000, 0, mt.MOVABLE)
        assert len(buddy.lists[10][mt.MOVABLE]._entries()) == 1
    assert large.free_pages == (1 << 28) - 5000
    assert large.free_order(1 << 27) == 10
    assert large.free_order(0) == -1


def test_an_untouched_block_can_be_taken_out():
    buddy = make()
    buddy.remove(2048, 10)
    assert buddy.lists[10][mt.MOVABLE].blocks().tolist() == [0, 1024, 3072]
    assert buddy.free_order(2048) == -1
    assert buddy.free_pages == 3072


def test_free_blocks_of_a_range_are_told_with_their_orders():
    buddy = make()
    buddy.take_block(0, mt.MOVABLE)
    pfns, orders = buddy.free_blocks_in(0, 2048)
    assert pfns.tolist() == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    assert orders.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_impossible_zones_are_refused():
    with pytest.raises(ValueError, match=r"zone of pages 5..5"):
        Buddy(V6_1, start=5, end=5)


ORDERS = st.sampled_from((0, 0, 0, 1, 2, 3))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from((V5_10, V6_1, V6_12)),
    st.lists(st.tuples(st.integers(1, 700), ORDERS, st.randoms(use_true_random=False)), max_size=6),
)
def test_many_at_once_end_in_the_lists_of_one_by_one(policy, rounds):
    bulk, single = (
        Buddy(policy, start=0, end=4096, max_order=6, pageblock_order=4) for _ in range(2)
    )
    for buddy in (bulk, single):
        buddy.release(1, 4050)
    held: list[tuple[int, int]] = []
    for count, order, chance in rounds:
        got = expand(bulk.take_runs(count, order, mt.MOVABLE), order).tolist()
        one_by_one = [single.take_block(order, mt.MOVABLE) for _ in range(count)]
        assert got == [pfn for pfn in one_by_one if pfn >= 0]
        held += [(pfn, order) for pfn in got]
        chance.shuffle(held)
        freed, held = held[: chance.randint(0, len(held))], held
        held = held[len(freed) :]
        if not freed:
            continue
        pfns, orders = (np.array(column) for column in zip(*freed, strict=True))
        types = np.array([chance.choice((0, 1, 2)) for _ in freed], dtype=np.int8)
        if policy is V6_12:
            types = bulk.types_of(pfns)
        Merge(bulk, pfns, orders, types).run()
        for pfn, size, migratetype in zip(pfns, orders, types, strict=True):
            single.free(int(pfn), int(size), int(migratetype))
        assert lists(bulk) == lists(single)
        assert bulk.free_pages == single.free_pages


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5000), st.integers(1, 5000))
def test_a_freed_run_is_the_same_as_its_pages(start, pages):
    run, single = (make(V6_1, end=12288, released=False) for _ in range(2))
    run.free_run(start, pages, mt.MOVABLE)
    for pfn in range(start, start + pages):
        single.free(pfn, 0, mt.MOVABLE)
    assert lists(run) == lists(single)


def test_runs_are_cut_expanded_and_put_together():
    pfns, orders = aligned_blocks(5, 21, 10)
    assert list(zip(pfns.tolist(), orders.tolist(), strict=True)) == [
        (5, 0),
        (6, 1),
        (8, 3),
        (16, 2),
        (20, 0),
    ]
    assert expand((np.array([8, 64]), np.array([2, 3])), 2).tolist() == [8, 12, 64, 68, 72]
    starts, lengths = compact(np.array([7, 8, 9, 3, 4, 12]))
    assert (starts.tolist(), lengths.tolist()) == ([7, 3, 12], [3, 2, 1])
