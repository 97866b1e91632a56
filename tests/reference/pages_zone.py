"""Scalar zone: watermarks, the counter they read, the lists of each CPU (page_alloc.md 2.5-2.8)."""

from allocator import gfp as flags
from tests.reference.pages_buddy import HIGHATOMIC, MOVABLE, Buddy
from tests.reference.pages_pcp import Pcp, PcpLists


class Counter:
    """NR_FREE_PAGES: each CPU keeps its changes to itself up to a threshold."""

    def __init__(self, cpus, threshold, value=0):
        self.seen = value
        self.own = dict.fromkeys(cpus, 0)
        self.threshold = threshold

    def add(self, cpu, pages):
        total = self.own[cpu] + pages
        if abs(total) > self.threshold:
            self.seen += total
            total = 0
        self.own[cpu] = total


class Zone(PcpLists):
    """One populated zone."""

    def __init__(
        self,
        policy,
        cpus,
        *,
        node,
        index,
        name,
        start,
        end,
        managed,
        marks,
        reserve,
        batch,
        high_min,
        high_max,
        threshold,
    ):
        self.policy, self.cpus = policy, cpus
        self.node, self.index, self.name, self.managed = node, index, name, managed
        self.marks = dict(zip(("min", "low", "high"), marks, strict=True))
        self.reserve = reserve
        self.boost = 0
        self.boost_factor = 15000
        self.boosted_flag = False
        self.buddy = Buddy(policy, start, end)
        self.counter = Counter(cpus, threshold)
        self.highatomic = 0  # pages of reserved blocks
        self.below_high = False
        self.reclaim_active = False
        self.pcps = {cpu: Pcp(batch, high_min, high_max) for cpu in cpus}
        self.lock_takes = 0

    # watermarks

    def mark(self, which):
        return self.marks[which] + self.boost

    def boost_mark(self):
        block = 1 << self.buddy.pageblock_order
        if self.policy.boost == "none" or not self.boost_factor:
            return False
        if self.policy.boost == "large_zones" and self.managed < 4 * block:
            return False
        most = self.marks["high"] * self.boost_factor // 10000
        if most == 0:
            return False
        self.boost = min(self.boost + block, max(most, block))
        return True

    def held_back(self, rights):
        if rights & self.reserve_rights():
            return 0
        if self.policy.highatomic_free_only:
            return sum(len(row[HIGHATOMIC]) << o for o, row in enumerate(self.buddy.lists))
        return self.highatomic

    def reserve_rights(self):
        if self.policy.alloc_flags == "harder":
            return flags.RIGHT_HARDER | flags.RIGHT_OOM
        return (
            flags.RIGHT_MIN_RESERVE
            | flags.RIGHT_NON_BLOCK
            | flags.RIGHT_HIGHATOMIC
            | flags.RIGHT_OOM
        )

    def ok(self, order, mark, highest, rights, free):
        if self.policy.watermark_test == "orders":
            return self.ok_3_13(order, mark, highest, rights, free)
        free -= (1 << order) - 1 + self.held_back(rights)
        least = self.lowered(mark, rights)
        if free <= least + self.reserve[highest]:
            return False
        if order == 0:
            return True
        may_use = flags.RIGHT_HIGHATOMIC | flags.RIGHT_OOM
        if self.policy.alloc_flags == "harder":
            may_use = flags.RIGHT_HARDER | flags.RIGHT_OOM
        kinds = (0, 1, 2, HIGHATOMIC) if rights & may_use else (0, 1, 2)
        return any(row[t] for row in self.buddy.lists[order:] for t in kinds)

    def ok_3_13(self, order, mark, highest, rights, free):
        free -= (1 << order) - 1
        least = self.lowered(mark, rights)
        if free <= least + self.reserve[highest]:
            return False
        for have in range(order):
            free -= sum(len(one) for one in self.buddy.lists[have]) << have
            least //= 2
            if free <= least:
                return False
        return True

    def lowered(self, mark, rights):
        if rights & flags.RIGHT_MIN_RESERVE:
            mark -= mark // 2
            if rights & flags.RIGHT_NON_BLOCK:
                mark -= mark // 4
        if self.policy.alloc_flags == "harder":
            if rights & flags.RIGHT_OOM:
                mark -= mark // 2
            elif rights & flags.RIGHT_HARDER:
                mark -= mark // 4
        elif rights & flags.RIGHT_OOM:
            mark -= mark // 2
        return mark

    def fast_ok(self, order, which, highest, rights, gfp):
        free = self.counter.seen
        mark = self.mark(which)
        if order == 0 and self.policy.watermark_test == "lists":
            usable = free - min(free, self.held_back(rights))
            if usable > mark + self.reserve[highest]:
                return True
        if self.ok(order, mark, highest, rights, free):
            return True
        atomic = {
            "never": 0,
            "atomic_bit": gfp & flags.ATOMIC,
            "min_reserve": rights & flags.RIGHT_MIN_RESERVE,
        }[self.policy.boost_bypass]
        if order == 0 and atomic and self.boost and which == "min":
            return self.ok(order, self.marks["min"], highest, rights, free)
        return False

    # taking a block

    def rmqueue(self, cpu, order, migratetype, rights, nofragment):
        boosts = self.buddy.boosts
        pfn = None
        if self.is_pcp_order(order):
            pfn = self.from_pcp(cpu, order, migratetype, rights, nofragment)
        if pfn is None and not (order == 0 and self.policy.pcp == "batch6"):
            pfn = self.from_buddy(cpu, order, migratetype, rights, nofragment)
        for _ in range(self.buddy.boosts - boosts):
            if self.boost_mark() and rights & flags.RIGHT_KSWAPD:
                self.boosted_flag = True
        return pfn

    def from_buddy(self, cpu, order, migratetype, rights, nofragment):
        self.lock_takes += 1
        may_use = flags.RIGHT_HIGHATOMIC
        if self.policy.alloc_flags == "harder":
            may_use = flags.RIGHT_HARDER if order else 0
        pfn = None
        if rights & may_use:
            pfn = self.buddy.take(order, HIGHATOMIC)
        if pfn is None:
            pfn = self.buddy.alloc(order, migratetype, nofragment)
        last_try = flags.RIGHT_OOM | flags.RIGHT_NON_BLOCK
        if pfn is None and self.policy.alloc_flags != "harder" and rights & last_try:
            pfn = self.buddy.take(order, HIGHATOMIC)
        if pfn is not None:
            self.counter.add(cpu, -1 << order)
        return pfn

    # freeing a block

    def free(self, cpu, pfn, order):
        migratetype = self.buddy.type_of(pfn)
        if not self.is_pcp_order(order):
            self.lock_takes += 1
            self.to_buddy(cpu, pfn, order, migratetype)
            return
        pcp = self.pcps[cpu]
        key = self.key(order, migratetype if migratetype < 3 else MOVABLE)
        pcp.list(key).insert(0, (pfn, order, migratetype))
        pcp.count += 1 << order
        drain = {"batch6": self.drain_5_10, "shared_low": self.drain_6_1}.get(
            self.policy.pcp, self.drain_tuned
        )
        drain(cpu, pcp, key, order)

    def to_buddy(self, cpu, pfn, order, migratetype):
        pieces = [(pfn, order)]
        if self.policy.list_type == "pageblock" and order > self.buddy.pageblock_order:
            size = 1 << self.buddy.pageblock_order
            pieces = [
                (one, self.buddy.pageblock_order) for one in range(pfn, pfn + (1 << order), size)
            ]
        for start, size in pieces:
            if self.policy.list_type == "pageblock":
                migratetype = self.buddy.type_of(start)
            self.counter.add(cpu, 1 << size)
            self.buddy.free(start, size, migratetype)

    # highatomic blocks

    def reserve_highatomic(self, pfn):
        block = 1 << self.buddy.pageblock_order
        if self.policy.highatomic_free_only:
            share = self.managed // 100
            most = 0 if share < block else -(-share // block) * block
        else:
            most = self.managed // 100 + block
        if self.highatomic >= most or self.buddy.type_of(pfn) in (HIGHATOMIC, 4):
            return
        self.lock_takes += 1
        first = self.buddy.block_start(pfn)
        self.highatomic += block
        self.buddy.set_type(pfn, 0, HIGHATOMIC)
        self.buddy.move_all(first, first + block, HIGHATOMIC)

    def unreserve_highatomic(self, migratetype, force):
        block = 1 << self.buddy.pageblock_order
        if not force and self.highatomic <= block:
            return False
        for row in self.buddy.lists:
            if not row[HIGHATOMIC]:
                continue
            pfn = row[HIGHATOMIC][0]
            self.lock_takes += 1
            if self.buddy.type_of(pfn) == HIGHATOMIC:
                self.highatomic -= min(block, self.highatomic)
            self.buddy.set_type(pfn, 0, migratetype)
            first = self.buddy.block_start(pfn)
            if self.buddy.move_all(first, first + block, migratetype):
                return True
        return False
