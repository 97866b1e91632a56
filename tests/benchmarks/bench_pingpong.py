"""Object operations per second of the vectorised SLUB under message passing, beside scalar C.

    python tests/benchmarks/bench_pingpong.py [--lanes 64] [--rounds 60] [--repeats 5]

128 CPUs on two nodes, 16-object slabs, cpu partial 6 slabs, min_partial 5 (6.1's rules, no search
of other nodes). Every round each CPU sends a burst of 1..32 objects to a CPU drawn at random,
which frees them 8 rounds later. All lanes have different random streams and run on one core.
Counters of the first lane are held against the scalar reference before anything is measured.
Speeds are per second of CPU time, in C too, so that a busy machine changes little.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))

from allocator.pages.source import Bottomless
from allocator.slabs.places import Places
from allocator.slabs.rows import Rows
from allocator.slabs.slub import Slub
from allocator.slabs.statistics import Stat
from tests.reference.slub_build import cache, kernel, machine, shape
from tests.reference.slub_window import (
    AllocRequest,
    FreeRequest,
    alloc_window,
    free_window,
)

Ints = NDArray[np.int64]

CPUS, NODES, OBJECTS, LIMIT, DELAY, BURST = 128, 2, 16, 6, 8, 32
GEOMETRY = shape(objects=OBJECTS, min_partial=5, cpu_partial=48, cpu_partial_slabs=LIMIT)
KERNEL = kernel("v6_1")
TOPOLOGY = machine((CPUS // NODES,) * NODES, (True,) * NODES)
YARDSTICK = Path(__file__).with_name("pingpong_yardstick.c")


class Traffic:
    """Bursts and receivers of each round, one stream per lane."""

    def __init__(self, lanes: int) -> None:
        self.streams = [np.random.default_rng((1, lane)) for lane in range(lanes)]

    def draw(self, rounds: int) -> tuple[Ints, Ints]:
        """Return (round, lane * CPUS + cpu) burst lengths and receivers."""
        size = (rounds, CPUS)
        length = [stream.integers(1, BURST + 1, size) for stream in self.streams]
        to = [stream.integers(0, CPUS, size) for stream in self.streams]
        return np.concatenate(length, axis=1), np.concatenate(to, axis=1)


class PingPong:
    """The pattern on the vectorised engine."""

    def __init__(self, lanes: int) -> None:
        places = Places.of([TOPOLOGY] * lanes, KERNEL.page)
        pages = np.full((lanes, NODES), 1 << 40)
        source = Bottomless(pages, places.zonelist)
        rows = Rows.of([[GEOMETRY]] * lanes, [0] * lanes)
        self.slub = Slub(KERNEL.slab, rows, places, source)
        self.row = np.repeat(np.arange(lanes), CPUS)
        self.cpu = np.tile(np.arange(CPUS), lanes)
        self.sent: list[tuple[Ints, Ints, Ints, NDArray[np.int32]] | None] = [None] * DELAY
        self.objects = [0] * DELAY
        self.round = 0

    def run(self, length: Ints, to: Ints) -> int:
        """Run so many rounds; return the object operations."""
        operations = 0
        for burst, receiver in zip(length, to, strict=True):
            slot = self.round % DELAY
            message = self.sent[slot]
            if message is not None:
                self.slub.free(*message)
                operations += self.objects[slot]
            runs = self.slub.alloc(self.row, self.cpu, burst)
            self.sent[slot] = self.row[runs.request], receiver[runs.request], runs.slab, runs.count
            self.objects[slot] = int(burst.sum())
            operations += self.objects[slot]
            self.round += 1
        return operations


def check(rounds: int) -> None:
    """Hold the counters of the first lane against the scalar reference.

    Raises
    ------
    SystemExit
        If one differs.
    """
    length, to = Traffic(2).draw(rounds)
    engine = PingPong(2)
    engine.run(length, to)
    scalar = cache(KERNEL, TOPOLOGY, GEOMETRY)
    scalar.defrag_ratio = 0
    sent: list[list[FreeRequest]] = [[] for _ in range(DELAY)]
    for number in range(rounds):
        free_window(sent[number % DELAY])
        bursts = [AllocRequest(scalar, cpu, int(length[number, cpu])) for cpu in range(CPUS)]
        sent[number % DELAY] = [
            FreeRequest(scalar, int(to[number, cpu]), objects)
            for cpu, objects in enumerate(alloc_window(bursts))
        ]
    told = engine.slub.statistics.stats[:, 0]
    for stat in Stat:
        if told[stat] != scalar.stats[stat.name]:
            raise SystemExit(f"{stat.name}: {told[stat]}, reference {scalar.stats[stat.name]}")
    print(f"counters of lane 0 after {rounds} rounds equal the scalar reference's")


def yardstick() -> float | None:
    """Return object operations per CPU second of the C program, or None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "pingpong")
        flags = ["-O3", "-march=native"]
        subprocess.run([compiler, *flags, str(YARDSTICK), "-o", program], check=True)
        return float(subprocess.run([program], check=True, capture_output=True).stdout)


def main() -> int:
    """Print the median of some repeats, and its ratio to C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    check(24)
    traffic, engine = Traffic(chosen.lanes), PingPong(chosen.lanes)
    engine.run(*traffic.draw(4 * DELAY))
    speeds, walls, in_c, ratios = [], [], [], []
    for _ in range(chosen.repeats):
        length, to = traffic.draw(chosen.rounds)
        begin, began = time.process_time(), time.perf_counter()
        operations = engine.run(length, to)
        speeds.append(operations / (time.process_time() - begin))
        walls.append(operations / (time.perf_counter() - began))
        scalar = yardstick()
        if scalar is not None:
            in_c.append(scalar)
            ratios.append(speeds[-1] / scalar)
    state = engine.slub.state
    print(
        f"{chosen.lanes} lanes: {statistics.median(speeds) / 1e6:.1f} M object operations/s "
        f"of CPU time ({statistics.median(walls) / 1e6:.1f} by the clock on the wall)"
    )
    if ratios:
        print(
            f"ratio to scalar C ({statistics.median(in_c) / 1e6:.0f} M/s), "
            f"median of {len(ratios)}: {statistics.median(ratios):.3f}"
        )
    per_cpu = state.cpu.nbytes() / (chosen.lanes * CPUS)
    per_slab = (state.pool.nbytes() + state.lists.nbytes()) / max(state.pool.live, 1)
    print(f"memory: {per_cpu:.0f} bytes per (lane, cpu), {per_slab:.0f} bytes per live slab")
    return 0


if __name__ == "__main__":
    sys.exit(main())
