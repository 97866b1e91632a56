"""Objects that a CPU allocates and frees itself, some of them a grace period later.

Each task loops on a CPU of its own. Of an operation's objects some are given back within it and
never leave the CPU's freelist; others are freed by RCU callbacks on the same CPU, a batch at a
time (kernel/rcu/tree.c rcu_do_batch()). So a CPU holds some batches' worth of objects, and what
does not fit its cpu partial list goes through the node's list. Objects live unequally long, which
decides how full slabs are when they are used again: `spread` batches between the first and the
last of those that were allocated together. With 4 batches the counts of maple_node in the record of
stress-ng --mmap come out (slow path 36 % of allocations, drains 4.5 %), with 0 those of a cache
whose objects are freed as they were allocated.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allocator.results import Results
from allocator.slabs.cache import CacheSpec
from allocator.streams import Stream
from allocator.workloads.batch import Batch, slab_bytes
from allocator.workloads.outcome import outcome
from allocator.workloads.socket_queues import spell_out

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

JITTER = 0.5
"""A batch is up to this share longer or shorter than the mean one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Objects of one cache in an operation."""

    spec: CacheSpec
    """The cache."""
    deferred: float
    """Objects an operation that are freed by a callback."""
    at_once: float = 0.0
    """Objects an operation that are freed within it."""
    spread: int = 0
    """Batches by which an object may outlive others that were allocated with it."""
    away: float = 0.0
    """Share of the deferred objects that is freed on the next task's CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loops:
    """What runs, (lane,) where lanes may differ."""

    items: Sequence[Item]
    """Objects of an operation, in the order of the batch's caches."""
    tasks: int
    """Tasks, each on a CPU of its own by number: a socket's cores first, then the next socket's,
    then second threads, as will-it-scale pins them on x86."""
    batch: Ints
    """(lane,) operations whose callbacks run together, in the mean."""
    batches: Ints
    """(lane,) such batches of a task."""
    lag: int
    """Batches that are allocated before the first one is freed: a grace period."""
    operation_ns: Floats
    """(lane,) work of an operation, without the slab allocator."""


class Callbacks:
    """The loops of a batch of lanes."""

    def __init__(self, batch: Batch, loops: Loops, streams: Sequence[Stream]) -> None:
        """Start with empty caches.

        Parameters
        ----------
        batch
            Its caches are those of `loops.items`.
        loops
            What runs.
        streams
            Of each lane.
        """
        self.batch, self.loops = batch, loops
        self._draws = [stream.generator("traffic") for stream in streams]
        self.operations: Floats = np.zeros(batch.lanes)
        """(lane,) operations done."""
        self.direct: Ints = np.zeros((batch.lanes, batch.caches), dtype=np.int64)
        """(lane, cache) objects freed within their operation."""
        self.peak_bytes: Ints = np.zeros(batch.lanes, dtype=np.int64)
        """(lane,) largest memory in slabs at the end of a window."""
        spread = max(item.spread for item in loops.items)
        self._waiting: deque[list[_Batch]] = deque([] for _ in range(loops.lag + spread + 1))

    def run(self) -> None:
        """Run all batches, then free what is left. The loop is over batches."""
        batch, loops = self.batch, self.loops
        cpus = np.arange(loops.tasks)
        for number in range(int(loops.batches.max()) + len(self._waiting)):
            draws = np.array([draw.random(batch.cpus) for draw in self._draws])
            size = loops.batch[:, None] * (1.0 + JITTER * (2.0 * draws[:, cpus] - 1.0))
            going = number < loops.batches[:, None]
            count = np.where(going, np.maximum(size, 1), 0).astype(np.int64)
            work = np.zeros((batch.lanes, batch.cpus))
            work[:, cpus] = count * loops.operation_ns[:, None]
            self._allocate(count, cpus)
            self._free(self._waiting.popleft())
            self._waiting.append([])
            batch.settle(work)
            self.operations += count.sum(axis=1)
            np.maximum(self.peak_bytes, slab_bytes(batch).sum(axis=1), out=self.peak_bytes)

    def _allocate(self, count: Ints, cpus: Ints) -> None:
        """Allocate what a batch of operations leaves behind, and say when it is freed."""
        loops = self.loops
        each = np.array([item.deferred for item in loops.items])
        at_once = np.array([item.at_once for item in loops.items])
        wanted = np.rint(count[:, :, None] * each).astype(np.int64)
        self.direct += np.rint(count.sum(axis=1)[:, None] * at_once).astype(np.int64)
        lane, task, cache = np.nonzero(wanted)
        size, cpu = wanted[lane, task, cache], cpus[task]
        none, whole = np.zeros(len(lane)), np.ones(len(lane))
        slabs = self.batch.alloc(lane, cpu, cache, size, none, whole)
        owner, number = spell_out(size)
        spread = np.array([item.spread for item in loops.items])[cache[owner]]
        objects = np.bincount(lane[owner], minlength=self.batch.lanes)
        chance = np.concatenate(
            [draw.random(n) for draw, n in zip(self._draws, objects.tolist(), strict=True)]
        )  # requests are in order of lanes
        due = loops.lag + (chance * (spread + 1)).astype(np.int64)
        part = number / size[owner]
        away = np.array([item.away for item in loops.items])[cache[owner]]
        other = (chance * 7919.0) % 1.0 < away  # further digits of the same draw
        where = np.where(other, cpus[(task[owner] + 1) % loops.tasks], cpu[owner])
        for batches in range(loops.lag, loops.lag + int(spread.max(initial=0)) + 1):
            these = np.flatnonzero(due == batches)
            new = np.ones(len(these), dtype=bool)
            slab, who, frees = slabs[these], owner[these], where[these]
            new[1:] = (slab[1:] != slab[:-1]) | (who[1:] != who[:-1]) | (frees[1:] != frees[:-1])
            at = np.flatnonzero(new)
            who = who[at]
            run = np.diff(np.r_[at, len(these)])
            self._waiting[batches].append(
                _Batch(lane[who], frees[at], cache[who], slab[at], run, part[these[at]])
            )

    def _free(self, old: "list[_Batch]") -> None:
        """Run the callbacks whose time has come, the oldest objects first."""
        if not sum(len(one.lane) for one in old):
            return
        lane, cpu, cache, slab, count, part = (
            np.concatenate([getattr(one, name) for one in old]) for name in _Batch.__slots__
        )
        self.batch.free(lane, cpu, cache, slab, count, part.astype(np.float64))


def run_loops(
    points: "Sequence[Point]",
    streams: Sequence[Stream],
    *,
    items: Sequence[Item],
    tasks: int,
    lag: int,
) -> Results:
    """Run lanes whose workload gives `batch`, `batches` and `operation_cycles`.

    Parameters
    ----------
    points, streams
        Of each lane.
    items
        Objects of an operation.
    tasks
        Tasks of each lane.
    lag
        Batches of a grace period.
    """
    loads: list[Any] = [point.workload for point in points]
    batch = Batch(points, streams, [item.spec for item in items])
    loops = Loops(
        items=items,
        tasks=tasks,
        batch=np.array([load.batch for load in loads], dtype=np.int64),
        batches=np.array([load.batches for load in loads], dtype=np.int64),
        lag=lag,
        operation_ns=np.array(
            [
                point.machine.cycles_ns(load.operation_cycles)
                for point, load in zip(points, loads, strict=True)
            ]
        ),
    )
    run = Callbacks(batch, loops, streams)
    run.run()
    return outcome(
        batch,
        operations=run.operations,
        tasks=tasks,
        direct=run.direct,
        peak_bytes=run.peak_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Batch:
    """Runs of objects that wait for their grace period, (run,) each."""

    lane: Ints
    cpu: Ints
    cache: Ints
    slab: Ints
    count: Ints
    part: Floats
