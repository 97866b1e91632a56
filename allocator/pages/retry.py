"""Whether a request in the slow path goes on: one function for each rule of the kernel.

mm/page_alloc.c should_reclaim_retry(), should_compact_retry() and the tests of
__alloc_pages_slowpath(); the policy says which kernel's.
"""

from dataclasses import dataclass

from allocator import gfp as flags
from allocator.pages.marks import watermark_ok
from allocator.pages.pcp import COSTLY_ORDER
from allocator.pages.policy import PagePolicy
from allocator.pages.reclaim_protocol import CompactResult, Priority
from allocator.pages.walk import Request
from allocator.pages.zone import Zone

MAX_RECLAIM_RETRIES = 16
"""Rounds without progress after which a request gives up."""
MAX_COMPACT_RETRIES = 16
"""Rounds of compaction that succeed without helping."""

# looking a member up in its class is slow, and these are needed for every few pages
_SKIPPED, _DEFERRED = CompactResult.SKIPPED, CompactResult.DEFERRED
_COMPLETE, _SUCCESS = CompactResult.COMPLETE, CompactResult.SUCCESS
_SYNC_LIGHT, _FULL = Priority.SYNC_LIGHT, Priority.FULL


@dataclass(slots=True, kw_only=True)
class Trial:
    """How a request in the slow path has fared so far."""

    request: Request
    """The request."""
    rights: int
    """Its rights by now."""
    priority: Priority = _SYNC_LIGHT
    """How hard its next compaction tries."""
    result: CompactResult = _SKIPPED
    """What its last compaction came to."""
    progress: int = 0
    """Pages that its last reclaim freed."""
    no_progress: int = 0
    """Rounds without progress."""
    compact_retries: int = 0
    """Rounds in which compaction succeeded without helping."""

    @property
    def policy(self) -> PagePolicy:
        """The kernel's page allocator."""
        return self.request.allocator.policy

    def reclaimable(self, zone: Zone) -> int:
        """Return the pages that reclaim might free in a zone."""
        return self.request.allocator.reclaim.reclaimable(zone)


def bails_out(policy: PagePolicy, request: Request, result: CompactResult) -> bool:
    """Tell whether a request gives up after its first compaction (page_alloc.md 5.3).

    mm/page_alloc.c __alloc_pages_slowpath(): 5.3, b39d0ee2632d, 3f36d8669457, cc638f329ef6, 5.14,
    7.3.
    """
    gfp, costly = request.gfp, request.order > COSTLY_ORDER
    noretry = bool(gfp & flags.NORETRY)
    thisnode = bool(gfp & flags.THISNODE)
    missed = result in (_SKIPPED, _DEFERRED)
    if policy.bailout == "thisnode_only":
        return noretry and thisnode
    if policy.bailout == "noretry":
        return costly and noretry and missed
    if policy.bailout == "noretry_thisnode":
        return costly and noretry and (missed or thisnode)
    deferred = costly and noretry and result is _DEFERRED
    huge = request.order >= request.allocator.pageblock_order and bool(gfp & flags.IO) and missed
    if policy.bailout == "pageblock":
        return deferred or huge
    if policy.bailout == "pageblock_but_retry":
        return deferred or (huge and not gfp & flags.RETRY_MAYFAIL)
    return deferred


def can_compact(policy: PagePolicy, gfp: int) -> bool:
    """Tell whether a request may compact memory."""
    needs = flags.IO | flags.DIRECT_RECLAIM if policy.compacts_in_retry else flags.IO
    return gfp & needs == needs


def compacts_first(policy: PagePolicy, request: Request) -> bool:
    """Tell whether a cheap compaction comes before any reclaim."""
    order, gfp = request.order, request.gfp
    wants = order > COSTLY_ORDER or (order > 0 and request.migratetype != 1)
    direct = bool(gfp & flags.DIRECT_RECLAIM)
    return wants and direct and can_compact(policy, gfp) and not flags.reserve_rights(gfp)


def reclaim_retry(trial: Trial) -> bool:
    """Decide whether reclaim might still help (should_reclaim_retry())."""
    request = trial.request
    if trial.progress and request.order <= COSTLY_ORDER:
        trial.no_progress = 0
    else:
        trial.no_progress += 1
    if trial.no_progress > MAX_RECLAIM_RETRIES:
        return unreserve(request, force=True)
    for zone in request.zonelist:
        free = zone.free
        reclaimable = trial.reclaimable(zone)
        if not reclaimable and trial.policy.zero_reclaimable == "free":
            reclaimable = free
        enough = watermark_ok(
            zone,
            request.order,
            zone.mark("min"),
            request.highest,
            trial.rights,
            free + reclaimable,
        )
        if enough:
            return True
    return trial.policy.alloc_flags != "harder" and unreserve(request, force=True)


def compact_retry(trial: Trial) -> bool:
    """Decide whether compaction might still help (should_compact_retry())."""
    order, result = trial.request.order, trial.result
    if not order:
        return False
    if result is _SUCCESS:
        trial.compact_retries += 1
        most = MAX_COMPACT_RETRIES // 4 if order > COSTLY_ORDER else MAX_COMPACT_RETRIES
        return trial.compact_retries <= most or raise_priority(trial)
    if result is _SKIPPED:
        return zonelist_suitable(trial)
    if result is not _COMPLETE and trial.policy.compact_retry == "zonelist_suitable":
        return zonelist_suitable(trial)
    return raise_priority(trial)


def raise_priority(trial: Trial) -> bool:
    """Make compaction try harder, if it still can."""
    costly = trial.request.order > COSTLY_ORDER
    if trial.priority <= (_SYNC_LIGHT if costly else _FULL):
        return False
    trial.priority = Priority(trial.priority - 1)
    trial.compact_retries = 0
    return True


def zonelist_suitable(trial: Trial) -> bool:
    """Tell whether a zone could be compacted if more were reclaimed.

    mm/compaction.c compaction_zonelist_suitable().
    """
    request, policy = trial.request, trial.policy
    for zone in request.zonelist:
        free = zone.free
        available = free + trial.reclaimable(zone) // request.order
        rights = flags.RIGHT_CMA
        target = compaction_target(policy, zone, request.order)
        if watermark_ok(zone, 0, target, request.highest, rights, available):
            return True
        passes = policy.alloc_flags == "harder" and watermark_ok(
            zone, request.order, zone.mark("min"), request.highest, rights, available
        )
        if passes:
            return True
    return False


def compaction_target(policy: PagePolicy, zone: Zone, order: int) -> int:
    """Return the free pages above which a zone is worth compacting for a request."""
    gap = 2 << order
    if policy.compact_gap_cap is not None:
        gap = min(gap, policy.compact_gap_cap)
    return zone.mark("low" if order > COSTLY_ORDER else "min") + gap


def unreserve(request: Request, *, force: bool) -> bool:
    """Give a Highatomic block of some zone back (unreserve_highatomic_pageblock())."""
    return any(
        zone.unreserve_highatomic(request.cpu, request.migratetype, force=force)
        for zone in request.zonelist
    )


def counts_stall(policy: PagePolicy, result: CompactResult) -> bool:
    """Tell whether a compaction counts as a stall (__alloc_pages_direct_compact())."""
    if policy.compacts_in_retry:
        return result not in (_SKIPPED, _DEFERRED)
    return policy.alloc_flags == "harder" or result is not _SKIPPED


def may_kill(request: Request) -> bool:
    """Tell whether a request may have a task killed (__alloc_pages_may_oom())."""
    gfp = request.gfp
    return (
        request.order <= COSTLY_ORDER
        and not gfp & (flags.RETRY_MAYFAIL | flags.THISNODE)
        and request.highest >= 2
    )
