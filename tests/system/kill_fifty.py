"""Kill the driver of fifty runs at random moments, resume each of them, and compare the bits.

    python -m tests.system.kill_fifty [--kills 50] [--executor inline] [--seed 0]

Each run is killed (SIGKILL) at a moment drawn from the time that an undisturbed one takes, then
taken up with another chunk size, which may be killed too, until it ends by itself. Exit status 1
if any ended with other variables or coords than the undisturbed one.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import xarray as xr

from sweep.journal import SUFFIX

DRIVER = Path(__file__).with_name("driver.py")
GRID = [
    *("workload=counted", "report=false", "workload.lane_ms=20", "replicates=2"),
    *("slab.max_order=0,1,2,3", "machine=graviton2,epyc_rome_2x7742", "slab.min_partial=5,6,7"),
]
SECOND_KILL = 0.3
"""Share of the resumed runs that are killed again."""


def start(folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(DRIVER), *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def bits(folder: Path) -> xr.DataTree:
    with xr.open_datatree(folder / "run" / "dataset.nc", engine="netcdf4") as tree:
        found = tree.load()
    found.attrs = {}
    return found


def chunks(folder: Path) -> int:
    """Return the chunks that the journal of a run holds."""
    return len(list(folder.glob(f"run/journal/*{SUFFIX}")))


def begin_or_resume(folder: Path, base: list[str], chunk: int) -> subprocess.Popen[bytes]:
    """Start a run, or take up what a kill has left of it."""
    size = f"executor.chunk={chunk}"
    if (folder / "run" / "run.json").exists():
        return start(folder, ["resume=run", size])
    shutil.rmtree(folder / "run", ignore_errors=True)  # killed before there was a run
    return start(folder, [*base, size])


def killed_at(process: subprocess.Popen[bytes], moment: float) -> bool:
    """Kill a run after so many seconds; False if it ended before."""
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


def kill_and_resume(folder: Path, base: list[str], length: float, rng: random.Random) -> list[int]:
    """Kill one run at least once, resume it to its end; return the chunks found at each kill."""
    found: list[int] = []
    sizes = (1, 2, 3, 5, 7)
    while not found:
        if killed_at(begin_or_resume(folder, base, rng.choice(sizes)), rng.uniform(0, length)):
            found.append(chunks(folder))
        else:
            shutil.rmtree(folder / "run")  # faster than the undisturbed one: once more
    while rng.random() < SECOND_KILL:
        if killed_at(begin_or_resume(folder, base, rng.choice(sizes)), rng.uniform(0, length)):
            found.append(chunks(folder))
    status = begin_or_resume(folder, base, rng.choice(sizes)).wait()
    if status:
        raise SystemExit(f"{folder}: the resumed run ended with status {status}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--executor", default="inline")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    base = [*GRID, f"executor={asked.executor}", "hydra.sweep.dir=run"]
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole"
        whole.mkdir()
        began = time.monotonic()
        if start(whole, [*base, "executor.chunk=2"]).wait():
            raise SystemExit("the undisturbed run failed")
        length, expected = time.monotonic() - began, bits(whole)
        print(f"undisturbed: {length:.1f} s", flush=True)
        moments: list[int] = []
        same = 0
        for number in range(asked.kills):
            folder = Path(name) / f"run{number}"
            folder.mkdir()
            moments += kill_and_resume(folder, base, length, rng)
            same += bits(folder).identical(expected)
            shutil.rmtree(folder)
        print(f"{len(moments)} kills, with so many chunks in the journal: {sorted(moments)}")
        print(f"identical: {same} of {asked.kills}")
    return int(same < asked.kills)


if __name__ == "__main__":
    sys.exit(main())
