"""Everything that the slow path of the page allocator asks reclaim and compaction for.

mm/vmscan.c do_try_to_free_pages(), shrink_zones(); mm/compaction.c try_to_compact_pages();
mm/workingset.c.
"""

import numpy as np

from allocator import gfp as gfp_bits
from allocator.pages import migratetype as mt
from allocator.pages.alloc import PageAllocator
from allocator.pages.kswapd import CLUSTER, DEF_PRIORITY, Pace
from allocator.pages.pcp import COSTLY_ORDER
from allocator.pages.reclaim import Node
from allocator.pages.reclaim_protocol import CompactResult, NoReclaim, Priority
from allocator.pages.suitable import Suit, block_is_there, ready, suitable
from allocator.pages.uses import Use
from allocator.pages.walk import Request
from allocator.pages.zone import Zone

# looking a member up in its class is slow, and these are needed for every few pages
_SKIPPED, _THERE = Suit.SKIPPED, Suit.SUCCESS
_ASYNC, _FULL = Priority.ASYNC, Priority.FULL
_RESULT_SKIPPED, _RESULT_SUCCESS = CompactResult.SKIPPED, CompactResult.SUCCESS
_RESULT_DEFERRED = CompactResult.DEFERRED
_CACHE, _DIRTY = Use.CACHE, Use.DIRTY


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
        self._idle = pace.idle
        self.nodes = {
            node: Node(
                self.policy, sorted(zones, key=lambda z: z.index), pace, self.counters, jitter
            )
            for node, zones in by_node.items()
        }

    def take_apart(self) -> None:
        """Cut the references that run in circles: the memory of a machine is free at once.

        Nothing works afterwards.
        """
        self.allocator.reclaim = NoReclaim()
        for node in self.nodes.values():
            del node.kswapd
            for zone in node.zones:
                del zone.buddy.on_boost, zone.buddy.movable_in_use

    def tick(self, share: float = 1) -> None:
        """Let the time of one request pass, or a share of it, on every node's kswapd."""
        for node in self.nodes.values():
            node.kswapd.tick(share)

    def reclaimable(self, zone: Zone) -> int:
        """Count the pages of a zone that reclaim could free (zone_reclaimable_pages())."""
        total = self.nodes[zone.node].uses[zone.index].total
        return total[_CACHE] + total[_DIRTY]

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
        self.tick(self._idle if self._left_to_compaction(request) else 1)
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
        if retry and total and self.policy.lru == "generations":
            total += self._further_rounds(request, name)
        total = total or self._shrink_shadows(request)
        if total:
            self._drain_for(request)
        return total

    def _left_to_compaction(self, request: Request) -> bool:
        """Tell whether reclaim has nothing to do in any zone of a request."""
        if request.order <= COSTLY_ORDER or not request.gfp & gfp_bits.IO:
            return False
        return all(
            ready(self.policy, zone, request.order, request.highest) for zone in request.zonelist
        )

    def _further_rounds(self, request: Request, name: str) -> int:
        """Make the rounds that are sure to follow: none can succeed before they are through.

        A round of the generations frees a batch or two, far from what a huge page needs, and a
        request that retries comes back at once, as long as compaction has too little to work with.
        """
        node = self.nodes[request.zonelist[0].node]
        batch = node.batch(request.order, DEF_PRIORITY)
        rounds = node.away(request.order, request.highest) // batch
        if rounds < 1 or batch > node.lru.pages:
            return 0
        self.counters[name] += rounds
        freed = node.take(batch * rounds, "direct")
        awake = [other.kswapd for other in self.nodes.values() if other.kswapd.awake]
        if len(awake) == 1:
            awake[0].ticks(2 * rounds)
        for _ in range(2 * rounds if len(awake) > 1 else 0):
            self.tick()
        return freed

    def _shrink_shadows(self, request: Request) -> int:
        """Reclaim what remembers reclaimed pages, when there is no page left (mm/workingset.c).

        The radix tree nodes of a cache that is gone are slabs: some progress, once, and few pages.
        """
        nodes = [self.nodes[zone.node] for zone in request.zonelist]
        progress = any(node.shadows for node in nodes)
        for node in nodes:
            node.shadows = False
        return int(progress)

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
        best, worked = _RESULT_SKIPPED, False
        if not request.gfp & gfp_bits.IO:
            return best, -1
        for zone in request.zonelist:
            if zone.index > request.highest:
                continue
            result, pfn = self._compact_zone(request, zone, priority)
            best = max(best, result)
            worked = worked or result > _RESULT_DEFERRED
            if result is _RESULT_SUCCESS:
                return result, pfn
        self.tick(1 if worked else self._idle)
        return best, -1

    def _compact_zone(
        self, request: Request, zone: Zone, priority: Priority
    ) -> tuple[CompactResult, int]:
        compactor = self.nodes[zone.node].compactors[zone.index]
        defer = compactor.defer
        if priority is not _FULL and defer.deferred(request.order):
            return _RESULT_DEFERRED, -1
        suit = suitable(self.policy, zone, request.order, request.highest)
        if suit is _SKIPPED:
            return _RESULT_SKIPPED, -1
        if suit is _THERE:
            defer.succeeded(request.order, allocated=False)
            return _RESULT_SUCCESS, -1
        outcome = compactor.run(
            request.order,
            sync=priority is not _ASYNC,
            movable=request.migratetype == mt.MOVABLE,
            least=zone.mark("min"),
        )
        self._count_run(outcome.scanned, outcome.free_scanned, outcome.migrated)
        if outcome.there:
            defer.succeeded(request.order, allocated=False)
            return _RESULT_SUCCESS, -1
        if outcome.block >= 0:
            defer.succeeded(request.order, allocated=True)
            return _RESULT_SUCCESS, outcome.block
        if priority is not _ASYNC:
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
        return sum(node.drop() for node in self.nodes.values())
