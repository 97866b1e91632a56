"""How long the page allocator takes, and that a large machine costs no more than a small one.

    python -m tests.benchmarks.bench_pages

Prints medians of five runs in microseconds, with the machine and its load.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np

from allocator import gfp as flags
from allocator.kernels import kernel_named
from allocator.pages.alloc import PageAllocator
from allocator.pages.zone import Zone
from allocator.pages.zones import ZoneMarks

RUNS = 5
KERNELS = ("v5_10", "v6_1", "v6_12", "v7_3")
KERNEL = flags.DIRECT_RECLAIM | flags.KSWAPD_RECLAIM | flags.IO | flags.FS
MOVABLE = KERNEL | flags.HIGHMEM | flags.MOVABLE
GIB = 1 << 18
"""Pages of 4 KiB in a GiB."""


def boot(kernel: str, pages: int) -> PageAllocator:
    """Return a machine of one zone, all of it free."""
    marks = ZoneMarks(
        node=0,
        zone="Normal",
        min=11000,
        low=13750,
        high=16500,
        promo=19250,
        protection=(0, 0, 0, 0),
        pcp_batch=63,
        pcp_high=1700,
        pcp_high_min=1700,
        pcp_high_max=8000,
        stat_threshold=28,
    )
    zone = Zone(kernel_named(kernel).page, marks, managed=pages, start=0, end=pages, cpus=(0,))
    zone.buddy.release(0, pages)
    return PageAllocator(zone.policy, [zone], node_of_cpu={0: 0}, fallback={0: [0]})


def fill(machine: PageAllocator) -> None:
    """Allocate a GiB page by page."""
    machine.alloc_many(0, 0, MOVABLE, GIB)


def fill_unmovable(machine: PageAllocator) -> None:
    """Allocate a GiB for the kernel: every pageblock has to be turned."""
    machine.alloc_many(0, 0, KERNEL, GIB)


def huge(machine: PageAllocator) -> None:
    """Allocate 256 huge pages."""
    machine.alloc_many(0, 9, MOVABLE, 256)


def scatter(machine: PageAllocator) -> None:
    """Allocate 256 MiB and free it page by page in random order."""
    pfns = machine.alloc_many(0, 0, MOVABLE, GIB // 4)
    np.random.default_rng(0).shuffle(pfns)
    machine.free_many(0, pfns, np.zeros(len(pfns), dtype=np.int64))


def single(machine: PageAllocator) -> None:
    """Allocate and free 100 blocks of order 3, one call each."""
    held = [machine.alloc(0, 3, KERNEL) for _ in range(100)]
    for pfn in held:
        machine.free(0, pfn, 3)


def median_us(kernel: str, gib: int, work: Callable[[PageAllocator], None]) -> float:
    """Return the median time of boot and work."""
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        work(boot(kernel, gib * GIB))
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def main() -> None:
    """Print the table."""
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}, numpy {np.__version__}, median of {RUNS}, us")
    print(f"{'kernel':8}{'work':16}{'2 GiB':>12}{'256 GiB':>12}{'1 TiB':>12}{'1T/2G':>8}")
    for kernel in KERNELS:
        for work in (fill, fill_unmovable, huge, scatter, single):
            small, middle, large = (median_us(kernel, gib, work) for gib in (2, 256, 1024))
            row = f"{small:12.0f}{middle:12.0f}{large:12.0f}{large / small:8.2f}"
            print(f"{kernel:8}{work.__name__:16}{row}")


if __name__ == "__main__":
    main()
