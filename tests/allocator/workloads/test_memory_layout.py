"""Placement out of counts: nothing is lost, and the cache is in the order of the fill."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.kernels import kernel_named
from allocator.pages import migratetype as mt
from allocator.pages.buddy import Buddy
from allocator.workloads.memory_layout import ZoneCounts, place

BLOCKS = 64
POLICY = kernel_named("v6_1").page


def buddy() -> Buddy:
    return Buddy(POLICY, start=0, end=BLOCKS * 512)


def counts(**changes: object) -> ZoneCounts:
    """40 blocks of a device's cache, 8 of the kernel's, 4 partly free Movable ones, 12 free."""
    free = np.zeros((11, 5), dtype=np.int64)
    free[10, mt.MOVABLE], free[9, mt.MOVABLE] = 5, 2
    free[3, mt.UNMOVABLE], free[0, mt.MOVABLE] = 20, 100
    blocks = np.array([48, 16, 0, 0, 0])
    values = {
        "free": free,
        "blocks": blocks,
        "cache": 40 * 512,
        "mixed": 0,
        "hidden": 0,
        "reclaimed": 0,
        "moved": 200,
        "movable_cache": False,
    }
    return ZoneCounts(**(values | changes))  # type: ignore[arg-type]


def pages(runs: list[tuple[int, int]]) -> list[int]:
    return [pfn for start, count in runs for pfn in range(start, start + count)]


def test_free_lists_and_types_are_as_given() -> None:
    lists, wanted = buddy(), counts()
    place(lists, wanted)
    np.testing.assert_array_equal(lists.nr_free, wanted.free)
    kinds = np.bincount(lists.block_type, minlength=5)
    np.testing.assert_array_equal(kinds, wanted.blocks)


def test_cache_fills_whole_blocks_in_ascending_order() -> None:
    placed = place(buddy(), counts())
    cache = pages(placed.older)
    assert len(cache) == 40 * 512
    assert cache == sorted(cache)
    assert not placed.younger


def test_what_was_reclaimed_is_the_youngest() -> None:
    placed = place(buddy(), counts(reclaimed=700))
    older, younger = pages(placed.older), pages(placed.younger)
    assert len(younger) == 700
    assert older[0] == younger[-1] + 1


def test_mixed_cache_shares_its_blocks_with_the_kernel() -> None:
    placed = place(buddy(), counts(cache=41 * 512, mixed=512))
    mixed = pages(placed.older)[:512]
    blocks = {pfn // 512 for pfn in mixed}
    assert len(blocks) == 8
    assert len(pages(placed.older)) == 41 * 512


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 44 * 512),
    st.integers(0, 2000),
    st.integers(0, 40000),
    st.integers(0, 1000),
    st.integers(0, 500),
    st.booleans(),
)
def test_no_page_has_two_uses(
    cache: int, mixed: int, reclaimed: int, moved: int, hidden: int, movable: bool
) -> None:
    lists = buddy()
    wanted = counts(
        cache=cache,
        mixed=min(mixed, cache),
        reclaimed=reclaimed,
        moved=moved,
        hidden=hidden,
        movable_cache=movable,
    )
    placed = place(lists, wanted)
    used = pages(placed.older + placed.younger + placed.moved + placed.hidden)
    assert len(set(used)) == len(used)
    free = set()
    starts, orders = lists.free_blocks_in(0, BLOCKS * 512)
    for start, order in zip(starts.tolist(), orders.tolist(), strict=True):
        free |= set(range(start, start + (1 << order)))
    assert not free & set(used)
    assert len(free) == lists.free_pages


@pytest.mark.parametrize("movable", [False, True])
def test_cache_lies_in_blocks_of_its_own_type_as_long_as_there_are_any(movable: bool) -> None:
    lists = buddy()
    placed = place(lists, counts(cache=512, movable_cache=movable))
    kinds = set(lists.types_of(np.array(pages(placed.older))).tolist())
    assert kinds == {mt.MOVABLE if movable else mt.UNMOVABLE}
