"""UnixBench: process creation, execl and pipe throughput; the slab part.

Per address space that fork() or execve() builds, the records show (all caches of the guests'
shells, per mm_struct): 11 vm_area_struct, 9 anon_vma_chain, 5 anon_vma, 7 maple_node, 1 cred_jar,
11 filp. A fork adds task_struct, signal_cache, sighand_cache and files_cache, one each
(kernel/fork.c copy_process()). A child usually runs and exits on another CPU than its parent's, so
that half of the objects of a fork are freed there. The pipe test writes and reads 512 bytes in one
process: a page that the pipe keeps, and nothing from slabs.

What page tables, faults and the scheduler cost is in `operation_cycles`.
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

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point

_HWCACHE = frozenset({"HWCACHE_ALIGN"})
_SPACE = (
    (CacheSpec(name="mm_struct", object_size=1048, flags=_HWCACHE), 1.0),
    (CacheSpec(name="vm_area_struct", object_size=152), 11.0),
    (CacheSpec(name="anon_vma_chain", object_size=64), 9.0),
    (CacheSpec(name="anon_vma", object_size=104), 5.0),
    (CacheSpec(name="maple_node", object_size=256, align=256), 7.0),
    (CacheSpec(name="cred_jar", object_size=176, flags=_HWCACHE), 1.0),
    (CacheSpec(name="filp", object_size=232, flags=_HWCACHE), 11.0),
)
_TASK = (
    (CacheSpec(name="task_struct", object_size=8384, align=64), 1.0),
    (CacheSpec(name="signal_cache", object_size=1104, flags=_HWCACHE), 1.0),
    (CacheSpec(name="sighand_cache", object_size=2080, flags=_HWCACHE), 1.0),
    (CacheSpec(name="files_cache", object_size=704, flags=_HWCACHE), 1.0),
)
TESTS = ("spawn", "execl", "pipe")
"""UnixBench's names of the tests."""
CYCLES = {"spawn": 150_000.0, "execl": 700_000.0, "pipe": 1500.0}
"""Cycles of an operation without slabs; not measured, ranges a third to three times."""
BOUNDS = {
    "tasks_percent": (0.1, 100.0),
    "batch": (1, 100_000),
    "batches": (1, 1_000_000),
    "operation_cycles": (0, 1e8),
    **MEMORY_BOUNDS,
}
"""Smallest and largest value of each parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixBench(OnPages):
    """One test of UnixBench, many copies."""

    name: ClassVar[str] = "unixbench"
    ignores: ClassVar[frozenset[str]] = frozenset({"gfp"})
    """The caches are used with GFP_KERNEL and GFP_KERNEL_ACCOUNT."""

    test: str = "spawn"
    """spawn, execl or pipe."""
    tasks_percent: float = 100.0
    """Copies (-c), in percent of the CPUs."""
    batch: int = 8
    """Operations of a grace period; range 2 to 50."""
    batches: int = 30
    """Grace periods of each copy."""
    operation_cycles: float = 0.0
    """One operation without slabs; 0: `CYCLES` of the test."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `workload` group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        values = read_fields(cls, config, bounds=BOUNDS, choices={"test": TESTS, **MEMORY_CHOICES})
        if not values.get("operation_cycles"):
            values["operation_cycles"] = CYCLES[values.get("test", "spawn")]
        return cls(**values)

    def tasks(self, point: "Point") -> int:
        """Return the number of copies."""
        return max(1, round(point.topology.cpus * self.tasks_percent / 100.0))

    def items(self) -> tuple[Item, ...]:
        """Return what an operation allocates."""
        if self.test == "pipe":
            return (Item(spec=_SPACE[-1][0], deferred=0.0),)
        away = 0.5 if self.test == "spawn" else 0.0
        objects = _SPACE + (_TASK if self.test == "spawn" else ())
        return tuple(
            Item(spec=spec, deferred=number, spread=1, away=away) for spec, number in objects
        )

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Lanes share CPUs, nodes, kernel behaviour, copies and the test."""
        return (*batch_shape(point), self.tasks(point), self.test)

    def command_line(self, point: "Point") -> str:
        """Return the command that runs this workload on a real machine."""
        return f"./Run -c {self.tasks(point)} {self.test}  # UnixBench"

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Simulate one lane per point."""
        tasks = self.tasks(points[0])
        return run_loops(points, streams, items=self.items(), tasks=tasks, lag=1)
