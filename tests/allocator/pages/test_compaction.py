"""The scanners: what they empty, what stops them, when they pause."""

import numpy as np

from allocator.kernels import kernel_named
from allocator.pages import migratetype as mt
from allocator.pages.buddy import Buddy
from allocator.pages.compaction import Compactor, Deferral, as_runs
from allocator.pages.lru import Lru
from allocator.pages.uses import PageUse, Use

POLICY = kernel_named("v6_1").page
BLOCK = 512


def zone(blocks: int = 8) -> tuple[Buddy, PageUse, Lru, Compactor]:
    buddy = Buddy(POLICY, start=0, end=blocks * BLOCK)
    use = PageUse(buddy)
    lru = Lru([(0, blocks * BLOCK, use)])
    return buddy, use, lru, Compactor(POLICY, buddy, use, lru)


def every_second(buddy: Buddy, use: PageUse, block: int, kind: Use) -> None:
    """Fill every second page of a block, the others are free."""
    for page in range(block * BLOCK, (block + 1) * BLOCK, 2):
        use.set(page, 1, kind)
        buddy.put(page + 1, 0, buddy.type_of(page))


def test_a_half_free_block_is_emptied_into_the_free_pages_above_it() -> None:
    buddy, use, _, compactor = zone()
    every_second(buddy, use, 0, Use.ANON)
    every_second(buddy, use, 7, Use.ANON)
    done = compactor.run(9, sync=False, movable=True, least=0)
    assert (done.block, done.migrated) == (0, 256)
    assert use.movable.tolist() == [0, 0, 0, 0, 0, 0, 0, 512]
    assert buddy.free_pages == 0  # the emptied block is captured


def test_nothing_is_moved_where_a_block_is_free() -> None:
    buddy, use, _, compactor = zone()
    every_second(buddy, use, 0, Use.ANON)
    every_second(buddy, use, 7, Use.ANON)
    buddy.free(3 * BLOCK, 9, mt.MOVABLE)
    done = compactor.run(9, sync=True, movable=True, least=0)
    assert (done.there, done.block, done.migrated, done.scanned) == (True, -1, 0, 0)
    assert buddy.free_order(3 * BLOCK) == 9


def test_a_page_that_cannot_move_spoils_a_block() -> None:
    buddy, use, _, compactor = zone()
    every_second(buddy, use, 0, Use.ANON)
    use.clear(0, 1, Use.ANON)  # now the kernel's
    every_second(buddy, use, 7, Use.ANON)
    light = compactor.run(9, sync=False, movable=True, least=0)
    assert (light.block, light.migrated, light.whole) == (-1, 0, True)
    buddy, use, _, compactor = zone()
    every_second(buddy, use, 0, Use.ANON)
    use.clear(0, 1, Use.ANON)
    every_second(buddy, use, 7, Use.ANON)
    full = compactor.run(9, sync=True, movable=True, least=0)
    assert (full.block, full.migrated) == (-1, 255)  # moved in vain


def test_the_light_try_leaves_other_types_alone() -> None:
    buddy, use, _, compactor = zone()
    every_second(buddy, use, 0, Use.CACHE)
    every_second(buddy, use, 7, Use.ANON)
    buddy.set_type(0, 9, mt.UNMOVABLE)
    assert compactor.run(9, sync=False, movable=True, least=0).block == -1
    compactor.rested()
    assert compactor.run(9, sync=True, movable=True, least=0).block == 0


def test_free_pages_of_unmovable_blocks_are_no_targets() -> None:
    buddy, use, _, compactor = zone()
    every_second(buddy, use, 0, Use.ANON)
    buddy.set_type(7 * BLOCK, 9, mt.UNMOVABLE)
    every_second(buddy, use, 7, Use.CACHE)
    assert compactor.run(9, sync=True, movable=True, least=0).block == -1


def test_taking_targets_leaves_the_min_mark() -> None:
    buddy, use, _, compactor = zone()
    every_second(buddy, use, 0, Use.ANON)
    every_second(buddy, use, 7, Use.ANON)
    assert compactor.run(9, sync=False, movable=True, least=512).block == -1


def test_searched_blocks_are_skipped_until_kswapd_sleeps() -> None:
    buddy, use, _, compactor = zone()
    every_second(buddy, use, 0, Use.ANON)
    use.clear(0, 1, Use.ANON)
    every_second(buddy, use, 7, Use.ANON)
    compactor.run(9, sync=True, movable=True, least=0)
    assert compactor.skip.any()
    assert compactor.flush_due
    compactor.rested()
    assert not compactor.skip.any()


def test_moved_cache_becomes_the_youngest() -> None:
    buddy, use, lru, compactor = zone()
    every_second(buddy, use, 0, Use.CACHE)
    for page in range(0, BLOCK, 2):
        lru.list(page, 1)
    lru.add(3 * BLOCK, 10)
    every_second(buddy, use, 7, Use.ANON)
    assert compactor.run(9, sync=True, movable=True, least=0).block == 0
    assert next(lru.oldest(10)) == (3 * BLOCK, 10)


def test_compacting_everything_packs_used_pages_at_the_top() -> None:
    buddy, use, _, compactor = zone()
    for block in range(8):
        every_second(buddy, use, block, Use.ANON)
    assert compactor.whole_zone() == 1024
    assert use.movable.tolist() == [0] * 4 + [512] * 4
    assert buddy.free_pages == 4 * BLOCK
    assert len(buddy.lists[10][mt.MOVABLE]) == 2
    assert compactor.whole_zone() == 0


def test_pauses_double_up_to_64_requests() -> None:
    pause = Deferral()
    assert not pause.deferred(9)
    for shift in (1, 2, 3):
        pause.failed(9)
        answers = [pause.deferred(9) for _ in range((1 << shift) + 1)]
        assert answers == [True] * ((1 << shift) - 1) + [False] * 2
    for _ in range(10):
        pause.failed(9)
    assert pause.shift == 6
    pause.succeeded(9, allocated=True)
    assert not pause.deferred(9)


def test_runs_of_pages() -> None:
    assert as_runs(np.array([3, 4, 5, 9, 11, 12])) == [(3, 3), (9, 1), (11, 2)]
    assert as_runs(np.array([], dtype=np.int64)) == []
