"""How long a point of the hugepages workload takes, and that size costs nothing by itself.

    python -m tests.benchmarks.bench_hugepages

Every row is the same request, 256 pages asked once. The second table holds the same points on
machines of different size, one size after the other in each batch, so that a busy moment hits all
of them; its ratios are medians of the batches' own. Prints CPU and wall time per point in ms.
"""

import os
import platform
import statistics
import time
from collections.abc import Iterable

from allocator.gfp import Gfp
from allocator.kernels import kernel_named
from allocator.streams import Stream
from allocator.topology import Topology
from allocator.workloads.hugepages import HugePages

GIB = 1 << 30
KERNELS = ("v5_3", "v5_4rc_bailout", "v5_10", "v6_1", "v6_12", "v7_3")
LANES, BATCHES = 64, 3
SIZE_LANES, SIZE_BATCHES = 16, 5
SIZES = (1, 16, 256)
ALLOWED_MS, ALLOWED_RATIO = 100, 1.2
POOL = Gfp.parse("GFP_HIGHUSER_MOVABLE|__GFP_THISNODE|__GFP_RETRY_MAYFAIL")

Times = tuple[float, float]
"""CPU and wall time of a point, ms."""


class Bench:
    """A point: one machine, one kernel."""

    def __init__(self, kernel: str, memory: int, workload: HugePages) -> None:
        self.topology = Topology(
            arch="x86_64",
            page_size=4096,
            nr_cpu_ids=2,
            node_of_cpu=(0, 0),
            memory_bytes=(memory,),
            distances=((10,),),
            memoryless_nodes=False,
        )
        self.kernel = kernel_named(kernel)
        self.gfp = POOL
        self.workload = workload


def batch_ms(point: Bench, batch: int, lanes: int) -> Times:
    """Run a batch of lanes that differ in what is drawn; return the time of a point."""
    streams = [Stream(0, 1, batch * lanes + lane) for lane in range(lanes)]
    cpu, wall = time.process_time(), time.perf_counter()
    point.workload.run([point] * lanes, streams)  # type: ignore[arg-type]
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return cpu / lanes * 1e3, wall / lanes * 1e3


def medians(times: Iterable[Times]) -> Times:
    """Return the median CPU and the median wall time."""
    cpu, wall = zip(*times, strict=True)
    return statistics.median(cpu), statistics.median(wall)


def kernels_table() -> None:
    """Print the time of a point on 1 GiB, kernel by kernel."""
    print(f"1 GiB full of cache, 256 pages asked once, {LANES} lanes, median of {BATCHES} batches")
    print(f"  {'kernel':16}{'CPU ms':>8}{'wall ms':>9}   allowed {ALLOWED_MS}")
    for kernel in KERNELS:
        point = Bench(kernel, GIB, HugePages(runs=1))
        cpu, wall = medians(batch_ms(point, batch, LANES) for batch in range(BATCHES))
        print(f"  {kernel:16}{cpu:8.1f}{wall:9.1f}")


def sizes_table(title: str, same_fill: bool) -> None:
    """Print the time of the same work on machines of different size."""
    print(f"{title}, 256 pages asked once, {SIZE_LANES} lanes, median of {SIZE_BATCHES} batches")
    names = "".join(f"{f'{gib} GiB CPU':>13}{'wall':>7}" for gib in SIZES)
    print(f"  {'kernel':16}{names}{'256G/1G CPU':>13}{'wall':>6}   allowed {ALLOWED_RATIO}")
    for kernel in KERNELS:
        points = [
            Bench(kernel, gib * GIB, HugePages(runs=1, fill_share=1 / gib if same_fill else 1))
            for gib in SIZES
        ]
        rounds = [
            [batch_ms(point, batch, SIZE_LANES) for point in points]
            for batch in range(SIZE_BATCHES)
        ]
        ratios = medians((row[-1][0] / row[0][0], row[-1][1] / row[0][1]) for row in rounds)
        times = [medians(column) for column in zip(*rounds, strict=True)]
        cells = "".join(f"{cpu:13.1f}{wall:7.1f}" for cpu, wall in times)
        print(f"  {kernel:16}{cells}{ratios[0]:13.2f}{ratios[1]:6.2f}")


def main() -> None:
    """Print the tables."""
    print(f"{platform.processor() or platform.machine()}, load {os.getloadavg()[0]:.1f}")
    kernels_table()
    sizes_table("memory full of cache", same_fill=False)
    sizes_table("1 GiB of cache", same_fill=True)


if __name__ == "__main__":
    main()
