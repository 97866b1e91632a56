"""Per-CPU partial lists: pushes and drains, put_cpu_partial() (mm/slub.c; slub.md 5.2).

A list is drained when a further slab finds it too long. All pushes of a call are sorted by CPU and
time, so that each list is what it held before, followed by a stretch of pushes; a drain takes what
lies between it and the drain before.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.ranks import counted, gathered, group_lengths, group_starts, ragged, sorted_by
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat

Ints = NDArray[np.int64]
Words = NDArray[np.int32]


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


@dataclass(slots=True, eq=False)
class _Drains:
    """Drains of a call, sorted by CPU and time."""

    owner: Ints
    """CPU, index into `_Pushes.cpus`."""
    closing: Ints
    """Push that finds the list too long, and begins it anew."""


def push(state: State, place: Ints, slab: Ints, time: Ints, objects: Words | None) -> Drained:
    """Push slabs on their CPUs' partial lists; too long ones are drained first.

    Parameters
    ----------
    state
        The batch.
    place
        (n,) CPU (row * cpus + cpu) of each free.
    slab
        (n,) slab of each free.
    time
        (push,) ascending: the frees that push their slab.
    objects
        (n,) free objects of the slab at its push; None: 1.
    """
    if not len(time):
        return Drained(time, time, time)
    by, time = sorted_by(place[time], time, len(state.row_of))
    starts = group_starts(by)
    counts, cpus = group_lengths(starts, len(by)), by[starts]
    pushes = _Pushes(by, gathered(slab, time), time, starts, counts, cpus, state.cpu.nr[cpus])
    state.statistics.add(Stat.CPU_PARTIAL_FREE, state.row_of[cpus], counts)
    if state.policy.cpu_partial_counts == "objects":
        free = np.ones_like(time) if objects is None else objects[time].astype(np.int64)
        drains = _drains_by_objects(state, pushes, free)
    else:
        drains = _drains_by_slabs(state, pushes)
    drained = _drain(state, pushes, drains)
    _stack(state, pushes, drains)
    return drained


def _drains_by_slabs(state: State, pushes: _Pushes) -> _Drains:
    """From 5.16: drained when head.slabs >= cpu_partial_slabs."""
    limit = np.maximum(state.rows.cpu_partial_slabs, 1)[state.row_of[pushes.cpus]]
    most = np.maximum(pushes.held, limit)  # slabs that the first drain takes
    beyond = pushes.held + pushes.counts - most
    over = (beyond > 0).nonzero()[0]
    limit = limit[over]
    number = (beyond[over] - 1) // limit + 1
    nth = ragged(np.zeros_like(number), number)
    first = pushes.starts[over] + most[over] - pushes.held[over]
    return _Drains(over.repeat(number), first.repeat(number) + nth * limit.repeat(number))


def _drains_by_objects(state: State, pushes: _Pushes, objects: Ints) -> _Drains:
    """Until 5.15: drained when head.pobjects > cpu_partial; the loop is over pushes of a CPU."""
    cpu, pool = state.cpu, state.pool
    limit = state.rows.cpu_partial[state.row_of[pushes.cpus]]
    top = cpu.partial[pushes.cpus * cpu.width + np.maximum(pushes.held, 1) - 1]
    stored = np.where(pushes.held > 0, pool.pobjects[top], 0).astype(np.int64)
    empty = pushes.held == 0
    drains = np.zeros(len(objects), dtype=bool)
    for depth in range(int(pushes.counts.max())):
        who = (pushes.counts > depth).nonzero()[0]
        at = pushes.starts[who] + depth
        full = ~empty[who] & (stored[who] > limit[who])
        drains[at] = full
        stored[who] = np.where(full, 0, stored[who]) + objects[at]
        empty[who] = False
        pool.pobjects[pushes.slab[at]] = stored[who]
    closing = drains.nonzero()[0]
    return _Drains(pushes.starts.searchsorted(closing, side="right") - 1, closing)


def _drain(state: State, pushes: _Pushes, drains: _Drains) -> Drained:
    """Return what the drains take; the lists stay as they are."""
    owner, closing = drains.owner, drains.closing
    if not len(owner):
        return Drained(owner, owner, owner)
    state.statistics.add(Stat.CPU_PARTIAL_DRAIN, state.row_of[pushes.cpus[owner]])
    first = group_starts(owner)
    since = np.empty_like(closing)
    since[1:] = closing[:-1]
    since[first] = pushes.starts[owner[first]]
    length = closing - since
    pushed, time = ragged(since, length), pushes.time[closing]
    newer = Drained(pushes.slab[pushed], time.repeat(length), (closing - 1).repeat(length) - pushed)
    held, bottom = pushes.held[owner[first]], pushes.cpus[owner[first]] * state.cpu.width
    below = ragged(bottom, held)
    top = bottom + held + length[first] - 1
    older = Drained(state.cpu.partial[below], time[first].repeat(held), top.repeat(held) - below)
    return newer.joined(older)


def _stack(state: State, pushes: _Pushes, drains: _Drains) -> None:
    """Write the lists as they are in the end."""
    cpu, size = state.cpu, len(pushes.place)
    bottom = pushes.starts - pushes.held  # push that is, or would be, at the bottom
    bottom[drains.owner] = drains.closing
    height = pushes.starts + pushes.counts - bottom
    cpu.widen(int(height.max()))
    at = counted(size) - bottom.repeat(pushes.counts)
    kept = (at >= 0).nonzero()[0]
    cpu.partial[(pushes.place * cpu.width + at)[kept]] = pushes.slab[kept]
    cpu.nr[pushes.cpus] = height
