"""Replay of op scripts: records of real kernels predicted, and a workload for sweeps.

A record's script runs as it did on the booted kernel, one operation at a time on a named CPU.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from allocator.kernel import Kernel
from allocator.pages.source import Bottomless, PageSource
from allocator.records.machine import kernel_of, machine_topology, parameters_of
from allocator.records.record import Record
from allocator.slabs.snapshot import counts
from allocator.topology import Topology
from allocator.workloads.placement import Placement
from allocator.workloads.replay_pages import predict_page_replay
from allocator.workloads.script import Script, parse_script
from allocator.workloads.script_ops import (
    CreateCache,
    Destroy,
    Op,
    Reset,
    Sleep,
    Snap,
    Sysfs,
)
from allocator.workloads.script_run import Lane, Result, ScriptRun

Snapshot = dict[str, object]


def predict_replay(records: Sequence[Record]) -> list[dict[str, object]]:
    """Predict the snapshots of replay records.

    Raises
    ------
    PredictError, ConfigError
        If a record or its script cannot be used.
    """
    return [_predict(record) for record in records]


def _predict(record: Record) -> dict[str, object]:
    return predict_replay_record(record, SlabReplay)


def predict_replay_record(record: Record, replay: Callable[..., "SlabReplay"]) -> dict[str, object]:
    """Predict the snapshots of one record; `replay` makes the `SlabReplay` that runs it.

    Raises
    ------
    PredictError, ConfigError
        If the record or its script cannot be used.
    """
    given = record.section("given")
    if "start" in given:
        return predict_page_replay(record, replay)
    kernel, topology = kernel_of(record), machine_topology(record)
    script = parse_script(
        given.text("ops"),
        source=f"{given.where}.ops",
        cpus=range(topology.cpus),
        nodes=range(topology.nodes),
        max_page_order=topology.max_buddy_order,
    )
    lane = Lane(topology=topology, parameters=parameters_of(record, kernel))
    run = replay(script, kernel, lane, bottomless([topology], kernel))
    return {"snapshots": run.run(script.ops)}


def bottomless(topologies: Sequence[Topology], kernel: Kernel) -> Bottomless:
    """Return pages that never fragment, one lane per machine.

    The machines must have as many nodes.
    """
    nodes = topologies[0].nodes
    fallback = np.full((len(topologies), nodes, nodes), -1, dtype=np.int64)
    pages = np.zeros((len(topologies), nodes), dtype=np.int64)
    for lane, topology in enumerate(topologies):
        pages[lane] = [size // topology.page_size for size in topology.memory_bytes]
        for node, order in enumerate(topology.node_fallback_order(kernel.page)):
            hops = [hop for hop in order if topology.has_memory(hop)]
            fallback[lane, node, : len(hops)] = hops
    return Bottomless(pages, fallback)


@dataclass(slots=True)
class SlabReplay:
    """Replay of a script on one machine, told as the records tell it.

    Parameters
    ----------
    script
        The script.
    kernel
        The kernel.
    lane
        The machine.
    source
        Its pages.
    other
        Carries out operations on pages; what it returns becomes a result.
    look
        Called with the label and the run at each `snap`.
    """

    script: Script
    kernel: Kernel
    lane: Lane
    source: PageSource
    other: Callable[[Op], Result | None] | None = None
    look: Callable[[str, ScriptRun], None] | None = None
    run_: ScriptRun = field(init=False)
    placement: Placement = field(init=False)

    def __post_init__(self) -> None:
        self.placement = Placement()
        self.run_ = ScriptRun(
            self.script,
            self.kernel,
            [self.lane],
            self.source,
            watcher=self.placement.watcher(),
        )
        if self.run_.slub is not None:
            self.run_.slub.statistics.keep_by_cpu(self.run_.cpus)
            self.placement.bind(self.run_.slub.state)

    def run(self, ops: Sequence[Op]) -> list[Snapshot]:
        """Carry out operations; return the snapshots among them, and refused sysfs writes."""
        snapshots: list[Snapshot] = []
        for op in ops:
            snapshots += self.step(op)
        return snapshots

    def step(self, op: Op) -> list[Snapshot]:
        """Carry out one operation; return what it tells."""
        if isinstance(op, Snap):
            return [self.snapshot(op.label)]
        if isinstance(op, Sleep):  # scripts without one end before a grace period does
            self.placement.end_grace_period()
        names = dict(self.run_.names)
        errors = self.run_.carry_out(op)
        if isinstance(op, CreateCache):
            self.placement.add(self.run_.names[op.cache], by_rcu="TYPESAFE_BY_RCU" in op.flags)
        elif isinstance(op, Destroy):
            self.placement.drop(names[op.cache])
        elif isinstance(op, Reset):
            for cache in names.values():
                self.placement.drop(cache)
        elif isinstance(op, Sysfs) and errors[0]:
            what = f"{op.cache}/{op.attribute}={op.value}"
            return [{"label": "sysfs-failed", "what": what, "errno": errors[0]}]
        elif self.other is not None:
            told = self.other(op)
            if told is not None:
                self.run_.results[0].append(told)
        return []

    def snapshot(self, label: str) -> Snapshot:
        """Return counters and placement, and begin to collect results anew."""
        if self.look is not None:
            self.look(label, self.run_)
        results, self.run_.results[0] = self.run_.results[0], []
        names = self.run_.names
        told: Snapshot = {"label": label, "results": results, "caches": {}}
        told["place"] = {"placed": {}, "slabs": {}, "gone": {}}
        if self.run_.slub is not None:
            state = self.run_.slub.state
            told["caches"] = {name: {"counts": counts(state, row)} for name, row in names.items()}
            told["place"] = self.placement.tell(state, names)
        return told
