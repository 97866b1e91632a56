"""A report on a grid of 100,000 points, three runs each, as one process.

    python -m tests.benchmarks.bench_report [POINTS]

The dataset has the variables of a run, with numbers drawn from a formula of the axes: what is
measured is the report, not the model. Prints the time and the largest memory of
`python -m sweep.report`, and the sizes of what it wrote.
"""

import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import xarray as xr

from allocator.counters import CAUSES, SCALARS
from sweep.dataset import STATUSES

REPLICATES = 3
SHORT = {"machine": 5, "kernel": 4, "slab_max_order": 5, "gfp": 5, "workload": 2}
CACHES = ("kmalloc-cg-512", "skbuff_head_cache")


def grid(points: int) -> xr.DataTree:
    """Return a dataset of about so many points; one axis is as long as it takes."""
    sizes = SHORT | {"workload_groups": max(2, points // math.prod(SHORT.values()))}
    coords: dict[str, list[object]] = {
        dim: list(range(size))
        if dim.startswith(("slab", "workload_"))
        else [f"{dim}{k}" for k in range(size)]
        for dim, size in sizes.items()
    }
    coords["replicate"] = list(range(REPLICATES))
    dims = list(coords)
    shape = tuple(len(values) for values in coords.values())
    place = dict(zip(dims, np.ogrid[tuple(slice(n) for n in shape)], strict=True))
    rng = np.random.default_rng(0)
    loss = 0.02 * place["kernel"] * place["machine"] * (place["slab_max_order"] / 4) ** 2
    level = 1e6 * (1 + place["machine"]) * np.sqrt(1 + place["workload_groups"]) * (1 - loss)
    named = {name for cause in CAUSES.values() for name in (*cause.part, *cause.whole)}

    def drawn(scale: object, *more: int) -> np.ndarray:
        return scale * (1 + 0.02 * rng.standard_normal((*shape, *more)))

    root = {
        name: (dims, drawn(level), {"units": SCALARS[name].units})
        for name in SCALARS
        if name == "throughput" or name in named
    }
    root["status"] = (
        dims,
        np.zeros(shape, dtype=np.int8),
        {
            "flag_values": np.arange(len(STATUSES), dtype=np.int8),
            "flag_meanings": " ".join(STATUSES),
        },
    )
    cached = {
        name: ([*dims, "cache"], drawn(level[..., None], len(CACHES)))
        for name in ("alloc_slab", "free_slab", "alloc_slowpath", "free_slowpath")
    }
    tables = xr.Dataset(cached, coords={"cache": list(CACHES)})
    return xr.DataTree.from_dict({"/": xr.Dataset(root, coords=coords), "/caches": tables})


def main() -> None:
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, load {load}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dataset.nc"
        tree = grid(points)
        tree.to_netcdf(path, engine="netcdf4")
        print(f"{tree['status'].size // REPLICATES} points, {REPLICATES} runs each,"
              f" {len(tree.data_vars)} variables, {path.stat().st_size / 1e6:.0f} MB")  # fmt: skip
        command = [sys.executable, "-m", "sweep.report", folder, "--baseline", "kernel=kernel0"]
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        spent = time.perf_counter() - start
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"report: {spent:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} s of CPU time,"
              f" {usage.ru_maxrss / 1e3:.0f} MB at most")  # fmt: skip
        for file in sorted(Path(folder).iterdir()):
            print(f"  {file.name:32} {file.stat().st_size / 1e6:8.2f} MB")


if __name__ == "__main__":
    main()
