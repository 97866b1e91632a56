"""Where a machine's CPUs sit: core, cluster (CCX), die and socket."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Places of all CPUs, numbered machine-wide."""

    sockets: int
    """Sockets."""
    threads_per_core: int
    """Hardware threads of a core."""
    cores_per_cluster: int
    """Cores that share an L3 (AMD) or a cluster (ARM); 0: no such level."""
    cores_per_die: int
    """Cores of a die; 0: no such level."""
    core: NDArray[np.int64]
    """(cpu,) core of each CPU."""
    cluster: NDArray[np.int64]
    """(cpu,) cluster; the core where there is no such level."""
    die: NDArray[np.int64]
    """(cpu,) die; the cluster where there is no such level."""
    socket: NDArray[np.int64]
    """(cpu,) socket."""
    socket_of_node: NDArray[np.int64]
    """(node,) socket of each node, also of one without CPUs."""


def layout_of(
    topology: Topology,
    *,
    sockets: int,
    threads_per_core: int,
    cores_per_cluster: int = 0,
    cores_per_die: int = 0,
) -> Layout:
    """Place the CPUs of a topology.

    Nodes go to sockets in equal groups by number. Within a node the CPUs are its cores by number
    first, then the cores' second threads, as Linux numbers them on x86 (ppc64 numbers a core's
    threads in a row).

    Parameters
    ----------
    topology
        Gives each CPU's node.
    sockets, threads_per_core, cores_per_cluster, cores_per_die
        As the machine has them; 0 cores per cluster or die: the machine has no such level.
    """
    node_of_cpu = np.asarray(topology.node_of_cpu, dtype=np.int64)
    nodes = len(topology.memory_bytes)
    socket_of_node = np.arange(nodes, dtype=np.int64) * min(sockets, nodes) // max(nodes, 1)
    # rank of a CPU within its node, in order of its number
    order = np.argsort(node_of_cpu, kind="stable")
    first = np.searchsorted(node_of_cpu[order], node_of_cpu[order], side="left")
    rank = np.empty_like(node_of_cpu)
    rank[order] = np.arange(len(node_of_cpu)) - first
    size = np.bincount(node_of_cpu, minlength=nodes)[node_of_cpu]
    cores = np.maximum(-(-size // threads_per_core), 1)
    inside = rank // threads_per_core if topology.arch == "ppc64" else rank % cores
    wide = len(node_of_cpu) + 1  # numbers of different nodes never meet
    core = node_of_cpu * wide + inside
    cluster = node_of_cpu * wide + inside // cores_per_cluster if cores_per_cluster else core
    die = node_of_cpu * wide + inside // cores_per_die if cores_per_die else cluster
    return Layout(
        sockets=sockets,
        threads_per_core=threads_per_core,
        cores_per_cluster=cores_per_cluster,
        cores_per_die=cores_per_die,
        core=core,
        cluster=cluster,
        die=die,
        socket=socket_of_node[node_of_cpu],
        socket_of_node=socket_of_node,
    )
