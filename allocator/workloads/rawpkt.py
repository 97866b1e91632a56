"""stress-ng rawpkt: each instance sends raw packets over lo, and every instance's socket gets them.

What it allocates per packet (net/packet/af_packet.c packet_rcv(), skb_clone(GFP_ATOMIC)): one
sk_buff for itself, freed on the sender's CPU, and one clone in each packet socket that has room,
made on the sender's CPU and freed where the receiver runs; a socket whose receive buffer is full
loses the packet before anything is allocated. The records agree: skbuff_head_cache grows by about
1 + 0.8 times the number of instances per packet (2 to 16 instances). The packet's data, one
kmalloc-512 object that all clones share, is left out: it is one allocation among that many.

An operation is a packet that a socket received.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from allocator import gfp
from allocator.results import Results
from allocator.slabs.cache import CacheSpec
from allocator.streams import Stream
from allocator.workloads.batch import Batch, batch_shape
from allocator.workloads.fan import Fan, Traffic
from allocator.workloads.fields import read_fields
from allocator.workloads.on_pages import MEMORY_BOUNDS, MEMORY_CHOICES, OnPages
from allocator.workloads.outcome import outcome
from allocator.workloads.sockets import SOCKET_BUFFER_BYTES, sk_buff_cache

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point

TRUE_SIZE_BYTES = 768
"""skb->truesize of a short packet: sk_buff and a kmalloc-512 object."""

BOUNDS = {
    "instances": (0, 4096),
    "packets": (1, 10_000_000),
    "turn_messages": (1, 100_000),
    "packet_cycles": (0, 1e7),
    "copy_cycles": (0, 1e7),
    "receive_cycles": (0, 1e7),
    "switch_cycles": (0, 1e7),
    **MEMORY_BOUNDS,
}
"""Smallest and largest value of each parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPkt(OnPages):
    """stress-ng --rawpkt."""

    name: ClassVar[str] = "rawpkt"
    ignores: ClassVar[frozenset[str]] = frozenset({"gfp"})
    """packet_rcv() clones with GFP_ATOMIC, whatever the caller may do."""

    instances: int = 0
    """Stressors; 0: one per CPU."""
    packets: int = 64
    """Packets that each instance sends."""
    turn_messages: int = 40
    """Clones made, or packets read, in a mean time slice; fitted on counts."""
    packet_cycles: float = 5000.0
    """Sending one packet, without its clones; range 2000 to 10000."""
    copy_cycles: float = 600.0
    """Handing a clone to a socket; range 200 to 1500."""
    receive_cycles: float = 2000.0
    """Reading one packet; fitted on published lock shares, range 1000 to 6000."""
    switch_cycles: float = 4000.0
    """A context switch; range 2000 to 10000."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `workload` group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        return cls(**read_fields(cls, config, bounds=BOUNDS, choices=MEMORY_CHOICES))

    def caches(self, point: "Point") -> tuple[CacheSpec, ...]:
        """Return the caches of a received packet."""
        return (sk_buff_cache(),)

    def count(self, point: "Point") -> int:
        """Return the number of instances."""
        return self.instances or point.topology.cpus

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Lanes share CPUs, nodes, kernel behaviour and instances."""
        return (*batch_shape(point), self.count(point))

    def command_line(self, point: "Point") -> str:
        """Return the command that runs this workload on a real machine."""
        instances = self.count(point)
        return f"stress-ng --rawpkt {instances} --rawpkt-ops {instances * self.packets}"

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Simulate one lane per point."""
        loads = [point.workload for point in points]
        assert all(isinstance(load, RawPkt) for load in loads)
        atomic = gfp.bits("GFP_ATOMIC", points[0].kernel.page)
        batch = Batch(points, streams, self.caches(points[0]), flags=atomic)
        instances = self.count(points[0])
        fan = Fan(batch, _traffic(points, loads, instances), streams)  # type: ignore[arg-type]
        fan.run()
        results = outcome(
            batch,
            operations=fan.messages(),
            tasks=2 * instances,
            direct=fan.direct[:, None],
            peak_bytes=fan.peak_bytes,
        )
        results.scalars["lost"] = fan.lost
        return results


def _traffic(points: Sequence["Point"], loads: Sequence[RawPkt], instances: int) -> Traffic:
    """Return what the lanes send."""
    pairs = list(zip(points, loads, strict=True))
    lanes = len(pairs)

    def ns(name: str) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        return np.array([point.machine.cycles_ns(getattr(load, name)) for point, load in pairs])

    return Traffic(
        groups=1,
        cpus=points[0].topology.cpus,
        senders=instances,
        receivers=instances,
        each=np.array([load.packets for load in loads], dtype=np.int64),
        limit=np.full(lanes, -(-SOCKET_BUFFER_BYTES // TRUE_SIZE_BYTES), dtype=np.int64),
        turn=np.array([load.turn_messages for load in loads], dtype=np.int64),
        direct=np.zeros(lanes),
        head_start=np.zeros(lanes),
        send_ns=ns("packet_cycles"),
        receive_ns=ns("receive_cycles"),
        switch_ns=ns("switch_cycles"),
        copies=True,
        copy_ns=ns("copy_cycles"),
    )
