"""Watermarks, reserves and per-CPU list limits of zones, after boot and after every sysctl.

All numbers are pages and exact integers, as in the kernel (mm/page_alloc.c); `docs` of each rule
name the function it was read from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt

from allocator.pages.policy import PagePolicy

ZONE_TYPES = ("DMA", "DMA32", "Normal", "HighMem", "Movable", "Device")
"""Zone types by rank; a kernel has some of them."""
DEFAULT_RATIOS = {"DMA": 256, "DMA32": 256, "Normal": 32, "HighMem": 0, "Movable": 0}
"""Default vm.lowmem_reserve_ratio by zone type."""
DEFAULT_SCALE = 10
"""Default vm.watermark_scale_factor, in 1/10000 of a zone."""
DEFAULT_BOOST_FACTOR = 15000
"""Default vm.watermark_boost_factor, in 1/10000 of the high mark."""
MIN_FRACTION = 8
"""Smallest legal percpu_pagelist(_high)_fraction but 0."""

INIT_MEMORY_BYTES = 8 << 20
"""Init sections and initramfs of a small distribution kernel, freed after the marks of boot were
computed (2 to 20 MiB are seen); no record tells the size."""
THP_LEAST_BYTES = 512 << 20
"""Machines with less memory never start THP (mm/huge_memory.c hugepage_init())."""

_LOWEST_KB = 128  # least min_free_kbytes that the kernel computes
_CAPPED = (32, 128)  # bounds of the min mark of a zone that does not keep reserves
_THP_BLOCKS = 2 + 3 * 3  # pageblocks a zone that khugepaged wants free


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSize:
    """One zone of one node."""

    node: int
    """Node."""
    zone: str
    """Zone type, out of `ZONE_TYPES`."""
    present: int
    """Pages of memory; 0: the zone is not populated."""
    managed: int
    """Pages that were ever given to the buddy lists."""
    start_pfn: int = 0
    """First page frame."""

    @property
    def normal_or_below(self) -> bool:
        """Tell whether kernel allocations may use the zone."""
        return ZONE_TYPES.index(self.zone) <= ZONE_TYPES.index("Normal")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneMarks:
    """What the kernel derives for one zone, pages."""

    node: int
    """Node."""
    zone: str
    """Zone type."""
    min: int
    """Mark at which only reserves are left."""
    low: int
    """Mark below which kswapd is woken."""
    high: int
    """Mark at which kswapd stops."""
    promo: int
    """Mark for promotion from slow memory."""
    protection: tuple[int, ...]
    """lowmem_reserve by the highest zone that a request may use."""
    pcp_batch: int
    """Pages moved to or from a per-CPU list at once."""
    pcp_high: int
    """Pages a per-CPU list may hold; where it tunes itself, its low end."""
    pcp_high_min: int
    """Low end of a tuned limit."""
    pcp_high_max: int
    """High end of a tuned limit."""
    stat_threshold: int
    """Change of a counter that a CPU keeps to itself."""


class MemoryMarks:
    """Marks of a machine's zones, kept as the kernel keeps them: recomputed at certain events.

    Parameters
    ----------
    policy
        The kernel's page allocator.
    zones
        Zones of all nodes, each node's in rising order; the same types on each node.
    page_size
        Bytes.
    pageblock_order
        Order of a pageblock.
    online_cpus
        (node,): online CPUs of each node.
    thp
        Transparent huge pages are enabled (always or madvise).
    ratios, scale, fraction
        vm.lowmem_reserve_ratio, vm.watermark_scale_factor and the per-CPU list fraction at boot;
        None: the defaults.
    """

    def __init__(
        self,
        policy: PagePolicy,
        zones: Sequence[ZoneSize],
        *,
        page_size: int,
        pageblock_order: int,
        online_cpus: Sequence[int],
        thp: bool,
        ratios: Sequence[int] | None = None,
        scale: int | None = None,
        fraction: int = 0,
    ) -> None:
        self.policy = policy
        self.zones = list(zones)
        self.types = tuple(sorted({zone.zone for zone in zones}, key=ZONE_TYPES.index))
        self.thp = thp
        self.scale = DEFAULT_SCALE if scale is None else scale
        self.fraction = fraction
        self.ratios = list(self._default_ratios() if ratios is None else ratios)
        self.min_free_kbytes = 0
        self._user_kbytes = -1
        self._page_size = page_size
        self._block = 1 << pageblock_order
        self._online = list(online_cpus)
        self._marks = [(0, 0, 0, 0)] * len(self.zones)
        self._pcp_managed = [zone.managed for zone in self.zones]
        self._boot()

    def _default_ratios(self) -> list[int]:
        return [DEFAULT_RATIOS.get(zone, 0) for zone in self.types]

    def _boot(self) -> None:
        """Compute everything as at start-up: init_per_zone_wmark_min(), then hugepage_init()."""
        self._compute_min_free()
        self._compute_marks()
        self._compute_reserves()
        if sum(zone.managed for zone in self.zones) * self._page_size >= THP_LEAST_BYTES:
            self._apply_thp()

    def resize(self, managed: Mapping[tuple[int, str], int]) -> None:
        """Change the managed pages of zones; marks stay as they are until the next event.

        The reserves are taken to be refreshed: reading vm.lowmem_reserve_ratio does that too.
        """
        self.zones = [
            replace(zone, managed=managed.get((zone.node, zone.zone), zone.managed))
            for zone in self.zones
        ]
        self._compute_reserves()

    def write(self, name: str, value: str) -> bool:
        """Write a sysctl of vm, or `transparent_hugepage/enabled`.

        Returns
        -------
        Whether the kernel takes the value. What it refuses, or does not have, changes nothing.
        """
        writers = {
            "min_free_kbytes": self._write_min_free,
            "watermark_scale_factor": self._write_scale,
            "lowmem_reserve_ratio": self._write_ratios,
            self._fraction_name(): self._write_fraction,
            "transparent_hugepage/enabled": self._write_thp,
        }
        writer = writers.get(name)
        if writer is None:
            return False
        try:
            return writer(value)
        except ValueError:
            return False

    def _fraction_name(self) -> str:
        batch6 = self.policy.pcp == "batch6"
        return "percpu_pagelist_fraction" if batch6 else "percpu_pagelist_high_fraction"

    def _write_min_free(self, value: str) -> bool:
        kbytes = int(value)
        if not 0 <= kbytes < 1 << 31:
            return False
        self.min_free_kbytes = self._user_kbytes = kbytes
        self._compute_marks()
        return True

    def _write_scale(self, value: str) -> bool:
        scale = int(value)
        if not 1 <= scale <= self.policy.max_watermark_scale:
            return False
        self.scale = scale
        self._compute_marks()
        return True

    def _write_ratios(self, value: str) -> bool:
        given = [int(word) for word in value.split()]
        for index, ratio in enumerate(given[: len(self.ratios)]):
            self.ratios[index] = max(ratio, 0)
        self._compute_reserves()
        return bool(given)

    def _write_fraction(self, value: str) -> bool:
        fraction = int(value)
        if fraction != 0 and not MIN_FRACTION <= fraction < 1 << 31:
            return False
        self.fraction = fraction
        self._pcp_managed = [zone.managed for zone in self.zones]
        return True

    def _write_thp(self, value: str) -> bool:
        if value not in ("always", "madvise", "never"):
            return False
        self.thp = value != "never"
        self._apply_thp()
        return True

    def _apply_thp(self) -> None:
        """Raise min_free_kbytes for THP, or not: mm/khugepaged.c start_stop_khugepaged()."""
        if self.thp:
            self._raise_for_thp()
        elif self.policy.thp_off_recomputes:
            self._compute_min_free()
            self._compute_marks()

    def buffer_pages(self) -> int:
        """Pages above the high marks of zones up to Normal (nr_free_buffer_pages())."""
        return sum(
            max(0, zone.managed - marks[2])
            for zone, marks in zip(self.zones, self._marks, strict=True)
            if zone.normal_or_below
        )

    def _compute_min_free(self) -> None:
        """calculate_min_free_kbytes(): a user's value stays unless the new one is larger."""
        kbytes = isqrt(16 * self.buffer_pages() * (self._page_size >> 10))
        if kbytes > self._user_kbytes:
            self.min_free_kbytes = min(max(kbytes, _LOWEST_KB), self.policy.min_free_cap_kb)

    def _raise_for_thp(self) -> None:
        """mm/khugepaged.c set_recommended_min_free_kbytes(); never lowers."""
        populated = sum(zone.present > 0 and zone.normal_or_below for zone in self.zones)
        pages = min(self._block * populated * _THP_BLOCKS, self.buffer_pages() // 20)
        kbytes = pages * (self._page_size >> 10)
        self.min_free_kbytes = max(self.min_free_kbytes, kbytes)
        self._compute_marks()

    def _capped(self, zone: ZoneSize) -> bool:
        """Tell whether a zone keeps only a small fixed reserve."""
        movable = zone.zone == "Movable" and self.policy.movable_capped
        return movable or zone.zone == "HighMem"

    def _compute_marks(self) -> None:
        """__setup_per_zone_wmarks()."""
        pages_min = self.min_free_kbytes // (self._page_size >> 10)
        low_pages = sum(zone.managed for zone in self.zones if not self._capped(zone))
        marks = []
        for zone in self.zones:
            share = pages_min * zone.managed // max(low_pages, 1)
            low, high = _CAPPED
            least = min(max(zone.managed // 1024, low), high) if self._capped(zone) else share
            gap = share // 4
            if self.policy.max_watermark_scale:
                gap = max(gap, zone.managed * self.scale // 10000)
            marks.append((least, least + gap, least + 2 * gap, least + 3 * gap))
        self._marks = marks
        if self.policy.pcp != "batch6":  # there, per-CPU lists are sized once, at boot
            self._pcp_managed = [zone.managed for zone in self.zones]

    def _compute_reserves(self) -> None:
        """setup_per_zone_lowmem_reserve()."""
        managed = {(zone.node, zone.zone): zone.managed for zone in self.zones}
        reserves = []
        for zone in self.zones:
            rank = self.types.index(zone.zone)
            ratio = self.ratios[rank] if rank < len(self.ratios) else 0
            if not zone.managed and not self.policy.reserves_unpopulated:
                ratio = 0
            above, row = 0, []
            for other, kind in enumerate(self.types):
                if other > rank:
                    above += managed.get((zone.node, kind), 0)
                row.append(above // ratio if other > rank and ratio else 0)
            reserves.append(tuple(row))
        self._reserves = reserves

    def total_reserve(self) -> int:
        """Pages that are not for ordinary requests (calculate_totalreserve_pages())."""
        return sum(
            min(zone.managed, max(reserve) + marks[2])
            for zone, marks, reserve in zip(self.zones, self._marks, self._reserves, strict=True)
        )

    def read(self) -> tuple[ZoneMarks, ...]:
        """Return the marks of every zone, in the order of the zones given."""
        return tuple(self._read(zone, index) for index, zone in enumerate(self.zones))

    def _read(self, zone: ZoneSize, index: int) -> ZoneMarks:
        marks = self._marks[index]
        batch, high_min, high_max = self._pcp(zone, self._pcp_managed[index], marks[1])
        least, low, high, promo = marks
        return ZoneMarks(
            node=zone.node,
            zone=zone.zone,
            min=least,
            low=low,
            high=high,
            promo=promo,
            protection=self._reserves[index],
            pcp_batch=batch,
            pcp_high=high_min,
            pcp_high_min=high_min,
            pcp_high_max=high_max,
            stat_threshold=stat_threshold(zone.managed, sum(self._online), self._page_size),
        )

    def _pcp(self, zone: ZoneSize, managed: int, low: int) -> tuple[int, int, int]:
        """Return batch, and both ends of high (zone_highsize(), zone_batchsize())."""
        if not zone.present:
            return 1, 0, 0
        cpus = self._online[zone.node] if zone.node < len(self._online) else 0
        cpus = cpus or sum(self._online) or 1
        return pcp_limits(self.policy, managed, low, self.fraction, cpus, self._page_size)


def before_init_memory_is_freed(
    zones: Sequence[ZoneSize], page_size: int, size_bytes: int = INIT_MEMORY_BYTES
) -> tuple[ZoneSize, ...]:
    """Return zones as they were when boot computed its marks.

    The kernel image and initramfs lie in the lowest zone that is larger than x86's ZONE_DMA.
    """
    pages = size_bytes // page_size
    holders = [n for n, zone in enumerate(zones) if zone.managed * page_size > 16 << 20]
    if not holders:
        return tuple(zones)
    holder = min(holders, key=lambda n: (zones[n].start_pfn, n))
    return tuple(
        replace(zone, managed=max(zone.managed - pages, 0)) if n == holder else zone
        for n, zone in enumerate(zones)
    )


def pcp_batch_raw(managed: int, page_size: int) -> int:
    """Return the batch of a per-CPU list before the lower bound of 1 (zone_batchsize())."""
    quarter = max(1, min(managed // 1024, (1 << 20) // page_size) // 4)
    return (1 << ((quarter + quarter // 2).bit_length() - 1)) - 1


def pcp_limits(
    policy: PagePolicy, managed: int, low: int, fraction: int, cpus: int, page_size: int
) -> tuple[int, int, int]:
    """Return batch, and both ends of high, of each CPU's list of a populated zone.

    Parameters
    ----------
    policy
        The kernel's page allocator.
    managed, low
        Pages of the zone and its low mark.
    fraction
        percpu_pagelist_fraction or percpu_pagelist_high_fraction, 0 if not set.
    cpus
        Online CPUs of the zone's node, or of the machine if the node has none.
    page_size
        Bytes.
    """
    raw = pcp_batch_raw(managed, page_size)
    batch = max(1, raw)
    if policy.pcp == "batch6":
        if not fraction:
            return batch, 6 * raw, 6 * raw
        high = managed // fraction
        largest = (page_size.bit_length() - 1) * 8
        return min(max(1, high // 4), largest), high, high
    if fraction:
        high = max(4 * batch, managed // fraction // cpus)
        return batch, high, high
    high = max(4 * batch, low // cpus)
    if policy.pcp == "shared_low":
        return batch, high, high
    return batch, high, max(4 * batch, managed // MIN_FRACTION // cpus)


def stat_threshold(managed: int, online: int, page_size: int) -> int:
    """Return how far a CPU's share of a zone counter may drift (mm/vmstat.c v6.1)."""
    chunks = managed * page_size >> 27
    return min(125, 2 * online.bit_length() * (1 + chunks.bit_length()))
