"""How many pages move between a CPU's lists and the buddy lists, and when.

mm/page_alloc.c nr_pcp_alloc(), nr_pcp_high(), nr_pcp_free() and their forerunners.
"""

from dataclasses import dataclass
from typing import Protocol

from allocator.pages.pcp import COSTLY_ORDER, Pcp

SCALE_MAX = 5
"""CONFIG_PCP_BATCH_SCALE_MAX: refills and drains grow to `batch << 5` at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneState:
    """What the lists of a CPU need to know of their zone."""

    below_high: bool
    """Free pages are below the high mark (ZONE_BELOW_HIGH)."""
    reclaim_active: bool
    """kswapd works on the zone (ZONE_RECLAIM_ACTIVE)."""


class PcpRules(Protocol):
    """How many pages move, and when: one implementation for each generation."""

    def attempt(self, pcp: Pcp) -> None:
        """Note that an allocation looks at the lists, whether it finds something or not."""
        ...

    def refill(self, pcp: Pcp, order: int, zone: ZoneState) -> int:
        """Return how many blocks an empty list is refilled with."""
        ...

    def most(self, pcp: Pcp, order: int) -> int:
        """Return a number of blocks that the next refill does not exceed."""
        ...

    def frees(self, pcp: Pcp, order: int, count: int, zone: ZoneState) -> tuple[int, int]:
        """Note frees of up to `count` blocks of one order, until one of them drains.

        `pcp.count` is raised by what was freed.

        Returns
        -------
        tuple
            How many were freed, and how many pages must then be drained, 0 for no drain.
        """
        ...

    def decay(self, pcp: Pcp) -> int:
        """Lower the limit as time passes; return the pages now too many."""
        ...

    def pieces(self, pcp: Pcp, pages: int) -> list[int]:
        """Return the pages that a drain gives back under each hold of the zone lock."""
        ...


def _until(pcp: Pcp, order: int, count: int, limit: int) -> int:
    """Return after how many of `count` frees `pcp.count` reaches a limit, `count` + 1: not yet."""
    short = limit - pcp.count
    return min(max(1, -(-short >> order)), count + 1)


class Batch6:
    """Until 5.12: order 0 only, the limit is six batches and each drain is one batch."""

    def attempt(self, pcp: Pcp) -> None:
        """Note nothing."""

    def refill(self, pcp: Pcp, order: int, zone: ZoneState) -> int:
        """Take one batch."""
        return pcp.batch

    def most(self, pcp: Pcp, order: int) -> int:
        """Return one batch."""
        return pcp.batch

    def frees(self, pcp: Pcp, order: int, count: int, zone: ZoneState) -> tuple[int, int]:
        """Drain a batch at the limit."""
        needed = _until(pcp, order, count, pcp.high)
        pcp.count += min(needed, count) << order
        return min(needed, count), 0 if needed > count else min(pcp.batch, pcp.count)

    def pieces(self, pcp: Pcp, pages: int) -> list[int]:
        """Give back all under one hold."""
        return [pages]

    def decay(self, pcp: Pcp) -> int:
        """Keep the limit."""
        return 0


class SharedLow:
    """5.13 to 6.6: the CPUs share the zone's low mark; drains double while nothing is taken."""

    def attempt(self, pcp: Pcp) -> None:
        """Make drains smaller again."""
        pcp.free_factor >>= 1

    def refill(self, pcp: Pcp, order: int, zone: ZoneState) -> int:
        """Take one batch of pages, but at least two blocks."""
        return max(pcp.batch >> order, 2) if pcp.batch > 1 else 1

    def most(self, pcp: Pcp, order: int) -> int:
        """Return the size of every refill."""
        return max(pcp.batch >> order, 2)

    def frees(self, pcp: Pcp, order: int, count: int, zone: ZoneState) -> tuple[int, int]:
        """Drain a growing part at the limit, or all with a free of order 1 to 3 after a drain."""
        if pcp.free_factor and 1 <= order <= COSTLY_ORDER:
            pcp.count += 1 << order
            return 1, pcp.count
        limit = pcp.high
        if pcp.high and zone.reclaim_active:
            limit = min(4 * pcp.batch, pcp.high)
        needed = _until(pcp, order, count, limit)
        pcp.count += min(needed, count) << order
        if needed > count:
            return count, 0
        if limit < pcp.batch:
            return needed, 1
        most = limit - pcp.batch
        pages = pcp.batch << pcp.free_factor
        if pages < most and pcp.free_factor < SCALE_MAX:
            pcp.free_factor += 1
        return needed, min(max(pages, pcp.batch), most)

    def pieces(self, pcp: Pcp, pages: int) -> list[int]:
        """Give back all under one hold."""
        return [pages]

    def decay(self, pcp: Pcp) -> int:
        """Keep the limit."""
        return 0


class Tuned:
    """6.7 and later: refills, drains and the limit follow what the CPU does."""

    def attempt(self, pcp: Pcp) -> None:
        """Make drains smaller again."""
        pcp.free_count >>= 1

    def refill(self, pcp: Pcp, order: int, zone: ZoneState) -> int:
        """Take a batch that doubles with each refill of order 0; the limit grows along."""
        high = pcp.high = _clamp(pcp.high, pcp.high_min, pcp.high_max)
        if high < pcp.batch:
            return 1
        size = pcp.batch if order else pcp.batch << pcp.alloc_factor
        if pcp.high_min != pcp.high_max and not zone.below_high:
            high = pcp.high = min(high + size, pcp.high_max)
        if order == 0:
            room = max(high - pcp.count - pcp.batch, pcp.batch)
            if size <= room and pcp.alloc_factor < SCALE_MAX:
                pcp.alloc_factor += 1
            size = min(size, room)
        return max(size >> order, 2) if size > 1 else size

    def most(self, pcp: Pcp, order: int) -> int:
        """Return a batch with its present doublings."""
        return max(pcp.batch << pcp.alloc_factor >> order, 2)

    def frees(self, pcp: Pcp, order: int, count: int, zone: ZoneState) -> tuple[int, int]:
        """Free one by one while the limit still moves, then all that fits."""
        if 1 <= order <= COSTLY_ORDER:
            return 1, self._free(pcp, order, zone)
        done = 0
        while done < count:
            calm = self._calm(pcp, order, zone)
            if calm:
                steps = min(_until(pcp, order, count - done, calm) - 1, count - done)
                if steps > 0:
                    self._skip(pcp, order, steps)
                    done += steps
                    continue
            done += 1
            pages = self._free(pcp, order, zone)
            if pages:
                return done, pages
        return done, 0

    def pieces(self, pcp: Pcp, pages: int) -> list[int]:
        """Give back all under one hold."""
        return [pages]

    def decay(self, pcp: Pcp) -> int:
        """Lower the limit by an eighth, but not below the low end (decay_pcp_high())."""
        if pcp.high > pcp.high_min:
            least = max(pcp.count - (pcp.batch << SCALE_MAX), pcp.high_min)
            pcp.high = max(pcp.high - (pcp.high >> 3), least)
        return max(0, pcp.count - pcp.high)

    def _calm(self, pcp: Pcp, order: int, zone: ZoneState) -> int:
        """Return the limit if frees below it change nothing but counts, else 0."""
        steady = pcp.high_min <= pcp.high <= pcp.high_max and not pcp.freed_high_order
        if not steady or zone.reclaim_active or zone.below_high:
            return 0
        return pcp.high

    def _skip(self, pcp: Pcp, order: int, steps: int) -> None:
        """Note frees that stay below the limit."""
        pcp.alloc_factor >>= steps
        most = pcp.batch << SCALE_MAX
        if pcp.free_count < most:
            needed = -(-(most - pcp.free_count) >> order)
            pcp.free_count += min(steps, needed) << order
        pcp.count += steps << order

    def _free(self, pcp: Pcp, order: int, zone: ZoneState) -> int:
        """Note one free; return the pages to drain."""
        pcp.count += 1 << order
        pcp.alloc_factor >>= 1
        free_high = self._frees_high_order(pcp, order)
        pcp.freed_high_order = 1 <= order <= COSTLY_ORDER
        if pcp.free_count < pcp.batch << SCALE_MAX:
            pcp.free_count += 1 << order
        limit = self._limit(pcp, free_high, zone)
        if pcp.count < limit:
            return 0
        if free_high:
            return min(pcp.count, pcp.batch << SCALE_MAX)
        if limit < pcp.batch:
            return 1
        return max(0, min(max(pcp.free_count, pcp.batch), limit - pcp.batch))

    def _frees_high_order(self, pcp: Pcp, order: int) -> bool:
        """Tell whether blocks of orders 1 to 3 have piled up by freeing only."""
        return (
            1 <= order <= COSTLY_ORDER
            and pcp.freed_high_order
            and pcp.free_count >= self._pile(pcp)
            and (not pcp.large_slice or pcp.count >= pcp.batch)
        )

    def _pile(self, pcp: Pcp) -> int:
        return pcp.batch

    def _limit(self, pcp: Pcp, free_high: bool, zone: ZoneState) -> int:
        """Return the pages at which it drains; move the limit (nr_pcp_high())."""
        high = pcp.high = _clamp(pcp.high, pcp.high_min, pcp.high_max)
        if high == 0:
            return 0
        if free_high:
            pcp.high = max(high - (pcp.batch << SCALE_MAX), pcp.high_min)
            return 0
        shrink = max(pcp.free_count, pcp.batch)
        if zone.reclaim_active:
            pcp.high = max(high - shrink, pcp.high_min)
            return min(4 * pcp.batch, pcp.high)
        if pcp.high_min == pcp.high_max:
            return high
        if zone.below_high:
            pcp.high = max(high - shrink, pcp.high_min)
            return max(pcp.count, pcp.high_min)
        if pcp.count >= high:
            wanted = pcp.free_count + pcp.batch
            if pcp.high < wanted:
                pcp.high = _clamp(wanted, pcp.high_min, pcp.high_max)
        return high


class TunedV7(Tuned):
    """7.3: more must pile up, and the zone lock is let go after each batch of a drain."""

    def pieces(self, pcp: Pcp, pages: int) -> list[int]:
        """Give back a batch under each hold."""
        full, rest = divmod(pages, pcp.batch)
        return [pcp.batch] * full + ([rest] if rest else [])

    def _pile(self, pcp: Pcp) -> int:
        return pcp.batch + pcp.high_min // 2


RULES: dict[str, PcpRules] = {
    "batch6": Batch6(),
    "shared_low": SharedLow(),
    "tuned": Tuned(),
    "tuned_v7": TunedV7(),
}
"""Rules by `PagePolicy.pcp`."""


def _clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)
