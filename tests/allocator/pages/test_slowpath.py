"""The slow path as a whole, with reclaim and compaction played by tables."""

import pytest

from allocator import gfp as flags
from allocator.pages import migratetype as mt
from allocator.pages.reclaim_protocol import CompactResult as Result
from allocator.pages.reclaim_protocol import Priority
from tests.allocator.pages.zones_of_tests import machine, zone

KERNEL = flags.DIRECT_RECLAIM | flags.KSWAPD_RECLAIM | flags.IO | flags.FS
HUGE = KERNEL | flags.HIGHMEM | flags.MOVABLE


class Played:
    """Reclaim that frees what a script says, and logs what it is asked."""

    def __init__(self, frees=(), compactions=(), kills=0):
        self.frees, self.compactions, self.kills = list(frees), list(compactions), kills
        self.log = []

    def direct_reclaim(self, request):
        self.log.append("reclaim")
        freed = self.frees.pop(0) if self.frees else 0
        for pfn in range(4096, 4096 + freed, 512):
            request.zonelist[0].buddy.put(pfn, 9, mt.MOVABLE, tail=True)
        return freed

    def direct_compact(self, request, priority):
        self.log.append(priority)
        return (self.compactions.pop(0) if self.compactions else Result.SKIPPED), -1

    def reclaimable(self, zone):
        return sum(self.frees)

    def wake_kswapd(self, zone, order, highest, gfp):
        if "kswapd" not in self.log:
            self.log.append("kswapd")

    def oom_kill(self, request):
        self.log.append("kill")
        self.kills -= 1
        return self.kills >= 0


def run(kernel, order, gfp, played):
    pages = machine(zone(kernel, released=False))
    pages.reclaim = played
    return pages, pages.alloc(0, order, gfp)


def test_a_huge_page_comes_of_one_round_of_reclaim():
    played = Played(frees=[1024], compactions=[Result.SKIPPED])
    pages, pfn = run("v6_1", 9, HUGE | flags.RETRY_MAYFAIL, played)
    assert pfn == 4096
    assert played.log == ["kswapd", Priority.ASYNC, "reclaim"]
    assert "compact_stall" not in pages.counters


def test_the_bail_out_leaves_reclaim_out():
    played = Played(frees=[1024])
    _, pfn = run("v6_1_bailout", 9, HUGE | flags.RETRY_MAYFAIL, played)
    assert pfn == -1
    assert played.log == ["kswapd", Priority.ASYNC]


def test_without_retry_a_costly_request_has_one_round():
    played = Played(frees=[0, 1024], compactions=[Result.COMPLETE] * 3)
    pages, pfn = run("v6_1", 9, HUGE, played)
    assert pfn == -1
    assert played.log == ["kswapd", Priority.ASYNC, "reclaim", Priority.SYNC_LIGHT]
    assert pages.counters == {"compact_stall": 2, "compact_fail": 2}


def test_norerty_compacts_no_harder_in_the_first_kernels_of_each_rule():
    for kernel, log in (
        ("v5_10", ["kswapd", Priority.ASYNC, "reclaim", Priority.ASYNC]),
        ("v7_3", ["kswapd", Priority.ASYNC, "reclaim", Priority.ASYNC]),
    ):
        played = Played(compactions=[Result.COMPLETE] * 3)
        _, pfn = run(kernel, 9, HUGE | flags.NORETRY, played)
        assert (pfn, played.log) == (-1, log)


def test_skipped_compactions_count_as_stalls_only_until_5_10():
    for kernel, stalls in (("v5_10", 2), ("v6_1", 0)):
        pages, _ = run(kernel, 9, HUGE, Played())
        assert pages.counters.get("compact_stall", 0) == stalls


def test_progress_without_a_block_asks_compaction_whether_to_go_on():
    rounds = {"v5_3": 3, "v6_1": 1}
    for kernel, count in rounds.items():
        played = Played(frees=[1, 1, 0], compactions=[Result.SKIPPED] + [Result.DEFERRED] * 9)
        played.direct_reclaim = lambda request, played=played: (
            played.log.append("reclaim") or (played.frees.pop(0) if played.frees else 0)
        )
        played.reclaimable = lambda zone: 100_000
        run(kernel, 9, HUGE | flags.RETRY_MAYFAIL, played)
        assert played.log.count("reclaim") == count


def test_a_request_that_may_not_sleep_gives_up_at_once():
    played = Played(frees=[1024])
    _, pfn = run("v6_1", 0, flags.KSWAPD_RECLAIM, played)
    assert (pfn, played.log) == (-1, ["kswapd"])


def test_the_last_resort_is_a_kill():
    played = Played(kills=1)
    _, pfn = run("v6_1", 0, KERNEL, played)
    assert pfn == -1
    assert played.log.count("kill") == 2
    retry = Played(kills=1)
    run("v6_1", 0, KERNEL | flags.RETRY_MAYFAIL, retry)
    assert "kill" not in retry.log


def test_nofail_uses_reserves_before_it_despairs():
    pages = machine(zone("v6_1", released=False, marks=(100, 125, 150)))
    pages.zones[0].buddy.put(0, 6, mt.MOVABLE)
    assert pages.alloc(0, 0, KERNEL) == -1
    assert pages.alloc(0, 0, KERNEL | flags.NOFAIL) == 0
    pages.alloc_many(0, 0, flags.MEMALLOC, 100)
    with pytest.raises(MemoryError, match="__GFP_NOFAIL of order 0"):
        pages.alloc(0, 0, KERNEL | flags.NOFAIL)


@pytest.mark.parametrize(
    ("kernel", "gfp", "left"),
    [
        ("v5_10", flags.KSWAPD_RECLAIM, 100),
        ("v5_10", flags.HIGH | flags.ATOMIC | flags.KSWAPD_RECLAIM, 38),
        ("v6_1", flags.HIGH | flags.KSWAPD_RECLAIM, 38),
        ("v6_1", KERNEL | flags.HIGH, 50),
        ("v6_1", KERNEL | flags.NORETRY, 100),
        ("v6_1", flags.MEMALLOC, 0),
        ("v6_1", flags.MEMALLOC | flags.NOMEMALLOC, 100),
    ],
)
def test_how_far_each_flag_gets(kernel, gfp, left):
    pages = machine(zone(kernel, batch=1, high=4, threshold=0))
    pages.alloc_many(0, 0, gfp, 10_000)
    assert pages.zones[0].free == left


def test_failed_direct_reclaim_empties_all_lists_and_looks_again():
    pages = machine(zone("v6_1", released=False, marks=(10, 12, 14), high=200))
    one = pages.zones[0]
    one.buddy.release(0, 128)
    held = pages.alloc_many(1, 0, KERNEL | flags.MOVABLE, 100)
    for pfn in held.tolist():
        pages.free(1, pfn, 0)
    assert one.pcps[1].count >= 100
    pages.reclaim = Played()
    pages.reclaim.direct_reclaim = lambda request: 1
    assert pages.alloc(0, 5, KERNEL) >= 0
    assert one.pcps[1].count == 0
