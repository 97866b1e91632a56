"""One cell of the grid, checked and typed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from allocator.errors import ConfigError
from allocator.gfp import Gfp
from allocator.kernel import Kernel
from allocator.kernels import kernel_from_config
from allocator.machine import Machine
from allocator.slabs.parameters import SlabParameters
from allocator.topology import Topology
from allocator.workloads.base import Workload
from allocator.workloads.registry import workload_from_config

GROUPS = ("machine", "topology", "kernel", "slab", "gfp", "workload")
"""Configuration groups that make up a point, in the order of `Tasks.index`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A simulated machine: what runs on what, under which kernel and parameters."""

    machine: Machine
    """Costs of the machine."""
    topology: Topology
    """CPUs, nodes and memory; the machine's own unless the configuration gives another."""
    kernel: Kernel
    """Kernel policies."""
    slab: SlabParameters
    """SLUB boot parameters and sysfs values; None where the kernel's default holds."""
    gfp: Gfp
    """GFP flags of the workload's allocations."""
    workload: Workload
    """What runs, with its parameters."""

    @classmethod
    def of(
        cls,
        *,
        machine: Machine,
        topology: Topology | None,
        kernel: Kernel,
        slab: SlabParameters,
        gfp: Gfp,
        workload: Workload,
    ) -> Self:
        """Put checked groups together; no topology means the machine's own.

        Raises
        ------
        ConfigError
            If the groups exclude each other (an order above the machine's largest, a flag that the
            kernel does not have).
        """
        place = machine.topology if topology is None else topology
        slab.check(place)
        gfp.check(kernel)
        return cls(
            machine=machine, topology=place, kernel=kernel, slab=slab, gfp=gfp, workload=workload
        )


_PARSERS: dict[str, Callable[[Mapping[str, object]], object]] = {
    "machine": Machine.from_config,
    "topology": Topology.from_config,
    "kernel": kernel_from_config,
    "slab": SlabParameters.from_config,
    "gfp": Gfp.from_config,
    "workload": workload_from_config,
}


def parse_group(group: str, config: Mapping[str, object]) -> object:
    """Check and convert one configuration group.

    Raises
    ------
    ConfigError
        If a key is unknown or a value cannot be used.
    """
    if group not in _PARSERS:
        raise ConfigError(group, config, f"one of the groups {', '.join(GROUPS)}")
    return _PARSERS[group](config)
