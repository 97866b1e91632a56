"""How long a point of the hugepages workload takes, and that size costs nothing by itself.

    python -m tests.benchmarks.bench_hugepages

Prints CPU time per point in ms, the median of five batches, with the machine and its load.
"""

import os
import platform
import statistics
import time

from allocator.gfp import Gfp
from allocator.kernels import kernel_named
from allocator.streams import Stream
from allocator.topology import Topology
from allocator.workloads.hugepages import HugePages

GIB = 1 << 30
LANES, BATCHES = 64, 5
POOL = Gfp.parse("GFP_HIGHUSER_MOVABLE|__GFP_THISNODE|__GFP_RETRY_MAYFAIL")


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


def per_point_ms(kernel: str, memory: int, workload: HugePages, lanes: int) -> float:
    """Return the median CPU time of a point in a batch."""
    points = [Bench(kernel, memory, workload)] * lanes
    times = []
    for batch in range(BATCHES):
        streams = [Stream(0, 1, batch * lanes + lane) for lane in range(lanes)]
        begun = time.process_time()
        workload.run(points, streams)  # type: ignore[arg-type]
        times.append((time.process_time() - begun) / lanes * 1e3)
    return statistics.median(times)


def main() -> None:
    """Print the table."""
    print(f"{platform.processor() or platform.machine()}, load {os.getloadavg()[0]:.1f}")
    same = HugePages(runs=1)
    print(f"1 GiB of cache, 256 pages asked once, {LANES} lanes, ms a point")
    for kernel in ("v5_3", "v5_4rc_bailout", "v5_10", "v6_1", "v6_12", "v7_3"):
        print(f"  {kernel:16}{per_point_ms(kernel, GIB, same, LANES):8.1f}")
    print("the same work on machines of different size: 1 GiB of cache, 256 pages, v6_1")
    for gib in (1, 16, 256):
        work = HugePages(runs=1, fill_share=1 / gib)
        print(f"  {gib:4} GiB{per_point_ms('v6_1', gib * GIB, work, 8):8.1f}")
    print("memory full of cache, 256 pages, v6_1")
    for gib in (1, 16, 256):
        print(f"  {gib:4} GiB{per_point_ms('v6_1', gib * GIB, same, 8):8.1f}")


if __name__ == "__main__":
    main()
