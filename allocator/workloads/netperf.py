"""netperf over loopback: request and response, or a stream of datagrams; the slab part.

TCP_RR: each way takes one skbuff_fclone_cache object and its data (kmalloc-1k: MAX_TCP_HEADER and
the shared info); the sender's original is freed when the acknowledgement comes back, the clone's
part by the receiver. The record of stress-ng --sock shows them: 1.5 kmalloc-1k and half a
skbuff_head_cache to each fclone object, 40 to 50 % of frees off the fast path, nearly all of them
to a slab that a CPU holds.

UDP_STREAM: one skbuff_head_cache object and its data per datagram, allocated by the sender and
freed by the receiver on another CPU.

What TCP, UDP and the scheduler cost is in `operation_cycles`; the network itself is not seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from allocator.results import Results
from allocator.slabs.cache import CacheSpec
from allocator.streams import Stream
from allocator.workloads.batch import batch_shape
from allocator.workloads.callbacks import Item, run_loops
from allocator.workloads.fields import read_fields
from allocator.workloads.on_pages import MEMORY_BOUNDS, MEMORY_CHOICES, OnPages
from allocator.workloads.sockets import data_cache, kmalloc_cache, sk_buff_cache

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point

FCLONE_BYTES = 472
"""sizeof(struct sk_buff_fclones): two sk_buffs and a reference count."""
TCP_HEAD_BYTES = 704
"""Data of a small TCP segment: MAX_TCP_HEADER (320) and the shared info, cache-line aligned."""
BOUNDS = {
    "tasks_percent": (0.1, 100.0),
    "message_bytes": (1, 3000),
    "batch": (1, 100_000),
    "batches": (1, 1_000_000),
    "operation_cycles": (0, 1e8),
    **MEMORY_BOUNDS,
}
"""Smallest and largest value of each parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Netperf(OnPages):
    """netperf -t TCP_RR or UDP_STREAM, pairs of processes on neighbouring CPUs."""

    name: ClassVar[str] = "netperf"
    ignores: ClassVar[frozenset[str]] = frozenset({"gfp"})
    """sk->sk_allocation decides."""

    test: str = "TCP_RR"
    """TCP_RR or UDP_STREAM."""
    tasks_percent: float = 100.0
    """Processes, in percent of the CPUs."""
    message_bytes: int = 1024
    """Bytes of a datagram (UDP_STREAM)."""
    batch: int = 32
    """Transactions, or datagrams, between two turns of the other side; range 1 to 92."""
    batches: int = 40
    """Turns of each process."""
    operation_cycles: float = 20000.0
    """One operation without slabs; range 6000 to 60000."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `workload` group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        choices = {"test": ("TCP_RR", "UDP_STREAM"), **MEMORY_CHOICES}
        return cls(**read_fields(cls, config, bounds=BOUNDS, choices=choices))

    def tasks(self, point: "Point") -> int:
        """Return the number of processes."""
        return max(1, round(point.topology.cpus * self.tasks_percent / 100.0))

    def items(self, point: "Point") -> tuple[Item, ...]:
        """Return what an operation allocates."""
        policy, place = point.kernel.slab, point.topology
        if self.test == "UDP_STREAM":
            data = data_cache(policy, place, self.message_bytes, account=False)
            specs = (sk_buff_cache(), data)
            return tuple(Item(spec=spec, deferred=1.0, away=1.0) for spec in specs)
        fclone = CacheSpec(
            name="skbuff_fclone_cache",
            object_size=FCLONE_BYTES,
            flags=frozenset({"HWCACHE_ALIGN"}),
        )
        data = kmalloc_cache(policy, place, TCP_HEAD_BYTES)
        return (
            Item(spec=fclone, deferred=2.0, away=0.45),
            Item(spec=data, deferred=3.0, away=0.4),
            Item(spec=sk_buff_cache(), deferred=1.0, away=0.1),
        )

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Lanes share CPUs, nodes, kernel behaviour, processes and caches."""
        return (*batch_shape(point), self.tasks(point), self.items(point))

    def command_line(self, point: "Point") -> str:
        """Return the command that runs this workload on a real machine."""
        size = f" -- -m {self.message_bytes}" if self.test == "UDP_STREAM" else ""
        return f"netperf -H 127.0.0.1 -t {self.test}{size}  # {self.tasks(point)} at once"

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Simulate one lane per point."""
        items, tasks = self.items(points[0]), self.tasks(points[0])
        return run_loops(points, streams, items=items, tasks=tasks, lag=1)
