"""What a request does when no zone is above its low mark (__alloc_pages_slowpath()).

The rules are in `allocator.pages.retry`; reclaim and compaction are behind a protocol. Kernels
differ in when they are asked, not in how.
"""

from typing import TYPE_CHECKING

import numpy as np

from allocator import gfp as flags
from allocator.pages.pcp import COSTLY_ORDER
from allocator.pages.pcp_free import drain_all
from allocator.pages.reclaim_protocol import CompactResult, NoReclaim, Priority, Reclaim
from allocator.pages.retry import (
    Trial,
    bails_out,
    can_compact,
    compact_retry,
    compacts_first,
    counts_stall,
    may_kill,
    reclaim_retry,
    unreserve,
)
from allocator.pages.runs import Pfns
from allocator.pages.walk import Request, Taken, take

if TYPE_CHECKING:  # the allocator calls this module
    from allocator.pages.alloc import PageAllocator

__all__ = ["CompactResult", "NoReclaim", "Priority", "Reclaim", "Request", "serve"]

_ASYNC = Priority.ASYNC  # looking a member up in its class is slow
_NONE: Pfns = np.empty(0, dtype=np.int64)


def serve(request: Request, count: int) -> Taken:
    """Serve a request that the fast path could not.

    Parameters
    ----------
    request
        The request.
    count
        How many equal requests there are; as many as are sure to fare alike are served.
    """
    return _SlowPath(request).run(count)


class _SlowPath:
    """One request in the slow path, and those after it while nothing happens in between."""

    def __init__(self, request: Request) -> None:
        self.allocator: PageAllocator = request.allocator
        self.policy = request.allocator.policy
        self.reclaim = request.allocator.reclaim
        self.still = isinstance(self.reclaim, NoReclaim)
        rights = flags.slow_rights(request.gfp, request.order, self.policy)
        self.trial = Trial(request=request, rights=rights)

    @property
    def request(self) -> Request:
        return self.trial.request

    def run(self, count: int) -> Taken:
        """Serve up to `count` requests."""
        first = compacts_first(self.policy, self.request)
        self._wake_all()
        found = take(self.request, "min", self.trial.rights, count if self.still else 1)
        if not found.failed:
            return found
        if first and not self.policy.compacts_in_retry:
            block = self._compact(_ASYNC)
            if len(block):
                return _joined(found, block)
            if bails_out(self.policy, self.request, self.trial.result):
                return self._fail(found)
            self._keep_cheap()
        direct = bool(self.request.gfp & flags.DIRECT_RECLAIM)
        alike = self.still and not direct and not found.tried
        left = count - len(found.pfns) if alike else 1
        return self._retry(found, first and self.policy.compacts_in_retry, left)

    def _retry(self, found: Taken, first: bool, count: int) -> Taken:
        """Go round by round; `first`: the first round compacts and does not reclaim (7.3)."""
        while True:
            self._wake_all()
            self._use_reserves()
            again = take(self.request, "min", self.trial.rights, count)
            if len(again.pfns):
                found = _joined(found, again.pfns)
                return self._fail(found._replace(failed=True)) if again.failed else found
            if not self.request.gfp & flags.DIRECT_RECLAIM:
                return self._fail(found)
            block = self._round(first)
            if len(block):
                return _joined(found, block)
            if first:
                if bails_out(self.policy, self.request, self.trial.result):
                    return self._fail(found)
                self._keep_cheap()
                first = False
            elif not self._goes_on():
                killed, block = self._out_of_memory()
                if len(block):
                    return _joined(found, block)
                if not killed:
                    return self._fail(found)

    def _use_reserves(self) -> None:
        """Turn to the reserves if the request has a right to them."""
        trial = self.trial
        reserve = flags.reserve_rights(trial.request.gfp)
        if reserve:
            trial.rights = reserve | trial.rights & (flags.RIGHT_KSWAPD | flags.RIGHT_CMA)
        if not trial.rights & flags.RIGHT_CPUSET:
            trial.request = self.allocator.unmasked(trial.request)

    def _keep_cheap(self) -> None:
        """Let a costly request that will not retry compact no harder."""
        if self.request.order > COSTLY_ORDER and self.request.gfp & flags.NORETRY:
            self.trial.priority = _ASYNC

    def _round(self, first: bool) -> Pfns:
        """Reclaim, unless compaction goes first, then compact."""
        self.trial.progress = 0
        if not first:
            found = self._reclaim()
            if len(found):
                return found
        return self._compact(_ASYNC if first else self.trial.priority)

    def _reclaim(self) -> Pfns:
        """Reclaim, and look again (__alloc_pages_direct_reclaim())."""
        request = self.request
        self.trial.progress = self.reclaim.direct_reclaim(request)
        if not self.trial.progress:
            return _NONE
        found = take(request, "min", self.trial.rights).pfns
        if not len(found):
            unreserve(request, force=False)
            for zone in self.allocator.zones:
                drain_all(zone)
            found = take(request, "min", self.trial.rights).pfns
        return found

    def _compact(self, priority: Priority) -> Pfns:
        """Compact, and look again (__alloc_pages_direct_compact())."""
        request, counters = self.request, self.allocator.counters
        if not request.order:
            return _NONE
        self.trial.result, captured = self.reclaim.direct_compact(request, priority)
        if not counts_stall(self.policy, self.trial.result):
            return _NONE
        counters["compact_stall"] = counters.get("compact_stall", 0) + 1
        if captured >= 0:
            found = np.array([captured], dtype=np.int64)
            self.allocator.count_given(request, self.allocator.zone_at(captured), 1)
        else:
            found = take(request, "min", self.trial.rights).pfns
        name = "compact_success" if len(found) else "compact_fail"
        counters[name] = counters.get(name, 0) + 1
        return found

    def _goes_on(self) -> bool:
        """Decide whether there is another round."""
        gfp, costly = self.request.gfp, self.request.order > COSTLY_ORDER
        if gfp & flags.NORETRY:
            return False
        compacts = can_compact(self.policy, gfp)
        if costly and not (gfp & flags.RETRY_MAYFAIL and compacts):
            return False
        if reclaim_retry(self.trial):
            return True
        return self.trial.progress > 0 and compacts and compact_retry(self.trial)

    def _out_of_memory(self) -> tuple[bool, Pfns]:
        """Look at the high mark, then have a task killed; tell whether to try again."""
        request, gfp = self.request, self.request.gfp
        costly = request.order > COSTLY_ORDER
        if gfp & flags.NORETRY or (costly and not gfp & flags.RETRY_MAYFAIL):
            return False, _NONE
        found = take(request, "high", self.trial.rights & flags.RIGHT_CMA | flags.RIGHT_CPUSET).pfns
        if len(found) or not may_kill(request) or self.still:
            return False, found
        if not gfp & flags.FS or self.reclaim.oom_kill(request):
            self.trial.no_progress = 0
            return True, _NONE
        return False, _NONE

    def _fail(self, found: Taken) -> Taken:
        """Give up, unless the request cannot fail (page_alloc.md 5.7)."""
        request = self.request
        if not request.gfp & flags.NOFAIL or not request.gfp & flags.DIRECT_RECLAIM:
            return found
        harder = self.policy.alloc_flags == "harder"
        block = take(request, "min", flags.RIGHT_HARDER if harder else flags.RIGHT_MIN_RESERVE).pfns
        if len(block):
            return _joined(found, block)
        raise MemoryError(f"__GFP_NOFAIL of order {request.order}: nothing is left to reclaim")

    def _wake_all(self) -> None:
        """Wake the kswapd of each node in the list (wake_all_kswapds())."""
        if not self.request.gfp & flags.KSWAPD_RECLAIM:
            return
        seen = set()
        for zone in self.request.zonelist:
            if zone.node not in seen:
                seen.add(zone.node)
                self.allocator.wake_kswapd(self.request, zone)


def _joined(found: Taken, pfns: Pfns) -> Taken:
    """Return what was found before, and what the request that failed there got in the end."""
    return Taken(np.concatenate([found.pfns, pfns]), False, True)
