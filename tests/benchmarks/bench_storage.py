"""How a variable of 1e6 points is best stored: write and read time, size, by kind of content.

    python -m tests.benchmarks.bench_storage

Prints medians of three, with the machine and its load. `sweep.dataset.WORTH` follows from it.
"""

import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import netCDF4
import numpy as np
import xarray as xr

SHAPE = (100, 100, 10, 10)
CHUNKS = (13, 100, 10, 10)

CONTENTS = {
    "noisy floats": lambda rng: 1000 * (1 + 0.01 * rng.standard_normal(SHAPE)),
    "counts": lambda rng: rng.poisson(1000, SHAPE).astype(np.int64),
    "few values": lambda rng: np.broadcast_to(rng.integers(0, 4, (*SHAPE[:2], 1, 1)), SHAPE).copy(),
    "zeros": lambda rng: np.zeros(SHAPE, dtype=np.int64),
}
STORAGE: dict[str, dict[str, object]] = {
    "contiguous": {"contiguous": True},
    "zlib 1": {"zlib": True, "complevel": 1, "shuffle": True, "chunksizes": CHUNKS},
    "zlib 4": {"zlib": True, "complevel": 4, "shuffle": True, "chunksizes": CHUNKS},
    "zstd 1": {"compression": "zstd", "complevel": 1, "shuffle": True, "chunksizes": CHUNKS},
}


def measured(path: Path, values: np.ndarray, options: dict[str, object]) -> tuple[float, float]:
    """Return write and read time, s."""
    start = time.perf_counter()
    with netCDF4.Dataset(path, "w") as file:
        for number, size in enumerate(SHAPE):
            file.createDimension(f"d{number}", size)
        dims = tuple(f"d{number}" for number in range(len(SHAPE)))
        kind = "f8" if values.dtype.kind == "f" else "i8"
        file.createVariable("v", kind, dims, fill_value=False, **options)[...] = values
    written = time.perf_counter()
    with xr.open_dataset(path, engine="netcdf4") as data:
        assert float(data.v.sum()) == float(values.sum())
    return written - start, time.perf_counter() - written


def main() -> None:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, load {load}; 1e6 values of 8 bytes")
    print(f"{'content':14} {'storage':12} {'write s':>8} {'read s':>8} {'MB':>7} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for content, make in CONTENTS.items():
            values = make(np.random.default_rng(0))
            for storage, options in STORAGE.items():
                path = Path(folder) / "v.nc"
                times = [measured(path, values, options) for _ in range(3)]
                write, read = (statistics.median(column) for column in zip(*times, strict=True))
                size = path.stat().st_size / 1e6
                print(f"{content:14} {storage:12} {write:8.3f} {read:8.3f} {size:7.2f} "
                      f"{values.nbytes / 1e6 / size:6.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
