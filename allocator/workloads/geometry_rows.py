"""Rows of the `geometry` workload: distinct inputs of lanes, computed once and shared."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from allocator.kernel import Kernel
from allocator.pages.boot_memory import boot_zones
from allocator.pages.zones import MemoryMarks, before_init_memory_is_freed
from allocator.results import Array
from allocator.slabs.cache import CacheSpec
from allocator.slabs.geometry import UNSET, ListLimits, list_limits, sheaf_capacities
from allocator.slabs.object_layout import object_layout
from allocator.slabs.order import OrderLimits, default_min_objects
from allocator.slabs.parameters import SlabParameters
from allocator.slabs.policy import SlabPolicy
from allocator.topology import Topology

T = TypeVar("T")
Ints = NDArray[np.int64]

ZONE_VARIABLES = ("managed", "min", "low", "high", "pcp_batch", "pcp_high")
"""Variables of each zone, pages."""


class Interned(Generic[T]):
    """Values by key, numbered as they come; each is made once."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.values: list[T] = []

    def number(self, key: Hashable, make: Callable[[], T]) -> int:
        """Return the number of a key's value."""
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = len(self.values)
            self.values.append(make())
        return known


class Asked(NamedTuple):
    """Caches that one workload asks one kernel for."""

    specs: Sequence[CacheSpec]
    policy: SlabPolicy
    topology: Topology
    parameters: SlabParameters
    """Only the debug options count here."""


class Laid(NamedTuple):
    """Layouts of all that was asked for, each (asked, cache)."""

    object_size: Ints
    slab_size: Ints
    bypass: NDArray[np.bool_]
    sheaf_capacity: Ints


class Row(NamedTuple):
    """All that the lists of some caches depend on."""

    asked: int
    """Number of the `Asked`."""
    page_size: int
    max_buddy_order: int
    min_order: int
    max_order: int
    min_objects: int
    cpu_partial: int
    """Written to sysfs, or `UNSET`."""
    min_partial: int
    """Written to sysfs, or `UNSET`."""


class Memory(NamedTuple):
    """Marks of one machine under one kernel."""

    min_free_kbytes: int
    total_reserve: int
    cpus: int
    """Present CPUs."""
    zones: Mapping[str, tuple[int, ...]]
    """`ZONE_VARIABLES` of each populated zone (`N0.Normal`)."""


def lay_out(asked: Sequence[Asked]) -> Laid:
    """Lay out the objects of all caches, those of one kernel and architecture together."""
    shape = (len(asked), len(asked[0].specs))
    sizes = np.array([[spec.object_size for spec in item.specs] for item in asked], dtype=np.int64)
    laid = Laid(
        sizes,
        np.empty(shape, dtype=np.int64),
        np.empty(shape, dtype=np.bool_),
        np.empty(shape, dtype=np.int64),
    )
    alike: dict[Hashable, list[int]] = {}
    for number, item in enumerate(asked):
        machine = (item.topology.arch, item.topology.page_size)
        alike.setdefault((id(item.policy), machine, item.parameters.debug), []).append(number)
    for where in alike.values():
        first = asked[where[0]]
        specs = [spec for number in where for spec in asked[number].specs]
        layout = object_layout(first.policy, first.topology, first.parameters, specs)
        laid.slab_size[where] = layout.slab_size.reshape(-1, shape[1])
        laid.bypass[where] = layout.bypass.reshape(-1, shape[1])
        sheaves = sheaf_capacities(specs, layout, first.policy, first.topology)
        laid.sheaf_capacity[where] = np.array(sheaves, dtype=np.int64).reshape(-1, shape[1])
    return laid


def row_of(asked: int, policy: SlabPolicy, topology: Topology, parameters: SlabParameters) -> Row:
    """Return what caches depend on; equal rows have equal results."""
    low, high = parameters.orders(policy, topology)
    wanted = parameters.min_objects or default_min_objects(
        policy, present=topology.cpus, nr_cpu_ids=topology.nr_cpu_ids
    )
    written, keep = parameters.cpu_partial, parameters.min_partial
    return Row(
        asked,
        topology.page_size,
        topology.max_buddy_order,
        low,
        high,
        wanted,
        UNSET if written is None else written,
        UNSET if keep is None else keep,
    )


def memory_of(kernel: Kernel, topology: Topology, *, thp: bool) -> Memory:
    """Compute the marks of a machine as they are after boot."""
    zones = boot_zones(topology, kernel.page)
    online = [0] * topology.nodes
    for node in topology.node_of_cpu:
        online[node] += 1
    marks = MemoryMarks(
        kernel.page,
        before_init_memory_is_freed(zones, topology.page_size),
        page_size=topology.page_size,
        pageblock_order=min(topology.huge_page_order, topology.max_buddy_order),
        online_cpus=online,
        thp=thp,
    )
    rows = {
        f"N{zone.node}.{zone.zone}": (
            zone.managed,
            *(mark.min, mark.low, mark.high),
            *(mark.pcp_batch, mark.pcp_high),
        )
        for zone, mark in zip(zones, marks.read(), strict=True)
        if zone.present
    }
    return Memory(marks.min_free_kbytes, marks.total_reserve(), topology.cpus, rows)


def _of_rows(laid: Laid, asked: Ints) -> Laid:
    """Return the layouts of the rows that ask for them, each (row, cache)."""
    return Laid(
        laid.object_size[asked],
        laid.slab_size[asked],
        laid.bypass[asked],
        laid.sheaf_capacity[asked],
    )


def compute(rows: Sequence[Row], asked: Sequence[Asked]) -> dict[str, Array]:
    """Apply the kernels' rules to all rows.

    Returns
    -------
    Variables of the table `caches`, each (row, cache).
    """
    table = np.array(rows, dtype=np.int64)
    laid = _of_rows(lay_out(asked), table[:, 0])
    shape = laid.slab_size.shape
    counts = {name: np.empty(shape, dtype=np.int64) for name in ListLimits._fields}
    numbers: dict[int, int] = {}
    first = [numbers.setdefault(id(item.policy), n) for n, item in enumerate(asked)]
    group = np.array(first, dtype=np.int64)[table[:, 0]]
    for number in numbers.values():
        where = np.flatnonzero(group == number)
        page, top, low, high, wanted, cpu_partial, min_partial = table[where, 1:].T[:, :, None]
        lists = list_limits(
            laid.slab_size[where],
            asked[number].policy,
            OrderLimits(
                page_size=page,
                max_buddy_order=top,
                min_order=low,
                max_order=high,
                min_objects=wanted,
            ),
            cpu_partial=cpu_partial,
            min_partial=min_partial,
            bypass=laid.bypass[where],
        )
        for name, array in lists._asdict().items():
            counts[name][where] = array
    slab = table[:, 1:2] << np.maximum(counts["order"], 0)
    used = counts["objs_per_slab"] * laid.object_size
    return {
        "slab_size": laid.slab_size,
        **counts,
        "sheaf_capacity": laid.sheaf_capacity,
        "waste_percent": 100 * (1 - used / slab),
    }


def zone_columns(
    memories: Sequence[Memory], of_lane: Ints
) -> tuple[tuple[str, ...], dict[str, Ints]]:
    """Return the labels of all zones, and `ZONE_VARIABLES`, each (lane, zone); 0: no such zone."""
    labels = tuple(dict.fromkeys(label for memory in memories for label in memory.zones))
    none = (0,) * len(ZONE_VARIABLES)
    cube = np.array(
        [[memory.zones.get(label, none) for label in labels] for memory in memories],
        dtype=np.int64,
    ).reshape(len(memories), len(labels), len(ZONE_VARIABLES))
    return labels, {name: cube[of_lane, :, n] for n, name in enumerate(ZONE_VARIABLES)}
