"""Scalar lists of free pages of each CPU: refills, drains, tuning (page_alloc.md 2.7)."""

from allocator import gfp as flags
from tests.reference.pages_buddy import MOVABLE

SCALE_MAX = 5  # CONFIG_PCP_BATCH_SCALE_MAX
HUGE = 9


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


class PcpLists:
    """What a zone does with the lists of its CPUs."""

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
