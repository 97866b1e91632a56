"""Uses of pages and the age of the cache, against lists of single pages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.kernels import kernel_named
from allocator.pages.buddy import Buddy
from allocator.pages.lru import Lru
from allocator.pages.uses import PageUse, Use

PAGES = 4096
POLICY = kernel_named("v6_1").page


def page_use() -> PageUse:
    return PageUse(Buddy(POLICY, start=0, end=PAGES))


@st.composite
def writes(draw: st.DrawFn) -> list[tuple[int, int, Use]]:
    use = st.sampled_from([Use.CACHE, Use.ANON, Use.POOL, Use.DIRTY])
    run = st.tuples(st.integers(0, PAGES - 1), st.integers(1, 1500), use)
    return draw(st.lists(run, max_size=12))


@settings(deadline=None, max_examples=60)
@given(writes())
def test_uses_equal_a_note_on_every_page(runs: list[tuple[int, int, Use]]) -> None:
    use, every = page_use(), np.zeros(PAGES, dtype=np.uint8)
    for start, count, kind in runs:
        stop = min(start + count, PAGES)
        if every[start:stop].any():
            continue
        every[start:stop] = kind
        use.set(start, stop - start, kind)
    np.testing.assert_array_equal(use.of(0, PAGES), every)
    movable = np.isin(every, (Use.CACHE, Use.DIRTY, Use.ANON)).reshape(-1, 512).sum(axis=1)
    np.testing.assert_array_equal(use.movable, movable)
    assert use.total[Use.CACHE] == (every == Use.CACHE).sum()
    assert (
        use.movable_between(100, 3000)
        == np.isin(every[100:3000], (Use.CACHE, Use.DIRTY, Use.ANON)).sum()
    )


@settings(deadline=None, max_examples=60)
@given(writes(), st.lists(st.integers(1, 900), max_size=8))
def test_the_oldest_pages_leave_first_whatever_the_portions(
    runs: list[tuple[int, int, Use]], portions: list[int]
) -> None:
    use = page_use()
    lru = Lru([(0, PAGES, use)])
    every, age = np.zeros(PAGES, dtype=np.bool_), []
    for start, count, _ in runs:
        stop = min(start + count, PAGES)
        if not every[start:stop].any():
            every[start:stop] = True
            lru.add(start, stop - start)
            age += range(start, stop)
    left: list[int] = []
    for portion in portions:
        before = len(left)
        for start, count in lru.oldest(portion):
            left += range(start, start + count)
        assert len(left) - before == min(portion, len(age) - before)
    assert left == age[: len(left)]
    assert lru.pages == len(age) - len(left)


def test_moved_pages_are_no_longer_found_at_their_old_place() -> None:
    use = page_use()
    lru = Lru([(0, PAGES, use)])
    lru.add(0, 100)
    use.clear(10, 20, Use.CACHE)
    use.set(3000, 20, Use.CACHE)
    lru.list(3000, 20)
    assert list(lru.oldest(1000)) == [(0, 10), (30, 70), (3000, 20)]


def test_dirty_pages_rotate_until_they_are_written() -> None:
    use = page_use()
    lru = Lru([(0, PAGES, use)])
    lru.add(0, 64, Use.DIRTY)
    lru.add(512, 64)
    assert list(lru.oldest(1000)) == [(512, 64)]
    assert lru.wash() == 64
    assert list(lru.oldest(1000)) == [(0, 64)]


def test_large_folios_go_whole() -> None:
    use = page_use()
    lru = Lru([(0, PAGES, use)])
    lru.add(0, 2048)
    assert list(lru.oldest(32, whole=512)) == [(0, 512)]
    assert list(lru.oldest(513, whole=512)) == [(512, 1024)]


def test_a_page_of_no_zone_is_refused() -> None:
    lru = Lru([(0, PAGES, page_use())])
    with pytest.raises(LookupError, match="page 5000 is in no zone"):
        lru.uses_of(5000)
