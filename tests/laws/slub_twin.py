"""The vectorised SLUB and the scalar reference side by side: same windows, then compare all.

One engine holds all lanes; each lane has its own reference caches and pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allocator import gfp as flags
from allocator.kernel import Kernel
from allocator.slabs.draws import defrag_draw
from allocator.slabs.geometry import CacheGeometry
from allocator.slabs.places import Places
from allocator.slabs.pool import CPU, FREE, LISTED, PARTIAL, PLACE
from allocator.slabs.rows import Rows
from allocator.slabs.slub import GFP_KERNEL, Slub
from allocator.slabs.statistics import Stat
from allocator.topology import Topology
from tests.reference.slub import Cache
from tests.reference.slub_build import cache as reference_cache
from tests.reference.slub_cpu import CpuSlabs
from tests.reference.slub_pages import Pages
from tests.reference.slub_sheaves import Sheaves
from tests.reference.slub_types import Obj, Slab
from tests.reference.slub_types import Places as ReferencePlaces
from tests.reference.slub_window import AllocRequest, FreeRequest, alloc_window, free_window

Ints = NDArray[np.int64]


class ScalarPages:
    """The reference's pages behind the engine's protocol, one per lane, served one by one."""

    def __init__(self, lanes: Sequence[Pages]) -> None:
        self.lanes = lanes

    def plenty(self, lane: Ints, node: Ints, order: Ints) -> bool:
        return False

    def alloc(
        self,
        lane: Ints,
        cpu: Ints,
        node: Ints,
        order: Ints,
        gfp: Ints,
        *,
        thisnode: NDArray[np.bool_],
    ) -> tuple[Ints, Ints]:
        page, where = np.full(len(lane), -1), np.full(len(lane), -1)
        for i in range(len(lane)):
            words = frozenset({"THISNODE"} if thisnode[i] else ())
            block = self.lanes[lane[i]].alloc(
                int(cpu[i]), int(node[i]), int(order[i]), words, high_order=False
            )
            if block is not None:
                page[i], where[i] = block.node, block.node
        return page, where

    def free(self, lane: Ints, cpu: Ints, page: Ints, order: Ints) -> None:
        for i in range(len(lane)):
            self.lanes[lane[i]].used[page[i]] -= 1 << int(order[i])


def engine_rows(geometries: Sequence[Sequence[CacheGeometry]], ratios: Sequence[int]) -> Rows:
    """Return rows for lanes of caches."""
    flat = [one for lane in geometries for one in lane]
    lane = [number for number, caches in enumerate(geometries) for _ in caches]
    columns = {
        "objects": [g.objs_per_slab for g in flat],
        "objects_min": [g.min_objects for g in flat],
        "order": [g.order for g in flat],
        "order_min": [g.min_order_ for g in flat],
        "cpu_partial": [g.cpu_partial for g in flat],
        "cpu_partial_slabs": [g.cpu_partial_slabs for g in flat],
        "min_partial": [g.min_partial for g in flat],
        "sheaf_capacity": [g.sheaf_capacity for g in flat],
        "alloc_flags": [0] * len(flat),
        "defrag_ratio": list(ratios),
    }
    arrays = {name: np.array(values, dtype=np.int64) for name, values in columns.items()}
    return Rows(lane=np.array(lane, dtype=np.int64), **arrays)


class _Draws:
    """Draws of one reference cache, the same as the engine's for its row."""

    def __init__(self, key: int) -> None:
        self.key, self.made = key, 0

    def __call__(self) -> int:
        draw = defrag_draw(np.array([self.key], dtype=np.uint64), np.array([self.made]))
        self.made += 1
        return int(draw[0])


@dataclass(slots=True)
class Row:
    """One cache of one lane."""

    cache: Cache
    held: list[tuple[int, Obj]] = field(default_factory=list)
    """Engine's slab number and the reference's object of all objects that are held."""
    slabs: dict[int, Slab] = field(default_factory=dict)
    """Engine's number to the reference's slab, as far as seen."""


class Twin:
    """Engine and references.

    Parameters
    ----------
    kernel
        The same for all.
    topology
        Of each lane.
    geometries
        Caches of each lane.
    ratio
        remote_node_defrag_ratio of all caches, percent.
    limits
        Pages of each node, None: endless.
    largest_order
        Largest block that each node can give.
    lucky
        All draws succeed.
    """

    def __init__(
        self,
        kernel: Kernel,
        topology: Sequence[Topology],
        geometries: Sequence[Sequence[CacheGeometry]],
        *,
        ratio: int = 100,
        limits: Sequence[int | None] | None = None,
        largest_order: Sequence[int | None] | None = None,
        lucky: bool = True,
    ) -> None:
        self.rows: list[Row] = []
        pages = []
        for machine, caches in zip(topology, geometries, strict=True):
            own = Pages(ReferencePlaces.of(kernel, machine), limits, largest_order)
            pages.append(Pages(ReferencePlaces.of(kernel, machine), limits, largest_order))
            for geometry in caches:
                draw = (lambda: 0) if lucky else _Draws(len(self.rows))
                one = reference_cache(kernel, machine, geometry, pages=own, draw=draw)
                one.defrag_ratio = 10 * ratio
                self.rows.append(Row(one))
        keys = np.arange(len(self.rows), dtype=np.uint64)
        per_row = [m for m, caches in zip(topology, geometries, strict=True) for _ in caches]
        self.slub = Slub(
            kernel.slab,
            engine_rows(geometries, [10 * ratio] * len(self.rows)),
            Places.of(per_row, kernel.page),
            ScalarPages(pages),
            draws=None if lucky else lambda row, number: defrag_draw(keys[row], number),
            record=True,
        )
        self.cpus, self.nodes = topology[0].cpus, topology[0].nodes

    # Windows

    def alloc(self, requests: Sequence[tuple[int, int, int, int]], thisnode: bool = False) -> None:
        """Serve requests (row, cpu, count, node), node -1 for none."""
        words = frozenset({"KERNEL", "THISNODE"} if thisnode else {"KERNEL"})
        wanted = [
            AllocRequest(self.rows[r].cache, cpu, count, None if node < 0 else node, words)
            for r, cpu, count, node in requests
        ]
        answers = alloc_window(wanted)
        table = np.array(requests, dtype=np.int64).reshape(-1, 4)
        named = (table[:, 3] >= 0).any()
        runs = self.slub.alloc(
            table[:, 0],
            table[:, 1],
            table[:, 2],
            node=table[:, 3] if named else None,
            gfp=GFP_KERNEL | (flags.THISNODE if thisnode else 0),
        )
        self._hand_out(requests, answers, runs.request, runs.slab, runs.count)

    def bulk_alloc(self, requests: Sequence[tuple[int, int, int]]) -> None:
        """Serve bulk requests (row, cpu, count)."""
        wanted = [AllocRequest(self.rows[r].cache, cpu, n, bulk=True) for r, cpu, n in requests]
        answers = alloc_window(wanted)
        table = np.array(requests, dtype=np.int64).reshape(-1, 3)
        runs = self.slub.bulk_alloc(table[:, 0], table[:, 1], table[:, 2])
        self._hand_out(requests, answers, runs.request, runs.slab, runs.count)

    def free(self, requests: Sequence[tuple[int, int, Sequence[int]]]) -> None:
        """Free held objects: (row, cpu, places in the row's `held`); each place once."""
        runs: list[tuple[int, int, int, int]] = []
        wanted = []
        for r, cpu, places in requests:
            group: list[tuple[int, Obj]] = []
            for place in places:
                item = self.rows[r].held[place]
                if group and group[-1][0] != item[0]:
                    runs.append((r, cpu, group[0][0], len(group)))
                    wanted.append(FreeRequest(self.rows[r].cache, cpu, [o for _, o in group]))
                    group = []
                group.append(item)
            if group:
                runs.append((r, cpu, group[0][0], len(group)))
                wanted.append(FreeRequest(self.rows[r].cache, cpu, [o for _, o in group]))
        free_window(wanted)
        table = np.array(runs, dtype=np.int64).reshape(-1, 4)
        self.slub.free(table[:, 0], table[:, 1], table[:, 2], table[:, 3])
        self._forget(requests)

    def bulk_free(self, requests: Sequence[tuple[int, int, Sequence[int]]]) -> None:
        """Free held objects, each request by one bulk call."""
        wanted, objects, request = [], [], []
        for number, (r, cpu, places) in enumerate(requests):
            items = [self.rows[r].held[place] for place in places]
            wanted.append(FreeRequest(self.rows[r].cache, cpu, [o for _, o in items], bulk=True))
            objects += [slab for slab, _ in items]
            request += [number] * len(items)
        free_window(wanted)
        self.slub.bulk_free(
            np.array([r for r, _, _ in requests], dtype=np.int64),
            np.array([cpu for _, cpu, _ in requests], dtype=np.int64),
            np.array(request, dtype=np.int64),
            np.array(objects, dtype=np.int64),
        )
        self._forget(requests)

    def kfree_rcu(self, row: int, cpu: int, places: Sequence[int]) -> None:
        """Free held objects of a row after a grace period."""
        items = [self.rows[row].held[place] for place in places]
        self.rows[row].cache.kfree_rcu(cpu, [obj for _, obj in items])
        slabs = np.array([slab for slab, _ in items], dtype=np.int64)
        self.slub.kfree_rcu(np.array([row]), np.array([cpu]), np.zeros_like(slabs), slabs)
        self._forget([(row, cpu, places)])

    def end_grace_period(self) -> None:
        """Let all rows' grace periods end."""
        for row in self.rows:
            row.cache.end_grace_period()
        self.slub.end_grace_period()

    def shrink(self, rows: Sequence[int]) -> None:
        """Shrink caches."""
        for r in rows:
            self.rows[r].cache.shrink()
        self.slub.shrink(np.array(rows, dtype=np.int64))

    def write(self, row: int, attribute: str, value: int) -> None:
        """Write a sysfs file of one row."""
        self.rows[row].cache.write_sysfs(attribute, value)
        self.slub.write_sysfs(row, attribute, value)

    def offline(self, row: int, cpu: int) -> None:
        """Flush a dead CPU of one row."""
        self.rows[row].cache.offline_cpu(cpu)
        self.slub.offline_cpu(np.array([row]), np.array([cpu]))

    # Comparison

    def check(self) -> None:
        """Compare every counter, list and slab."""
        for number, row in enumerate(self.rows):
            self._check_counters(number, row)
            self._check_lists(number, row)
            if isinstance(row.cache, CpuSlabs):
                self._check_cpus(number, row)
            else:
                self._check_sheaves(number, row)
            self._check_slabs(number, row)

    def _hand_out(
        self,
        requests: Sequence[tuple[int, ...]],
        answers: Sequence[Sequence[Obj]],
        request: Ints,
        slab: Ints,
        count: NDArray[np.int32],
    ) -> None:
        for number, (asked, objects) in enumerate(zip(requests, answers, strict=True)):
            mine = request == number
            given = np.repeat(slab[mine], count[mine]).tolist()
            row = self.rows[asked[0]]
            assert len(given) == len(objects), f"request {asked}: {len(given)}, {len(objects)}"
            for one, obj in zip(given, objects, strict=True):
                self._same(row, one, obj.slab)
                row.held.append((one, obj))

    def _forget(self, requests: Sequence[tuple[int, int, Sequence[int]]]) -> None:
        gone: dict[int, set[int]] = {}
        for r, _, places in requests:
            gone.setdefault(r, set()).update(places)
        for r, freed in gone.items():
            row = self.rows[r]
            row.held = [item for place, item in enumerate(row.held) if place not in freed]
            row.slabs = {number: slab for number, slab in row.slabs.items() if slab.alive}

    def _same(self, row: Row, number: int, slab: Slab) -> None:
        """Hold that an engine's slab is the reference's."""
        known = row.slabs.get(number)
        if known is None or not known.alive:
            row.slabs[number] = slab
        else:
            assert known is slab, f"slab {number} is {known.number}, not {slab.number}"

    def _check_counters(self, number: int, row: Row) -> None:
        statistics, state = self.slub.statistics, self.slub.state
        told = {s.name: int(statistics.stats[s, number]) for s in Stat}
        assert {n: v for n, v in told.items() if v} == {
            n: v for n, v in row.cache.stats.items() if v
        }
        where = slice(number * self.nodes, (number + 1) * self.nodes)
        nodes = row.cache.nodes
        assert state.nr_slabs[where].tolist() == [n.nr_slabs for n in nodes]
        assert state.total_objects[where].tolist() == [n.total_objects for n in nodes]
        assert statistics.list_locks[where].tolist() == [n.list_lock for n in nodes]
        assert statistics.list_units[where].tolist() == [n.list_slabs for n in nodes]
        assert statistics.slab_updates[where].tolist() == [n.slab_updates for n in nodes]

    def _check_lists(self, number: int, row: Row) -> None:
        state = self.slub.state
        for node in range(self.nodes):
            where = np.array([number * self.nodes + node])
            slabs, counts = state.lists.contents(where)
            partial = row.cache.nodes[node].partial
            assert counts[0] == len(partial) == len(slabs)
            for one, slab in zip(slabs.tolist(), partial, strict=True):
                self._same(row, one, slab)
                assert state.pool.word[one] == len(slab.freelist) | LISTED

    def _check_cpus(self, number: int, row: Row) -> None:
        assert isinstance(row.cache, CpuSlabs)
        cpu, pool = self.slub.state.cpu, self.slub.state.pool
        for c, here in enumerate(row.cache.cpus):
            place = number * self.cpus + c
            assert cpu.free[place] == len(here.freelist)
            assert (cpu.slab[place] > 0) == (here.slab is not None)
            if here.slab is not None:
                self._same(row, int(cpu.slab[place]), here.slab)
                assert pool.word[cpu.slab[place]] == len(here.slab.freelist) | CPU
            stack = cpu.partial[place * cpu.width :][: cpu.nr[place]]
            assert len(stack) == len(here.partial)
            for one, slab in zip(stack.tolist(), here.partial, strict=True):
                self._same(row, one, slab)
                assert pool.word[one] == len(slab.freelist) | PARTIAL
                if row.cache.policy.cpu_partial_counts == "objects":
                    assert pool.pobjects[one] == slab.stored_objects

    def _check_sheaves(self, number: int, row: Row) -> None:
        assert isinstance(row.cache, Sheaves)
        sheaves = self.slub.state.sheaves
        assert sheaves is not None
        for c, here in enumerate(row.cache.cpus):
            place = number * self.cpus + c
            assert sheaves.nr_main[place] == len(here.main)
            self._same_sheaf(row, int(sheaves.main[place]), here.main)
            assert sheaves.has_spare[place] == (here.spare is not None)
            assert sheaves.nr_spare[place] == len(here.spare or [])
            self._same_sheaf(row, int(sheaves.spare[place]), here.spare or [])
        for node, barn in enumerate(row.cache.barns):
            where = number * self.nodes + node
            assert sheaves.nr_empty[where] == barn.empty
            assert sheaves.nr_full[where] == len(barn.full)
            assert self.slub.statistics.barn_locks[where] == barn.lock
            for depth, sheaf in enumerate(barn.full):
                self._same_sheaf(row, int(sheaves.full[where, depth]), sheaf)

    def _same_sheaf(self, row: Row, slot: int, sheaf: Sequence[Obj]) -> None:
        sheaves = self.slub.state.sheaves
        assert sheaves is not None
        held = sheaves.read(np.array([slot]), 0, np.array([len(sheaf)])).tolist()
        for one, obj in zip(held, sheaf, strict=True):
            self._same(row, one, obj.slab)

    def _check_slabs(self, number: int, row: Row) -> None:
        pool = self.slub.state.pool
        for one, slab in row.slabs.items():
            if not slab.alive:
                continue
            assert pool.home[one] == number * self.nodes + slab.node
            assert pool.objects[one] == slab.objects
            assert pool.word[one] & FREE == len(slab.freelist)
            assert bool(pool.word[one] & LISTED) == slab.in_list
            if not slab.freelist and not slab.frozen:
                assert pool.word[one] & PLACE == 0
        alive = int((pool.home[pool.objects > 0] // self.nodes == number).sum())
        assert alive == sum(slab.alive for slab in row.cache.slabs)
