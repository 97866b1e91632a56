"""will-it-scale mmap1: each process maps and unmaps 128 MiB again and again; its slab part.

What it allocates per operation (mm/mmap.c do_mmap(), lib/maple_tree.c, 6.5): one vm_area_struct,
freed by call_rcu() since 6.4, and maple nodes: storing the mapping and erasing it each replaces a
leaf, whose old node goes through call_rcu(); nodes that were allocated ahead and not needed go
back at once. The record of stress-ng --mmap shows 4.3 maple_node allocations to each
vm_area_struct. What mmap_lock, page tables and security hooks cost is in `operation_cycles`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from allocator.results import Results
from allocator.slabs.cache import CacheSpec
from allocator.streams import Stream
from allocator.topology import MAX_CPUS
from allocator.workloads.batch import batch_shape
from allocator.workloads.busy_cpus import cpus_used
from allocator.workloads.callbacks import Item, run_loops
from allocator.workloads.fields import read_fields
from allocator.workloads.on_pages import MEMORY_BOUNDS, MEMORY_CHOICES, OnPages

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point

VM_AREA_STRUCT_BYTES = 152
"""sizeof(struct vm_area_struct) of a distribution's 6.1 to 6.5."""
MAPLE_NODE_BYTES = 256
"""sizeof(struct maple_node)."""
BOUNDS = {
    "tasks_percent": (0.1, 100.0),
    "cpus": (0, MAX_CPUS),
    "batch": (1, 100_000),
    "batches": (1, 1_000_000),
    "lag": (1, 64),
    "operation_cycles": (0, 1e8),
    **MEMORY_BOUNDS,
}
"""Smallest and largest value of each parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WillItScaleMmap1(OnPages):
    """will-it-scale mmap1_processes."""

    name: ClassVar[str] = "will_it_scale_mmap1"
    ignores: ClassVar[frozenset[str]] = frozenset({"gfp"})
    """Both caches are used with GFP_KERNEL."""

    tasks_percent: float = 100.0
    """Processes (-t), in percent of the CPUs."""
    cpus: int = 0
    """Processes, each on its CPU, the first ones by number; 0: as `tasks_percent` says."""
    batch: int = 40
    """Operations whose callbacks run together; range 10 to 200."""
    batches: int = 40
    """Batches that each process runs."""
    lag: int = 4
    """Batches of a grace period; range 1 to 10."""
    operation_cycles: float = 4000.0
    """One operation, without slabs; fitted on published throughput."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `workload` group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        return cls(**read_fields(cls, config, bounds=BOUNDS, choices=MEMORY_CHOICES))

    def tasks(self, point: "Point") -> int:
        """Return the number of processes."""
        if self.cpus:
            return cpus_used(self.cpus, point.topology)
        return max(1, round(point.topology.cpus * self.tasks_percent / 100.0))

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Lanes share CPUs, nodes, kernel behaviour, processes and the grace period."""
        return (*batch_shape(point), self.tasks(point), self.lag)

    def command_line(self, point: "Point") -> str:
        """Return the command that runs this workload on a real machine."""
        return f"will-it-scale mmap1_processes -t {self.tasks(point)}"

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Simulate one lane per point."""
        items = (
            Item(
                spec=CacheSpec(name="vm_area_struct", object_size=VM_AREA_STRUCT_BYTES),
                deferred=1.0,
            ),
            Item(
                spec=CacheSpec(
                    name="maple_node", object_size=MAPLE_NODE_BYTES, align=MAPLE_NODE_BYTES
                ),
                deferred=2.0,
                at_once=2.3,
                spread=4,
            ),
        )
        tasks = self.tasks(points[0])
        return run_loops(points, streams, items=items, tasks=tasks, lag=self.lag)
