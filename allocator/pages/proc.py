"""Zones as /proc tells them."""

from collections.abc import Mapping, Sequence

from allocator.pages import migratetype as mt
from allocator.pages.zone import Zone

EVENTS = ("numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node")
"""Lines of a node's numastat."""
_EVENT_OF_LINE = {"local_node": "numa_local", "other_node": "numa_other"}


def buddyinfo(zones: Sequence[Zone]) -> str:
    """Return the text of /proc/buddyinfo."""
    return "\n".join(
        f"{_name(zone)} " + "".join(f"{count:6d} " for count in zone.buddyinfo()) for zone in zones
    )


def pagetypeinfo(zones: Sequence[Zone]) -> str:
    """Return the text of /proc/pagetypeinfo, without its heading: free blocks, then pageblocks."""
    types = range(mt.NR_LISTS)
    lines = ["Free pages count per migrate type at order " + _orders(zones)]
    for zone in zones:
        counts = zone.buddy.nr_free
        for migratetype in types:
            numbers = "".join(f"{n:6d} " for n in counts[:, migratetype].tolist())
            lines.append(f"{_name(zone, 4)}, type {mt.NAMES[migratetype]:>12} {numbers}")
    names = "".join(f"{name:>12} " for name in mt.NAMES)
    lines += ["", f"{'Number of blocks type':<23}{names}"]
    for zone in zones:
        numbers = "".join(f"{n:12d} " for n in pageblocks(zone))
        lines.append(f"{_name(zone)} {numbers}")
    return "\n".join(lines)


def pageblocks(zone: Zone) -> list[int]:
    """Return the pageblocks of each type that begin in a zone."""
    buddy = zone.buddy
    size = 1 << buddy.pageblock_order
    first = -(-(buddy.start - buddy.base) // size)
    last = -(-(buddy.end - buddy.base) // size)
    found = buddy.block_type[first:last]
    return [int((found == migratetype).sum()) for migratetype in range(mt.NR_LISTS)]


def numastat(numa: Mapping[tuple[str, int], int], node: int) -> dict[str, int]:
    """Return the lines of /sys/devices/system/node/nodeN/numastat."""
    return {line: numa.get((_EVENT_OF_LINE.get(line, line), node), 0) for line in EVENTS}


def nr_free_pages_blocks(zone: Zone) -> int:
    """Return the pages in free blocks of at least a pageblock (nr_free_pages_blocks, 7.3)."""
    counts = zone.buddyinfo()
    block = zone.buddy.pageblock_order
    return sum(count << order for order, count in enumerate(counts) if order >= block)


def _name(zone: Zone, width: int = 0) -> str:
    return f"Node {zone.node:{width}d}, zone {zone.name:>8}"


def _orders(zones: Sequence[Zone]) -> str:
    orders = range(zones[0].buddy.max_order + 1) if zones else range(0)
    return "".join(f"{order:6d} " for order in orders)
