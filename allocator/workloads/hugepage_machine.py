"""A described machine with its memory in use: what a pool of huge pages is asked of.

Simplifications, for want of a record of the machine: boot leaves one stretch of kernel memory at
the bottom of the first large zone and everything else free; memory that cannot move lies as closed
pipes leave it; per-CPU lists are empty.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocator.kernel import Kernel
from allocator.pages import migratetype as mt
from allocator.pages.alloc import PageAllocator
from allocator.pages.boot_memory import boot_zones
from allocator.pages.hugetlb import HugetlbPool
from allocator.pages.kswapd import Pace
from allocator.pages.pagecache import hold, pin
from allocator.pages.reclaimer import Reclaimer
from allocator.pages.zone import Zone
from allocator.pages.zones import MemoryMarks
from allocator.topology import Topology

KERNEL_BYTES = 38 << 20
"""Memory that a booted kernel uses on top of what boot keeps: managed less free pages of 6.1 in a
virtual machine of 1 GiB."""
REQUESTER = (0,)
"""CPU of who asks for huge pages: nobody else allocates, so no other has lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is in memory before any cache."""

    watermark_scale_factor: int
    """vm.watermark_scale_factor."""
    thp: bool
    """Transparent huge pages are enabled, which raises min_free_kbytes."""
    anon_bytes: int
    """Anonymous memory that stays."""
    pinned_bytes: int
    """Kernel memory of which an eighth stays, everywhere in its stretch."""


def boot(
    topology: Topology,
    kernel: Kernel,
    load: Load,
    pace: Pace,
    jitter: np.random.Generator,
    *,
    cpus: Sequence[int] = REQUESTER,
) -> Reclaimer:
    """Boot a machine and load it.

    Parameters
    ----------
    topology, kernel
        The machine.
    load
        What is in memory.
    pace, jitter
        kswapd's speed, and the draws around it.
    cpus
        CPUs that allocate.
    """
    order = min(topology.huge_page_order, topology.max_buddy_order)
    online = [len(topology.cpus_of(node)) for node in range(topology.nodes)]
    sizes = boot_zones(topology, kernel.page)
    marks = MemoryMarks(
        kernel.page,
        sizes,
        page_size=topology.page_size,
        pageblock_order=order,
        online_cpus=online,
        thp=load.thp,
    )
    if load.watermark_scale_factor != marks.scale:
        marks.write("watermark_scale_factor", str(load.watermark_scale_factor))
    zones = []
    for size, mark in zip(sizes, marks.read(), strict=True):
        if not size.managed:
            continue
        end = size.start_pfn + size.present
        zone = Zone(
            kernel.page,
            mark,
            managed=size.managed,
            start=size.start_pfn,
            end=end,
            cpus=cpus,
            types=marks.types,
            present=size.present,
            max_order=topology.max_buddy_order,
            pageblock_order=order,
        )
        zone.buddy.release(end - size.managed, end)
        zones.append(zone)
    fallback = topology.node_fallback_order(kernel.page)
    allocator = PageAllocator(
        kernel.page,
        zones,
        node_of_cpu={cpu: topology.node_of_cpu[cpu] for cpu in cpus},
        fallback=dict(enumerate(fallback)),
    )
    reclaimer = Reclaimer(allocator, pace, jitter)
    allocator.reclaim = reclaimer
    _use(reclaimer, topology, load)
    return reclaimer


def _use(reclaimer: Reclaimer, topology: Topology, load: Load) -> None:
    page, home = topology.page_size, topology.node_of_cpu[0]
    zones = reclaimer.allocator.zones
    large = next((zone for zone in zones if zone.index > 0), zones[0])
    large.alloc_run(min(KERNEL_BYTES // page, large.managed // 4), mt.UNMOVABLE)
    pin(reclaimer, load.pinned_bytes // page, node=home)
    hold(reclaimer, load.anon_bytes // page, node=home)


def pool_of(reclaimer: Reclaimer, topology: Topology, mask: int) -> HugetlbPool:
    """Return the empty pool of a machine; its writer runs on CPU 0."""
    return HugetlbPool(
        reclaimer.allocator,
        reclaimer,
        order=min(topology.huge_page_order, topology.max_buddy_order),
        nodes=sorted(reclaimer.nodes),
        mask=mask,
    )
