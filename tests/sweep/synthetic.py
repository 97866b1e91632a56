"""Datasets in the form of a sweep's, with chosen numbers."""

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr

from allocator.counters import SCALARS


def dataset(
    axes: Mapping[str, Sequence[object]],
    replicates: int = 3,
    status: Callable[..., int] = lambda **_: 0,
    **variables: Callable[..., float],
) -> xr.Dataset:
    """Fill each variable by calling it with every axis value and `replicate` as keywords."""
    dims = [*axes, "replicate"]
    values = [list(axis) for axis in axes.values()] + [list(range(replicates))]
    shape = tuple(len(axis) for axis in values)

    def fill(call: Callable[..., float]) -> np.ndarray:
        cells = [
            call(**{dim: values[k][i] for k, (dim, i) in enumerate(zip(dims, at, strict=True))})
            for at in np.ndindex(shape)
        ]
        return np.array(cells).reshape(shape)

    data = {name: (dims, fill(call)) for name, call in variables.items()}
    data["status"] = (dims, fill(status).astype(np.int8))
    ds = xr.Dataset(data, coords=dict(zip(dims, values, strict=True)))
    for name in variables:
        if name in SCALARS:
            ds[name].attrs = {"units": SCALARS[name].units, "long_name": SCALARS[name].long_name}
    ds["status"].attrs = {
        "flag_values": np.array([0, 1, 2, 3], np.int8),
        "flag_meanings": "ok oom failed pending",
    }
    return ds


def lab() -> xr.Dataset:
    """Return a grid as the default one, with round numbers.

    The order patch costs icx 12.5 % at order 3 and less below; hugepages gain 2 % with GFP kernel
    and fail on graviton2 with atomic. GFP flags do not matter to hackbench, orders not to
    hugepages.
    """
    loss = {"epyc": 0.03, "icx": 0.125, "graviton2": -0.004}
    base = {"epyc": 1e6, "icx": 1.4e6, "graviton2": 6e5}
    pool = {"kernel": 180, "kernel_retry_mayfail": 500, "atomic": 60}

    def throughput(*, machine, kernel, slab_max_order, workload, replicate, **_):
        if workload != "hackbench_sockets":
            return np.nan
        share = slab_max_order / 3 if kernel != "v6_1" else 0
        noise = 1 + 0.002 * (replicate - 1)
        return base[machine] * (1 - loss[machine] * share) * noise

    def nr_hugepages(*, machine, kernel, gfp, workload, replicate, **_):
        if workload != "hugepages":
            return 0
        more = 1.02 if kernel != "v6_1" and gfp == "kernel" else 1
        return int(pool[gfp] * more) + len(machine) + (replicate == 2)

    def list_lock_wait_ns(*, machine, kernel, workload, **_):
        if workload == "hugepages" or machine != "icx":
            return 0
        return 6_000_000 if kernel == "v6_1" else 15_000_000

    def status(*, machine, kernel, gfp, workload, **_):
        bad = (machine, kernel, gfp, workload) == (
            "graviton2",
            "v6_1_order_v2",
            "atomic",
            "hugepages",
        )
        return int(bad)

    ds = dataset(
        {
            "machine": ["epyc", "icx", "graviton2"],
            "kernel": ["v6_1", "v6_1_order_v2"],
            "slab_max_order": [0, 1, 2, 3],
            "gfp": ["kernel", "kernel_retry_mayfail", "atomic"],
            "workload": ["hackbench_sockets", "hugepages"],
        },
        status=status,
        throughput=throughput,
        nr_hugepages=nr_hugepages,
        list_lock_wait_ns=list_lock_wait_ns,
        cpu_time_ns=lambda **_: 100_000_000,
    )
    config = {"compare": {"baseline": "kernel=v6_1"}}
    ds.attrs["provenance"] = json.dumps({"schema_version": 1, "config": config})
    return ds
