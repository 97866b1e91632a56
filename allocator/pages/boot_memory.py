"""Which zones a machine has: its memory, laid out as firmware does, less what boot keeps.

Records tell the zones of real machines; this is for machines that are only described. Sizes of
what boot keeps are taken from distribution kernels and are good to about one percent.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from allocator.pages.policy import PagePolicy
from allocator.pages.zones import ZoneSize
from allocator.topology import Topology

_MIB, _GIB = 1 << 20, 1 << 30
_MEMMAP_BYTES = 64  # struct page
_KERNEL_BYTES = 32 * _MIB  # image, per-CPU areas and early tables, in the lowest large zone
_BOUNCE_BYTES = 64 * _MIB  # swiotlb below 4 GiB, where there is memory above
_TABLES_SHARE = 1024  # hash tables and their like take so small a part of each node
_HOLE_BYTES = 2 * _GIB  # x86: memory below the PCI hole, where there is more than this
_HOLE_FROM = 2816 * _MIB
_DMA_BYTES = 16 * _MIB
_LEGACY_HOLE_PAGES = 97  # x86: page 0 and the firmware's area below 1 MiB
_DMA_PRESENT = _DMA_BYTES // 4096 - _LEGACY_HOLE_PAGES - 1
_DMA_RESERVED = {True: 158, False: 21}  # pages of zone DMA that boot keeps, from booted kernels


@dataclass(frozen=True, slots=True)
class _Range:
    """Physical memory of one node, bytes."""

    node: int
    start: int
    stop: int


def boot_zones(topology: Topology, policy: PagePolicy) -> tuple[ZoneSize, ...]:
    """Return the zones of a described machine, each node's in rising order.

    Parameters
    ----------
    topology
        Memory of each node; nodes follow each other in physical memory.
    policy
        Says which zones the kernel has, and whether the first MiB is kept (x86).
    """
    limits = _limits(topology, policy)
    sizes = {
        (node, kind): [0, 0] for node in range(topology.nodes) for kind in (*limits, "Movable")
    }
    for part in _ranges(topology):
        start = part.start
        for kind, limit in limits.items():
            stop = min(part.stop, limit)
            if stop > start:
                row = sizes[part.node, kind]
                row[1] = row[1] if row[0] else start
                row[0] += stop - start
                start = stop
    kept = _kept(topology, sizes)
    return tuple(
        _zone(topology, policy, node, kind, sizes[node, kind], kept.get((node, kind), 0))
        for node in range(topology.nodes)
        for kind in (*limits, "Movable")
    )


def _limits(topology: Topology, policy: PagePolicy) -> dict[str, int]:
    """Return where each zone ends, bytes of physical memory, rising."""
    end = 1 << 62
    if topology.arch == "x86_64":
        return {"DMA": _DMA_BYTES, "DMA32": 4 * _GIB, "Normal": end}
    if topology.arch == "arm64":
        low = {"DMA": 4 * _GIB} if policy.arm64_zone_dma else {}
        return {**low, "DMA32": 4 * _GIB, "Normal": end}
    return {policy.ppc64_zone: end}


def _ranges(topology: Topology) -> Iterator[_Range]:
    """Yield each node's physical memory: from 0 (arm64: 1 GiB) on, around x86's PCI hole."""
    total = sum(topology.memory_bytes)
    hole = topology.arch == "x86_64" and total >= _HOLE_FROM
    gap_at, gap_to = (_HOLE_BYTES, 4 * _GIB) if hole else (1 << 62, 1 << 62)
    at = _GIB if topology.arch == "arm64" else 0
    for node, size in enumerate(topology.memory_bytes):
        while size:
            if at == gap_at:
                at = gap_to
            step = min(size, gap_at - at) if at < gap_at else size
            yield _Range(node, at, at + step)
            at, size = at + step, size - step


def _kept(
    topology: Topology, sizes: dict[tuple[int, str], list[int]]
) -> dict[tuple[int, str], int]:
    """Return bytes that boot keeps from the buddy lists, by zone.

    The memmap and large tables of a node lie at its top, the kernel at the bottom of memory.
    """
    kept: dict[tuple[int, str], int] = {}
    large = [place for place, (size, _) in sizes.items() if size > _DMA_BYTES]
    for node, size in enumerate(topology.memory_bytes):
        highest = [place for place in large if place[0] == node][-1:]
        for place in highest:
            memmap = size // topology.page_size * _MEMMAP_BYTES
            kept[place] = memmap + size // _TABLES_SHARE
    for place in large[:1]:
        above = any(start >= 4 * _GIB for _, start in sizes.values())
        bounce = _BOUNCE_BYTES if above and topology.arch != "ppc64" else 0
        kept[place] = kept.get(place, 0) + _KERNEL_BYTES + bounce
    return kept


def _zone(
    topology: Topology, policy: PagePolicy, node: int, kind: str, size: list[int], kept: int
) -> ZoneSize:
    page = topology.page_size
    present, start = size[0] // page, size[1] // page
    managed = max(present - kept // page, 0)
    if kind == "DMA" and topology.arch == "x86_64" and size[0] == _DMA_BYTES:
        present, start = _DMA_PRESENT, 1
        managed = present - _DMA_RESERVED[policy.reserves_first_mib]
    return ZoneSize(node=node, zone=kind, present=present, managed=managed, start_pfn=start)
