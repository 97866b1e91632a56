"""Reclaim of one node: what is freed, how much at a time, and when it is enough.

mm/vmscan.c shrink_node(), should_continue_reclaim(); the generations of MGLRU only by their amounts
(lru_gen_shrink_node()). Slab shrinkers free no pages here, and without swap anonymous memory stays.
"""

from collections.abc import Sequence

import numpy as np

from allocator.pages.compaction import Compactor
from allocator.pages.kswapd import CLUSTER, DEF_PRIORITY, Kswapd, Pace, together
from allocator.pages.lru import Lru
from allocator.pages.pcp import COSTLY_ORDER
from allocator.pages.policy import PagePolicy
from allocator.pages.reclaimed import Held
from allocator.pages.suitable import Suit, gap, suitable, target
from allocator.pages.uses import PageUse
from allocator.pages.zone import Zone

GENERATION_BATCH = 64
"""Pages that a walk over the generations takes at once (MAX_LRU_BATCH on 64-bit)."""

_SKIPPED, _CONTINUE = Suit.SKIPPED, Suit.CONTINUE  # looking a member up in its class is slow
_EVENTS = {who: (f"pgsteal_{who}", f"pgscan_{who}") for who in ("kswapd", "direct")}


class Node:
    """Memory of one node as reclaim sees it.

    Parameters
    ----------
    policy
        The kernel.
    zones
        Populated zones, the lowest first.
    pace
        kswapd's speed.
    counters
        vmstat counters, added to.
    jitter
        Draws how far kswapd gets between two requests; None: always the mean.
    """

    def __init__(
        self,
        policy: PagePolicy,
        zones: Sequence[Zone],
        pace: Pace,
        counters: dict[str, int],
        jitter: np.random.Generator | None = None,
    ) -> None:
        self.policy = policy
        self.zones = list(zones)
        self.counters = counters
        self.uses = {zone.index: PageUse(zone.buddy) for zone in zones}
        spans = [(zone.buddy.start, zone.buddy.end, self.uses[zone.index]) for zone in zones]
        self.lru = Lru(spans)
        self.compactors = {
            zone.index: Compactor(policy, zone.buddy, self.uses[zone.index], self.lru)
            for zone in zones
        }
        self.held = {
            (who, zone.index): Held(zone) for who in ("kswapd", "direct") for zone in zones
        }
        """Reclaimed pages on the way to the buddy lists, by who freed them and zone index."""
        self.shadows = False
        """Pages were reclaimed, and what remembers them is still there."""
        self.kswapd = Kswapd(
            policy,
            zones,
            self.lru,
            self._for_kswapd,
            pace,
            jitter,
            self._kswapd_sleeps,
            self._each_for_kswapd,
        )

    def zone_at(self, pfn: int) -> Zone:
        """Return the zone that a page is in."""
        for zone in self.zones:
            if zone.buddy.start <= pfn < zone.buddy.end:
                return zone
        raise LookupError(f"page {pfn} is not on the node")

    def take(self, pages: int, who: str) -> int:
        """Free the oldest cache pages, by way of the list of the CPU that does so.

        Parameters
        ----------
        pages
            How many, at most; large folios go whole.
        who
            `kswapd` or `direct`: each has a CPU of its own.
        """
        whole = 1 << self.zones[0].buddy.pageblock_order if self.policy.large_folios else 1
        freed = 0
        for start, count in self.lru.oldest(pages, whole):
            zone = self.zone_at(start)
            if whole > 1:
                zone.free_run(start, count, None)
            else:
                active = who == "kswapd" or self.kswapd.awake
                self.held[who, zone.index].pass_on(start, count, active=active)
            freed += count
        self._count(who, freed)
        self.shadows = self.shadows or freed > 0
        return freed

    def drop(self) -> int:
        """Free all clean cache at once; return the pages freed."""
        self.drain()
        freed = 0
        for start, count in self.lru.oldest(self.lru.pages):
            self.held["direct", self.zone_at(start).index].free_now(start, count)
            freed += count
        return freed

    def _for_kswapd(self, pages: int) -> int:
        return self.take(pages, "kswapd")

    def _each_for_kswapd(self, sizes: list[int]) -> bool:
        """Take several numbers of pages, as long as they are known to be one run of small pages."""
        pages = sum(sizes)
        start = -1 if self.policy.large_folios else self.lru.take_at_hand(pages)
        if start < 0:
            return False
        held = self.held["kswapd", self.zone_at(start).index]
        for count in sizes:
            held.pass_on(start, count, active=True)
            start += count
        self._count("kswapd", pages)
        self.shadows = self.shadows or pages > 0
        return True

    def _kswapd_sleeps(self, order: int) -> None:
        for compactor in self.compactors.values():
            compactor.rested()
        if order:
            self._kcompactd(order)

    def _kcompactd(self, order: int) -> None:
        """Compact each zone once in the background (kcompactd_do_work()).

        It wakes when kswapd sleeps; the proactive runs, twice a second, are not modelled.
        """
        self._add("compact_daemon_wake", 1)
        for zone in self.zones:
            compactor = self.compactors[zone.index]
            if compactor.defer.deferred(order):
                continue
            if suitable(self.policy, zone, order, zone.index) is not _CONTINUE:
                continue
            done = compactor.run(order, sync=True, movable=True, least=zone.mark("min"))
            self._add("compact_daemon_migrate_scanned", done.scanned)
            self._add("compact_daemon_free_scanned", done.free_scanned)
            self._add("pgmigrate_success", done.migrated)
            if done.there:
                compactor.defer.succeeded(order, allocated=False)
            elif done.block >= 0:
                zone.free_run(done.block, 1 << zone.buddy.pageblock_order, None)
                compactor.defer.succeeded(order, allocated=False)
            else:
                compactor.defer.failed(order)

    def _add(self, name: str, count: int) -> None:
        self.counters[name] = self.counters.get(name, 0) + count

    def drain(self) -> None:
        """Empty the CPUs' lists of reclaimed pages (drain_all_pages())."""
        for held in self.held.values():
            held.drain()

    def _count(self, who: str, pages: int) -> None:
        for name in _EVENTS[who]:
            self.counters[name] = self.counters.get(name, 0) + pages

    # Direct reclaim

    def shrink(self, order: int, highest: int, priority: int, *, retry_mayfail: bool) -> int:
        """Reclaim for one request at one priority (shrink_node()); return the pages freed."""
        total = 0
        while self.lru.pages:
            got = self.take(self._step(order, highest, priority), "direct")
            total += got
            self.kswapd.beside(got)
            if not self._continues(order, highest, priority, got, total, retry_mayfail):
                break
        return total

    def batch(self, order: int, priority: int) -> int:
        """Pages of one walk over the generations (try_to_shrink_lruvec())."""
        step = max(self.lru.pages >> priority, 1)
        enough = max(CLUSTER, gap(self.policy, order))
        return -(-min(step, enough) // GENERATION_BATCH) * GENERATION_BATCH

    def _step(self, order: int, highest: int, priority: int) -> int:
        """Pages of the next pass, several passes at once while no test can stop them."""
        if self.policy.lru == "generations":
            return self.batch(order, priority)
        step = max(self.lru.pages >> priority, 1)
        if priority < DEF_PRIORITY:
            step = max(step, CLUSTER)
        if not self._by_order(order, priority) or self.lru.pages <= gap(self.policy, order):
            return step
        away = min(self.away(order, highest), self.lru.pages - gap(self.policy, order))
        if self.kswapd.works_beside:
            away //= 2
        return step * max(1, max(away, together(self.zones)) // step)

    def away(self, order: int, highest: int) -> int:
        """Pages that the nearest zone needs at least until anything could succeed."""
        return min(self._pages_away(zone, order, highest) for zone in self.zones)

    def _pages_away(self, zone: Zone, order: int, highest: int) -> int:
        """Pages that a zone needs at least until a request, or compaction, could succeed."""
        if zone.index > highest:
            return 1 << 60
        free = zone.free
        request = zone.mark("min") + zone.reserve[highest] + (1 << order) - free
        if request <= 0:  # all that it lacks is a block
            request = self.lru.to_block_end()
        return max(0, min(request, target(self.policy, zone, order, highest) + 1 - free))

    def _by_order(self, order: int, priority: int) -> bool:
        """Tell whether reclaim works for compaction (in_reclaim_compaction())."""
        return order > COSTLY_ORDER or (order > 0 and priority < DEF_PRIORITY - 2)

    def _continues(
        self, order: int, highest: int, priority: int, got: int, total: int, retry_mayfail: bool
    ) -> bool:
        """Decide whether to go on at the same priority (should_continue_reclaim())."""
        if self.policy.lru == "generations" or not self._by_order(order, priority):
            return False
        enough = gap(self.policy, order)
        if got == 0:
            return False
        if self.policy.continue_reclaim == "total" and total < enough < self.lru.pages:
            return True
        for zone in self.zones:
            if zone.index <= highest:
                suit = suitable(self.policy, zone, order, highest)
                if suit is not _SKIPPED:
                    return False
        return self.lru.pages > enough
