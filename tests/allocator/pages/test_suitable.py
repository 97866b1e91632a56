"""Whether compaction is worth trying: the vectors of the specification."""

from dataclasses import dataclass, field

import pytest

from allocator.kernels import kernel_named
from allocator.pages import migratetype as mt
from allocator.pages.buddy import Buddy
from allocator.pages.suitable import Suit, block_is_there, fragmentation, gap, ready, suitable

HIGHEST = 3
V6_1, V7_3 = kernel_named("v6_1").page, kernel_named("v7_3").page


@dataclass
class FakeZone:
    """Marks 11086, 13857 and 16628, and free lists of one's choice."""

    free: int
    blocks: dict[int, int] = field(default_factory=dict)
    reserve: tuple[int, ...] = (0, 0, 0, 0)

    def __post_init__(self) -> None:
        self.buddy = Buddy(V6_1, start=0, end=1 << 16)
        at = 0
        for order, count in self.blocks.items():
            for _ in range(count):
                self.buddy.put(at, order, mt.MOVABLE)
                at += 2 << order

    def mark(self, name: str) -> int:
        return {"min": 11086, "low": 13857, "high": 16628}[name]


FRAGMENTED = {0: 3400, 1: 2214}
SIXTY_OF_ORDER_8 = {8: 60}


@pytest.mark.parametrize(
    ("policy", "free", "answer"),
    [
        (V6_1, 14881, Suit.SKIPPED),
        (V6_1, 14882, Suit.CONTINUE),
        (V7_3, 13889, Suit.SKIPPED),
        (V7_3, 13890, Suit.CONTINUE),
    ],
)
def test_compaction_starts_above_the_low_mark_and_the_gap(
    policy: object, free: int, answer: Suit
) -> None:
    assert suitable(policy, FakeZone(free, FRAGMENTED), 9, HIGHEST) is answer  # type: ignore[arg-type]


def test_a_zone_that_lacks_memory_rather_than_order_is_skipped() -> None:
    assert fragmentation(FakeZone(15360, SIXTY_OF_ORDER_8).buddy, 9) == 484
    assert suitable(V6_1, FakeZone(15360, SIXTY_OF_ORDER_8), 9, HIGHEST) is Suit.SKIPPED


def test_a_block_counts_only_above_the_min_mark_and_the_reserve() -> None:
    one = {9: 1}
    assert block_is_there(FakeZone(11086 + 512, one), 9, HIGHEST)
    assert not block_is_there(FakeZone(11086 + 511, one), 9, HIGHEST)
    assert not block_is_there(FakeZone(11086 + 512, one, (0, 0, 0, 1)), 9, HIGHEST)
    assert suitable(V6_1, FakeZone(20000, one), 9, HIGHEST) is Suit.SUCCESS


def test_reclaim_leaves_a_zone_to_compaction_above_the_high_mark() -> None:
    assert not ready(V6_1, FakeZone(16628 + 1024, FRAGMENTED), 9, HIGHEST)
    assert ready(V6_1, FakeZone(16628 + 1025, FRAGMENTED), 9, HIGHEST)
    more = 13857 - 11086
    assert not ready(V7_3, FakeZone(16628 + 32 + more, FRAGMENTED), 9, HIGHEST)
    assert ready(V7_3, FakeZone(16628 + 33 + more, FRAGMENTED), 9, HIGHEST)


def test_the_gap_of_7_3_is_capped() -> None:
    assert (gap(V6_1, 9), gap(V7_3, 9), gap(V7_3, 3)) == (1024, 32, 16)
