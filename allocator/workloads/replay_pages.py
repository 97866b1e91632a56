"""Page scripts: blocks taken and given back one by one, from the state that a record tells.

A record places the free blocks of its quiet node only. Of another node that a request falls back to
it tells how many blocks of each order are free: how many pages come from there is predicted, which
ones cannot be.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from allocator import gfp as flags
from allocator.kernel import Kernel
from allocator.pages.pcp_free import refresh
from allocator.pages.proc import buddyinfo
from allocator.pages.runs import Pfns
from allocator.pages.source import PageSource
from allocator.pages.source_zones import ZonedPages
from allocator.pages.zone import Zone
from allocator.pages.zones import pcp_limits
from allocator.records.machine import kernel_of, nodes_of, parameters_of
from allocator.records.record import Record
from allocator.workloads.page_start import Start, build_start, set_boost_factor
from allocator.workloads.script import Script, parse_script
from allocator.workloads.script_ops import (
    AllocPages,
    Drain,
    FreePages,
    Op,
    Proc,
    Snap,
    gfp_text,
)
from allocator.workloads.script_run import Lane


class SlabScript(Protocol):
    """What carries out a script's operations on slabs (workloads/replay.py SlabReplay)."""

    def step(self, op: Op) -> list[dict[str, object]]:
        """Carry out one operation; return the snapshots that it told."""
        ...


SlabScripts = Callable[
    [Script, Kernel, Lane, PageSource, Callable[[Op], dict[str, object] | None]], SlabScript
]
"""Makes one: script, kernel, machine, its pages, and what carries out operations on pages."""


def predict_page_replay(record: Record, slab_scripts: SlabScripts) -> dict[str, object]:
    """Predict the snapshots of a page script after its start.

    Parameters
    ----------
    record
        A replay record whose `given.start` tells a snapshot.
    slab_scripts
        Who carries out operations on slabs.

    Raises
    ------
    PredictError, ConfigError
        If the record or its script cannot be used.
    """
    kernel = kernel_of(record)
    given = record.section("given")
    nodes = nodes_of(record)
    script = parse_script(
        given.text("ops"),
        source=f"{given.where}.ops",
        cpus=[cpu for _, cpus, _ in nodes for cpu in cpus],
        nodes=[node for node, _, _ in nodes],
    )
    start = build_start(record, kernel, script)
    pages = PageReplay(kernel, start)
    lane = Lane(topology=start.topology, parameters=parameters_of(record, kernel))
    slabs = slab_scripts(script, kernel, lane, ZonedPages([start.allocator]), pages.carry_out)
    snapshots: list[dict[str, object]] = []
    for op in _after(script, given.section("start").text("label")):
        if not isinstance(op, Snap):
            start.quiet.settle()  # what daemons have left to do is done before anything new
        told = slabs.step(op)
        if isinstance(op, Snap):
            told = [snapshot | pages.zones() for snapshot in told]
        else:
            start.quiet.settle(at_once=True)
        snapshots += told
    return {"snapshots": snapshots}


def _after(script: Script, label: str) -> Sequence[Op]:
    for place, op in enumerate(script.ops):
        if isinstance(op, Snap) and op.label == label:
            return script.ops[place + 1 :]
    return script.ops


@dataclass(slots=True)
class PageReplay:
    """Carries out a script's operations on pages."""

    kernel: Kernel
    """The kernel."""
    start: Start
    """The machine; changed by what the script does."""

    def carry_out(self, op: Op) -> dict[str, object] | None:
        """Carry out one operation; return what it tells."""
        if isinstance(op, AllocPages):
            return self._alloc(op)
        if isinstance(op, FreePages):
            self._free(op)
        elif isinstance(op, Proc):
            self._write(op)
        elif isinstance(op, Drain):
            self._refresh(op.times)
        return None

    def _alloc(self, op: AllocPages) -> dict[str, object]:
        allocator, held = self.start.allocator, self.start.held
        gfp = flags.bits(gfp_text(op.gfp), self.kernel.page)
        pfns = allocator.alloc_many(op.cpu, op.order, gfp, op.count, op.node)
        ids = range(op.first, op.first + len(pfns))
        held.pfns.update(zip(ids, pfns.tolist(), strict=True))
        held.orders.update(dict.fromkeys(ids, op.order))
        return {
            "op": "page",
            "order": op.order,
            "first": op.first,
            "asked": op.count,
            "ok": len(pfns),
            "runs": id_runs(op.first, pfns, allocator.zones),
        }

    def _free(self, op: FreePages) -> None:
        held = self.start.held
        ids = [page_id for page_id in op.ids if page_id in held.pfns]
        if not ids:
            return
        pfns = np.array([held.pfns.pop(page_id) for page_id in ids], dtype=np.int64)
        orders = np.array([held.orders.pop(page_id) for page_id in ids], dtype=np.int64)
        self.start.allocator.free_many(op.cpu, pfns, orders)

    def _refresh(self, times: int) -> None:
        allocator = self.start.allocator
        for _ in range(times):
            for cpu in allocator.cpus:
                for zone in allocator.zones:
                    refresh(zone, cpu, remote=zone.node != allocator.node_of_cpu[cpu])

    def _write(self, op: Proc) -> None:
        """Write a sysctl; those that change nothing here are passed over."""
        allocator, policy = self.start.allocator, self.kernel.page
        set_boost_factor(allocator, [op])
        name = (
            "percpu_pagelist_fraction"
            if policy.pcp == "batch6"
            else "percpu_pagelist_high_fraction"
        )
        if op.path != f"vm/{name}" or not op.value.isdecimal():
            return
        topology = self.start.topology
        for zone in allocator.zones:
            cpus = topology.node_of_cpu.count(zone.node) or topology.cpus
            _, high_min, high_max = pcp_limits(
                policy, zone.managed, zone.marks["low"], int(op.value), cpus, topology.page_size
            )
            for pcp in zone.pcps.values():
                pcp.high_min, pcp.high_max = high_min, high_max
                pcp.high = pcp.high if policy.pcp.startswith("tuned") else high_min

    def zones(self) -> dict[str, object]:
        """Return what a snapshot tells of zones."""
        zones = self.start.allocator.zones
        return {
            "buddyinfo": buddyinfo(zones),
            "zones": {f"N{zone.node}.{zone.name}": _zone_state(zone) for zone in zones},
        }


def _zone_state(zone: Zone) -> dict[str, object]:
    return {
        "free": zone.free,
        **{name: zone.mark(name) for name in ("min", "low", "high")},
        "managed": zone.managed,
        "pcp": {str(cpu): [p.count, p.high, p.batch] for cpu, p in zone.pcps.items()},
    }


def id_runs(first: int, pfns: Pfns, zones: Sequence[Zone]) -> list[list[int]]:
    """Return blocks with consecutive ids as runs `[id, node, first page, count, step]`.

    A run goes on while the node is the same and pages are equally far apart; its second block may
    be anywhere.
    """
    node = np.full(len(pfns), -1, dtype=np.int64)
    for zone in zones:
        node[(pfns >= zone.buddy.start) & (pfns < zone.buddy.end)] = zone.node
    steps, moved = np.diff(pfns), np.diff(node) != 0
    changes = np.flatnonzero(moved[1:] | (steps[1:] != steps[:-1])) + 2
    runs: list[list[int]] = []
    at, stop = 0, len(pfns)
    while at < stop:
        end, step = at + 1, 0
        if end < stop and not moved[at]:
            later = np.searchsorted(changes, at + 2)
            end = int(changes[later]) if later < len(changes) else stop
            step = int(steps[at])
        runs.append([first + at, int(node[at]), int(pfns[at]), end - at, step])
        at = end
    return runs
