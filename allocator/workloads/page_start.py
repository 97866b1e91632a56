"""The machine at the start of a page script: what the record says, and what follows from it.

A record tells zones, free blocks by order and where the script's own pages lie. It does not tell
where the free blocks of other nodes are, nor what lies on their per-CPU lists: such blocks are
put where nothing else is, and their frame numbers mean nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator import gfp as flags
from allocator.kernel import Kernel
from allocator.pages import migratetype as mt
from allocator.pages.alloc import PageAllocator
from allocator.pages.pcp import is_pcp_order, list_number
from allocator.pages.policy import PagePolicy
from allocator.pages.quiet import Quiet
from allocator.pages.zone import ZONE_NAMES, Zone
from allocator.pages.zones import ZoneMarks, pcp_limits, stat_threshold
from allocator.records.machine import machine_topology
from allocator.records.record import Record, Section
from allocator.topology import Topology
from allocator.workloads.script import Script
from allocator.workloads.script_ids import MAX_IDS
from allocator.workloads.script_ops import AllocPages, Proc, Snap, gfp_text

_MAX_PAGES = 1 << 32
"""Page frames that are believed: 16 TiB of 4 KiB pages."""
_X86_STARTS = {"DMA": 0, "DMA32": 1 << 12, "Normal": 1 << 20, "Movable": 1 << 20}
"""First page frame that a zone can hold on x86-64 with 4 KiB pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Blocks that the script holds, by page id."""

    pfns: dict[int, int]
    """First page of each block."""
    orders: dict[int, int]
    """Order of each block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A machine ready to go on with a script."""

    allocator: PageAllocator
    """Its pages."""
    quiet: Quiet
    """Its reclaim and daemons."""
    held: Held
    """Blocks that the script holds."""
    topology: Topology
    """CPUs and nodes."""
    fraction: int
    """vm.percpu_pagelist(_high)_fraction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """One `page` line before the start, and what came of it."""

    op: AllocPages
    blocks: list[tuple[int, int]]
    """Node and first page of each block."""


def build_start(record: Record, kernel: Kernel, script: Script) -> Start:
    """Build the machine of a record whose `given.start` tells a snapshot.

    Raises
    ------
    PredictError
        If the record does not say what is needed.
    """
    start = record.section("given").section("start")
    topology = machine_topology(record)
    before = _ops_before(script, start.text("label"))
    taken = _taken(start, before)
    fraction = _fraction(before, kernel.page)
    zones = _zones(start, topology, kernel.page, taken, fraction)
    order = topology.node_fallback_order(kernel.page)
    allocator = PageAllocator(
        kernel.page,
        zones,
        node_of_cpu=dict(enumerate(topology.node_of_cpu)),
        fallback={node: list(order[node]) for node in range(topology.nodes)},
    )
    quiet = Quiet(allocator.zones, allocator.pages_given)
    allocator.reclaim = quiet
    _tag_blocks(allocator, kernel.page, taken)
    _fill(allocator, start, taken)
    _recall(allocator, kernel.page, taken)
    held = Held(pfns={}, orders={})
    for line in taken:
        for page_id, (_, pfn) in enumerate(line.blocks, start=line.op.first):
            held.pfns[page_id], held.orders[page_id] = pfn, line.op.order
    if any(isinstance(op, Proc) and op.path == "vm/watermark_boost_factor" for op in before):
        set_boost_factor(allocator, before)
    return Start(allocator=allocator, quiet=quiet, held=held, topology=topology, fraction=fraction)


def set_boost_factor(allocator: PageAllocator, ops: Sequence[object]) -> None:
    """Carry out writes of vm.watermark_boost_factor."""
    for op in ops:
        if isinstance(op, Proc) and op.path == "vm/watermark_boost_factor" and op.value.isdecimal():
            for zone in allocator.zones:
                zone.boost_factor = int(op.value)


def _ops_before(script: Script, label: str) -> list[object]:
    before: list[object] = []
    for op in script.ops:
        if isinstance(op, Snap) and op.label == label:
            return before
        before.append(op)
    return []


def _taken(start: Section, before: Sequence[object]) -> list[_Taken]:
    """Match `page` lines with their results."""
    by_first: dict[int, list[tuple[int, int]]] = {}
    for result in start.sections("results", optional=True):
        if result.values.get("op") == "page":
            by_first[result.integer("first")] = _blocks(result)
    return [
        _Taken(op=op, blocks=by_first.get(op.first, []))
        for op in before
        if isinstance(op, AllocPages)
    ]


def _blocks(result: Section) -> list[tuple[int, int]]:
    """Return node and first page of each block of a result's runs."""
    blocks: list[tuple[int, int]] = []
    runs = result.values.get("runs")
    if not isinstance(runs, list):
        raise result.fail("runs", "a list of [id, node, page, count, step]")
    for run in runs:
        if not isinstance(run, list) or len(run) != 5 or any(type(n) is not int for n in run):
            raise result.fail("runs", "a list of [id, node, page, count, step]")
        _, node, pfn, count, step = run
        ends = (pfn, pfn + (count - 1) * step)
        if not 0 < count <= MAX_IDS or min(ends) < 0 or max(ends) >= _MAX_PAGES:
            raise result.fail("runs", f"pages from 0 to {_MAX_PAGES - 1}")
        blocks += [(node, pfn + i * step) for i in range(count)]
    return blocks


def _fraction(before: Sequence[object], policy: PagePolicy) -> int:
    name = "percpu_pagelist_fraction" if policy.pcp == "batch6" else "percpu_pagelist_high_fraction"
    values = [
        int(op.value)
        for op in before
        if isinstance(op, Proc) and op.path == f"vm/{name}" and op.value.isdecimal()
    ]
    return values[-1] if values else 0


def _zones(
    start: Section,
    topology: Topology,
    policy: PagePolicy,
    taken: Sequence[_Taken],
    fraction: int,
) -> list[Zone]:
    told = {}
    for name, section in start.named_sections("zones"):
        match = re.fullmatch(r"N(\d{1,4})\.(\w+)", name)
        if match is None or match[2] not in ZONE_NAMES or int(match[1]) >= topology.nodes:
            raise start.fail("zones", "names such as N0.DMA32 of nodes that exist")
        told[int(match[1]), match[2]] = section
    known = {node for node, _ in told}
    for line in taken:
        if any(node not in known for node, _ in line.blocks):
            raise start.fail("results", f"pages of the nodes {sorted(known)}")
    spans = _spans(list(told), told, taken)
    return [
        _zone(key, section, spans[key], topology, policy, fraction) for key, section in told.items()
    ]


def _pages(told: Section, key: str, *, least: int) -> int:
    """Return a number of pages that a machine may have."""
    pages = told.integer(key, least=least)
    if pages > _MAX_PAGES:
        raise told.fail(key, f"at most {_MAX_PAGES}")
    return pages


def _spans(
    keys: Sequence[tuple[int, str]],
    told: dict[tuple[int, str], Section],
    taken: Sequence[_Taken],
) -> dict[tuple[int, str], tuple[int, int]]:
    """Return page frames for each zone that hold all that is known to lie in it.

    Nodes follow one another in memory, each from a boundary of 128 MiB on.
    """
    section = 1 << 15
    lowest: dict[int, int] = {}
    highest: dict[int, int] = {}
    for line in taken:
        for node, pfn in line.blocks:
            lowest[node] = min(lowest.get(node, pfn), pfn)
            highest[node] = max(highest.get(node, 0), pfn + (1 << line.op.order))
    spans = {}
    end = 0
    for node in sorted({node for node, _ in keys}):
        base = max(end, lowest[node] // section * section) if node in lowest else end
        for _, name in sorted(
            (k for k in keys if k[0] == node), key=lambda k: ZONE_NAMES.index(k[1])
        ):
            first = max(base, _X86_STARTS[name])
            managed = _pages(told[node, name], "managed", least=1)
            end = -(-(first + managed) // section) * section
            end = max(end, -(-highest.get(node, 0) // section) * section)
            if name == "DMA" and first < _X86_STARTS["DMA32"]:
                end = _X86_STARTS["DMA32"]
            spans[node, name] = (first, end)
            base = end
    return spans


def _zone(
    key: tuple[int, str],
    told: Section,
    span: tuple[int, int],
    topology: Topology,
    policy: PagePolicy,
    fraction: int,
) -> Zone:
    node, name = key
    managed, low = _pages(told, "managed", least=1), told.integer("low")
    cpus = topology.node_of_cpu.count(node) or topology.cpus
    batch, high_min, high_max = pcp_limits(policy, managed, low, fraction, cpus, topology.page_size)
    lists = told.section("pcp")
    of_cpu = {cpu: _pcp(lists, cpu) for cpu in range(topology.cpus) if str(cpu) in lists}
    for _, high, told_batch in of_cpu.values():
        batch = told_batch
        if not policy.pcp.startswith("tuned"):
            high_min = high_max = high
    protection = [int(word) for word in re.findall(r"\d+", told.text("protection", "()"))]
    zone = Zone(
        policy,
        ZoneMarks(
            node=node,
            zone=name,
            min=told.integer("min"),
            low=low,
            high=told.integer("high"),
            promo=2 * told.integer("high") - low,
            protection=tuple(protection),
            pcp_batch=batch,
            pcp_high=high_min,
            pcp_high_min=high_min,
            pcp_high_max=high_max,
            stat_threshold=stat_threshold(managed, topology.cpus, topology.page_size),
        ),
        managed=managed,
        start=span[0],
        end=span[1],
        cpus=range(topology.cpus),
    )
    for cpu, (_, high, _) in of_cpu.items():
        zone.pcps[cpu].high = high
    return zone


def _pcp(lists: Section, cpu: int) -> tuple[int, int, int]:
    """Return count, high and batch of a CPU's list."""
    numbers = lists.integers(str(cpu))
    if len(numbers) != 3 or min(numbers) < 0 or max(numbers) > _MAX_PAGES or numbers[2] < 1:
        raise lists.fail(str(cpu), "[count, high, batch] in pages, batch at least 1")
    return numbers[0], numbers[1], numbers[2]


def _tag_blocks(allocator: PageAllocator, policy: PagePolicy, taken: Sequence[_Taken]) -> None:
    """Tag pageblocks with the type of what was taken from them.

    Kernel pages were taken when nothing else was left, so their pageblocks were turned; a block
    of at least a pageblock always turns the pageblocks in it.
    """
    for line in taken:
        migratetype = flags.migratetype(flags.bits(gfp_text(line.op.gfp), policy))
        for _, pfn in line.blocks:
            zone = allocator.zone_at(pfn)
            if migratetype != mt.MOVABLE or line.op.order >= allocator.pageblock_order:
                zone.buddy.set_type(pfn, line.op.order, migratetype)


def _fill(allocator: PageAllocator, start: Section, taken: Sequence[_Taken]) -> None:
    """Put free blocks and per-CPU pages where the record leaves room for them."""
    free = _buddyinfo(start.text("buddyinfo", ""))
    for zone in allocator.zones:
        told = start.section("zones").section(f"N{zone.node}.{zone.name}")
        room = _Room(zone, taken)
        counts = free.get((zone.node, zone.name), [])[: zone.buddy.max_order + 1]
        for order in range(len(counts) - 1, -1, -1):
            for pfn in room.places(order, counts[order], start):
                zone.buddy.put(pfn, order, zone.buddy.type_of(pfn), tail=True)
        lists = told.section("pcp")
        for cpu in zone.cpus:
            count = _pcp(lists, cpu)[0] if str(cpu) in lists else 0
            pages = np.array(room.places(-1, count, start), dtype=np.int64)
            pcp = zone.pcps[cpu]
            pcp.lists[list_number(zone.policy, 0, mt.MOVABLE)].push_tails(pages, mt.MOVABLE)
            pcp.count = count
        lag = told.integer("free", zone.buddy.free_pages) - zone.buddy.free_pages
        if abs(lag) <= zone.stat_threshold * len(zone.cpus):
            zone.pending[zone.cpus[0]] = -lag


class _Room:
    """Pages of a zone that nothing known lies in."""

    def __init__(self, zone: Zone, taken: Sequence[_Taken]) -> None:
        self.base = zone.buddy.base
        self.max_order = zone.buddy.max_order
        self.used: NDArray[np.bool_] = np.zeros(len(zone.buddy.order_of), dtype=np.bool_)
        self.used[: zone.buddy.start - self.base] = True
        self.used[zone.buddy.end - self.base :] = True
        for line in taken:
            size = 1 << line.op.order
            for _, pfn in line.blocks:
                if zone.buddy.start <= pfn < zone.buddy.end:
                    self.used[pfn - self.base : pfn - self.base + size] = True

    def places(self, order: int, count: int, start: Section) -> list[int]:
        """Take the highest places for so many blocks whose buddies are not free, ascending.

        Order -1 stands for single pages, whatever lies beside them.
        """
        if not count:
            return []
        size = 1 << max(order, 0)
        used = self.used.reshape(-1, size)
        free: NDArray[np.bool_] = np.logical_not(used.any(axis=1))
        if 0 <= order < self.max_order:  # of two buddies one at most, the upper one if possible
            free[0::2] &= ~free[1::2]
        found = np.flatnonzero(free)
        if not 0 < count <= len(found):
            raise start.fail("buddyinfo", "free blocks that fit in their zones")
        chosen = found[-count:]
        used[chosen] = True
        return [int(place) * size + self.base for place in chosen]


def _buddyinfo(text: str) -> dict[tuple[int, str], list[int]]:
    """Read /proc/buddyinfo."""
    free = {}
    for line in text.splitlines():
        match = re.fullmatch(r"Node (\d+), zone +(\w+) ([\d ]+)", line.strip())
        if match:
            free[int(match[1]), match[2]] = [int(word) for word in match[3].split()]
    return free


def _recall(allocator: PageAllocator, policy: PagePolicy, taken: Sequence[_Taken]) -> None:
    """Bring per-CPU lists into the state that the lines before the start left them in.

    A successful line halves what frees had built up, and refills until the zone is used up; a
    failed one tries each zone in vain once more, which the model's own request repeats.
    """
    dry: set[int] = set()
    for line in taken:
        op = line.op
        gfp = flags.bits(gfp_text(op.gfp), policy)
        node = allocator.node_of_cpu[op.cpu] if op.node is None else op.node
        zones = allocator.own_zones.get(node, ())
        for zone in zones:
            pcp = zone.pcps[op.cpu]
            for _ in range(min(len(line.blocks), 32)):
                zone.pcp_rules.attempt(pcp)
            left = len(line.blocks)
            listed = is_pcp_order(policy, op.order, allocator.pageblock_order)
            while listed and node not in dry and left > 0:
                left -= zone.pcp_rules.refill(pcp, op.order, zone.state())
        empty = not any(zone.buddy.free_pages for zone in zones)
        if len(line.blocks) < op.count and empty and gfp & flags.THISNODE:
            allocator.alloc(op.cpu, op.order, gfp, node)
            if op.order == 0:
                dry.add(node)
    for zone in allocator.zones:
        zone.lock_takes = zone.lock_pages = 0
    allocator.counters.clear()
