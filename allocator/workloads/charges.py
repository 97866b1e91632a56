"""From counts to time: what the events of a window cost each CPU, and who waits for which lock.

A CPU's window is a burst of work with the allocator's costs in it. Its lock requests lie in the
burst where their events do; a CPU that waits for one asks for the next one later (a closed loop).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from allocator.layout import Layout
from allocator.locks import Locks
from allocator.machine import Machine
from allocator.slabs.policy import SlabPolicy
from allocator.transfers import Transfers
from allocator.workloads.pcp_front import PcpFront, rounds

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the slab engine and its events."""

    lane: Ints
    """(request,) lane."""
    cpu: Ints
    """(request,) CPU."""
    count: Ints
    """(request,) objects."""
    start: Floats
    """(request,) where in the CPU's burst it begins, 0..1."""
    width: Floats
    """(request,) how much of the burst it fills."""
    frees: bool
    """Frees, else allocations."""
    locks: Ints
    """(event, 3): request, list (row * nodes + node), slabs handled under list_lock."""
    updates: Ints
    """(event, 4): request, node of the slab, CPU that changed its word last, updates."""
    pages: Ints
    """(event, 5): request, node, order, 1 taken or 0 given back, objects of the slab."""


@dataclass(slots=True)
class Spent:
    """Where CPU time went, (lane,) ns each."""

    work: Floats
    """The workload's own."""
    slab: Floats
    """The slab allocator outside locks, with the lines that it moves."""
    list_lock_wait: Floats
    """Waiting for a list_lock."""
    list_lock: Floats
    """Getting the line of a list_lock and holding it."""
    zone_lock_wait: Floats
    """Waiting for a zone->lock."""
    zone_lock: Floats
    """Getting the line of a zone->lock and holding it."""

    def total(self) -> Floats:
        """Return all of it, (lane,) ns."""
        parts: list[Floats] = [getattr(self, item.name) for item in fields(self)]
        result: Floats = np.sum(parts, axis=0)
        return result


@dataclass(frozen=True, slots=True)
class _Asked:
    """Lock requests of a window."""

    place: Ints
    part: Floats
    zone: NDArray[np.bool_]
    frees: NDArray[np.bool_]
    lock: Ints
    hold: Floats


class Charges:
    """Costs of a batch's machines, its list_locks and zone locks."""

    def __init__(
        self,
        machines: Sequence[Machine],
        layouts: Sequence[Layout],
        policy: SlabPolicy,
        front: PcpFront,
        *,
        caches: int,
    ) -> None:
        """Prepare costs as (lane,) arrays and create the locks.

        Parameters
        ----------
        machines, layouts
            Of each lane.
        policy
            Whether slabs are frozen under list_lock or later.
        front
            Which slab pages reach the zone.
        caches
            Rows of a lane.
        """
        lanes, nodes = len(machines), len(layouts[0].socket_of_node)
        self._lanes, self._nodes, self._cpus = lanes, nodes, len(layouts[0].core)
        self._freezes_under_lock = policy.freezing == "taken" and policy.generation == "cpu_slabs"
        self._front = front
        self._cost = {
            name: np.array([machine.cost_ns(name) for machine in machines])
            for name in machines[0].costs
        }
        self._transfers = Transfers(machines, layouts)
        self._far = self._transfers.mean_to()
        self.get_partial_ns: Floats = np.zeros(lanes)
        """(lane,) waiting for, getting and holding list_locks for allocations."""
        self.spent = Spent(*(np.zeros(lanes) for _ in fields(Spent)))
        lists, zones = np.arange(lanes * caches * nodes), np.arange(lanes * nodes)
        lines = self._cost["handover_lines"]
        self.list_locks = Locks(lists // (caches * nodes), lists % nodes, self._transfers, lines)
        self.zone_locks = Locks(zones // nodes, zones % nodes, self._transfers, lines)

    def settle(self, work: Floats, calls: Sequence[Call]) -> Floats:
        """Return the time that each CPU's window took, and serve its locks.

        Parameters
        ----------
        work
            (lane, cpu) work other than the allocator's, ns; 0 for CPUs that did not move.
        calls
            The window's engine calls.

        Returns
        -------
        (lane, cpu) ns.
        """
        slab = sum((self._slab_time(call) for call in calls), start=np.zeros(work.size))
        base = work.ravel() + slab
        asked = [one for call in calls for one in self._asked(call)]
        delay = self._serve(base, asked) if asked else np.zeros_like(base)
        self.spent.work += work.sum(axis=1)
        self.spent.slab += slab.reshape(self._lanes, -1).sum(axis=1)
        return (base + delay).reshape(work.shape)

    def _slab_time(self, call: Call) -> Floats:
        """Return (lane * cpus,) ns that a call takes outside locks."""
        cost = self._cost
        places = self._lanes * self._cpus
        fast = cost["free_fast_cycles" if call.frees else "alloc_fast_cycles"][call.lane]
        place = call.lane * self._cpus + call.cpu
        total: Floats = np.bincount(place, call.count * fast, places).astype(np.float64)
        request, node, before, times = call.updates.T
        lane, cpu = call.lane[request], call.cpu[request]
        slow = cost["free_slow_cycles" if call.frees else "alloc_slow_cycles"][lane]
        lines = 1.0 if call.frees else 1.0 + cost["object_lines"][lane]
        moved = self._transfers.between(lane, before, cpu, node) * lines
        update = cost["slab_update_cycles"][lane] * times
        total = total + np.bincount(lane * self._cpus + cpu, slow + update + moved, places)
        request, _, order, taken, objects = call.pages.T
        lane, cpu = call.lane[request], call.cpu[request]
        page = cost["page_order0_cycles"][lane] * cost["page_order_factor"][lane] ** order
        new = taken * (cost["alloc_slow_cycles"][lane] + objects * cost["slab_object_cycles"][lane])
        total = total + np.bincount(lane * self._cpus + cpu, page + new, places)
        return total

    def _asked(self, call: Call) -> list[_Asked]:
        """Return the list_lock and the zone->lock requests of a call."""
        cost = self._cost
        request, lists, slabs = call.locks.T
        lane, cpu = call.lane[request], call.cpu[request]
        lines, each = cost["list_slab_lines"][lane], cost["list_slab_cycles"][lane]
        if self._freezes_under_lock:
            lines = lines + cost["freeze_lines"][lane]
            each = each + cost["slab_update_cycles"][lane]
        each = each + lines * self._far[lane, cpu, lists % self._nodes]
        listed = _Asked(
            lane * self._cpus + cpu,
            _part(call, request),
            np.zeros(len(lane), dtype=bool),
            np.full(len(lane), call.frees),
            lists,
            cost["list_lock_cycles"][lane] + slabs * each,
        )
        request, node, order, taken, _ = call.pages.T
        place = call.lane[request] * self._cpus + call.cpu[request]
        event, pages = self._front.move(place, node, order, taken)
        lane = call.lane[request[event]]
        zoned = _Asked(
            place[event],
            _part(call, request)[event],
            np.ones(len(event), dtype=bool),
            np.full(len(event), call.frees),
            lane * self._nodes + node[event],
            cost["zone_lock_ns"][lane] + pages * cost["zone_lock_page_ns"][lane],
        )
        return [listed, zoned]

    def _serve(self, base: Floats, asked: Sequence[_Asked]) -> Floats:
        """Serve lock requests; return (lane * cpus,) ns that they cost.

        The bursts of a window are taken as simultaneous. All requests queue up as if nobody were
        delayed; then each CPU goes through its own in turn, and where its earlier ones delayed it,
        it meets the queue as it is by then. The loop is over the requests of one CPU.
        """
        delay = np.zeros_like(base)
        place, part, zone, frees, lock, hold = (
            np.concatenate([getattr(one, name) for one in asked]) for name in _Asked.__slots__
        )
        arrival = part * base[place]
        service, open_wait = np.zeros_like(arrival), np.zeros_like(arrival)
        banks = (
            (self.list_locks, np.flatnonzero(~zone)),
            (self.zone_locks, np.flatnonzero(zone)),
        )
        for locks, these in banks:
            locks.restart()
            served = locks.acquire(
                lock[these], place[these] % self._cpus, arrival[these], hold[these]
            )
            service[these] = served.handover_ns + served.hold_ns
            open_wait[these] = served.wait_ns
        wait = np.zeros_like(arrival)
        for turn in rounds(place, np.lexsort((arrival, place))):
            for locks, bank in ((self.list_locks, False), (self.zone_locks, True)):
                these = turn[zone[turn] == bank]
                when = arrival[these] + delay[place[these]]
                wait[these] = np.maximum(locks.backlog(lock[these], when) - service[these], 0.0)
            delay[place[turn]] += wait[turn] + service[turn]
        for locks, these in banks:
            locks.correct(lock[these], wait[these] - open_wait[these])
            lane = place[these] // self._cpus
            waits = np.bincount(lane, wait[these], self._lanes)
            holds = np.bincount(lane, service[these], self._lanes)
            if locks is self.zone_locks:
                self.spent.zone_lock_wait += waits
                self.spent.zone_lock += holds
            else:
                self.spent.list_lock_wait += waits
                self.spent.list_lock += holds
                of_allocs = np.where(frees[these], 0.0, wait[these] + service[these])
                self.get_partial_ns += np.bincount(lane, of_allocs, self._lanes)
        return delay


def _part(call: Call, request: Ints) -> Floats:
    """Return where in their CPU's burst events lie: evenly within their request."""
    if not len(request):
        return np.zeros(0)
    number = np.bincount(request, minlength=len(call.lane))
    order = np.argsort(request, kind="stable")
    first = np.cumsum(number) - number
    rank = np.empty(len(request), dtype=np.int64)
    rank[order] = np.arange(len(request)) - first[request[order]]
    within = (rank + 1) / (number[request] + 1)
    part: Floats = call.start[request] + call.width[request] * within
    return part
