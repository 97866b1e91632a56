"""Where a clocked workload's slabs get their pages: from memory without end, or from real zones.

With real zones, one node may be prepared as weeks of page cache leave it: its memory is in use but
for small free blocks. There a slab of a high order has no block of its node, and
`allocate_slab()` (mm/slub.c v6.1) asks for the usual order first: with __GFP_NORETRY, without
reclaim, and without __GFP_THISNODE. So get_page_from_freelist() goes on to the zones of the next
node in the zonelist, and only if all of them fail is the smallest order asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from allocator.errors import ConfigError
from allocator.pages.source import Bottomless, PageSource
from allocator.streams import Stream
from allocator.topology import Topology

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point

Ints = NDArray[np.int64]

PAGES = ("bottomless", "zones")
"""Where pages may come from."""
MEMORY_BOUNDS: dict[str, tuple[float, float]] = {
    "fragmented_node": (-1, 1023),
    "fragmented_order": (0, 8),
    "fragmented_mib": (1, 1 << 20),
}
"""Smallest and largest value of each number of `OnPages`."""
MEMORY_CHOICES = {"pages": PAGES}
"""Words that its text field may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnPages:
    """Keys of workloads whose slabs may come from real zones."""

    pages: str = "bottomless"
    """`bottomless`: pages of any order, nearest node first; `zones`: free lists, watermarks and
    per-CPU lists of each zone."""
    fragmented_node: int = -1
    """Node whose memory is in use but for small free blocks (`zones`); -1: none."""
    fragmented_order: int = 2
    """Order of its free blocks."""
    fragmented_mib: int = 256
    """Memory in them above the high mark, MiB."""

    def check_node(self, place: Topology) -> None:
        """Check that the node that is to be fragmented is there and has memory.

        Raises
        ------
        ConfigError
            If not.
        """
        node = self.fragmented_node
        if self.pages == "zones" and (
            node >= place.nodes or (node >= 0 and not place.has_memory(node))
        ):
            raise ConfigError("workload.fragmented_node", node, "-1, or a node with memory")


def page_source(points: Sequence["Point"], streams: Sequence[Stream], zonelist: Ints) -> PageSource:
    """Return where the slabs of lanes get their pages; all lanes choose the same kind.

    Parameters
    ----------
    points, streams
        One of each per lane.
    zonelist
        (lane, node, hop) nodes in the order in which requests for a node are tried on.
    """
    load = points[0].workload
    if isinstance(load, OnPages) and load.pages == "zones":
        # lazy: the page allocator takes as long to import as all that other points need
        from allocator.workloads.zoned_machine import zoned_pages

        return zoned_pages(points, streams)
    pages = [[m // p.topology.page_size for m in p.topology.memory_bytes] for p in points]
    return Bottomless(np.array(pages, dtype=np.int64), zonelist)
