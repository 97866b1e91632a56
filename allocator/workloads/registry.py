"""Workloads by name."""

from collections.abc import Mapping

from allocator.errors import ConfigError
from allocator.workloads.base import Workload
from allocator.workloads.geometry import Geometry
from allocator.workloads.hackbench import HackbenchPipes, HackbenchSockets, PerfSchedMessaging
from allocator.workloads.hugepages import HugePages
from allocator.workloads.memoryless_boot import MemorylessBoot
from allocator.workloads.netperf import Netperf
from allocator.workloads.rawpkt import RawPkt
from allocator.workloads.replay_workload import Replay
from allocator.workloads.unixbench import UnixBench
from allocator.workloads.will_it_scale import WillItScaleMmap1

WORKLOADS: dict[str, type[Workload]] = {
    Geometry.name: Geometry,
    HackbenchPipes.name: HackbenchPipes,
    HackbenchSockets.name: HackbenchSockets,
    HugePages.name: HugePages,
    MemorylessBoot.name: MemorylessBoot,
    Netperf.name: Netperf,
    PerfSchedMessaging.name: PerfSchedMessaging,
    RawPkt.name: RawPkt,
    Replay.name: Replay,
    UnixBench.name: UnixBench,
    WillItScaleMmap1.name: WillItScaleMmap1,
}
"""Every workload that a configuration may name."""


def workload_from_config(config: Mapping[str, object]) -> Workload:
    """Build the workload that the `workload` group names.

    Raises
    ------
    ConfigError
        If the name, a key or a value is not one that the workload knows.
    """
    name = config.get("name")
    if not isinstance(name, str) or name not in WORKLOADS:
        raise ConfigError("workload.name", name, f"one of {', '.join(sorted(WORKLOADS))}")
    rest = {key: value for key, value in config.items() if key != "name"}
    return WORKLOADS[name].from_config(rest)
