"""Kill the driver fifty times at random moments, resume each time, and compare the bits.

    python -m tests.system.kill_fifty [--kills 50] [--executor inline] [--seed 0]

A run is killed (SIGKILL) after a random part of the time that an undisturbed one takes, then taken
up with another chunk size, possibly to be killed again, until it ends by itself; then another one
begins. Exit status 1 if any ended with other variables or coords than the undisturbed one.
"""

import argparse
import random
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
        print(f"undisturbed: {length:.1f} s")
        kills = same = other = run = 0
        moments: list[int] = []
        while kills < asked.kills:
            run += 1
            folder = Path(name) / f"run{run}"
            folder.mkdir()
            while True:
                chunk = f"executor.chunk={rng.choice([1, 2, 3, 5, 7])}"
                known = (folder / "run" / "run.json").exists()
                process = start(folder, ["resume=run", chunk] if known else [*base, chunk])
                try:
                    status = process.wait(rng.uniform(0.0, 1.2) * length)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    kills += 1
                    moments.append(len(list(folder.glob(f"run/journal/*{SUFFIX}"))))
                    if not known and not (folder / "run" / "run.json").exists():
                        subprocess.run(["rm", "-rf", str(folder / "run")], check=True)
                    continue
                if status:
                    raise SystemExit(f"a resumed run ended with status {status}")
                break
            is_same = bits(folder).identical(expected)
            same, other = same + is_same, other + (not is_same)
        print(f"{kills} kills in {run} runs, with so many chunks in the journal: {moments}")
        print(f"identical: {same} of {same + other}")
    return int(other > 0)


if __name__ == "__main__":
    sys.exit(main())
