"""kswapd: the reclaimer beside the requests, as an actor with a speed of its own.

mm/vmscan.c balance_pgdat(), kswapd(). It runs on another CPU while requests go on, so how far it
gets between two of them depends on the machine. That is a parameter here, and where it decides an
answer (a kernel that gives up at the first skipped compaction) the answer comes with a band.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from allocator.pages.lru import Lru
from allocator.pages.policy import PagePolicy
from allocator.pages.suitable import Levels, gap, has_block

DEF_PRIORITY = 12
"""First priority of reclaim: 1/4096 of the list is scanned, doubled at each step."""
CLUSTER = 32
"""Least number of pages that reclaim takes at once (SWAP_CLUSTER_MAX)."""
IDLE_SHARE = 0.15
"""A request that retries in vain races kswapd, which takes a moment to wake: it gives up after 17
rounds that do nothing. From how far six such requests of 7.3 got on machines of 384 and 512 MiB (9
to 96 pages); with 0.1 they would end too early, with 0.2 too late."""
_BULK = 256
ENDLESS = 1 << 60
"""More pages than any machine has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast kswapd is beside the requests that it works for."""

    pages: int
    """Pages that it reclaims, in the mean, while a request takes its course (one huge page, or one
    step of the slow path)."""
    delay: float = 1
    """Requests from waking it until it runs, in the mean."""
    idle: float = IDLE_SHARE
    """Time of a step that finds nothing to do (reclaim that is left to compaction, compaction that
    is put off, skipped or finds a block there), as a share of a step that does something."""
    slice_pages: int | None = None
    """None: it has a CPU of its own. Else the machine has one CPU: woken after a long sleep, kswapd
    preempts the requester for a time slice of this many pages, and then waits until the requester
    sleeps."""


class Watched(Levels, Protocol):
    """A zone that kswapd balances."""

    @property
    def index(self) -> int:
        """Zone type, 0 DMA to 3 Movable."""
        ...


def together(zones: Sequence[Levels]) -> int:
    """Return the pages below which passes over a list are made as one.

    An eighth of the way between two marks: what a pass overshoots stays well below what counts.
    """
    return max(CLUSTER, max(zone.mark("high") - zone.mark("low") for zone in zones) // 8)


class Kswapd:
    """The daemon of one node.

    Parameters
    ----------
    policy
        The kernel.
    zones
        Zones of the node, the lowest first.
    lru
        Page cache of the node.
    reclaim
        Frees up to a number of the oldest pages; returns how many.
    pace
        Its speed.
    jitter
        Draws each interval's share evenly from 0 to twice the mean, and the delay of waking from an
        exponential distribution; None: always the mean.
    on_sleep
        Called with the largest order it was woken for when it goes to sleep.
    reclaim_each
        Does what `reclaim` does for several numbers of pages, if that can be done at once; tells
        whether.
    """

    def __init__(
        self,
        policy: PagePolicy,
        zones: Sequence[Watched],
        lru: Lru,
        reclaim: Callable[[int], int],
        pace: Pace,
        jitter: np.random.Generator | None = None,
        on_sleep: Callable[[int], None] | None = None,
        reclaim_each: Callable[[list[int]], bool] | None = None,
    ) -> None:
        self._policy = policy
        self._zones = list(zones)
        self._lru = lru
        self._reclaim = reclaim
        self.pace = pace
        self._jitter = jitter
        self._drawn: list[int] = []
        self._on_sleep = on_sleep
        self._reclaim_each = reclaim_each
        self.awake = False
        self.wakes = 0
        """Times that it was woken from sleep (pageoutrun)."""
        self._order = self._asked = 0
        self._highest = 0
        self._priority = DEF_PRIORITY
        self._left = 0  # pages of the present pass that are still to be scanned
        self._done = 0  # pages reclaimed since it woke
        self._wait = 0.0  # requests until it runs
        self._credit = 0.0  # pages that it had time for and has not taken
        self._rested = True

    def balanced(self, order: int, highest: int) -> bool:
        """Tell whether some zone can serve the order above its high mark (pgdat_balanced())."""
        for zone in self._zones:
            if zone.index > highest:
                continue
            above = zone.free - (1 << order) + 1 > zone.mark("high") + zone.reserve[highest]
            if above and (order == 0 or has_block(zone.buddy, order)):
                return True
        return False

    def wake(self, order: int, highest: int) -> None:
        """Wake it for a request, unless there is nothing to do (wakeup_kswapd())."""
        self._order = max(self._order, order)
        self._asked = max(self._asked, order)
        self._highest = max(self._highest, highest)
        if self.awake or self.balanced(order, highest):
            return
        self.awake = True
        self.wakes += 1
        self._wait = self.pace.delay
        if self._jitter is not None:
            self._wait *= self._jitter.standard_exponential()
        self._priority = DEF_PRIORITY
        self._left = self._done = 0
        self._credit = 0.0

    def tick(self, share: float = 1) -> int:
        """Let one request's time pass, or a share of it; return the pages reclaimed meanwhile."""
        if not self.awake:
            return 0
        if self.pace.slice_pages is not None:
            rested, self._rested = self._rested, False
            return self.run(self.pace.slice_pages) if rested else 0
        if self._wait > 0:
            self._wait -= share
            return 0
        self._credit += share * (self.pace.pages if self._jitter is None else self._draw())
        if self._credit < CLUSTER:
            return 0
        credit, self._credit = int(self._credit), 0.0
        return self.run(credit)

    def ticks(self, times: int) -> None:
        """Let the time of several requests pass; work within one pass is done at once."""
        sizes: list[int] = []
        room = self._left
        for _ in range(times):
            if not self.awake or self._wait > 0 or self.pace.slice_pages is not None:
                self.tick()
                room = self._left
                continue
            self._credit += self.pace.pages if self._jitter is None else self._draw()
            if self._credit < CLUSTER:
                continue
            pages, self._credit = int(self._credit), 0.0
            sizes.append(pages)
            room -= pages
            if room <= 0:
                self._run_each(sizes)
                sizes, room = [], self._left
        self._run_each(sizes)

    def _run_each(self, sizes: list[int]) -> None:
        """Run for each of some numbers of pages."""
        pages = sum(sizes)
        if pages < self._left and self._reclaim_each is not None and self._reclaim_each(sizes):
            self._left -= pages
            self._done += pages
            return
        for budget in sizes:
            self.run(budget)

    def _draw(self) -> int:
        """Draw the pages of an interval; draws are made in bulk, their order is what counts."""
        if not self._drawn and self._jitter is not None:
            most = 2 * self.pace.pages
            self._drawn = self._jitter.integers(most, size=_BULK, endpoint=True).tolist()[::-1]
        return self._drawn.pop()

    def beside(self, pages: int) -> int:
        """Let the time pass that a direct reclaimer took for some pages: it is as fast as that."""
        return self.run(pages) if self.works_beside else 0

    @property
    def works_beside(self) -> bool:
        """Tell whether it runs while a request reclaims."""
        return self.awake and self.pace.slice_pages is None and self._wait <= 0

    def rest(self) -> int:
        """Let enough time pass for it to finish its round and sleep; return the pages reclaimed."""
        pages = self.run(ENDLESS) if self.awake else 0
        self._rested = True
        return pages

    def settle(self, highest: int) -> int:
        """Let the last tenth of a second of a busy time pass; return the pages reclaimed.

        kswapd sleeps lightly at first and looks at the marks again before it sleeps deeply, so
        what was taken meanwhile is given back up to the high mark (kswapd_try_to_sleep()).
        """
        self.wake(0, highest)
        return self.rest()

    def run(self, budget: int) -> int:
        """Reclaim up to a number of pages, or until the node is balanced."""
        total = 0
        while self.awake and total < budget:
            if self._left <= 0 and not self._next_pass():
                break
            got = self._reclaim(min(self._left, budget - total))
            if not got:
                self._sleep()
                break
            self._left -= got
            self._done += got
            total += got
        return total

    def _away(self) -> int:
        """Pages that the nearest zone lacks at least: passes over less need not be told apart."""
        return min(
            zone.mark("high") + zone.reserve[self._highest] + (1 << self._order) - zone.free
            for zone in self._zones
            if zone.index <= self._highest
        )

    def _next_pass(self) -> bool:
        """Begin further passes over the list, or go to sleep; tell which."""
        if self._order and self._done >= gap(self._policy, self._order):
            self._order = 0  # enough for compaction: from here on only the mark counts
        if self.balanced(self._order, self._highest) or self._priority < 1:
            self._sleep()
            return False
        wanted = sum(max(z.mark("high"), CLUSTER) for z in self._zones if z.index <= self._highest)
        away = max(together(self._zones), min(self._away(), self._lru.pages))
        while self._left < away and self._priority > 0:
            step = max(CLUSTER, self._lru.pages >> self._priority)
            self._left += step
            if step < wanted:
                self._priority -= 1
        return True

    def _sleep(self) -> None:
        order, self._asked = self._asked, 0
        self.awake = False
        self._order = self._highest = 0
        if self._on_sleep is not None:
            self._on_sleep(order)
