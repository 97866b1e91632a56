"""Workloads that run on some of a machine's CPUs only."""

from allocator.errors import ConfigError
from allocator.topology import Topology


def cpus_used(cpus: int, topology: Topology) -> int:
    """Return how many CPUs tasks run on; 0 asks for all.

    They are the first ones by number: on x86 the first socket's cores, the second's, then second
    threads; caches are still sized for the whole machine.
    """
    return cpus or topology.cpus


def check_cpus(cpus: int, topology: Topology) -> None:
    """Check that a machine has the CPUs that tasks are to run on.

    Raises
    ------
    ConfigError
        If it has fewer.
    """
    if cpus > topology.cpus:
        raise ConfigError("workload.cpus", cpus, f"at most the machine's {topology.cpus} CPUs")


def on_cpus(command: str, cpus: int) -> str:
    """Return a command that runs on the first `cpus` CPUs; 0: on all."""
    return f"taskset -c 0-{cpus - 1} {command}" if cpus else command
