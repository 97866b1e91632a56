"""hackbench: groups of senders and receivers that pass short messages.

What it allocates per message through sockets, in all kernels here: one sk_buff and its data
(`allocator.workloads.sockets`), on the sender's CPU; the receiver frees both where it runs. Through
pipes: nothing from slabs, since a write goes into a page that the pipe keeps (the records of
`hackbench -p` show no cache that grows with the messages).

The few numbers that no source gives were fitted on counts of booted kernels and on published
throughput (tests/calibration); they are the same for every machine and kernel.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from allocator.results import Results
from allocator.slabs.cache import CacheSpec
from allocator.streams import Stream
from allocator.topology import MAX_CPUS
from allocator.workloads.batch import Batch, batch_shape
from allocator.workloads.busy_cpus import cpus_used, on_cpus
from allocator.workloads.fan import Fan, Traffic
from allocator.workloads.fields import read_fields
from allocator.workloads.on_pages import MEMORY_BOUNDS, MEMORY_CHOICES, OnPages
from allocator.workloads.outcome import outcome
from allocator.workloads.sockets import data_cache, messages_in_flight, sk_buff_cache

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point

BOUNDS = {
    "groups": (0, 4096),
    "cpus": (0, MAX_CPUS),
    "fds": (1, 200),
    "loops": (1, 1_000_000),
    "message_bytes": (1, 65536),
    "turn_messages": (1, 100_000),
    "direct_share": (0.0, 0.95),
    "head_start": (0.0, 1.0),
    "head_share": (0.0, 1.0),
    "message_cycles": (0, 1e7),
    "switch_cycles": (0, 1e7),
    **MEMORY_BOUNDS,
}
"""Smallest and largest value of each parameter."""
MODES = ("process", "thread")
"""What tasks may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HackbenchSockets(OnPages):
    """hackbench over socket pairs."""

    name: ClassVar[str] = "hackbench_sockets"
    ignores: ClassVar[frozenset[str]] = frozenset({"gfp", "workload.mode"})
    """sock_alloc_send_pskb() chooses the flags; processes and threads differ outside slabs only."""

    mode: str = "process"
    """process or thread: the command line only, see `ignores`."""
    groups: int = 20
    """Groups of tasks (-g); 0: as many as CPUs are used, as LKP's nr_threads=100%."""
    cpus: int = 0
    """CPUs that tasks run on (taskset), the first ones by number; 0: all."""
    fds: int = 20
    """Senders, and receivers, of a group (-f)."""
    loops: int = 12
    """Messages that each sender passes to each receiver (-l)."""
    message_bytes: int = 100
    """Bytes of a message (-s)."""
    turn_messages: int = 300
    """Messages of a mean time slice; fitted on counts."""
    direct_share: float = 0.15
    """Messages read at once by a receiver that preempts the sender; fitted on counts."""
    head_start: float = 0.7
    """Share of the sockets' room that senders fill before receivers first run; fitted on counts."""
    head_share: float = 0.25
    """The same, as share of all messages; the smaller of the two holds. Fitted on counts."""
    message_cycles: float = 9000.0
    """Sending and receiving one message, without slabs; fitted on published shares."""
    switch_cycles: float = 4000.0
    """A context switch; range 2000 to 10000, not sensitive."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `workload` group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        choices = {"mode": MODES, **MEMORY_CHOICES}
        values = read_fields(cls, config, bounds=BOUNDS, choices=choices)
        return cls(**values)

    def caches(self, point: "Point") -> tuple[CacheSpec, ...]:
        """Return the caches of a message."""
        data = data_cache(point.kernel.slab, point.topology, self.message_bytes)
        return (sk_buff_cache(), data)

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Lanes share CPUs, nodes, kernel behaviour, tasks and caches."""
        used = cpus_used(self.cpus, point.topology)
        return (*batch_shape(point), used, self.groups or used, self.fds, self.caches(point))

    def command_line(self, point: "Point") -> str:
        """Return the command that runs this workload on a real machine."""
        used = cpus_used(self.cpus, point.topology)
        return on_cpus(_command(self, self.groups or used), self.cpus)

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Simulate one lane per point."""
        loads = [point.workload for point in points]
        assert all(isinstance(load, HackbenchSockets) for load in loads)
        batch = Batch(points, streams, self.caches(points[0]))
        fan = Fan(batch, _traffic(points, loads), streams)  # type: ignore[arg-type]
        fan.run()
        return outcome(
            batch,
            operations=fan.messages(),
            tasks=min(2 * self.fds * fan.traffic.groups, fan.traffic.cpus),
            direct=np.repeat(fan.direct[:, None], batch.caches, axis=1),
            peak_bytes=fan.peak_bytes,
        )


def _command(load: "HackbenchSockets | HackbenchPipes", groups: int) -> str:
    words = f"hackbench -g {groups} -f {load.fds} -l {load.loops} -s {load.message_bytes}"
    return f"{words} -T" if load.mode == "thread" else words


def _traffic(points: Sequence["Point"], loads: Sequence[HackbenchSockets]) -> Traffic:
    """Return what the lanes send."""
    used = cpus_used(loads[0].cpus, points[0].topology)
    groups = loads[0].groups or used
    limits = []
    for point, load in zip(points, loads, strict=True):
        data = data_cache(point.kernel.slab, point.topology, load.message_bytes)
        limits.append(messages_in_flight(load.message_bytes, data, point.topology.page_size))
    half = [
        point.machine.cycles_ns(load.message_cycles) / 2
        for point, load in zip(points, loads, strict=True)
    ]
    switch = [
        point.machine.cycles_ns(load.switch_cycles)
        for point, load in zip(points, loads, strict=True)
    ]
    return Traffic(
        groups=groups,
        cpus=used,
        senders=loads[0].fds,
        receivers=loads[0].fds,
        each=np.array([load.loops * load.fds for load in loads], dtype=np.int64),
        limit=np.array(limits, dtype=np.int64),
        turn=np.array([load.turn_messages for load in loads], dtype=np.int64),
        direct=np.array([load.direct_share for load in loads]),
        head_start=np.array(
            [
                groups * load.fds * min(load.head_start * limit, load.head_share * sent)
                for load, limit in zip(loads, limits, strict=True)
                for sent in (load.loops * load.fds,)
            ]
        ),
        send_ns=np.array(half),
        receive_ns=np.array(half),
        switch_ns=np.array(switch),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HackbenchPipes:
    """hackbench -p: messages through pipes, which take nothing from slabs.

    So no slab allocator can change it: what a kernel loses here it loses elsewhere.
    """

    name: ClassVar[str] = "hackbench_pipes"
    ignores: ClassVar[frozenset[str]] = frozenset({"gfp", "slab", "workload.mode"})
    """No slab object and no high-order page is asked for."""

    mode: str = "process"
    """process or thread: the command line only."""
    groups: int = 20
    """Groups of tasks (-g)."""
    fds: int = 20
    """Senders, and receivers, of a group (-f)."""
    loops: int = 12
    """Messages that each sender passes to each receiver (-l)."""
    message_bytes: int = 100
    """Bytes of a message (-s)."""
    message_cycles: float = 5000.0
    """Sending and receiving one message; not measured, range 2000 to 15000."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `workload` group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        bounds = BOUNDS | {"groups": (1, 4096)}
        return cls(**read_fields(cls, config, bounds=bounds, choices={"mode": MODES}))

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Lanes need share nothing but the batch's shape."""
        return batch_shape(point)

    def command_line(self, point: "Point") -> str:
        """Return the command that runs this workload on a real machine."""
        return f"{_command(self, self.groups)} -p"

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Compute one lane per point."""
        batch = Batch(points, streams, [sk_buff_cache()])
        loads: list[Any] = [point.workload for point in points]
        messages = np.array([load.groups * load.fds * load.fds * load.loops for load in loads])
        ns = np.array(
            [
                p.machine.cycles_ns(load.message_cycles)
                for p, load in zip(points, loads, strict=True)
            ]
        )
        batch.settle((messages * ns)[:, None] * np.ones(batch.cpus) / batch.cpus)
        none = np.zeros(batch.lanes, dtype=np.int64)
        return outcome(
            batch,
            operations=messages.astype(np.float64),
            tasks=min(2 * load.groups * load.fds for load in loads),
            direct=none[:, None],
            peak_bytes=none,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfSchedMessaging(HackbenchSockets):
    """perf bench sched messaging: hackbench's loop as perf has it, through socket pairs."""

    name: ClassVar[str] = "perf_sched_messaging"

    mode: str = "thread"
    """thread (-t) or process: the command line only."""
    groups: int = 5
    """Groups of tasks (-g)."""

    def command_line(self, point: "Point") -> str:
        """Return the command that runs this workload on a real machine."""
        groups = self.groups or cpus_used(self.cpus, point.topology)
        words = f"perf bench sched messaging -g {groups} -l {self.loops}"
        return on_cpus(f"{words} -t" if self.mode == "thread" else words, self.cpus)
