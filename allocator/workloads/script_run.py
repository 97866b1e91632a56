"""Carry out a replay script on many machines at once: one lane each, the same script.

All lanes go through the script together, operation by operation. Rows are lane * caches + cache,
where caches count every `cache` line of the script, so that a name used again is a new row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allocator import gfp as flags
from allocator.errors import ConfigError
from allocator.kernel import Kernel
from allocator.pages.source import PageSource
from allocator.slabs.cache import CacheSpec
from allocator.slabs.geometry import CacheGeometry, cache_geometries
from allocator.slabs.parameters import SlabParameters
from allocator.slabs.places import Places
from allocator.slabs.rows import Rows
from allocator.slabs.slub import GFP_KERNEL, Slub
from allocator.slabs.state import Draws
from allocator.slabs.window import Runs
from allocator.topology import Topology
from allocator.workloads.script import Script
from allocator.workloads.script_ops import (
    Alloc,
    BulkAlloc,
    BulkFree,
    CreateCache,
    Destroy,
    Free,
    FreeRcu,
    Op,
    Reset,
    SheafOp,
    Shrink,
    Sleep,
    Sysfs,
    gfp_text,
)
from allocator.workloads.script_sheaves import ScriptSheaves, refuse_without_sheaves

Ints = NDArray[np.int64]
Result = dict[str, object]

UNKNOWN = -1
"""Slab of an id that is not held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One machine that a script runs on."""

    topology: Topology
    """CPUs and nodes."""
    parameters: SlabParameters
    """SLUB's boot parameters and sysfs values."""


@dataclass(slots=True, kw_only=True)
class Watcher:
    """What an observer is told; by default nothing is done."""

    took: Callable[[int, int, Ints], None] = field(default=lambda cache, first, slabs: None)
    """Cache, first id, (lane, object) slab of each object handed out, UNKNOWN where none was."""
    gave: Callable[[int, Ints], None] = field(default=lambda cache, slabs: None)
    """Cache, (lane, object) slabs of objects about to be freed."""
    moved: Callable[[Ints], None] = field(default=lambda moves: None)
    """`Events.page_moves` of a call."""


class ScriptRun:
    """A script under way.

    Parameters
    ----------
    script
        The script.
    kernel
        The kernel, the same for all lanes.
    lanes
        The machines; all with the same number of CPUs and nodes.
    source
        Pages of all lanes.
    draws
        As for `Slub`.
    watcher
        Who is told of objects and slabs.
    """

    def __init__(
        self,
        script: Script,
        kernel: Kernel,
        lanes: Sequence[Lane],
        source: PageSource,
        *,
        draws: Draws | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self.kernel = kernel
        self.watcher = Watcher() if watcher is None else watcher
        self.nr_lanes = len(lanes)
        self.cpus = lanes[0].topology.cpus
        refuse_without_sheaves(script, kernel)
        created = [op for op in script.ops if isinstance(op, CreateCache)]
        self.nr_caches = len(created)
        self.geometries = [_geometries(kernel, lane, created, script.source) for lane in lanes]
        percent = [lane.parameters.remote_node_defrag_ratio for lane in lanes]
        per_row = [lane.topology for lane in lanes for _ in created]
        self.slub: Slub | None = None
        if created:
            self.slub = Slub(
                kernel.slab,
                Rows.of(self.geometries, percent),
                Places.of(per_row, kernel.page),
                source,
                draws=draws,
                record=watcher is not None,
            )
        self.held: Ints = np.full((self.nr_lanes, script.nr_ids), UNKNOWN, dtype=np.int64)
        """(lane, id): slab of the object, UNKNOWN where it is not held."""
        self._sheaves: ScriptSheaves | None = None
        self.names: dict[str, int] = {}
        """Caches that exist, by name."""
        self.results: list[list[Result]] = [[] for _ in lanes]
        """What operations told of each lane: what failed, and why."""
        self._created = 0
        self._lane = np.arange(self.nr_lanes)

    def carry_out(self, op: Op) -> list[int]:
        """Carry out one operation on slabs in all lanes.

        Returns
        -------
        list
            errno of a sysfs write in each lane; empty for all other operations.
        """
        errors = self._carry_out(op)
        if self.slub is not None:
            cpu = getattr(op, "cpu", None)
            self.slub.statistics.charge(self.cpus - 1 if cpu is None else cpu)
        return errors

    def _carry_out(self, op: Op) -> list[int]:
        if isinstance(op, CreateCache):
            self.names[op.cache] = self._created
            self._created += 1
        elif isinstance(op, Alloc):
            self._alloc(op)
        elif isinstance(op, BulkAlloc):
            self._bulk_alloc(op)
        elif isinstance(op, Free):
            self._free(op)
        elif isinstance(op, BulkFree):
            self._bulk_free(op)
        elif isinstance(op, FreeRcu):
            self._free_rcu(op)
        elif isinstance(op, SheafOp):
            cache = self.names[op.cache]
            self.sheaves.carry_out(op, cache, self.rows(cache))
            self._tell_moves()
        elif isinstance(op, Sleep):
            if self.slub is not None:
                self.slub.end_grace_period()
                self._tell_moves()
        elif isinstance(op, Shrink):
            cpu = self.cpus - 1 if op.cpu is None else op.cpu
            rows = self.rows(self.names[op.cache])
            self.engine.shrink(rows, np.full(len(rows), cpu))
            self._tell_moves()
        elif isinstance(op, Destroy):
            self._destroy(self.names.pop(op.cache))
        elif isinstance(op, Reset):
            for cache in self.names.values():
                self._destroy(cache)
            self.names.clear()
        elif isinstance(op, Sysfs):
            return self._write(op)
        return []

    @property
    def engine(self) -> Slub:
        """The engine of a script that has caches."""
        if self.slub is None:
            raise ValueError("the script has no caches")
        return self.slub

    @property
    def sheaves(self) -> ScriptSheaves:
        """The sheaves that the script holds."""
        if self._sheaves is None:
            self._sheaves = ScriptSheaves(self.engine, self.results, self._keep)
        return self._sheaves

    def rows(self, cache: int) -> Ints:
        """Return the row of a cache in each lane."""
        return self._lane * self.nr_caches + cache

    def _alloc(self, op: Alloc) -> None:
        cache = self.names[op.cache]
        gfp = GFP_KERNEL
        if op.gfp:
            gfp = flags.bits(gfp_text(op.gfp), self.kernel.page)
        node = None if op.node is None else np.full(self.nr_lanes, op.node)
        rows, cpus = self.rows(cache), np.full(self.nr_lanes, op.cpu)
        count = np.full(self.nr_lanes, op.count)
        runs = self.engine.alloc(rows, cpus, count, node=node, gfp=gfp)
        got = self._keep(cache, op.first, op.count, runs)
        for lane in (got < op.count).nonzero()[0].tolist():
            self.results[lane].append(
                {
                    "op": "alloc",
                    "cache": op.cache,
                    "first": op.first,
                    "asked": op.count,
                    "ok": int(got[lane]),
                }
            )

    def _bulk_alloc(self, op: BulkAlloc) -> None:
        cache = self.names[op.cache]
        lanes = self._lane
        for done in range(0, op.count, op.batch):
            size = min(op.batch, op.count - done)
            rows, cpus = self.rows(cache)[lanes], np.full(len(lanes), op.cpu)
            runs = self.engine.bulk_alloc(rows, cpus, np.full(len(lanes), size))
            every = Runs(lanes[runs.request], runs.slab, runs.count)
            got = self._keep(cache, op.first + done, size, every)
            for lane in lanes[got[lanes] < size].tolist():
                told = {"op": "balloc", "first": op.first, "asked": op.count, "ok": done}
                self.results[lane].append(told)
            lanes = lanes[got[lanes] == size]

    def _keep(self, cache: int, first: int, count: int, runs: Runs) -> Ints:
        """Note objects under consecutive ids; return how many each lane got."""
        got = np.zeros(self.nr_lanes, dtype=np.int64)
        np.add.at(got, runs.request, runs.count.astype(np.int64))
        slabs = np.full((self.nr_lanes, count), UNKNOWN, dtype=np.int64)
        slabs[np.arange(count) < got[:, None]] = np.repeat(runs.slab, runs.count)
        self.held[:, first : first + count] = slabs
        self._tell_moves()
        self.watcher.took(cache, first, slabs)
        return got

    def _free(self, op: Free) -> None:
        ids = _index(op.ids)
        slabs = self.held[:, ids]
        missing = slabs == UNKNOWN
        if missing.any():  # memory had run out; a list is freed up to the missing id
            for lane in missing.any(axis=1).nonzero()[0].tolist():
                at = int(missing[lane].argmax())
                listed = not isinstance(op.ids, range)
                told = (
                    f"freel: bad id {op.ids[at]}"
                    if listed
                    else f"free: id {op.ids[at]} is not live"
                )
                self.results[lane].append({"err": told})
                missing[lane, at if listed else 0 :] = True
        self._give_back(self.names[op.cache], op.cpu, ids, slabs, ~missing)

    def _give_back(
        self, cache: int, cpu: int, ids: Ints, slabs: Ints, chosen: NDArray[np.bool_]
    ) -> None:
        """Free objects one by one; neighbours of one slab are one run."""
        self.watcher.gave(cache, np.where(chosen, slabs, UNKNOWN))
        lane = np.repeat(self._lane, chosen.sum(axis=1))
        flat = slabs[chosen]
        if not len(flat):
            return
        new = np.ones(len(flat), dtype=bool)
        new[1:] = (flat[1:] != flat[:-1]) | (lane[1:] != lane[:-1])
        starts = new.nonzero()[0]
        count = np.diff(starts, append=len(flat))
        rows = self.rows(cache)[lane[starts]]
        self.engine.free(rows, np.full(len(rows), cpu), flat[starts], count)
        self.held[:, ids] = np.where(chosen, UNKNOWN, slabs)
        self._tell_moves()

    def _bulk_free(self, op: BulkFree) -> None:
        cache, every = self.names[op.cache], _index(op.ids)
        missing = self.held[:, every] == UNKNOWN
        for lane in missing.any(axis=1).nonzero()[0].tolist():
            at = int(missing[lane].argmax())
            self.results[lane].append({"err": f"bulk: id {op.ids[at]} in the wrong state"})
        lanes = (~missing.any(axis=1)).nonzero()[0]
        for done in range(0, len(every), op.batch):
            ids = every[done : done + op.batch]
            slabs = self.held[np.ix_(lanes, ids)]
            told = np.full((self.nr_lanes, len(ids)), UNKNOWN, dtype=np.int64)
            told[lanes] = slabs
            self.watcher.gave(cache, told)
            rows, cpus = self.rows(cache)[lanes], np.full(len(lanes), op.cpu)
            request = np.repeat(np.arange(len(lanes)), len(ids))
            self.engine.bulk_free(rows, cpus, request, slabs.reshape(-1))
            self.held[np.ix_(lanes, ids)] = UNKNOWN
            self._tell_moves()

    def _free_rcu(self, op: FreeRcu) -> None:
        """Hand objects to RCU; from here on nobody holds them."""
        cache, ids = self.names[op.cache], _index(op.ids)
        slabs = self.held[:, ids]
        held = slabs != UNKNOWN  # memory had run out for the others
        self.watcher.gave(cache, slabs)
        request, _ = held.nonzero()
        cpus = np.full(self.nr_lanes, op.cpu)
        self.engine.kfree_rcu(self.rows(cache), cpus, request, slabs[held])
        self.held[:, ids] = UNKNOWN
        self._tell_moves()

    def _destroy(self, cache: int) -> None:
        rows = self.rows(cache)
        state = self.engine.state
        home = state.pool.home[np.maximum(self.held, 0)] // state.nr_nodes
        theirs = (self.held != UNKNOWN) & (home == rows[:, None])
        self.held[theirs] = UNKNOWN
        self.engine.destroy(rows)
        self._tell_moves()

    def _write(self, op: Sysfs) -> list[int]:
        error = self.engine.write_sysfs(self.rows(self.names[op.cache]), op.attribute, op.value)
        self._tell_moves()
        return [error] * self.nr_lanes

    def _tell_moves(self) -> None:
        events = self.engine.events
        if events.record:
            self.watcher.moved(events.page_moves)


def _geometries(
    kernel: Kernel, lane: Lane, created: Sequence[CreateCache], source: str
) -> list[CacheGeometry]:
    """Return the geometry of a script's caches on one machine.

    Raises
    ------
    ConfigError
        If objects of a cache fit no slab: the kernel refuses to create it.
    """
    specs = [
        CacheSpec(
            name=op.cache,
            object_size=op.size,
            align=op.align,
            flags=frozenset(op.flags),
            sheaf_capacity=op.sheaf_capacity or None,
        )
        for op in created
    ]
    if not specs:
        return []
    geometries = cache_geometries(kernel.slab, lane.topology, lane.parameters, specs)
    for op, geometry in zip(created, geometries, strict=True):
        if geometry.order < 0:
            largest = lane.topology.page_size << lane.topology.max_buddy_order
            found = f"{geometry.slab_size} bytes an object with its alignment"
            raise ConfigError(f"{source}:{op.line}", found, f"at most {largest}, the largest slab")
    return geometries


def _index(ids: range | tuple[int, ...]) -> Ints:
    return np.arange(ids.start, ids.stop, ids.step) if isinstance(ids, range) else np.array(ids)
