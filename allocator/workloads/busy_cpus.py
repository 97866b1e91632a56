"""Workloads that run on some of a machine's CPUs only."""

from allocator.errors import ConfigError
from allocator.topology import Topology


def cpus_used(cpus: int, topology: Topology) -> int:
    """Return how many CPUs tasks run on; 0 asks for all.

    They are the first ones by number: on x86 the first socket's cores, the second's, then second
    threads; caches are still sized for the whole machine.

    Raises
    ------
    ConfigError
        If the machine has fewer.
    """
    if cpus > topology.cpus:
        raise ConfigError("workload.cpus", cpus, f"at most the machine's {topology.cpus} CPUs")
    return cpus or topology.cpus


def on_cpus(command: str, cpus: int) -> str:
    """Return a command that runs on the first `cpus` CPUs; 0: on all."""
    return f"taskset -c 0-{cpus - 1} {command}" if cpus else command
