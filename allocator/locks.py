"""Locks as FIFO servers: who waits how long, and what handing a lock over costs.

Requests on one lock are served in order of arrival. With service s and arrival a, the end of
service follows Lindley's recursion end(i) = max(a(i), end(i-1)) + s(i), which is a cumulative sum
plus the running maximum of (a(j) - sum of services before j): no loop over requests.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.transfers import Transfers

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def fifo_ends(lock: Ints, arrival: Ints, service: Ints, free_at: Ints) -> Ints:
    """Return when each request's service ends.

    Times are whole picoseconds, so that no lock's answer depends on which others are asked with it.

    Parameters
    ----------
    lock
        (request,) lock of each request, ascending; requests of a lock are in order of arrival.
    arrival, service
        (request,) ps.
    free_at
        (lock,) when each lock becomes free of earlier requests, ps.

    Returns
    -------
    (request,) ps, the end of service.
    """
    if not len(lock):
        return np.zeros(0, dtype=np.int64)
    first = np.r_[True, lock[1:] != lock[:-1]]
    segment = np.cumsum(first) - 1
    total = np.cumsum(service)
    before = (total - service)[first][segment]
    within = total - before  # services of the lock up to and including this request
    slack = np.maximum(arrival, free_at[lock]) - (within - service)
    # lift each segment above all earlier ones, so that one running maximum serves them all
    low = slack.min()
    lift = segment * (slack.max() - low + 1)
    ends: Ints = np.maximum.accumulate(slack - low + lift) - lift + low + within
    return ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What one call did to its requests."""

    wait_ns: Floats
    """(request,) from arrival until the lock was free."""
    handover_ns: Floats
    """(request,) moving the lock's line from the holder before."""
    hold_ns: Floats
    """(request,) as asked."""

    @property
    def delay_ns(self) -> Floats:
        """(request,) time that the request's CPU spends in all."""
        return self.wait_ns + self.handover_ns + self.hold_ns


class Locks:
    """A bank of locks and what has been seen at each.

    `acquire` is an open loop: a CPU's later requests arrive when they were said to, however long
    its earlier ones waited. Who wants a closed loop moves the arrivals on and asks `backlog` what
    a request would meet there, then tells `correct` what it really waited.
    """

    def __init__(self, lanes: Ints, homes: Ints, transfers: Transfers, lines: Floats) -> None:
        """Create free locks.

        Parameters
        ----------
        lanes, homes
            (lock,) lane of each lock, and the node whose memory holds it.
        transfers
            Line transfer times of the lanes.
        lines
            (lane,) line transfers of one hand-over.
        """
        count = len(lanes)
        self._lane = lanes
        self._home = homes
        self._transfers = transfers
        self._lines = lines
        self.free_at: Ints = np.zeros(count, dtype=np.int64)
        self.holder = np.full(count, -1, dtype=np.int64)
        self.acquisitions = np.zeros(count, dtype=np.int64)
        self.contended = np.zeros(count, dtype=np.int64)
        self.wait_ns = np.zeros(count)
        self.hold_ns = np.zeros(count)
        self.handover_ns = np.zeros(count)
        none = np.zeros(0, dtype=np.int64)
        self._queue: tuple[Ints, Ints, Ints] = (none, none, none)

    def acquire(self, lock: Ints, cpu: Ints, arrival: Floats, hold: Floats) -> Served:
        """Serve requests in order of (arrival, CPU) at each lock.

        Parameters
        ----------
        lock, cpu
            (request,) which lock, and who asks. A CPU may ask several times; its requests do not
            wait for one another, so ask them in different calls where that matters.
        arrival, hold
            (request,) ns.
        """
        if not len(lock):
            none = np.zeros(0)
            return Served(wait_ns=none, handover_ns=none, hold_ns=none)
        order = np.lexsort((cpu, arrival, lock))
        where, who = lock[order], cpu[order]
        first = np.r_[True, where[1:] != where[:-1]]
        previous = np.where(first, self.holder[where], np.r_[-1, who[:-1]])
        lane = self._lane[where]
        moved = self._transfers.between(lane, previous, who, self._home[where])
        handover = moved * self._lines[lane]
        came, served = _ps(arrival[order]), _ps(handover + hold[order])
        ends = fifo_ends(where, came, served, self.free_at)
        wait: Floats = (ends - served - came).astype(np.float64) * 1e-3
        last = np.flatnonzero(np.r_[where[1:] != where[:-1], True])
        self.free_at[where[last]] = ends[last]
        self.holder[where[last]] = who[last]
        size = len(self.free_at)
        self.acquisitions += np.bincount(where, minlength=size)
        self.contended += np.bincount(where, weights=wait > 0, minlength=size).astype(np.int64)
        self.wait_ns += np.bincount(where, weights=wait, minlength=size)
        self.hold_ns += np.bincount(where, weights=hold[order], minlength=size)
        self.handover_ns += np.bincount(where, weights=handover, minlength=size)
        self._queue = (where, came, ends)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return Served(wait_ns=wait[back], handover_ns=handover[back], hold_ns=hold)

    def backlog(self, lock: Ints, time: Floats) -> Floats:
        """Return how long each lock is still busy with the last call's arrivals up to a time.

        Parameters
        ----------
        lock, time
            (query,) which lock, and when, ns.

        Returns
        -------
        (query,) ns, 0 where the lock is free.
        """
        where, arrival, ends = self._queue
        when = _ps(time)
        span = int(max(arrival.max(initial=0), when.max(initial=0))) + 1
        last = np.searchsorted(where * span + arrival, lock * span + when, side="right") - 1
        known = (last >= 0) & (where[last] == lock)
        return np.where(known, np.maximum(ends[last] - when, 0) * 1e-3, 0.0)

    def correct(self, lock: Ints, waited_ns: Floats) -> None:
        """Add to the waiting time seen at locks what a closed loop differs by, (request,) ns."""
        self.wait_ns += np.bincount(lock, weights=waited_ns, minlength=len(self.wait_ns))

    def restart(self) -> None:
        """Forget the queue, not the last holder: the next call's times begin anew at 0."""
        self.free_at[:] = 0


def _ps(ns: Floats) -> Ints:
    """Return whole picoseconds."""
    return np.rint(ns * 1e3).astype(np.int64)
