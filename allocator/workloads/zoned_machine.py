"""Machines whose slabs come from real zones, one node of them fragmented if a workload says so."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allocator.pages.alloc import PageAllocator
from allocator.pages.kswapd import Pace
from allocator.pages.pagecache import shatter
from allocator.pages.source_zones import ZonedPages
from allocator.streams import Stream
from allocator.workloads.hugepage_machine import Load, boot
from allocator.workloads.on_pages import OnPages

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point

KSWAPD_PAGES = 27
"""Pages that kswapd reclaims beside a step of the slow path: the middle of the range of the
hugepages workload. A slab's first attempt does not wake it (mm/slub.c v6.1 allocate_slab())."""


def zoned_pages(points: Sequence["Point"], streams: Sequence[Stream]) -> ZonedPages:
    """Boot the machine of each lane."""
    return ZonedPages([_booted(p, stream) for p, stream in zip(points, streams, strict=True)])


def _booted(point: "Point", stream: Stream) -> PageAllocator:
    """Boot a machine, and use up the memory of the node that is to be fragmented."""
    load, place = point.workload, point.topology
    assert isinstance(load, OnPages)
    reclaimer = boot(
        place,
        point.kernel,
        Load(watermark_scale_factor=10, thp=True, anon_bytes=0, pinned_bytes=0),
        Pace(pages=KSWAPD_PAGES),
        stream.generator("kswapd"),
        cpus=range(place.cpus),
    )
    node = load.fragmented_node
    if node >= 0:
        pages = (load.fragmented_mib << 20) // place.page_size
        shatter(reclaimer, pages, node=node, order=load.fragmented_order)
    return reclaimer.allocator
