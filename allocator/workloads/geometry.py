"""The cheapest workload: what a machine shows before anything runs.

Order, objects and waste of the slabs of some caches, and the marks of the zones. Nothing is
simulated: rules are applied once to each distinct set of inputs, and lanes take their share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from allocator.errors import ConfigError
from allocator.results import Array, Results, Status, Table
from allocator.slabs.cache import CacheSpec
from allocator.slabs.kmalloc import kmalloc_align, kmalloc_sizes, min_align
from allocator.streams import Stream
from allocator.workloads.geometry_rows import (
    Asked,
    Interned,
    Memory,
    Row,
    compute,
    memory_of,
    row_of,
    zone_columns,
)

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Geometry of caches and marks of zones."""

    name: ClassVar[str] = "geometry"
    ignores: ClassVar[frozenset[str]] = frozenset(
        {"gfp", "replicate", "slab.remote_node_defrag_ratio"}
    )

    kmalloc: bool = True
    """Take the kmalloc caches."""
    specs: tuple[CacheSpec, ...] = ()
    """Further caches."""
    thp: bool = True
    """Transparent huge pages are enabled, which raises min_free_kbytes."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `workload` group.

        `kmalloc` and `thp` are true or false; `caches` gives sizes by name, or mappings of
        `size`, `align` and `flags`.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        for key in config:
            if key not in ("kmalloc", "caches", "thp"):
                expected = "no such key; known are kmalloc, caches, thp"
                raise ConfigError(f"workload.{key}", config[key], expected)
        caches = config.get("caches") or {}
        if not isinstance(caches, Mapping):
            raise ConfigError("workload.caches", caches, "sizes by name")
        specs = tuple(_spec(str(name), value) for name, value in caches.items())
        kmalloc = _flag(config, "kmalloc")
        if not specs and not kmalloc:
            raise ConfigError("workload.caches", caches, "a cache, as workload.kmalloc is false")
        return cls(kmalloc=kmalloc, specs=specs, thp=_flag(config, "thp"))

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Lanes with caches of the same names advance together."""
        names = tuple(spec.name for spec in self.specs)
        if not self.kmalloc:
            return (names,)
        topology = point.topology
        smallest = min_align(point.kernel.slab, topology.arch)
        return (names, topology.page_size, smallest)

    def command_line(self, point: "Point") -> str:
        """Return the command that records the same of a real machine."""
        return "python -m allocator capture"

    def caches(self, point: "Point") -> tuple[CacheSpec, ...]:
        """Return the caches of a machine; kmalloc caches bear today's names in every release."""
        if not self.kmalloc:
            return self.specs
        policy, topology = point.kernel.slab, point.topology
        smallest = min_align(policy, topology.arch)
        kmalloc = tuple(
            CacheSpec(
                name=f"kmalloc-{size // 1024}k" if size >= 1024 else f"kmalloc-{size}",
                object_size=size,
                align=kmalloc_align(policy, size, smallest),
                flags=frozenset({"KMALLOC"}),
            )
            for size in kmalloc_sizes(policy, arch=topology.arch, page_size=topology.page_size)
        )
        return (*kmalloc, *self.specs)

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Compute one lane per point; all points have caches of the same names."""
        asked: Interned[Asked] = Interned()
        rows: Interned[Row] = Interned()
        memories: Interned[Memory] = Interned()
        known: dict[tuple[int, ...], tuple[int, int]] = {}
        lanes = []
        for point in points:  # over lanes, but only to look up numbers
            key = (id(point.kernel), id(point.topology), id(point.slab), id(point.workload))
            numbers = known.get(key)
            if numbers is None:
                numbers = known[key] = _number(point, asked, rows, memories)
            lanes.append(numbers)
        names = tuple(spec.name for spec in asked.values[0].specs)
        of_lane = np.array(lanes, dtype=np.int64)
        return _results(names, compute(rows.values, asked.values), rows, memories, of_lane)


def _number(
    point: "Point", asked: Interned[Asked], rows: Interned[Row], memories: Interned[Memory]
) -> tuple[int, int]:
    """Return the row and the memory of a point."""
    policy, topology, slab = point.kernel.slab, point.topology, point.slab
    own = point.workload
    assert isinstance(own, Geometry)
    which = (id(policy), topology.arch, topology.page_size, slab.debug, id(own))
    number = asked.number(which, lambda: Asked(own.caches(point), policy, topology, slab))
    row = row_of(number, policy, topology, slab)
    place = (id(point.kernel), id(topology), own.thp)
    memory = memories.number(place, lambda: memory_of(point.kernel, topology, thp=own.thp))
    return rows.number(row, lambda: row), memory


def _results(
    names: tuple[str, ...],
    values: Mapping[str, Array],
    rows: Interned[Row],
    memories: Interned[Memory],
    of_lane: NDArray[np.int64],
) -> Results:
    """Hand each lane the values of its row and memory, (lane, 2)."""
    row, memory = of_lane[:, 0], of_lane[:, 1]
    order = values["order"]
    page = np.array([item.page_size for item in rows.values], dtype=np.int64)
    slab = page[:, None] << np.maximum(order, 0).astype(np.int64)
    parked = (values["cpu_partial_slabs"] * slab).sum(axis=1)[row].astype(np.int64)
    free = np.array([item.min_free_kbytes for item in memories.values], dtype=np.int64)
    reserve = np.array([item.total_reserve for item in memories.values], dtype=np.int64)
    cpus = np.array([item.cpus for item in memories.values], dtype=np.int64)
    zones, columns = zone_columns(memories.values, memory)
    refused: NDArray[np.bool_] = np.any(order < 0, axis=1)
    return Results(
        scalars={
            "order_mean": order.mean(axis=1)[row],
            "objs_per_slab_mean": values["objs_per_slab"].mean(axis=1)[row],
            "waste_percent_mean": values["waste_percent"].mean(axis=1)[row],
            "cpu_partial_bytes": parked * cpus[memory],
            "min_free_kbytes": free[memory],
            "totalreserve_pages": reserve[memory],
        },
        tables={
            "caches": Table(labels=names, values={n: array[row] for n, array in values.items()}),
            "zones": Table(labels=zones, values=dict(columns)),
        },
        status=np.where(refused, Status.FAILED, Status.OK).astype(np.int8)[row],
        errors={
            lane: f"cache {names[int(np.argmin(order[row[lane]]))]}: no order holds an object"
            for lane in np.flatnonzero(refused[row]).tolist()
        },
    )


def _flag(config: Mapping[str, object], key: str) -> bool:
    value = config.get(key, True)
    if not isinstance(value, bool):
        raise ConfigError(f"workload.{key}", value, "true or false")
    return value


def _spec(name: str, value: object) -> CacheSpec:
    """Read one cache: its size, or a mapping."""
    key = f"workload.caches.{name}"
    given = value if isinstance(value, Mapping) else {"size": value}
    for word in given:
        if word not in ("size", "align", "flags"):
            raise ConfigError(f"{key}.{word}", given[word], "size, align or flags")
    size, align = given.get("size"), given.get("align", 0)
    flags = given.get("flags") or ()
    if isinstance(size, bool) or not isinstance(size, int):
        raise ConfigError(key, size, "the size of an object, bytes")
    if not isinstance(align, int):
        raise ConfigError(f"{key}.align", align, "bytes")
    if isinstance(flags, str) or not isinstance(flags, Sequence):
        raise ConfigError(f"{key}.flags", flags, "a list such as [HWCACHE_ALIGN]")
    try:
        return CacheSpec(name=name, object_size=size, align=align, flags=frozenset(map(str, flags)))
    except ConfigError as error:
        raise ConfigError(f"workload.{error.key}", error.found, error.expected) from None
