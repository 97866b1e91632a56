"""A machine boots whose CPUs are on a node without memory (the thread of January 2014).

Every CPU allocates the objects that stay alive after boot, a few at a time, cache by cache in
turn. A share of the allocations names the CPU's own node, as kthread_create_on_node(), per-CPU
pools and drivers do with kmalloc_node(); the rest name none, and some caches (dentries, inodes)
are never asked for a node. What differs between kernels is what
becomes of the CPU's slab when the node named has no memory (slub.md 4.7).

The caches and how many objects of each live after boot are data of the configuration. The share
that names a node is one number for all such caches and all kernels; nobody measured it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from allocator.errors import ConfigError
from allocator.pages.source import Bottomless
from allocator.results import Results, Status, Table
from allocator.slabs.cache import CacheSpec
from allocator.slabs.draws import defrag_draw
from allocator.slabs.geometry import cache_geometries
from allocator.slabs.places import Places
from allocator.slabs.pool import FREE, LISTED
from allocator.slabs.rows import Rows
from allocator.slabs.slub import Slub
from allocator.slabs.statistics import Stat
from allocator.streams import Stream

if TYPE_CHECKING:
    from allocator.point import Point

Ints = NDArray[np.int64]

CACHE_KEYS = {"object_size": int, "objects": int, "reclaimable": bool, "names_node": bool}
"""What the configuration says of each cache, and its type."""


@dataclass(frozen=True, slots=True)
class BootCache:
    """A cache and what boot leaves in it."""

    spec: CacheSpec
    """The cache as created."""
    objects: int
    """Objects alive after boot, over all CPUs."""
    names_node: bool
    """Whether any of its call sites names a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorylessBoot:
    """Parameters of the boot."""

    name: ClassVar[str] = "memoryless_boot"
    ignores: ClassVar[frozenset[str]] = frozenset({"gfp"})

    caches: tuple[BootCache, ...]
    """Caches that fill."""
    named_share: float = 0.1
    """Share of allocations that name the CPU's own node, 0..1."""
    burst: int = 2
    """Objects that one call site allocates in a row."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `workload` group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        for key in config:
            if key not in ("caches", "named_share", "burst"):
                raise ConfigError(f"workload.{key}", config[key], "caches, named_share or burst")
        share, burst = config.get("named_share", 0.1), config.get("burst", 2)
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError("workload.named_share", share, "a number from 0 to 1")
        if type(burst) is not int or not 1 <= burst <= 1024:
            raise ConfigError("workload.burst", burst, "1 to 1024 objects")
        caches = config.get("caches")
        if not isinstance(caches, Mapping) or not caches:
            raise ConfigError("workload.caches", caches, "a mapping of cache names")
        parsed = tuple(_boot_cache(str(name), entry) for name, entry in caches.items())
        return cls(caches=parsed, named_share=float(share), burst=burst)

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Return what lanes must share: CPUs, nodes, kernel behaviour, the caches."""
        place = point.topology
        return (place.cpus, place.nodes, place.page_size, point.kernel, self)

    def command_line(self, point: "Point") -> str:
        """Return what shows the result on a real machine."""
        return "slabinfo -l  # after boot, and /proc/meminfo"

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Boot one machine per point; all have the same CPUs, kernel and caches."""
        boot = _Boot(points, streams, self)
        for window in range(boot.windows):
            boot.step(window)
        return boot.results()


def _boot_cache(name: str, entry: object) -> BootCache:
    key = f"workload.caches.{name}"
    if not isinstance(entry, Mapping) or set(entry) != set(CACHE_KEYS):
        raise ConfigError(key, entry, f"a mapping with {', '.join(CACHE_KEYS)}")
    for field, kind in CACHE_KEYS.items():
        if type(entry[field]) is not kind:
            raise ConfigError(f"{key}.{field}", entry[field], kind.__name__)
    if entry["objects"] < 0:
        raise ConfigError(f"{key}.objects", entry["objects"], "0 or more")
    flags = frozenset({"RECLAIM_ACCOUNT"}) if entry["reclaimable"] else frozenset()
    spec = CacheSpec(name=name, object_size=entry["object_size"], flags=flags)
    return BootCache(spec, entry["objects"], entry["names_node"])


class _Boot:
    """The engine with the caches of all lanes, and the schedule of allocations.

    Row = lane * caches + cache.
    """

    def __init__(
        self, points: Sequence["Point"], streams: Sequence[Stream], boot: MemorylessBoot
    ) -> None:
        self.boot, self.lanes, self.caches = boot, len(points), len(boot.caches)
        specs = [cache.spec for cache in boot.caches]
        kernel = points[0].kernel
        self.geometries = [cache_geometries(kernel.slab, p.topology, p.slab, specs) for p in points]
        rows = Rows.of(self.geometries, [p.slab.remote_node_defrag_ratio for p in points])
        places = Places.of([points[lane].topology for lane in rows.lane.tolist()], kernel.page)
        pages = [[m // p.topology.page_size for m in p.topology.memory_bytes] for p in points]
        source = Bottomless(np.array(pages, dtype=np.int64), places.zonelist[:: self.caches])
        bits = [s.generator("defrag").integers(0, 1 << 63, self.caches) for s in streams]
        keys = np.concatenate(bits).astype(np.uint64)
        self.slub = Slub(
            kernel.slab,
            rows,
            places,
            source,
            draws=lambda row, number: defrag_draw(keys[row], number),
        )
        self.cpus, self.nodes = places.cpus, places.nodes
        self.page_size = points[0].topology.page_size
        self.random = [stream.generator("traffic") for stream in streams]
        self.per_cpu = np.array([c.objects for c in boot.caches]) / self.cpus
        self.windows = int(np.ceil(self.per_cpu.max(initial=0) / boot.burst))
        self.place_row = np.repeat(np.arange(len(rows)), self.cpus)
        self.place_cpu = np.tile(np.arange(self.cpus), len(rows))
        self.own_node = places.node_of_cpu.reshape(-1)
        # CPUs reach the fractions of their quota at different times, so that a cache with fewer
        # objects than CPUs still gets its number.
        self.phase = np.stack([r.random((self.caches, self.cpus)) for r in self.random])
        self.failed = np.zeros(self.lanes, dtype=bool)

    def step(self, window: int) -> None:
        """Let every CPU allocate its next few objects of every cache."""
        shape = (self.lanes, self.caches, self.cpus)
        quota = self.per_cpu[:, None]
        before = np.floor(np.minimum(window * quota / self.windows, quota) + self.phase)
        after = np.floor(np.minimum((window + 1) * quota / self.windows, quota) + self.phase)
        count = (after - before).astype(np.int64).reshape(-1)
        share = np.where([c.names_node for c in self.boot.caches], self.boot.named_share, 0.0)
        names = np.stack([r.random(shape[1:]) < share[:, None] for r in self.random])
        node = np.where(names.reshape(-1), self.own_node, -1)
        count[np.repeat(self.failed, self.caches * self.cpus)] = 0
        ask = np.flatnonzero(count)
        row = self.place_row[ask]
        runs = self.slub.alloc(row, self.place_cpu[ask], count[ask], node=node[ask])
        got = np.bincount(runs.request, runs.count, len(ask))
        short = np.unique(row[got < count[ask]] // self.caches)
        self.failed[short] = True

    def results(self) -> Results:
        """Return memory and use per machine and per cache."""
        state = self.slub.state
        cells = (self.lanes, self.caches)
        pool, rows = state.pool, self.lanes * self.caches
        live = np.flatnonzero(pool.objects[: pool.used])
        row = pool.home[live] // self.nodes
        free = np.where(pool.word[live] & LISTED, pool.word[live] & FREE, 0)
        order = np.where(
            pool.objects[live] == state.rows.objects[row],
            state.rows.order[row],
            state.rows.order_min[row],
        )
        slabs = np.bincount(row, minlength=rows).reshape(cells)
        objects = np.bincount(row, pool.objects[live], rows).astype(np.int64).reshape(cells)
        unused = np.bincount(row, free, rows).astype(np.int64).reshape(cells)
        size = np.bincount(row, np.int64(self.page_size) << order, rows).astype(np.int64)
        size = size.reshape(cells)
        reclaimable = np.array(["RECLAIM_ACCOUNT" in c.spec.flags for c in self.boot.caches])
        stats = self.slub.statistics.stats
        counts = {
            name: stats[stat].reshape(cells).sum(axis=1)
            for name, stat in (
                ("alloc_fastpath", Stat.ALLOC_FASTPATH),
                ("alloc_slowpath", Stat.ALLOC_SLOWPATH),
                ("alloc_node_mismatch", Stat.ALLOC_NODE_MISMATCH),
                ("alloc_slab", Stat.ALLOC_SLAB),
            )
        }
        active = objects - unused
        share = 100.0 * active / np.maximum(objects, 1)
        status = np.where(self.failed, Status.OOM, Status.OK).astype(np.int8)
        return Results(
            scalars={
                "Slab": size.sum(axis=1),
                "SReclaimable": size[:, reclaimable].sum(axis=1),
                "SUnreclaim": size[:, ~reclaimable].sum(axis=1),
                "objects_active_percent": 100.0 * active.sum(axis=1) / objects.sum(axis=1).clip(1),
                **counts,
            },
            tables={
                "caches": Table(
                    labels=tuple(cache.spec.name for cache in self.boot.caches),
                    values={
                        "active_objs": active,
                        "num_objs": objects,
                        "num_slabs": slabs,
                        "bytes": size,
                        "active_percent": share,
                    },
                )
            },
            status=status,
            errors={
                int(lane): "out of memory: a slab could not be had on any node"
                for lane in np.flatnonzero(self.failed)
            },
        )
