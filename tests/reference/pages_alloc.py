"""Scalar page allocation: the zonelist walk and the slow path with nothing to reclaim.

page_alloc.md 3.5, 4.3, 5.2-5.7. A machine is its zones; requests are carried out one at a time.
"""

from collections import Counter as Tally

from allocator import gfp as flags

COMPACT = ("skipped", "deferred", "continue", "complete", "partial", "contended", "success")


class Machine:
    """Zones, zonelists and counters of one machine without anything on an LRU."""

    def __init__(self, policy, zones, node_of_cpu, node_order):
        """`node_order[n]`: nodes in the order in which requests for node n fall back."""
        self.policy, self.zones = policy, zones
        self.node_of_cpu = node_of_cpu
        self.nodes = sorted({zone.node for zone in zones})
        self.zonelists = {
            node: [z for other in order for z in reversed(self.zones_of(other))]
            for node, order in node_order.items()
        }
        self.stats = Tally()
        self.kswapd_order = {}  # node -> order that kswapd was last woken for
        self.hopeless = set()  # nodes whose kswapd gave up
        self.kcompactd = set()  # (node, order, highest) that kcompactd was woken for
        self.deferral = {}  # zone name -> [considered, shift, order_failed]

    def zones_of(self, node):
        return sorted((z for z in self.zones if z.node == node), key=lambda z: z.index)

    def zone_at(self, pfn):
        return next(z for z in self.zones if z.buddy.start <= pfn < z.buddy.end)

    # entry

    def alloc(self, cpu, order, gfp, node=None):
        """Allocate one block; return its first page or None."""
        home = self.node_of_cpu[cpu] if node is None else node
        highest = flags.highest_zone(gfp)
        own = list(reversed(self.zones_of(home)))
        walk = own if gfp & flags.THISNODE else self.zonelists[home]
        walk = [zone for zone in walk if zone.index <= highest]
        if not walk:
            return None
        request = Request(cpu, order, gfp, highest, walk)
        rights = flags.fast_rights(gfp, order, self.policy)
        pfn = self.walk(request, "low", rights, nofragment=self.avoids_fragments(walk[0]))
        return self.slow_path(request) if pfn is None else pfn

    def avoids_fragments(self, zone):
        if zone.name != "Normal":
            return False
        has_dma32 = any(z.name == "DMA32" for z in self.zones_of(zone.node))
        return len(self.nodes) == 1 or has_dma32

    def free(self, cpu, pfn, order):
        zone = self.zone_at(pfn)
        self.stats["pgfree"] += 1 << order
        zone.free(cpu, pfn, order)

    # the walk (get_page_from_freelist())

    def walk(self, request, which, rights, nofragment=False):
        preferred = request.walk[0]
        for zone in request.walk:
            if nofragment and zone.node != preferred.node:
                return self.walk(request, which, rights)
            pfn = self.try_zone(request, zone, which, rights, nofragment)
            if pfn is not None:
                self.count(request, zone)
                return pfn
        if nofragment:
            return self.walk(request, which, rights)
        return None

    def try_zone(self, request, zone, which, rights, nofragment):
        order, gfp, highest = request.order, request.gfp, request.highest
        plenty = False
        if self.policy.below_high and not zone.below_high:
            plenty = zone.fast_ok(order, "high", highest, rights, gfp)
            zone.below_high = not plenty
        if not (plenty or rights & flags.RIGHT_NO_WATERMARKS) and not zone.fast_ok(
            order, which, highest, rights, gfp
        ):
            return None
        migratetype = flags.migratetype(gfp)
        pfn = zone.rmqueue(request.cpu, order, migratetype, rights, nofragment)
        if pfn is None:
            return None
        if zone.boosted_flag and (rights & flags.RIGHT_KSWAPD or self.policy.pcp == "batch6"):
            zone.boosted_flag = False
            self.wake_kswapd(zone, 0, zone.index, request.gfp)
        if self.may_reserve(rights, order, which):
            zone.reserve_highatomic(pfn)
        return pfn

    def may_reserve(self, rights, order, which):
        if self.policy.alloc_flags == "harder":
            return order > 0 and rights & flags.RIGHT_HARDER
        if not rights & flags.RIGHT_HIGHATOMIC:
            return False
        return self.policy.alloc_flags != "reserve_rights_v7" or which == "min"

    def count(self, request, zone):
        preferred, home = request.walk[0].node, self.node_of_cpu[request.cpu]
        self.stats[f"pgalloc_{zone.name.lower()}"] += 1 << request.order
        if zone.node == preferred:
            self.stats["numa_hit", zone.node] += 1
        else:
            self.stats["numa_miss", zone.node] += 1
            self.stats["numa_foreign", preferred] += 1
        self.stats["numa_local" if zone.node == home else "numa_other", zone.node] += 1

    # the slow path

    def slow_path(self, request):
        order, gfp = request.order, request.gfp
        costly = order > 3
        direct = bool(gfp & flags.DIRECT_RECLAIM)
        can_compact = bool(gfp & flags.IO)
        if self.policy.compacts_in_retry:
            can_compact = can_compact and direct
        rights = flags.slow_rights(gfp, order, self.policy)
        self.wake_all(request)
        pfn = self.walk(request, "min", rights)
        if pfn is not None:
            return pfn
        first = (
            direct
            and can_compact
            and (costly or (order and flags.migratetype(gfp) != 1))
            and not flags.reserve_rights(gfp)
        )
        priority, result = "light", "skipped"
        if first and not self.policy.compacts_in_retry:
            result = self.compact(request, "async")
            if self.bails_out(request, result):
                return self.fail(request)
            if costly and gfp & flags.NORETRY:
                priority = "async"
        compact_retries = no_progress = 0
        while True:
            self.wake_all(request)
            reserve = flags.reserve_rights(gfp)
            if reserve:
                keep = flags.RIGHT_KSWAPD | flags.RIGHT_CMA
                rights = reserve | rights & keep
            pfn = self.walk(request, "min", rights)
            if pfn is not None:
                return pfn
            if not direct:
                return self.fail(request)
            if not (first and self.policy.compacts_in_retry):
                self.stats[f"allocstall_{request.highest}"] += 1  # and nothing is reclaimed
            if order:
                result = self.compact(
                    request, "async" if first and self.policy.compacts_in_retry else priority
                )
            if first and self.policy.compacts_in_retry:
                if self.bails_out(request, result):
                    return self.fail(request)
                if costly and gfp & flags.NORETRY:
                    priority = "async"
                first = False
                continue
            if gfp & flags.NORETRY:
                return self.fail(request)
            if costly and not (gfp & flags.RETRY_MAYFAIL and can_compact):
                return self.fail(request)
            no_progress += 1
            if self.reclaim_retry(request, rights, no_progress):
                continue
            # nothing was reclaimed, so compaction is not asked whether to go on
            del compact_retries
            return self.fail(request)

    def bails_out(self, request, result):
        gfp, costly = request.gfp, request.order > 3
        noretry, thisnode = gfp & flags.NORETRY, gfp & flags.THISNODE
        missed = result in ("skipped", "deferred")
        rule = self.policy.bailout
        if rule == "thisnode_only":
            return bool(noretry and thisnode)
        old = costly and noretry and result == "deferred"
        huge = request.order >= 9 and gfp & flags.IO and missed
        if rule == "deferred":
            return old
        if rule == "pageblock":
            return old or huge
        if rule == "pageblock_but_retry":
            return old or (huge and not gfp & flags.RETRY_MAYFAIL)
        if rule == "noretry":
            return costly and noretry and missed
        return costly and noretry and (missed or thisnode)

    def fail(self, request):
        if request.gfp & flags.NOFAIL:
            raise NotImplementedError("NOFAIL with nothing to reclaim never returns")

    def reclaim_retry(self, request, rights, no_progress):
        if no_progress > 16:
            return self.unreserve(request, force=True)
        for zone in request.walk:
            free = zone.counter.seen
            avail = free
            if self.policy.zero_reclaimable == "free":
                avail += free
            if zone.ok(request.order, zone.mark("min"), request.highest, rights, avail):
                return True
        if self.policy.alloc_flags == "harder":
            return False
        return self.unreserve(request, force=True)

    def unreserve(self, request, force):
        migratetype = flags.migratetype(request.gfp)
        return any(zone.unreserve_highatomic(migratetype, force) for zone in request.walk)

    # compaction that finds nothing movable

    def gap(self, order):
        pages = 2 << order
        return (
            pages
            if self.policy.compact_gap_cap is None
            else min(pages, self.policy.compact_gap_cap)
        )

    def suits(self, zone, request):
        costly = request.order > 3
        free = zone.counter.seen
        if zone.ok(request.order, zone.mark("min"), request.highest, 0, free):
            return "success"
        target = zone.mark("low" if costly else "min") + self.gap(request.order)
        if not zone.ok(0, target, request.highest, 0, free):
            return "skipped"
        if costly and 0 <= extfrag_index(zone.buddy.counts(), request.order) <= 500:
            return "skipped"
        return "continue"

    def compact(self, request, priority):
        if not request.gfp & flags.IO:
            return "skipped"
        worst = "skipped"
        for zone in request.walk:
            state = self.deferral.setdefault((zone.node, zone.name), [0, 0, 0])
            if priority != "full" and self.is_deferred(state, request.order):
                result = "deferred"
            else:
                result = self.suits(zone, request)
                if result == "continue":
                    result = "complete"
                    if priority != "async":
                        self.defer(state, request.order)
            worst = max(worst, result, key=COMPACT.index)
            if result == "success":
                break
        if self.counts_stall(worst):
            self.stats["compact_stall"] += 1
            self.stats["compact_fail"] += 1
        return worst

    def counts_stall(self, result):
        if self.policy.alloc_flags == "harder":
            return True
        if self.policy.compacts_in_retry:
            return result not in ("skipped", "deferred")
        return result != "skipped"

    def is_deferred(self, state, order):
        if order < state[2]:
            return False
        state[0] = min(state[0] + 1, 1 << state[1])
        return state[0] < 1 << state[1]

    def defer(self, state, order):
        state[0] = 0
        state[1] = min(state[1] + 1, 6)
        state[2] = min(state[2], order)

    # daemons

    def wake_all(self, request):
        if not request.gfp & flags.KSWAPD_RECLAIM:
            return
        for node in dict.fromkeys(zone.node for zone in request.walk):
            zone = next(z for z in request.walk if z.node == node)
            self.wake_kswapd(zone, request.order, request.highest, request.gfp)

    def wake_kswapd(self, zone, order, highest, gfp):
        node = zone.node
        if node in self.hopeless or self.is_balanced(node, order, highest):
            if order and not gfp & flags.DIRECT_RECLAIM:
                self.kcompactd.add((node, order, highest))
            return
        self.kswapd_order[node] = max(order, self.kswapd_order.get(node, 0))

    def is_balanced(self, node, order, highest):
        return any(
            z.ok(order, z.mark("high"), highest, 0, z.counter.seen)
            for z in self.zones_of(node)
            if z.index <= highest
        )


class Request:
    def __init__(self, cpu, order, gfp, highest, walk):
        self.cpu, self.order, self.gfp = cpu, order, gfp
        self.highest, self.walk = highest, walk


def extfrag_index(counts, order):
    """Return fragmentation_index() x 1000 of free blocks by order."""
    blocks = sum(counts)
    if not blocks:
        return 0
    if any(counts[order:]):
        return -1000
    pages = sum(n << o for o, n in enumerate(counts))
    return 1000 - (1000 + pages * 1000 // (1 << order)) // blocks
