"""Workloads by name.

Only the workload that is asked for is imported: together they take longer than everything else that
a sweep or a worker needs before its first point.
"""

from collections.abc import Mapping
from importlib import import_module

from allocator.errors import ConfigError
from allocator.workloads.base import Workload

PLACES: dict[str, str] = {
    "geometry": "geometry.Geometry",
    "hackbench_pipes": "hackbench.HackbenchPipes",
    "hackbench_sockets": "hackbench.HackbenchSockets",
    "hugepages": "hugepages.HugePages",
    "memoryless_boot": "memoryless_boot.MemorylessBoot",
    "netperf": "netperf.Netperf",
    "perf_sched_messaging": "hackbench.PerfSchedMessaging",
    "rawpkt": "rawpkt.RawPkt",
    "replay": "replay_workload.Replay",
    "unixbench": "unixbench.UnixBench",
    "will_it_scale_mmap1": "will_it_scale.WillItScaleMmap1",
}
"""Module of this package and class of every workload that a configuration may name."""

WORKLOADS: dict[str, type[Workload]] = {}
"""Workloads that are imported; one from elsewhere registers itself here."""


def workload_named(name: str) -> type[Workload]:
    """Return a workload's class.

    Raises
    ------
    ConfigError
        If no workload has this name.
    """
    if name not in WORKLOADS:
        if name not in PLACES:
            known = sorted({*PLACES, *WORKLOADS})
            raise ConfigError("workload.name", name, f"one of {', '.join(known)}")
        module, _, kind = PLACES[name].partition(".")
        WORKLOADS[name] = getattr(import_module(f"allocator.workloads.{module}"), kind)
    return WORKLOADS[name]


def workload_from_config(config: Mapping[str, object]) -> Workload:
    """Build the workload that the `workload` group names.

    Raises
    ------
    ConfigError
        If the name, a key or a value is not one that the workload knows.
    """
    name = config.get("name")
    if not isinstance(name, str):
        raise ConfigError("workload.name", name, f"one of {', '.join(PLACES)}")
    rest = {key: value for key, value in config.items() if key != "name"}
    return workload_named(name).from_config(rest)
