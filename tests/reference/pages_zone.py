"""Scalar zone: watermarks, the counter they read, the lists of each CPU (page_alloc.md 2.5-2.8)."""

from allocator import gfp as flags
from tests.reference.pages_buddy import HIGHATOMIC, MOVABLE, Buddy

SCALE_MAX = 5  # CONFIG_PCP_BATCH_SCALE_MAX
HUGE = 9


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


class Pcp:
    """Lists of one CPU in one zone; entries are (pfn, order, type it will be freed as)."""

    def __init__(self, batch, high_min, high_max, slice_is_large=True):
        self.batch, self.high_min, self.high_max = batch, high_min, high_max
        self.high = high_min
        self.lists = {}
        self.count = 0
        self.free_factor = self.alloc_factor = self.free_count = 0
        self.previous_high_order = False
        self.expire = 0
        self.slice_is_large = slice_is_large

    def list(self, key):
        return self.lists.setdefault(key, [])


class Zone:
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

    def is_pcp_order(self, order):
        return order in self.policy.pcp_orders or (self.policy.pcp_thp and order == HUGE)

    def key(self, order, migratetype):
        """Position of a list, which is also the order in which lists are drained."""
        if order == HUGE and self.policy.pcp_thp:
            return 3 * len(self.policy.pcp_orders) + (migratetype == MOVABLE)
        return 3 * order + migratetype

    def from_pcp(self, cpu, order, migratetype, rights, nofragment):
        pcp = self.pcps[cpu]
        pcp.free_factor >>= 1
        pcp.free_count >>= 1
        pages = pcp.list(self.key(order, migratetype))
        if not pages:
            if self.policy.pcp == "tuned_v7" and order and rights & flags.RIGHT_HIGHATOMIC:
                return None
            self.refill(cpu, pcp, pages, order, migratetype, nofragment)
            if not pages:
                return None
        pcp.count -= 1 << order
        return pages.pop(0)[0]

    def refill(self, cpu, pcp, pages, order, migratetype, nofragment):
        self.lock_takes += 1
        wanted = self.refill_size(pcp, order)
        mode = set()
        got = 0
        for _ in range(wanted):
            pfn = self.buddy.alloc(order, migratetype, nofragment, mode)
            if pfn is None:
                break
            pages.append((pfn, order, migratetype))
            pcp.count += 1 << order
            got += 1
            if self.policy.free_counted == "block":
                self.counter.add(cpu, -1 << order)
        if self.policy.free_counted == "refill":
            self.counter.add(cpu, -got << order)

    def refill_size(self, pcp, order):
        if self.policy.pcp == "batch6":
            return pcp.batch
        if self.policy.pcp == "shared_low":
            return max(pcp.batch >> order, 2) if pcp.batch > 1 else 1
        high = pcp.high = min(max(pcp.high, pcp.high_min), pcp.high_max)
        if high < pcp.batch:
            return 1
        size = pcp.batch if order else pcp.batch << pcp.alloc_factor
        if pcp.high_min != pcp.high_max and not self.below_high:
            high = pcp.high = min(high + size, pcp.high_max)
        if order == 0:
            room = max(high - pcp.count - pcp.batch, pcp.batch)
            if size <= room and pcp.alloc_factor < SCALE_MAX:
                pcp.alloc_factor += 1
            size = min(size, room)
        return max(size >> order, 2) if size > 1 else size

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

    def drain_5_10(self, cpu, pcp, key, order):
        if pcp.count < pcp.high:
            return
        self.lock_takes += 1
        left = min(pcp.batch, pcp.count)
        taken, which, visit = [], 0, 0
        while left:
            while True:
                visit += 1
                which = (which + 1) % 3
                if pcp.list(which):
                    break
            if visit == 3:
                visit = left
            while True:
                taken.append(pcp.list(which).pop())
                pcp.count -= 1
                left -= 1
                if left == 0:
                    break
                visit -= 1
                if visit == 0 or not pcp.list(which):
                    break
        for entry in taken:
            self.to_buddy(cpu, *entry)

    def drain_pages(self, cpu, pcp, key, pages):
        """Give back about `pages` pages, oldest first, beginning with the list `key`."""
        left = min(pages, pcp.count)
        last = 3 * len(self.policy.pcp_orders) + (1 if self.policy.pcp_thp else -1)
        key -= 1
        while left > 0:
            while True:
                key = key + 1 if key < last else 0
                if pcp.list(key):
                    break
            while left > 0 and pcp.list(key):
                entry = pcp.list(key).pop()
                left -= 1 << entry[1]
                pcp.count -= 1 << entry[1]
                self.to_buddy(cpu, *entry)

    def drain_6_1(self, cpu, pcp, key, order):
        free_high = bool(pcp.free_factor) and 1 <= order <= 3
        limit = pcp.high
        if free_high:
            limit = 0
        elif pcp.high and self.reclaim_active:
            limit = min(4 * pcp.batch, pcp.high)
        if pcp.count < limit:
            return
        self.lock_takes += 1
        if free_high:
            pages = pcp.count
        elif pcp.high < pcp.batch:
            pages = 1
        else:
            most = pcp.high - pcp.batch if not self.reclaim_active else limit - pcp.batch
            pages = pcp.batch << pcp.free_factor
            if pages < most and pcp.free_factor < SCALE_MAX:
                pcp.free_factor += 1
            pages = min(max(pages, pcp.batch), most)
        self.drain_pages(cpu, pcp, key, pages)

    def drain_tuned(self, cpu, pcp, key, order):
        pcp.alloc_factor >>= 1
        free_high = False
        if 1 <= order <= 3:
            enough = pcp.batch
            if self.policy.pcp == "tuned_v7":
                enough += pcp.high_min // 2
            free_high = (
                pcp.free_count >= enough
                and pcp.previous_high_order
                and (not pcp.slice_is_large or pcp.count >= pcp.batch)
            )
            pcp.previous_high_order = True
        else:
            pcp.previous_high_order = False
        if pcp.free_count < pcp.batch << SCALE_MAX:
            pcp.free_count += 1 << order
        high = self.tuned_limit(pcp, free_high)
        if pcp.count < high:
            return
        if free_high:
            pages = min(pcp.count, pcp.batch << SCALE_MAX)
        elif high < pcp.batch:
            pages = 1
        else:
            pages = min(max(pcp.free_count, pcp.batch), high - pcp.batch)
            pages = max(pages, 0)
        if self.policy.pcp == "tuned_v7":
            while pages > 0 and pcp.count > 0:
                self.lock_takes += 1
                self.drain_pages(cpu, pcp, key, min(pages, pcp.batch))
                pages -= min(pages, pcp.batch)
        else:
            self.lock_takes += 1
            self.drain_pages(cpu, pcp, key, pages)
        if self.below_high and self.ok(0, self.mark("high"), 3, 0, self.counter.seen):
            self.below_high = False

    def tuned_limit(self, pcp, free_high):
        high = pcp.high = min(max(pcp.high, pcp.high_min), pcp.high_max)
        if high == 0:
            return 0
        if free_high:
            pcp.high = max(high - (pcp.batch << SCALE_MAX), pcp.high_min)
            return 0
        shrink = max(pcp.free_count, pcp.batch)
        if self.reclaim_active:
            pcp.high = max(high - shrink, pcp.high_min)
            return min(4 * pcp.batch, pcp.high)
        if pcp.high_min == pcp.high_max:
            return high
        if self.below_high:
            pcp.high = max(high - shrink, pcp.high_min)
            return max(pcp.count, pcp.high_min)
        if pcp.count >= high:
            wanted = pcp.free_count + pcp.batch
            if pcp.high < wanted:
                pcp.high = min(max(wanted, pcp.high_min), pcp.high_max)
        return high

    def drain_cpu(self, cpu):
        """Empty one CPU's lists (drain_pages_zone())."""
        pcp = self.pcps[cpu]
        most = pcp.count
        if self.policy.pcp.startswith("tuned"):
            most = pcp.batch << SCALE_MAX
        while pcp.count:
            if self.policy.pcp == "batch6":
                self.drain_all_5_10(cpu, pcp)
            else:
                self.lock_takes += 1
                self.drain_pages(cpu, pcp, 0, most)

    def drain_all_5_10(self, cpu, pcp, pages=None):
        batch, high = pcp.batch, pcp.high
        pcp.batch, pcp.high = pages or pcp.count, 0
        self.drain_5_10(cpu, pcp, 0, 0)
        pcp.batch, pcp.high = batch, high

    def refresh(self, cpu, remote):
        """What a CPU does for the zone about once a second (refresh_cpu_vm_stats())."""
        pcp = self.pcps[cpu]
        if self.counter.own[cpu]:
            self.counter.seen += self.counter.own[cpu]
            self.counter.own[cpu] = 0
            pcp.expire = 3
        if self.policy.pcp.startswith("tuned"):
            if pcp.high > pcp.high_min:
                pcp.high = max(
                    pcp.count - (pcp.batch << SCALE_MAX), pcp.high - pcp.high // 8, pcp.high_min
                )
            if pcp.count > pcp.high:
                self.lock_takes += 1
                self.drain_pages(cpu, pcp, 0, pcp.count - pcp.high)
        if not pcp.expire or not pcp.count:
            return
        if not remote:
            pcp.expire = 0
            return
        pcp.expire -= 1
        if pcp.expire == 0:
            batch = min(pcp.batch, pcp.count)
            if self.policy.pcp == "batch6":
                self.drain_all_5_10(cpu, pcp, batch)
            else:
                self.lock_takes += 1
                self.drain_pages(cpu, pcp, 0, batch)

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
