"""Zones and nodes of many machines as result tables."""

from collections.abc import Callable, Sequence

import numpy as np

from allocator.pages.alloc import PageAllocator
from allocator.pages.fragmentation import extfrag_index, unusable_index
from allocator.pages.proc import nr_free_pages_blocks
from allocator.pages.zone import Zone
from allocator.results import Array, Table

_OF_ZONE: dict[str, Callable[[Zone], int]] = {
    "managed": lambda zone: zone.managed,
    "min": lambda zone: zone.mark("min"),
    "low": lambda zone: zone.mark("low"),
    "high": lambda zone: zone.mark("high"),
    "nr_free_pages": lambda zone: zone.buddy.free_pages,
    "nr_free_pages_blocks": nr_free_pages_blocks,
    "pcp_count": lambda zone: zone.pcp_pages(),
    "zone_lock_takes": lambda zone: zone.lock_takes,
    "zone_lock_pages": lambda zone: zone.lock_pages,
    "extfrag_index": lambda zone: extfrag_index(zone.buddyinfo(), zone.buddy.pageblock_order),
    "unusable_index": lambda zone: unusable_index(zone.buddyinfo(), zone.buddy.pageblock_order),
}
"""Variables of `counters.TABLES["zones"]` that a zone tells."""
_EVENTS = ("numa_hit", "numa_miss", "numa_foreign", "numa_local", "numa_other")


def zones_table(lanes: Sequence[PageAllocator]) -> Table:
    """Return the zones of each machine, labelled `N0.DMA32`; 0 where a machine lacks one."""
    labels = tuple(dict.fromkeys(_label(zone) for lane in lanes for zone in lane.zones))
    values: dict[str, Array] = {
        name: np.zeros((len(lanes), len(labels)), dtype=np.int64) for name in _OF_ZONE
    }
    for number, lane in enumerate(lanes):
        for zone in lane.zones:
            place = labels.index(_label(zone))
            for name, read in _OF_ZONE.items():
                values[name][number, place] = read(zone)
    return Table(labels=labels, values=values)


def nodes_table(lanes: Sequence[PageAllocator]) -> Table:
    """Return the numa events of each machine's nodes, labelled by their numbers."""
    nodes = sorted({node for lane in lanes for node in lane.own_zones})
    values: dict[str, Array] = {
        name: np.array([[lane.numa.get((name, node), 0) for node in nodes] for lane in lanes])
        for name in _EVENTS
    }
    return Table(labels=tuple(map(str, nodes)), values=values)


def _label(zone: Zone) -> str:
    return f"N{zone.node}.{zone.name}"
