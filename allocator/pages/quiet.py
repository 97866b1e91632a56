"""A machine whose memory is all the kernel's own: reclaim and compaction find nothing to move.

What remains of them are their decisions, and that a compaction that fails empties per-CPU lists.
"""

from collections.abc import Callable

from allocator import gfp as flags
from allocator.pages.compaction import Deferral
from allocator.pages.marks import watermark_ok
from allocator.pages.pcp_free import drain_all
from allocator.pages.reclaim_protocol import CompactResult, NoReclaim, Priority
from allocator.pages.suitable import Suit, suitable
from allocator.pages.walk import Request
from allocator.pages.zone import Zone


class Quiet(NoReclaim):
    """Reclaim and compaction of such a machine.

    kswapd of a node that once fell below its high marks has given up: it ran without freeing
    anything 16 times. kcompactd scans for a while on another CPU; `settle()` lets it come to its
    end.

    Parameters
    ----------
    zones
        Zones of the machine.
    given
        Returns how many pages the machine has given so far: that is how time is told here.
    """

    def __init__(self, zones: list[Zone], given: Callable[[], int]) -> None:
        self.zones = zones
        self.given = given
        self.deferral: dict[tuple[int, int], Deferral] = {}
        """Deferred compaction of each zone, by node and index."""
        self.hopeless: set[int] = set()
        """Nodes whose kswapd gave up."""
        self.pending: dict[int, tuple[int, int]] = {}
        """Order and highest zone that each node's kcompactd was asked for."""
        self.woken: dict[int, int] = {}
        """Nodes whose kcompactd scans, and the pages given when it was woken."""

    def direct_compact(self, request: Request, priority: Priority) -> tuple[CompactResult, int]:
        """Scan zones in vain (try_to_compact_pages())."""
        best = CompactResult.SKIPPED
        if not request.gfp & flags.IO:
            return best, -1
        for zone in request.zonelist:
            result = self._compact(zone, request.order, request.highest, priority)
            best = max(best, result)
            if result is CompactResult.SUCCESS:
                break
        return best, -1

    def _compact(self, zone: Zone, order: int, highest: int, priority: Priority) -> CompactResult:
        defer = self.deferral.setdefault((zone.node, zone.index), Deferral())
        if priority is not Priority.FULL and defer.deferred(order):
            return CompactResult.DEFERRED
        suit = suitable(zone.policy, zone, order, highest)
        if suit is Suit.SKIPPED:
            return CompactResult.SKIPPED
        if suit is Suit.SUCCESS:
            return CompactResult.SUCCESS
        if priority is not Priority.ASYNC:
            defer.failed(order)
        return CompactResult.COMPLETE

    def wake_kswapd(self, zone: Zone, order: int, highest: int, gfp: int) -> None:
        """Wake kswapd, or kcompactd where kswapd has nothing to do (wakeup_kswapd())."""
        node = zone.node
        if node in self.hopeless or self._balanced(node, order, highest):
            if not gfp & flags.DIRECT_RECLAIM:
                self._wake_kcompactd(node, order, highest)
            return
        self.hopeless.add(node)
        self._wake_kcompactd(node, order, highest)  # by kswapd, when it goes to sleep

    def _wake_kcompactd(self, node: int, order: int, highest: int) -> None:
        if not order:
            return
        order, highest = (
            max(pair) for pair in zip(self.pending.get(node, (0, 0)), (order, highest), strict=True)
        )
        self.pending[node] = (order, highest)
        for zone in self._zones_of(node, highest):
            if suitable(zone.policy, zone, order, highest) is Suit.CONTINUE:
                self.woken.setdefault(node, self.given())
                return

    def _zones_of(self, node: int, highest: int) -> list[Zone]:
        return [zone for zone in self.zones if zone.node == node and zone.index <= highest]

    def _balanced(self, node: int, order: int, highest: int) -> bool:
        """Tell whether some zone of a node has enough (pgdat_balanced())."""
        return any(
            watermark_ok(zone, order, zone.mark("high"), highest, 0)
            for zone in self._zones_of(node, highest)
        )

    def settle(self, *, at_once: bool = False) -> None:
        """Let each kcompactd that was woken come to its end (kcompactd_do_work()).

        Parameters
        ----------
        at_once
            Only where pages were given since: an operation that ends with the request that woke
            it leaves no time.
        """
        for node, since in sorted(self.woken.items()):
            if at_once and self.given() == since:
                continue
            del self.woken[node]
            order, highest = self.pending.pop(node)
            for zone in self._zones_of(node, highest):
                defer = self.deferral.setdefault((zone.node, zone.index), Deferral())
                if defer.deferred(order):
                    continue
                if suitable(zone.policy, zone, order, highest) is Suit.CONTINUE:
                    drain_all(zone)
                    defer.failed(order)
