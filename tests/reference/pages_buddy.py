"""Scalar buddy lists: one zone, block by block (page_alloc.c __free_one_page(), __rmqueue()).

Written for clarity. Every list is a plain Python list of page frame numbers, head first.
"""

UNMOVABLE, MOVABLE, RECLAIMABLE, HIGHATOMIC, ISOLATE = range(5)
FALLBACK_ROWS = {
    UNMOVABLE: (RECLAIMABLE, MOVABLE),
    MOVABLE: (RECLAIMABLE, UNMOVABLE),
    RECLAIMABLE: (UNMOVABLE, MOVABLE),
}


class Buddy:
    """Free lists of a zone, and what its pageblocks are."""

    def __init__(self, policy, start, end, max_order=10, pageblock_order=9):
        self.policy = policy
        self.start, self.end = start, end
        self.max_order, self.pageblock_order = max_order, pageblock_order
        self.lists = [[[] for _ in range(5)] for _ in range(max_order + 1)]
        self.order_at = {}  # first page of each free block -> its order
        self.type_at = {}  # first page of each free block -> type of its list
        self.block_type = {}  # number of a pageblock -> its type, Movable if absent
        self.movable_pages = set()  # used pages on an LRU
        self.free_log = []  # changes of the free count, as the zone's counter is told of them
        self.boosts = 0
        self.groups = True

    # bookkeeping

    def type_of(self, pfn):
        return self.block_type.get(pfn >> self.pageblock_order, MOVABLE)

    def set_type(self, pfn, order, migratetype):
        for block in range(pfn, pfn + (1 << order), 1 << self.pageblock_order):
            self.block_type[block >> self.pageblock_order] = migratetype

    def free_pages(self):
        return sum(1 << order for order in self.order_at.values())

    def counts(self):
        return [sum(len(one) for one in row) for row in self.lists]

    def put(self, pfn, order, migratetype, tail):
        row = self.lists[order][migratetype]
        row.insert(len(row) if tail else 0, pfn)
        self.order_at[pfn], self.type_at[pfn] = order, migratetype

    def unlink(self, pfn):
        order, migratetype = self.order_at.pop(pfn), self.type_at.pop(pfn)
        self.lists[order][migratetype].remove(pfn)

    # freeing

    def free(self, pfn, order, migratetype):
        while order < self.max_order:
            buddy = pfn ^ (1 << order)
            if self.order_at.get(buddy) != order:
                break
            if order >= self.pageblock_order and not self.may_merge(buddy, migratetype):
                break
            self.unlink(buddy)
            if self.policy.list_type == "pageblock" and order >= self.pageblock_order:
                self.set_type(buddy, order, migratetype)
            pfn = min(pfn, buddy)
            order += 1
        self.put(pfn, order, migratetype, tail=self.merge_is_likely(pfn, order))

    def may_merge(self, buddy, migratetype):
        barred = {ISOLATE} if self.policy.unmergeable == "isolate" else {ISOLATE, HIGHATOMIC}
        other = self.type_of(buddy)
        return other == migratetype or not {other, migratetype} & barred

    def merge_is_likely(self, pfn, order):
        if order >= self.max_order - 1:
            return False
        above = pfn & ~(1 << order)
        return self.order_at.get(above ^ (2 << order)) == order + 1

    # taking

    def take(self, order, migratetype):
        """The smallest sufficient block of the type's own lists, or None."""
        for have in range(order, self.max_order + 1):
            if self.lists[have][migratetype]:
                pfn = self.lists[have][migratetype][0]
                self.split(pfn, order, migratetype)
                return pfn
        return None

    def split(self, pfn, order, migratetype):
        """Take the low end of a free block; the upper halves go back to the heads."""
        have = self.order_at[pfn]
        self.unlink(pfn)
        while have > order:
            have -= 1
            self.put(pfn + (1 << have), have, migratetype, tail=False)

    def alloc(self, order, migratetype, nofragment=False, mode=None):
        """One block, of other types too. `mode` (a set) remembers that stealing was needed."""
        mode = set() if mode is None else mode
        if self.policy.fallback == "steal_largest":
            pfn = self.take(order, migratetype)
            while pfn is None and self.steal_largest(order, migratetype, nofragment):
                pfn = self.take(order, migratetype)
            return pfn
        if "steal" not in mode:
            pfn = self.take(order, migratetype)
            if pfn is None:
                pfn = self.claim(order, migratetype, nofragment)
            if pfn is not None:
                return pfn
        if nofragment:
            return None
        mode.add("steal")
        return self.steal_smallest(order, migratetype)

    # other types, until 6.14

    def may_take_all(self, order, migratetype):
        return (
            order >= self.pageblock_order
            or order >= self.pageblock_order // 2
            or migratetype in (UNMOVABLE, RECLAIMABLE)
            or not self.groups
        )

    def foreign(self, order, migratetype):
        for other in FALLBACK_ROWS[migratetype]:
            if self.lists[order][other]:
                return other
        return None

    def lowest(self, order, nofragment):
        return max(order, self.pageblock_order) if nofragment else order

    def steal_largest(self, order, migratetype, nofragment):
        for have in range(self.max_order, self.lowest(order, nofragment) - 1, -1):
            other = self.foreign(have, migratetype)
            if other is None:
                continue
            if not self.may_take_all(have, migratetype) and migratetype == MOVABLE and have > order:
                have = order
                while self.foreign(have, migratetype) is None:
                    have += 1
                other = self.foreign(have, migratetype)
            self.turn(self.lists[have][other][0], migratetype)
            return True
        return False

    def turn(self, pfn, migratetype):
        order, was = self.order_at[pfn], self.type_of(pfn)
        if was == HIGHATOMIC:
            return self.move(pfn, migratetype)
        if order >= self.pageblock_order:
            self.set_type(pfn, order, migratetype)
            return self.move(pfn, migratetype)
        self.boosts += 1
        if self.may_take_all(order, migratetype):
            first = max(self.block_start(pfn), self.start)
            if first != self.block_start(pfn):
                first = pfn
            last = self.block_start(pfn) + (1 << self.pageblock_order)
            if last <= self.end:
                free = self.free_in(first, last)
                if self.is_alike(first, last, was, migratetype):
                    self.set_type(pfn, 0, migratetype)
                self.move_all(first, last, migratetype)
                if free:
                    return None
        return self.move(pfn, migratetype)

    def block_start(self, pfn):
        return pfn >> self.pageblock_order << self.pageblock_order

    def free_in(self, first, last):
        return sum(1 << o for pfn, o in self.order_at.items() if first <= pfn < last)

    def is_alike(self, first, last, was, migratetype):
        size = 1 << self.pageblock_order
        free = self.free_in(first, last)
        movable = sum(first <= pfn < last for pfn in self.movable_pages)
        if migratetype == MOVABLE:
            alike = movable
        else:
            alike = size - free - movable if was == MOVABLE else 0
        return free + alike >= size // 2 or not self.groups

    def move(self, pfn, migratetype):
        order = self.order_at[pfn]
        self.unlink(pfn)
        self.put(pfn, order, migratetype, tail=True)

    def move_all(self, first, last, migratetype):
        """All free blocks of a pageblock go to the tail of another type's lists."""
        blocks = sorted(pfn for pfn in self.order_at if first <= pfn < last)
        for pfn in blocks:
            self.move(pfn, migratetype)
        return len(blocks)

    # other types, from 6.15 (and 6.12 stable)

    def claim(self, order, migratetype, nofragment):
        for have in range(self.max_order, self.lowest(order, nofragment) - 1, -1):
            other = self.foreign(have, migratetype)
            if not self.may_take_all(have, migratetype) and (
                self.policy.claim_stop == "order" or other is not None
            ):
                return None
            if other is None:
                continue
            pfn = self.lists[have][other][0]
            if have >= self.pageblock_order:
                self.set_type(pfn, have, migratetype)
                self.split(pfn, order, migratetype)
                return pfn
            self.boosts += 1
            first = self.block_start(pfn)
            last = first + (1 << self.pageblock_order)
            if first < self.start or last > self.end:
                continue
            if self.is_alike(first, last, other, migratetype):
                self.move_all(first, last, migratetype)
                self.set_type(pfn, 0, migratetype)
                return self.take(order, migratetype)
        return None

    def steal_smallest(self, order, migratetype):
        for have in range(order, self.max_order + 1):
            other = self.foreign(have, migratetype)
            if other is not None:
                pfn = self.lists[have][other][0]
                self.split(pfn, order, other)
                return pfn
        return None
