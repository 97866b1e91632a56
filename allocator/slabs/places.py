"""Where the CPUs of each row are: nodes, memory, and whom a node asks for help."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from allocator.pages.policy import PagePolicy
from allocator.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """CPUs and nodes of the rows of a batch; all have the same number of each."""

    node_of_cpu: NDArray[np.int64]
    """(row, cpu): numa_node_id()."""
    mem_of_cpu: NDArray[np.int64]
    """(row, cpu): numa_mem_id(); the CPU's own node where CONFIG_HAVE_MEMORYLESS_NODES is off."""
    has_memory: NDArray[np.bool_]
    """(row, node): the node has memory, hence a kmem_cache_node."""
    zonelist: NDArray[np.int64]
    """(row, node, hop): nodes with memory that a request for `node` is tried on, padded by -1."""
    possible_cpus: NDArray[np.int64]
    """(row,): nr_cpu_ids."""
    page_size: NDArray[np.int64]
    """(row,): bytes of a page."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.node_of_cpu.shape[0])

    @property
    def cpus(self) -> int:
        """CPUs of each row."""
        return int(self.node_of_cpu.shape[1])

    @property
    def nodes(self) -> int:
        """Nodes of each row."""
        return int(self.has_memory.shape[1])

    @classmethod
    def of(cls, topologies: Sequence[Topology], policy: PagePolicy) -> Self:
        """Build from one topology per row.

        Raises
        ------
        ValueError
            If they differ in the number of CPUs or nodes.
        """
        shapes = sorted({(t.cpus, t.nodes) for t in topologies})
        if len(shapes) != 1:
            raise ValueError(f"rows of (CPUs, nodes) {shapes}; one batch needs equal numbers")
        distinct = {id(topology): topology for topology in topologies}
        known = {key: number for number, key in enumerate(distinct)}
        which = np.array([known[id(topology)] for topology in topologies])
        parts = [_place(topology, policy) for topology in distinct.values()]
        return cls(
            node_of_cpu=np.stack([part[0] for part in parts])[which],
            mem_of_cpu=np.stack([part[1] for part in parts])[which],
            has_memory=np.stack([part[2] for part in parts])[which],
            zonelist=np.stack([part[3] for part in parts])[which],
            possible_cpus=np.array([topology.nr_cpu_ids for topology in topologies]),
            page_size=np.array([topology.page_size for topology in topologies]),
        )


def _place(
    topology: Topology, policy: PagePolicy
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    nodes = range(topology.nodes)
    node = np.array(topology.node_of_cpu, dtype=np.int64)
    mem_of_node = np.array([topology.numa_mem_id(n) for n in nodes])
    memory = np.array([topology.has_memory(n) for n in nodes])
    zonelist = np.full((len(nodes), len(nodes)), -1, dtype=np.int64)
    for here, order in enumerate(topology.node_fallback_order(policy)):
        hops = [n for n in order if memory[n]]
        zonelist[here, : len(hops)] = hops
    return node, mem_of_node[node], memory, zonelist
