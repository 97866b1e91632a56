"""Lanes of one workload and shape that advance together: their caches, clocks and locks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from allocator import gfp
from allocator.clock import Clocks
from allocator.slabs.cache import CacheSpec
from allocator.slabs.draws import defrag_draw
from allocator.slabs.geometry import CacheGeometry, cache_geometries
from allocator.slabs.places import Places
from allocator.slabs.policy import SlabPolicy
from allocator.slabs.rows import Rows
from allocator.slabs.slub import GFP_KERNEL, Slub
from allocator.streams import Stream
from allocator.workloads.charges import Call, Charges
from allocator.workloads.on_pages import OnPages, page_source
from allocator.workloads.pcp_front import PcpFront

if TYPE_CHECKING:  # a point holds its workload
    from allocator.pages.alloc import PageAllocator
    from allocator.point import Point

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

GEOMETRY_FIELDS = ("order_rule", "order_cpus", "max_order", "couples_orders")
"""Fields of a policy that are spent once caches have their sizes: lanes may differ in them."""


def behaviour(policy: SlabPolicy) -> SlabPolicy:
    """Return what of a policy lanes must share to advance together."""
    plain = {name: SlabPolicy.__dataclass_fields__[name].default for name in GEOMETRY_FIELDS[2:]}
    return replace(policy, order_rule="fractions", order_cpus="present", **plain)  # type: ignore[arg-type]


def batch_shape(point: "Point") -> tuple[object, ...]:
    """Return what every slab workload's lanes share: CPUs, nodes, pages, architecture, policy."""
    place, load = point.topology, point.workload
    pages = ""
    if isinstance(load, OnPages):
        load.check_node(place)
        pages = load.pages
    shape = (place.cpus, place.nodes, place.arch, place.page_size, pages)
    return (*shape, behaviour(point.kernel.slab))


class Batch:
    """Caches of all lanes behind one engine, the CPUs' clocks, and what locks cost.

    A row is lane * caches + cache. Objects are known by their slab.
    """

    def __init__(
        self,
        points: Sequence["Point"],
        streams: Sequence[Stream],
        specs: Sequence[CacheSpec],
        *,
        flags: int = GFP_KERNEL,
    ) -> None:
        """Create empty caches.

        Parameters
        ----------
        points, streams
            One of each per lane; all points have the same `batch_shape`.
        specs
            Caches of every lane.
        flags
            GFP flags of all allocations.
        """
        self._flags = flags
        self.points, self.specs = tuple(points), tuple(specs)
        self.lanes, self.caches = len(points), len(specs)
        self.geometries: list[list[CacheGeometry]] = [
            cache_geometries(p.kernel.slab, p.topology, p.slab, specs) for p in points
        ]
        flat = [geometry for lane in self.geometries for geometry in lane]
        rows = _rows(points, flat, self.caches)
        page_policy = points[0].kernel.page
        self.policy = points[0].kernel.slab
        places = Places.of([points[lane].topology for lane in rows.lane.tolist()], page_policy)
        self.node_of_cpu: Ints = places.node_of_cpu[:: self.caches]
        self.cpus, self.nodes = places.cpus, places.nodes
        self.source = page_source(points, streams, places.zonelist[:: self.caches])
        self.zoned: Sequence[PageAllocator] = getattr(self.source, "lanes", ())
        """(lane,) page allocators, if pages come from real zones."""
        self.rows = rows
        keys = np.array(
            [s.generator("defrag").integers(0, 1 << 63, self.caches) for s in streams]
        ).ravel()
        keys = keys.astype(np.uint64)
        self.slub = Slub(
            self.policy,
            rows,
            places,
            self.source,
            draws=lambda row, number: defrag_draw(keys[row], number),
            record=True,
        )
        self.clocks = Clocks(self.lanes, self.cpus)
        machines = [point.machine for point in points]
        layouts = [point.machine.on(point.topology) for point in points]
        front = PcpFront(self.lanes * self.cpus, self.nodes, page_policy)
        self.charges = Charges(machines, layouts, self.policy, front, caches=self.caches)
        self.failed: NDArray[np.bool_] = np.zeros(self.lanes, dtype=bool)
        """(lane,): an allocation found no memory."""
        self.numa: Ints = np.zeros((2, self.lanes, self.nodes), dtype=np.int64)
        """(local or other, lane, node): slabs taken by CPUs of the node itself, or of others."""
        self._calls: list[Call] = []

    def alloc(
        self, lane: Ints, cpu: Ints, cache: Ints, count: Ints, start: Floats, width: Floats
    ) -> Ints:
        """Allocate objects, each request's one after another.

        Parameters
        ----------
        lane, cpu, cache
            (request,) who asks, of which cache; at most one request per (lane, CPU, cache). CPUs
            of a lane are served in this order, so sort by clock where that matters.
        count
            (request,) objects.
        start, width
            (request,) where in the CPU's burst it lies, 0..1, and how much of it it fills.

        Returns
        -------
        (object,) the slab of each, in the order of requests; -1 where there was no memory.
        """
        row = lane * self.caches + cache
        runs = self.slub.alloc(row, cpu, count, gfp=self._flags).by_request()
        got = np.bincount(runs.request, runs.count, len(row)).astype(np.int64)
        slabs = np.repeat(runs.slab, runs.count)
        if (got < count).any():
            self.failed[lane[got < count]] = True
            slabs = _with_gaps(slabs, got, count)
        self._note(lane, cpu, count, start, width, frees=False)
        return slabs

    def free(
        self, lane: Ints, cpu: Ints, cache: Ints, slab: Ints, count: Ints, start: Floats
    ) -> None:
        """Free objects; a CPU may have many requests.

        Parameters
        ----------
        lane, cpu, cache, slab, count
            (request,) who frees how many objects of which slab; a slab of -1 is no object.
        start
            (request,) where in the CPU's burst it lies, 0..1. Requests are served in this order.
        """
        order = np.lexsort((cpu, start))
        order = order[slab[order] >= 0]
        lane, cpu, count = lane[order], cpu[order], count[order]
        self.slub.free(lane * self.caches + cache[order], cpu, slab[order], count)
        self._note(lane, cpu, count, start[order], np.zeros(len(lane)), frees=True)

    def settle(self, work: Floats) -> Floats:
        """Turn the calls since the last settlement into time and advance the clocks.

        Parameters
        ----------
        work
            (lane, cpu) ns of other work; CPUs with no work and no call do not move.

        Returns
        -------
        (lane, cpu) ns that each CPU spent.
        """
        spent = self.charges.settle(work, self._calls)
        self._calls = []
        self.clocks.now += spent
        self.clocks.busy_ns += spent
        return spent

    def _note(
        self, lane: Ints, cpu: Ints, count: Ints, start: Floats, width: Floats, *, frees: bool
    ) -> None:
        """Keep a call's events until they are charged."""
        events, pool = self.slub.events, self.slub.state.pool
        updates, pages = events.updates, events.page_moves
        home = pool.home[pages[:, 1]].astype(np.int64)
        objects = self.rows.objects[home // self.nodes]
        node = home % self.nodes
        moved = np.column_stack((pages[:, 0], node, pages[:, 2], pages[:, 3], objects))
        changed = np.column_stack(
            (updates[:, 0], pool.home[updates[:, 1]] % self.nodes, updates[:, 2], updates[:, 3])
        )
        taken = pages[:, 3] == 1
        who = pages[taken, 0]
        other = self.node_of_cpu[lane[who], cpu[who]] != node[taken]
        np.add.at(self.numa, (other.astype(np.int64), lane[who], node[taken]), 1)
        self._calls.append(
            Call(
                lane=lane,
                cpu=cpu,
                count=count,
                start=start,
                width=width,
                frees=frees,
                locks=events.locks,
                updates=changed.astype(np.int64),
                pages=moved,
            )
        )


def slab_bytes(batch: Batch) -> Ints:
    """Return (lane, cache) memory in slabs now, bytes."""
    result: Ints = list_bytes(batch).sum(axis=2)
    return result


def list_bytes(batch: Batch) -> Ints:
    """Return (lane, cache, node) memory in slabs now, bytes.

    Slabs of the smallest order (where the usual one failed) are told by their objects: so many are
    missing from what slabs of the usual order would hold.
    """
    state, rows = batch.slub.state, batch.rows
    lists = (len(rows), batch.nodes)
    slabs, objects = state.nr_slabs.reshape(lists), state.total_objects.reshape(lists)
    fewer = np.maximum(rows.objects - rows.objects_min, 1)[:, None]
    small = (slabs * rows.objects[:, None] - objects) // fewer
    pages = (slabs << rows.order[:, None]) - small * (
        (np.int64(1) << rows.order) - (np.int64(1) << rows.order_min)
    )[:, None]
    page = np.array([point.topology.page_size for point in batch.points], dtype=np.int64)
    result: Ints = page[:, None, None] * pages.reshape(batch.lanes, batch.caches, batch.nodes)
    return result


def _rows(points: Sequence["Point"], flat: Sequence[CacheGeometry], caches: int) -> Rows:
    """Return the rows of all lanes' caches."""
    ratios = [p.slab.remote_node_defrag_ratio for p in points for _ in range(caches)]
    return Rows(
        lane=np.repeat(np.arange(len(points)), caches),
        objects=_column(flat, "objs_per_slab"),
        objects_min=_column(flat, "min_objects"),
        order=_column(flat, "order"),
        order_min=_column(flat, "min_order_"),
        cpu_partial=_column(flat, "cpu_partial"),
        cpu_partial_slabs=_column(flat, "cpu_partial_slabs"),
        min_partial=_column(flat, "min_partial"),
        defrag_ratio=np.array([1000 if ratio is None else 10 * ratio for ratio in ratios]),
        sheaf_capacity=_column(flat, "sheaf_capacity"),
        alloc_flags=np.array(
            [gfp.RECLAIMABLE if "RECLAIM_ACCOUNT" in g.flags else 0 for g in flat], dtype=np.int64
        ),
    )


def _column(flat: Sequence[CacheGeometry], name: str) -> Ints:
    return np.array([getattr(geometry, name) for geometry in flat], dtype=np.int64)


def _with_gaps(slabs: Ints, got: Ints, count: Ints) -> Ints:
    """Return slabs with -1 for each object that a request asked for and did not get."""
    result = np.full(int(count.sum()), -1, dtype=np.int64)
    within = np.arange(len(slabs)) - np.repeat(np.cumsum(got) - got, got)
    result[np.repeat(np.cumsum(count) - count, got) + within] = slabs
    return result
