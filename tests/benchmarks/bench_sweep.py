"""What the sweep costs beside the simulation, side by side with Hydra's own multirun.

    python -m tests.benchmarks.bench_sweep [--million]

Prints, with the machine and its load: the overhead of a grid of 10,000 points and the time to the
first of them (median of three), Hydra's basic multirun per job, one worker against two on a grid
that is bound by simulation, and with `--million` 1e5 against 1e6 points of the cheapest workload.

Overhead is the wall time of the whole process, from its start to its end, less Ray's own start and
shutdown (measured by a program that does nothing else), less the workers' time in the model divided
by their number.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RAY = """
import os, time
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
import ray
ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
ray.get(ray.remote(lambda: 1).remote())
print("up")
ray.shutdown()
"""

HYDRA = """
import hydra
@hydra.main(version_base="1.3", config_path={conf!r}, config_name="config")
def task(config):
    pass
task()
"""

BUSY = """
import numpy as np
a = np.random.default_rng(0).random(20000)
for _ in range(30000):
    np.sort(a[:2000]); np.cumsum(a); (a > 0.5).nonzero()
"""

CHEAP = ("workload=geometry", "report=false", "replicates=1", "slab.cpu_partial=range(0,1000)")


@dataclass(frozen=True)
class Run:
    """One run of the sweep."""

    wall: float
    """From the start of the process to its end, s."""
    ray: float
    """Ray's start as the run saw it, s."""
    busy: float
    """The workers' time in the model divided by their number, s."""
    first: float
    """From the start of the process to the first chunk in the journal, s."""
    chunk: float
    """Time of the first chunk's task, s."""
    points: float
    """From Ray's start to the last point in the journal, s."""
    rss_mb: float
    """Largest resident memory of the driver, MB."""


def timed(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Run a command; returns its start (epoch, s), wall time (s) and largest memory (MB)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    began, start = time.time(), time.perf_counter()
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}:\n{(folder / 'output').read_text()}")
    return began, time.perf_counter() - start, usage.ru_maxrss / 1024


def sweep(*arguments: str, program: Sequence[str] = (sys.executable, "-m", "sweep")) -> Run:
    """Run the sweep in a folder of its own, and read its log."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [*program, "hydra.sweep.dir=run", *arguments]
        began, wall, rss = timed(command, folder)
        log = (folder / "run" / "run.log").read_text()
        times = json.loads(re.search(r"times: (\{.*\})", log)[1])  # type: ignore[index]
        seconds = re.search(r"chunk \d+: \d+ points in ([\d.]+) s", log)
    return Run(
        wall=wall,
        ray=times["ray_start"],
        busy=times["busy"],
        first=times["began"] + times["first_chunk"] - began,
        chunk=float(seconds[1]) if seconds else 0.0,
        points=times["simulated"] - times["ready"],
        rss_mb=rss,
    )


def ray_alone() -> tuple[float, float]:
    """Return how long Ray takes to its first task, and in all, s."""
    with tempfile.TemporaryDirectory() as name:
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", RAY], cwd=name, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        process.stdout.readline()
        up = time.perf_counter() - start
        process.wait()
        return up, time.perf_counter() - start


def hydra_per_job(jobs: int) -> float:
    """Return what Hydra's basic sweeper and launcher take per job, s."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(HYDRA.format(conf=str(ROOT / "conf")))
        path = f"{ROOT / 'sweep' / '_plugin_root'}"
        code = f"import sys; sys.path.append({path!r}); exec(open('program.py').read())"
        walls = []
        for count in (1, jobs):
            grid = f"slab.cpu_partial=range(0,{count})"
            basic = ["-m", "hydra/sweeper=basic", "hydra.sweeper.params=null", grid]
            walls.append(timed([sys.executable, "-c", code, *basic], folder)[1])
    return (walls[1] - walls[0]) / (jobs - 1)


def overhead(runs: int) -> None:
    """Print the overhead of 10,000 points and the time to the first."""
    beside, firsts = [], []
    for _ in range(runs):
        up, ray = ray_alone()
        run = sweep(*CHEAP, "slab.min_partial=range(5,15)")
        beside.append(run.wall - run.busy - ray)
        firsts.append(run.first - run.chunk - up)
        print(f"  Ray alone: up after {up:.2f} s, {ray:.2f} s in all; 10,000 points: "
              f"{run.wall:.2f} s, {run.busy:.2f} s of it in the model")  # fmt: skip
    middle = statistics.median(beside)
    print(f"overhead of 10,000 points: {middle:.2f} s beside Ray and the model "
          f"(allowed: 2 s and 20 us a point, 2.2 s)")  # fmt: skip
    print(f"first simulated point: {statistics.median(firsts):.2f} s after Ray alone is up "
          f"(allowed: 2 s)")  # fmt: skip


def workers() -> None:
    """Print one worker against two, and what two processes gain here without any sweep."""
    grid = ("workload=hackbench_sockets", "machine=graviton2", "slab.max_order=0,1,2,3")
    more = ("kernel=v6_1,v6_1_order_v2", "replicates=30", "report=false")
    asleep = (
        "workload=counted",
        "workload.lane_ms=100",
        "slab.max_order=0,1,2,3",
        "replicates=100",
    )
    program = [sys.executable, str(ROOT / "tests" / "system" / "driver.py")]
    for name, run_of in {
        "hackbench": lambda cpus: sweep(*grid, *more, f"executor.cpus={cpus}"),
        "sleeping": lambda cpus: sweep(
            *asleep, "report=false", f"executor.cpus={cpus}", program=program
        ),
    }.items():
        one, two = run_of(1), run_of(2)
        print(f"{name}: 1 worker {one.points:.2f} s, 2 workers {two.points:.2f} s: "
              f"{one.points / two.points:.2f} times as fast (wanted: 1.9)")  # fmt: skip
    print(f"two processes without a sweep: {ceiling():.2f} times one")


def ceiling() -> float:
    """Return what two processes of NumPy work do in the time of one."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    one = time.perf_counter() - start
    start = time.perf_counter()
    both = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    for process in both:
        process.wait()
    return 2 * one / (time.perf_counter() - start)


def million() -> None:
    """Print 1e5 against 1e6 points."""
    small = sweep(*CHEAP, "slab.min_partial=range(5,105)")
    large = sweep(*CHEAP, "slab.min_partial=range(5,1005)")
    ratio = (large.wall - large.ray) / (10 * (small.wall - small.ray))
    print(f"1e5 points: {small.wall:.1f} s ({small.ray:.1f} s Ray), driver {small.rss_mb:.0f} MB")
    print(f"1e6 points: {large.wall:.1f} s ({large.ray:.1f} s Ray), driver {large.rss_mb:.0f} MB "
          f"(allowed: 1,500)")  # fmt: skip
    print(f"1e6 against ten times 1e5: {ratio:.2f} (allowed: 1.10)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--million", action="store_true", help="1e5 and 1e6 points, too")
    parser.add_argument("--runs", type=int, default=3, help="runs of the overhead (default: 3)")
    arguments = parser.parse_args()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, load {load}")
    overhead(arguments.runs)
    job = hydra_per_job(20)
    print(f"Hydra's basic multirun: {1e6 * job:,.0f} us a job of this configuration")
    workers()
    if arguments.million:
        million()


if __name__ == "__main__":
    main()
