"""The machine of a hugetlb record, rebuilt as it was before the first request.

Marks, free lists, pageblock types and cache sizes come from the record's last snapshot before the
request; where pages lie is worked out by `memory_layout`. What no line of a record tells is taken
from the conservation of pages: pages that are neither free nor in any line of meminfo are the
kernel's own or wait on per-CPU lists.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.errors import PredictError
from allocator.kernel import Kernel
from allocator.kernels import kernel_named
from allocator.pages import migratetype as mt
from allocator.pages.alloc import PageAllocator
from allocator.pages.kswapd import Pace
from allocator.pages.pcp import list_number
from allocator.pages.reclaimer import Reclaimer
from allocator.pages.uses import Use
from allocator.pages.zone import ZONE_NAMES, Zone
from allocator.pages.zones import ZoneMarks
from allocator.records.record import Record, Section
from allocator.workloads.memory_layout import TYPES, Placed, ZoneCounts, place

UNSEEN_PAGES = 1850
"""Pages of the kernel's own that no line of meminfo counts: what was left over at most, of kernels
5.10 to 7.3, when their per-CPU lists had just been emptied."""

_HELD = re.compile(r"pipes \d+: (\d+) pages held")
_COUNTED = (
    "MemFree",
    "Buffers",
    "Cached",
    "SwapCached",
    "AnonPages",
    "SReclaimable",
    "SUnreclaim",
    "PageTables",
    "Percpu",
    "VmallocUsed",
)

Place = tuple[int, str]
"""Node and name of a zone."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the record's script asked for."""

    pages: int
    """Huge pages wanted."""
    runs: int
    """Times that it asked."""
    node: int | None
    """Node whose file was written."""


@dataclass(slots=True)
class Machine:
    """A rebuilt machine."""

    allocator: PageAllocator
    """Zones and lists."""
    reclaimer: Reclaimer
    """Cache and kswapd."""
    nodes: list[int]
    """Nodes with memory."""
    pageblock_order: int
    """Order of a huge page."""


class HugetlbRecord:
    """A hugetlb record, read field by field.

    Parameters
    ----------
    record
        The record.

    Raises
    ------
    PredictError
        If a field is missing or cannot be used.
    """

    def __init__(self, record: Record) -> None:
        self.kernel = _kernel(record)
        self._env = record.section("env")
        self._given = record.section("given")
        steps = self._given.section("steps")
        self.fill_bytes = steps.integer("FILL") << 20
        self.movable_cache = bool(steps.text("FS", ""))
        self.asked = Asked(
            pages=steps.integer("REQ"), runs=steps.integer("RUNS", 1), node=_node(steps)
        )
        self._page = self._env.integer("page_size", 4096, least=1)
        self._online = self._env.section("cpus").integer("online", least=1)
        snaps = self._given.sections("before_first_request")
        if not snaps:
            raise self._given.fail("before_first_request", "at least one snapshot")
        self._now = snaps[-1]
        self._start = next((s for s in snaps if s.text("at", "") == "r1.start"), snaps[0])
        self._boot = {
            (z.integer("node"), z.text("zone")): z
            for z in self._given.section("boot").sections("zoneinfo")
        }
        self.zones = [
            z
            for z in self._given.sections("zones")
            if z.integer("managed") and z.text("zone") in ZONE_NAMES
        ]
        if not self.zones:
            raise self._given.fail("zones", "a zone with managed pages")

    @property
    def one_cpu(self) -> bool:
        """Tell whether kswapd shares the requester's CPU."""
        return self._online == 1

    def build(self, pace: Pace, draws: np.random.Generator) -> Machine:
        """Rebuild the machine.

        Parameters
        ----------
        pace
            kswapd's speed.
        draws
            Draws what no record tells: how far kswapd gets between two requests, and in which
            page of a pageblock reclaim stopped while the cache was filled.
        """
        order = self._now.section("pagetypeinfo").integer("pageblock_order", 9)
        zones, placed = [], {}
        for spec in self.zones:
            zone = self._zone(spec, order)
            zones.append(zone)
            counts = self._counts(spec, order, int(draws.integers(1 << order)))
            placed[zone.node, zone.index] = place(zone.buddy, counts)
        nodes = sorted({zone.node for zone in zones})
        homes = self._homes(nodes)
        allocator = PageAllocator(
            self.kernel.page,
            zones,
            node_of_cpu=homes,
            fallback={n: [n, *(o for o in nodes if o != n)] for n in {*nodes, *homes.values()}},
        )
        reclaimer = Reclaimer(allocator, pace, draws)
        allocator.reclaim = reclaimer
        for zone in zones:
            self._hide(zone, placed[zone.node, zone.index], reclaimer)
        for node in nodes:
            _fill_lists(reclaimer, node, placed)
        return Machine(allocator, reclaimer, nodes, order)

    def _homes(self, nodes: list[int]) -> dict[int, int]:
        homes = {
            cpu: node.integer("id")
            for node in self._env.sections("nodes", optional=True)
            for cpu in node.integers("cpus")
        }
        return homes or dict.fromkeys(range(self._online), nodes[0])

    def _zone(self, spec: Section, order: int) -> Zone:
        place_ = spec.integer("node"), spec.text("zone")
        boot = self._boot.get(place_)
        now = _find(self._now.sections("zones"), place_)
        if boot is None or now is None:
            raise spec.fail("zone", "a zone of boot.zoneinfo and of the last snapshot")
        boost = now.integer("boost", 0)
        pcp = boot.section("pcp", optional=True)
        high = pcp.integer("high_min", _one(pcp, "high"))
        marks = ZoneMarks(
            node=place_[0],
            zone=place_[1],
            min=now.integer("min") - boost,
            low=now.integer("low") - boost,
            high=now.integer("high") - boost,
            promo=now.integer("high") - boost,
            protection=tuple(boot.integers("protection")),
            pcp_batch=_one(pcp, "batch", 1),
            pcp_high=high,
            pcp_high_min=high,
            pcp_high_max=pcp.integer("high_max", high),
            stat_threshold=boot.integer("stat_threshold", 0),
        )
        start = spec.integer("start_pfn")
        zone = Zone(
            self.kernel.page,
            marks,
            managed=spec.integer("managed"),
            start=start,
            end=start + spec.integer("spanned", least=1),
            cpus=range(self._online),
            types=[name for node, name in self._boot if node == place_[0]],
            pageblock_order=order,
            max_order=max(10, order),
        )
        zone.boost = boost
        return zone

    # Counts

    def _counts(self, spec: Section, order: int, offset: int) -> ZoneCounts:
        place_ = spec.integer("node"), spec.text("zone")
        free, blocks = _types(self._now, place_)
        before, _ = _types(self._start, place_)
        own = mt.MOVABLE if self.movable_cache else mt.UNMOVABLE
        small = int((before[:order, own] << np.arange(order)).sum())
        cache, fill = self._cache(place_)
        large = self.kernel.page.large_folios
        return ZoneCounts(
            free=free,
            blocks=blocks,
            cache=cache,
            mixed=0 if large else min(cache, small),
            hidden=self._hidden_in(spec),
            reclaimed=fill - cache + offset if fill > cache else 0,
            moved=self._meminfo("AnonPages", "Shmem") if self._is_top(place_) else 0,
            movable_cache=self.movable_cache,
        )

    def _meminfo(self, *names: str) -> int:
        info = self._now.section("meminfo")
        return sum(info.integer(name, 0) for name in names) * 1024 // self._page

    def _managed(self) -> int:
        return sum(spec.integer("managed") for spec in self.zones)

    def _is_top(self, place_: Place) -> bool:
        names = [z.text("zone") for z in self.zones if z.integer("node") == place_[0]]
        return ZONE_NAMES.index(place_[1]) == max(map(ZONE_NAMES.index, names))

    def _cache(self, place_: Place) -> tuple[int, int]:
        """Return a zone's share of the cache, and of all that was read.

        What a zone has fewer free pages than before the fill is cache; the highest zones share
        what the lower ones do not hold.
        """
        total = self._meminfo("Active(file)", "Inactive(file)")
        read = self.fill_bytes // self._page
        lost = {}
        for spec in self.zones:
            at = spec.integer("node"), spec.text("zone")
            was = _find(self._start.sections("zones"), at)
            now = _find(self._now.sections("zones"), at)
            lost[at] = max(0, _free(was) - _free(now))
        low = sum(pages for at, pages in lost.items() if not self._is_top(at))
        high = sum(pages for at, pages in lost.items() if self._is_top(at))
        if not self._is_top(place_):
            return min(lost[place_], total), min(lost[place_], total)
        share = lost[place_] / high if high else 1 / max(1, len(lost))
        return int(max(0, total - low) * share), int(max(0, read - low) * share)

    def _hidden_in(self, spec: Section) -> int:
        """Hidden pages of a zone: at least what the CPU that kswapd ran on keeps to itself."""
        place_ = spec.integer("node"), spec.text("zone")
        pcp = self._boot[place_].section("pcp", optional=True) if place_ in self._boot else None
        least = 0
        if pcp is not None and self._recycled() and self._is_top(place_):
            least = min(4 * _one(pcp, "batch", 1), _one(pcp, "high"))
        return max(least, self._hidden() * spec.integer("managed") // self._managed())

    def _hidden(self) -> int:
        """Pages on per-CPU lists: what is neither counted anywhere nor the kernel's own."""
        seen = self._meminfo(*_COUNTED)
        lines = self._given.values.get("load")
        told = [_HELD.match(str(line)) for line in lines] if isinstance(lines, list) else []
        held = sum(int(found[1]) for found in told if found)
        return max(0, self._managed() - seen - held - UNSEEN_PAGES)

    def _hide(self, zone: Zone, placed: Placed, reclaimer: Reclaimer) -> None:
        """Put the hidden pages on per-CPU lists: kswapd's share first, the rest evenly by CPU."""
        held = reclaimer.nodes[zone.node].held["kswapd", zone.index]
        rest: list[NDArray[np.int64]] = []
        for start, pages in placed.hidden:
            room = held.limit(active=True) - held.pages
            kept = min(pages, room) if self._recycled() else 0
            if kept:
                held.put(start, kept)
            rest.append(np.arange(start + kept, start + pages))
        pfns = np.concatenate(rest) if rest else np.empty(0, dtype=np.int64)
        for cpu, part in zip(zone.cpus, np.array_split(pfns, len(zone.cpus)), strict=True):
            pcp = zone.pcps[cpu]
            for kind in range(mt.PCP_TYPES):
                own = part[zone.buddy.types_of(part) == kind]
                pcp.lists[list_number(self.kernel.page, 0, kind)].push_tails(own, kind)
                pcp.count += len(own)

    def _recycled(self) -> bool:
        """Tell whether kswapd had to work while the cache was filled."""
        return self.fill_bytes // self._page > self._meminfo("Active(file)", "Inactive(file)")


def _kernel(record: Record) -> Kernel:
    try:
        return kernel_named(record.kernel)
    except LookupError as error:
        raise PredictError(str(error)) from error


def _node(steps: Section) -> int | None:
    text = steps.values.get("NODE")
    if text in (None, ""):
        return None
    if not str(text).isdigit():
        raise steps.fail("NODE", "the number of a node, or nothing")
    return int(str(text))


def _one(section: Section, key: str, default: int = 0) -> int:
    """Return a number that all CPUs agree on, or the first CPU's."""
    value = section.values.get(key)
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, int) else default


def _find(zones: list[Section], place_: Place) -> Section | None:
    for zone in zones:
        if (zone.integer("node"), zone.text("zone")) == place_:
            return zone
    return None


def _free(zone: Section | None) -> int:
    return 0 if zone is None else zone.integer("free")


def _types(snap: Section, place_: Place) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return free blocks (order, type) and pageblocks (type,) of a zone."""
    info = snap.section("pagetypeinfo")
    rows = info.values.get("free")
    blocks = np.zeros(mt.NR_LISTS, dtype=np.int64)
    free: dict[int, list[int]] = {}
    for row in rows if isinstance(rows, list) else []:
        if list(row[:2]) == list(place_) and row[2] in TYPES:
            free[TYPES[row[2]]] = [n if isinstance(n, int) else 100000 for n in row[3]]
    for row in info.values.get("blocks") or []:  # type: ignore[attr-defined]
        if list(row[:2]) == list(place_):
            for name, number in row[2].items():
                if name in TYPES:
                    blocks[TYPES[name]] = number
    if not free or not blocks.any():
        raise info.fail("free", f"free blocks and pageblocks of node {place_[0]} {place_[1]}")
    counts = np.zeros((max(map(len, free.values())), mt.NR_LISTS), dtype=np.int64)
    for kind, numbers in free.items():
        counts[: len(numbers), kind] = numbers
    return counts, blocks


def _fill_lists(reclaimer: Reclaimer, node: int, placed: dict[tuple[int, int], Placed]) -> None:
    """Put the cache of a node on its list, the oldest first.

    A fill takes the highest zone first, lower ones when that is short, and then again what kswapd
    gave back.
    """
    memory = reclaimer.nodes[node]
    top, *lower = [placed[node, zone.index] for zone in reversed(memory.zones)]
    runs = list(top.older)
    for part in lower:
        runs += part.older + part.younger
    for start, pages in runs + top.younger:
        memory.lru.add(start, pages)
    for zone in memory.zones:
        for start, pages in placed[node, zone.index].moved:
            memory.uses[zone.index].set(start, pages, Use.ANON)
