"""Direct reclaim, and everything that the slow path of the page allocator asks reclaim for.

mm/vmscan.c do_try_to_free_pages(), shrink_node(), should_continue_reclaim(); the generations of
MGLRU only by their amounts (lru_gen_shrink_node()). Slab shrinkers free nothing here, and without
swap anonymous memory stays.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from allocator import gfp as gfp_bits
from allocator.pages.alloc import PageAllocator
from allocator.pages.compaction import (
    COSTLY_ORDER,
    Compactor,
    Suit,
    block_is_there,
    gap,
    ready,
    suitable,
    target,
)
from allocator.pages.kswapd import CLUSTER, DEF_PRIORITY, Kswapd, Pace
from allocator.pages.lru import Lru, PageUse, Run, Use
from allocator.pages.policy import PagePolicy
from allocator.pages.slowpath import CompactResult, Priority, Request
from allocator.pages.zone import Zone

GENERATION_BATCH = 64
"""Pages that a walk over the generations takes at once (MAX_LRU_BATCH on 64-bit)."""


class Held:
    """Pages that one CPU has reclaimed in one zone and still keeps on its own list.

    A full list hands its oldest pages over, so the newest are missing in the buddy lists and what
    was on it before is not: a pageblock is whole a little later (free_unref_page_commit()).

    Parameters
    ----------
    zone
        The zone.
    """

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._runs: deque[Run] = deque()
        self.pages = 0
        """Pages on the list."""
        pcp = zone.pcps[zone.cpus[0]]
        self._batch, self._high = pcp.batch, pcp.high
        self._drains_all = zone.policy.pcp != "batch6"

    def limit(self, *, active: bool) -> int:
        """Return how many pages it keeps at most; fewer while kswapd works on the zone (5.14)."""
        if active and self._drains_all:
            return min(4 * self._batch, self._high)
        return self._high

    def put(self, start: int, count: int) -> None:
        """Put pages on the list, however full it is."""
        self._runs.append((start, count))
        self.pages += count

    def pass_on(self, start: int, count: int, *, active: bool) -> None:
        """Free pages: they go on the list; when it is full the oldest go off it.

        A batch at a time until 5.13; later, frees in a row empty all but a batch.
        """
        self.put(start, count)
        over = self.pages - self.limit(active=active)
        if over >= 0:
            step = max(self._batch, 1)
            least = self.pages - self._batch if self._drains_all else step * (over // step + 1)
            self._let_go(max(0, min(least, self.pages)))

    def drain(self) -> None:
        """Hand all pages over."""
        self._let_go(self.pages)

    def _let_go(self, pages: int) -> None:
        self.pages -= pages
        while pages > 0:
            start, count = self._runs.popleft()
            if self._runs and self._runs[0][0] == start + count:
                self._runs[0] = (start, count + self._runs[0][1])
                continue
            gone = min(count, pages)
            self._zone.free_run(start, gone, None)
            if gone < count:
                self._runs.appendleft((start + gone, count - gone))
            pages -= gone


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
        self.kswapd = Kswapd(
            policy, zones, self.lru, self._for_kswapd, pace, jitter, self._kswapd_sleeps
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
        return freed

    def _for_kswapd(self, pages: int) -> int:
        return self.take(pages, "kswapd")

    def _kswapd_sleeps(self) -> None:
        for compactor in self.compactors.values():
            compactor.rested()

    def drain(self) -> None:
        """Empty the CPUs' lists of reclaimed pages (drain_all_pages())."""
        for held in self.held.values():
            held.drain()

    def _count(self, who: str, pages: int) -> None:
        for name in (f"pgsteal_{who}", f"pgscan_{who}"):
            self.counters[name] = self.counters.get(name, 0) + pages

    # Direct reclaim

    def shrink(self, order: int, highest: int, priority: int, *, retry_mayfail: bool) -> int:
        """Reclaim for one request at one priority (shrink_node()); return the pages freed."""
        total = 0
        while self.lru.pages:
            got = self.take(self._step(order, highest, priority, total), "direct")
            total += got
            self.kswapd.beside(got)
            if not self._continues(order, highest, priority, got, total, retry_mayfail):
                break
        return total

    def _step(self, order: int, highest: int, priority: int, total: int) -> int:
        """Pages of the next pass, several passes at once while no test can stop them."""
        step = max(self.lru.pages >> priority, 1)
        if self.policy.lru == "generations":
            batch = -(-step // GENERATION_BATCH) * GENERATION_BATCH
            enough = -(-max(CLUSTER, gap(self.policy, order)) // GENERATION_BATCH)
            return min(batch, max(1, enough) * GENERATION_BATCH)
        step = max(step, CLUSTER) if priority < DEF_PRIORITY or step >= CLUSTER else step
        passes = 1
        if self._by_order(order, priority) and self.lru.pages > gap(self.policy, order):
            away = min(self._pages_away(zone, order, highest) for zone in self.zones)
            passes = max(1, min(away, self.lru.pages - gap(self.policy, order)) // step)
        return step * passes

    def _pages_away(self, zone: Zone, order: int, highest: int) -> int:
        """Pages that a zone needs at least until a request, or compaction, could succeed."""
        if zone.index > highest:
            return 1 << 60
        block = zone.mark("min") + zone.reserve[highest] + (1 << order)
        compact = target(self.policy, zone, order, highest) + 1
        return max(0, min(block, compact) - zone.free)

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
                if suit is not Suit.SKIPPED:
                    return False
        return self.lru.pages > enough


class Reclaimer:
    """Reclaim and compaction of a machine, asked by the slow path (slowpath.Reclaim).

    Parameters
    ----------
    allocator
        The machine's page allocator; its counters are added to.
    pace
        kswapd's speed.
    jitter
        Draws how far kswapd gets between two requests; None: always the mean.
    """

    still = False

    def __init__(
        self,
        allocator: PageAllocator,
        pace: Pace,
        jitter: np.random.Generator | None = None,
    ) -> None:
        self.allocator = allocator
        self.policy = allocator.policy
        self.counters = allocator.counters
        by_node: dict[int, list[Zone]] = {}
        for zone in allocator.zones:
            by_node.setdefault(zone.node, []).append(zone)
        self.nodes = {
            node: Node(
                self.policy, sorted(zones, key=lambda z: z.index), pace, self.counters, jitter
            )
            for node, zones in by_node.items()
        }

    def tick(self) -> None:
        """Let the time of one request pass on every node's kswapd."""
        for node in self.nodes.values():
            node.kswapd.tick()

    def reclaimable(self, zone: Zone) -> int:
        """Count the pages of a zone that reclaim could free (zone_reclaimable_pages())."""
        total = self.nodes[zone.node].uses[zone.index].total
        return total[Use.CACHE] + total[Use.DIRTY]

    def wake_kswapd(self, zone: Zone, order: int, highest: int, gfp: int) -> None:
        """Wake the kswapd of a zone's node."""
        self.nodes[zone.node].kswapd.wake(order, highest)

    def oom_kill(self, request: Request) -> bool:
        """Kill nobody: there are no tasks here."""
        return False

    def direct_reclaim(self, request: Request) -> int:
        """Reclaim for a request (try_to_free_pages()).

        Returns
        -------
        int
            Pages freed; 1 if a zone was left to compaction; 0 if nothing could be done.
        """
        name = f"allocstall_{gfp_bits.ZONES[request.highest].lower()}"
        self.counters[name] = self.counters.get(name, 0) + 1
        self.tick()
        retry = bool(request.gfp & gfp_bits.RETRY_MAYFAIL)
        compacts = bool(request.gfp & gfp_bits.IO)
        total = 0
        for priority in range(DEF_PRIORITY, -1, -1):
            left, freed = self._shrink_zones(request, priority, compacts, retry)
            total += freed
            if total >= CLUSTER or left:
                total = max(total, 1)
                break
            if not any(self.nodes[zone.node].lru.pages for zone in request.zonelist):
                break
        if total:
            self._drain_for(request)
        return total

    def _drain_for(self, request: Request) -> None:
        """Empty the lists if the request would not be served: it would have that done next."""
        for zone in request.zonelist:
            if block_is_there(zone, request.order, request.highest):
                return
        for node in self.nodes.values():
            node.drain()

    def _shrink_zones(
        self, request: Request, priority: int, compacts: bool, retry: bool
    ) -> tuple[bool, int]:
        """Shrink the nodes of a request (shrink_zones()): whether compaction is to take over."""
        left, freed, seen = False, 0, set()
        for zone in request.zonelist:
            if zone.index > request.highest:
                continue
            costly = compacts and request.order > COSTLY_ORDER
            if costly and ready(self.policy, zone, request.order, request.highest):
                left = True
                continue
            if zone.node not in seen:
                seen.add(zone.node)
                node = self.nodes[zone.node]
                freed += node.shrink(request.order, request.highest, priority, retry_mayfail=retry)
        return left, freed

    def direct_compact(self, request: Request, priority: Priority) -> tuple[CompactResult, int]:
        """Compact the zones of a request (try_to_compact_pages()).

        Returns
        -------
        tuple
            The best result of all zones, and the first page of the captured block or -1.
        """
        best = CompactResult.SKIPPED
        if not request.gfp & gfp_bits.IO:
            return best, -1
        for zone in request.zonelist:
            if zone.index > request.highest:
                continue
            result, pfn = self._compact_zone(request, zone, priority)
            best = max(best, result)
            if result is CompactResult.SUCCESS:
                return result, pfn
        self.tick()
        return best, -1

    def _compact_zone(
        self, request: Request, zone: Zone, priority: Priority
    ) -> tuple[CompactResult, int]:
        compactor = self.nodes[zone.node].compactors[zone.index]
        defer = compactor.defer
        if priority is not Priority.FULL and defer.deferred(request.order):
            return CompactResult.DEFERRED, -1
        suit = suitable(self.policy, zone, request.order, request.highest)
        if suit is Suit.SKIPPED:
            return CompactResult.SKIPPED, -1
        if suit is Suit.SUCCESS:
            defer.succeeded(request.order, allocated=False)
            return CompactResult.SUCCESS, -1
        outcome = compactor.run(
            request.order,
            sync=priority is not Priority.ASYNC,
            movable=request.migratetype == 1,
            least=zone.mark("min"),
        )
        self._count_run(outcome.scanned, outcome.free_scanned, outcome.migrated)
        if outcome.block >= 0:
            defer.succeeded(request.order, allocated=True)
            return CompactResult.SUCCESS, outcome.block
        if priority is not Priority.ASYNC:
            defer.failed(request.order)
        done = CompactResult.COMPLETE if outcome.whole else CompactResult.PARTIAL_SKIPPED
        return done, -1

    def _count_run(self, scanned: int, free_scanned: int, migrated: int) -> None:
        for name, count in (
            ("compact_migrate_scanned", scanned),
            ("compact_free_scanned", free_scanned),
            ("compact_isolated", 2 * migrated),
            ("pgmigrate_success", migrated),
        ):
            self.counters[name] = self.counters.get(name, 0) + count

    def compact_memory(self) -> int:
        """Write vm.compact_memory: compact every zone whole. Return the pages moved."""
        moved = 0
        for node in self.nodes.values():
            for zone in node.zones:
                pages = node.compactors[zone.index].whole_zone()
                moved += pages
        self._count_run(0, 0, moved)
        return moved

    def drop_caches(self) -> int:
        """Write vm.drop_caches: free all clean cache. Return the pages freed."""
        freed = sum(node.take(node.lru.pages, "direct") for node in self.nodes.values())
        for node in self.nodes.values():
            node.drain()
        return freed
