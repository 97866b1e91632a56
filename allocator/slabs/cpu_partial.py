"""Per-CPU partial lists: pushes and drains, put_cpu_partial() (mm/slub.c; slub.md 5.2).

A list is drained when a further slab finds it too long. All pushes of a call are told apart by
CPU; a slab's *epoch* is the number of drains that its CPU did before it was pushed, and the slabs
of an epoch leave together at the first push of the next.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.ranks import group_lengths, group_starts, ragged, ranks_from, stable_order
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat

Ints = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Drained:
    """Slabs that left CPUs' partial lists, (n,) each."""

    slab: Ints
    """Slab."""
    time: Ints
    """Time of the push that drained it."""
    turn: Ints
    """Place within its drain: 0 was on top."""

    def joined(self, other: "Drained") -> "Drained":
        """Return both."""
        pairs = ((self.slab, other.slab), (self.time, other.time), (self.turn, other.turn))
        return Drained(*(np.concatenate(pair) for pair in pairs))


@dataclass(slots=True, eq=False)
class _Pushes:
    """Pushes of a call, sorted by CPU and time."""

    place: Ints
    slab: Ints
    time: Ints
    starts: Ints
    """First push of each CPU."""
    counts: Ints
    """Pushes of each CPU."""
    cpus: Ints
    """The CPUs (places) that push."""
    held: Ints
    """Slabs on each CPU's list before."""

    def of(self, chosen: NDArray[np.bool_]) -> "_Pushes":
        """Return the pushes of some of the CPUs."""
        which = chosen.repeat(self.counts).nonzero()[0]
        counts = self.counts[chosen]
        starts = counts.cumsum() - counts
        place, slab, time = self.place[which], self.slab[which], self.time[which]
        return _Pushes(place, slab, time, starts, counts, self.cpus[chosen], self.held[chosen])


def push(state: State, place: Ints, slab: Ints, time: Ints, objects: Ints) -> Drained:
    """Push slabs on their CPUs' partial lists; too long ones are drained first.

    Parameters
    ----------
    state
        The batch.
    place
        (n,) CPU (row * cpus + cpu) that pushes.
    slab
        (n,) slab.
    time
        (n,) ascending: order of the pushes.
    objects
        (n,) free objects of the slab at its push.
    """
    if not len(place):
        return Drained(place, place, place)
    order = stable_order(place, len(state.row_of))
    place = place[order]
    starts = group_starts(place)
    counts, cpus = group_lengths(starts, len(place)), place[starts]
    pushes = _Pushes(place, slab[order], time[order], starts, counts, cpus, state.cpu.nr[cpus])
    if state.policy.cpu_partial_counts == "objects":
        return _settle(state, pushes, _epochs_by_objects(state, pushes, objects[order]))
    limit = np.maximum(state.rows.cpu_partial_slabs, 1)[state.row_of[cpus]]
    overflowing = pushes.held + counts > np.maximum(pushes.held, limit)
    if not overflowing.any():
        _stack(state, pushes)
        return Drained(place[:0], place[:0], place[:0])
    _stack(state, pushes.of(~overflowing))
    pushes, limit = pushes.of(overflowing), limit[overflowing]
    return _settle(state, pushes, _epochs_by_slabs(pushes, limit))


def _stack(state: State, pushes: _Pushes) -> None:
    """Push slabs on lists that are not drained."""
    cpu, held = state.cpu, pushes.held
    height = ranks_from(pushes.starts, len(pushes.place)) + held.repeat(pushes.counts)
    cpu.widen(int(height.max(initial=0)) + 1)
    cpu.partial[pushes.place * cpu.width + height] = pushes.slab
    cpu.nr[pushes.cpus] = held + pushes.counts


def _epochs_by_slabs(pushes: _Pushes, limit: Ints) -> Ints:
    """From 5.16: drained when head.slabs >= cpu_partial_slabs."""
    first = np.maximum(pushes.held, limit)  # slabs that the first drain takes
    height = ranks_from(pushes.starts, len(pushes.place))
    beyond = height + (pushes.held - first).repeat(pushes.counts)
    later = (beyond >= 0).nonzero()[0]
    epoch = np.zeros_like(beyond)
    epoch[later] = beyond[later] // limit.repeat(pushes.counts)[later] + 1
    return epoch


def _epochs_by_objects(state: State, pushes: _Pushes, objects: Ints) -> Ints:
    """Until 5.15: drained when head.pobjects > cpu_partial; the loop is over pushes of a CPU."""
    cpu, pool = state.cpu, state.pool
    limit = state.rows.cpu_partial[state.row_of[pushes.cpus]]
    top = cpu.partial[pushes.cpus * cpu.width + np.maximum(pushes.held, 1) - 1]
    stored = np.where(pushes.held > 0, pool.pobjects[top], 0).astype(np.int64)
    empty = pushes.held == 0
    drains = np.zeros(len(limit), dtype=np.int64)
    epoch = np.zeros(len(objects), dtype=np.int64)
    for depth in range(int(pushes.counts.max())):
        who = (pushes.counts > depth).nonzero()[0]
        at = pushes.starts[who] + depth
        full = ~empty[who] & (stored[who] > limit[who])
        drains[who] += full
        stored[who] = np.where(full, 0, stored[who]) + objects[at]
        empty[who] = False
        pool.pobjects[pushes.slab[at]] = stored[who]
        epoch[at] = drains[who]
    return epoch


def _settle(state: State, pushes: _Pushes, epoch: Ints) -> Drained:
    """Write the lists as they are in the end; return what was drained on the way."""
    cpu, size = state.cpu, len(epoch)
    last = pushes.starts + pushes.counts - 1
    new = np.ones(size, dtype=bool)
    new[1:] = (pushes.place[1:] != pushes.place[:-1]) | (epoch[1:] != epoch[:-1])
    opening = new.nonzero()[0]  # first push of each epoch of each CPU
    length = group_lengths(opening, size)
    below = np.where(epoch == 0, pushes.held.repeat(pushes.counts), 0)
    height = ranks_from(opening, size) + below
    drained = Drained(height[:0], height[:0], height[:0])
    overflowing = (epoch[last] > 0).nonzero()[0]
    final = np.ones(size, dtype=bool)
    if len(overflowing):
        final = epoch == epoch[last].repeat(pushes.counts)
        closing = (opening + length).repeat(length)
        out = (~final).nonzero()[0]
        total = length.repeat(length)[out] + below[out]
        drained = Drained(pushes.slab[out], pushes.time[closing[out]], total - 1 - height[out])
        first = pushes.starts[overflowing]
        pushed_before = np.where(epoch[first] == 0, closing[first] - first, 0)
        drained = _held_before(state, pushes, overflowing, pushed_before).joined(drained)
        rows = state.row_of[pushes.cpus[overflowing]]
        state.statistics.add(Stat.CPU_PARTIAL_DRAIN, rows, epoch[last[overflowing]])
    cpu.widen(int(height.max()) + 1)
    kept = final.nonzero()[0]
    cpu.partial[pushes.place[kept] * cpu.width + height[kept]] = pushes.slab[kept]
    cpu.nr[pushes.cpus] = height[last] + 1
    return drained


def _held_before(state: State, pushes: _Pushes, overflowing: Ints, pushed_before: Ints) -> Drained:
    """Return the slabs that were on overflowing lists before the call; the first drain takes them.

    Parameters
    ----------
    state
        The batch.
    pushes
        All pushes.
    overflowing
        CPUs (index into `pushes.cpus`) with a drain.
    pushed_before
        Slabs that each of them pushes before its first drain.
    """
    held = pushes.held[overflowing]
    slots = ragged(pushes.cpus[overflowing] * state.cpu.width, held)
    time = pushes.time[pushes.starts[overflowing] + pushed_before]
    turn = ragged(pushed_before, held)
    above = (pushed_before * 2 + held - 1).repeat(held)
    return Drained(state.cpu.partial[slots], time.repeat(held), above - turn)
