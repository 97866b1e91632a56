"""Workloads by name."""

from collections.abc import Mapping

from allocator.errors import ConfigError
from allocator.workloads.base import Workload
from allocator.workloads.geometry import Geometry
from allocator.workloads.hackbench import HackbenchSockets
from allocator.workloads.hugepages import HugePages
from allocator.workloads.memoryless_boot import MemorylessBoot
from allocator.workloads.rawpkt import RawPkt
from allocator.workloads.will_it_scale import WillItScaleMmap1

WORKLOADS: dict[str, type[Workload]] = {
    Geometry.name: Geometry,
    HackbenchSockets.name: HackbenchSockets,
    HugePages.name: HugePages,
    MemorylessBoot.name: MemorylessBoot,
    RawPkt.name: RawPkt,
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
