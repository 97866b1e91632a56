"""A small machine for tests: one node, one CPU that asks, all memory free."""

import numpy as np

from allocator.kernels import kernel_named
from allocator.pages.hugetlb import KERNEL_FLAGS, POOL_MASK, HugetlbPool
from allocator.pages.kswapd import Pace
from allocator.pages.reclaimer import Reclaimer
from allocator.topology import Topology
from allocator.workloads.hugepage_machine import Load, boot, pool_of

GIB = 1 << 30


def topology(memory: tuple[int, ...] = (GIB,), cpus: int = 2) -> Topology:
    """Return an x86 machine; its CPUs are spread over the nodes."""
    nodes = len(memory)
    return Topology(
        arch="x86_64",
        page_size=4096,
        nr_cpu_ids=cpus,
        node_of_cpu=tuple(cpu * nodes // cpus for cpu in range(cpus)),
        memory_bytes=memory,
        distances=tuple(tuple(10 if a == b else 20 for b in range(nodes)) for a in range(nodes)),
        memoryless_nodes=False,
    )


def machine(
    kernel: str = "v6_1",
    memory: tuple[int, ...] = (GIB,),
    *,
    kswapd_pages: int = 27,
    slice_pages: int | None = None,
    thp: bool = True,
    mask: int = POOL_MASK | KERNEL_FLAGS,
) -> tuple[Reclaimer, HugetlbPool]:
    """Boot a machine with an empty pool."""
    place = topology(memory)
    load = Load(watermark_scale_factor=10, thp=thp, anon_bytes=0, pinned_bytes=0)
    pace = Pace(pages=kswapd_pages, slice_pages=slice_pages)
    draws = np.random.Generator(np.random.PCG64(0))
    reclaimer = boot(place, kernel_named(kernel), load, pace, draws)
    return reclaimer, pool_of(reclaimer, place, mask)
