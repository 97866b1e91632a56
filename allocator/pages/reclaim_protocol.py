"""What the slow path asks of reclaim and compaction, and what they answer."""

from enum import IntEnum
from typing import Protocol

from allocator.pages.walk import Request
from allocator.pages.zone import Zone


class CompactResult(IntEnum):
    """What a compaction came to; of several zones the largest counts."""

    SKIPPED = 0
    """Not worth trying."""
    DEFERRED = 1
    """It failed lately."""
    CONTINUE = 2
    """Worth trying."""
    COMPLETE = 3
    """The whole zone was scanned."""
    PARTIAL_SKIPPED = 4
    """Part of the zone was scanned."""
    CONTENDED = 5
    """Given up: a lock was taken, or the task is to go."""
    SUCCESS = 6
    """There is a block."""


class Priority(IntEnum):
    """How hard compaction tries; smaller is harder."""

    FULL = 0
    SYNC_LIGHT = 1
    ASYNC = 2


class Reclaim(Protocol):
    """What the slow path asks of reclaim and compaction."""

    def direct_reclaim(self, request: Request) -> int:
        """Reclaim for a request; return its progress in pages (try_to_free_pages())."""
        ...

    def direct_compact(self, request: Request, priority: Priority) -> tuple[CompactResult, int]:
        """Compact for a request; return what came of it, and a block captured or -1."""
        ...

    def reclaimable(self, zone: Zone) -> int:
        """Return the pages that reclaim might free in a zone (zone_reclaimable_pages())."""
        ...

    def wake_kswapd(self, zone: Zone, order: int, highest: int, gfp: int) -> None:
        """Wake the kswapd of a zone's node."""
        ...

    def oom_kill(self, request: Request) -> bool:
        """Kill a task if that may help; tell whether there was progress (out_of_memory())."""
        ...


class NoReclaim:
    """Nothing to reclaim, nothing to move: a machine whose memory is all the kernel's own."""

    def direct_reclaim(self, request: Request) -> int:
        """Free nothing."""
        return 0

    def direct_compact(self, request: Request, priority: Priority) -> tuple[CompactResult, int]:
        """Skip."""
        return CompactResult.SKIPPED, -1

    def reclaimable(self, zone: Zone) -> int:
        """Return 0."""
        return 0

    def wake_kswapd(self, zone: Zone, order: int, highest: int, gfp: int) -> None:
        """Wake nobody."""

    def oom_kill(self, request: Request) -> bool:
        """Kill nobody."""
        return False
