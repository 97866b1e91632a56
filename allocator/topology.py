"""CPUs, nodes, memory and distances of a machine, and the order in which nodes help each other."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from allocator.errors import ConfigError
from allocator.pages.policy import PagePolicy

LOCAL_DISTANCE = 10
"""Distance of a node to itself (include/linux/topology.h)."""
REMOTE_DISTANCE = 20
"""Distance of two nodes where firmware says nothing."""
MAX_CPUS = 8192
"""NR_CPUS of distribution kernels."""

_LOAD_WEIGHT = 1 << 16  # any number above every node's load (MAX_NUMNODES and larger in the kernel)

_ORDERS: dict[tuple[str, int], tuple[int, int]] = {
    ("x86_64", 4096): (10, 9),
    ("arm64", 4096): (10, 9),
    ("arm64", 16384): (11, 11),
    ("arm64", 65536): (13, 13),
    ("ppc64", 65536): (8, 5),
    ("ppc64", 4096): (10, 9),
}
"""(arch, page size) -> (largest buddy order, order of a huge page); ppc64 with the radix MMU."""

ARCHES = ("x86_64", "arm64", "ppc64")
"""Architectures that the model knows."""

_KEYS = (
    "arch",
    "page_size",
    "cpus_possible",
    "cpus",
    "memory_bytes",
    "distances",
    "memoryless_nodes",
)

_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The shape of a machine."""

    arch: str
    """One of `ARCHES`."""
    page_size: int
    """Base page, bytes."""
    nr_cpu_ids: int
    """Highest possible CPU number + 1."""
    node_of_cpu: tuple[int, ...]
    """Node of each present CPU, by CPU number."""
    memory_bytes: tuple[int, ...]
    """Memory of each node, bytes; 0: a memoryless node."""
    distances: tuple[tuple[int, ...], ...]
    """(node, node): firmware's distances, 10 on the diagonal."""
    memoryless_nodes: bool
    """CONFIG_HAVE_MEMORYLESS_NODES: numa_mem_id() is the nearest node with memory."""

    def __post_init__(self) -> None:
        _check_pages(self.arch, self.page_size)
        _check_nodes(self)
        _check_distances(self.distances, self.nodes)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.memory_bytes)

    @property
    def cpus(self) -> int:
        """Number of present CPUs."""
        return len(self.node_of_cpu)

    @property
    def max_buddy_order(self) -> int:
        """Largest order of the buddy lists (MAX_ORDER - 1, MAX_PAGE_ORDER from 6.8)."""
        return _ORDERS[self.arch, self.page_size][0]

    @property
    def huge_page_order(self) -> int:
        """Order of a PMD huge page, which is the pageblock order."""
        return _ORDERS[self.arch, self.page_size][1]

    @property
    def cache_line_bytes(self) -> int:
        """Value of cache_line_size(): what SLAB_HWCACHE_ALIGN aligns to, bytes."""
        return 128 if self.arch == "ppc64" else 64

    def cpus_of(self, node: int) -> tuple[int, ...]:
        """Return the present CPUs of a node, ascending."""
        return tuple(cpu for cpu, where in enumerate(self.node_of_cpu) if where == node)

    def has_memory(self, node: int) -> bool:
        """Tell whether a node has memory."""
        return self.memory_bytes[node] > 0

    def node_fallback_order(self, policy: PagePolicy) -> tuple[tuple[int, ...], ...]:
        """Return, for each node, the nodes its requests are tried on, nearest first.

        A memoryless node stands first in its own list where `policy.lists_memoryless_first`.
        """
        populated = tuple(self.has_memory(node) for node in range(self.nodes))
        return node_fallback_order(self.distances, populated, policy)

    def numa_mem_id(self, node: int) -> int:
        """Return the node whose memory a CPU of this node uses first.

        Without `memoryless_nodes` that is the node itself, with or without memory.
        """
        if not self.memoryless_nodes or self.has_memory(node):
            return node
        nearest = self.node_fallback_order(PagePolicy())[node]
        return next(other for other in nearest if self.has_memory(other))

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        """Build from the `topology` group; an empty one means the machine's own: None.

        Raises
        ------
        ConfigError
            If a key is unknown, a value has the wrong type, or there can be no such machine.
        """
        if not config:
            return None
        for key in config:
            if key not in _KEYS:
                expected = f"no such key; known are {', '.join(_KEYS)}"
                raise ConfigError(f"topology.{key}", config[key], expected)
        arch = config.get("arch", "x86_64")
        if not isinstance(arch, str):
            raise ConfigError("topology.arch", arch, f"one of {', '.join(ARCHES)}")
        page_size = _integer(config, "page_size", 65536 if arch == "ppc64" else 4096)
        node_of_cpu = _node_of_cpu(config.get("cpus"))
        memory = _memory(config.get("memory_bytes"))
        distances = _distances(config.get("distances"), len(memory))
        memoryless = config.get("memoryless_nodes", arch == "ppc64")
        if not isinstance(memoryless, bool):
            raise ConfigError("topology.memoryless_nodes", memoryless, "true or false")
        nodes_named = config.get("cpus")
        if isinstance(nodes_named, Sequence) and len(nodes_named) != len(memory):
            expected = f"one entry for each of the {len(nodes_named)} nodes of topology.cpus"
            raise ConfigError("topology.memory_bytes", config.get("memory_bytes"), expected)
        return cls(
            arch=arch,
            page_size=page_size,
            nr_cpu_ids=_integer(config, "cpus_possible", len(node_of_cpu)),
            node_of_cpu=node_of_cpu,
            memory_bytes=memory,
            distances=distances,
            memoryless_nodes=memoryless,
        )


def plain_topology(*, cpus: int, nodes: int = 1, memory_bytes: int = 1 << 30) -> Topology:
    """Return an x86-64 machine of equal nodes: CPUs in blocks, all nodes equally far apart.

    Parameters
    ----------
    cpus
        CPUs of the machine.
    nodes
        Nodes, at most one per CPU.
    memory_bytes
        Memory of each node.

    Raises
    ------
    ConfigError
        If there can be no such machine.
    """
    if not 1 <= cpus <= MAX_CPUS:
        raise ConfigError("--cpus", cpus, f"1 to {MAX_CPUS}")
    if not 1 <= nodes <= min(cpus, 64):
        raise ConfigError("--nodes", nodes, f"1 to {min(cpus, 64)} with {cpus} CPUs")
    return Topology(
        arch="x86_64",
        page_size=4096,
        nr_cpu_ids=cpus,
        node_of_cpu=tuple(cpu * nodes // cpus for cpu in range(cpus)),
        memory_bytes=(memory_bytes,) * nodes,
        distances=tuple(
            tuple(LOCAL_DISTANCE if a == b else REMOTE_DISTANCE for b in range(nodes))
            for a in range(nodes)
        ),
        memoryless_nodes=False,
    )


def node_fallback_order(
    distances: Sequence[Sequence[int]], populated: Sequence[bool], policy: PagePolicy
) -> tuple[tuple[int, ...], ...]:
    """Return the fallback order of each node (mm/page_alloc.c build_zonelists(), v6.1).

    The lists of boot are meant: no node shows its CPUs yet when they are built, so that a node
    with CPUs is not avoided (seen on booted 6.1 kernels).

    Parameters
    ----------
    distances
        (node, node).
    populated
        (node,): the node has memory.
    policy
        Its `node_load` and `lists_memoryless_first` decide.
    """
    nodes = len(populated)
    load = [0] * nodes
    lists = []
    for local in range(nodes):
        order: list[int] = []
        previous, weight = local, nodes
        while True:
            chosen = _next_best(local, order, load, distances, populated, policy)
            if chosen is None:
                break
            if distances[local][chosen] != distances[local][previous]:
                load[chosen] = weight if policy.node_load == "online_nodes" else load[chosen] + 1
            order.append(chosen)
            previous, weight = chosen, weight - 1
        lists.append(tuple(order))
    return tuple(lists)


def _next_best(
    local: int,
    used: Sequence[int],
    load: Sequence[int],
    distances: Sequence[Sequence[int]],
    populated: Sequence[bool],
    policy: PagePolicy,
) -> int | None:
    """Choose the next node of a list (mm/page_alloc.c find_next_best_node())."""
    if local not in used and (populated[local] or policy.lists_memoryless_first):
        return local
    left = [n for n, has_memory in enumerate(populated) if has_memory and n not in used]
    if not left:
        return None
    return min(left, key=lambda n: (distances[local][n] + (n < local)) * _LOAD_WEIGHT + load[n])


def _check_pages(arch: str, page_size: int) -> None:
    if arch not in ARCHES:
        raise ConfigError("topology.arch", arch, f"one of {', '.join(ARCHES)}")
    if (arch, page_size) not in _ORDERS:
        sizes = ", ".join(str(size) for known, size in _ORDERS if known == arch)
        raise ConfigError("topology.page_size", page_size, f"a page size of {arch}: {sizes}")


def _check_nodes(topology: Topology) -> None:
    memory, cpus = topology.memory_bytes, topology.node_of_cpu
    if not cpus:
        raise ConfigError("topology.cpus", cpus, "at least one CPU")
    if max(cpus) >= len(memory) or min(cpus) < 0:
        expected = f"nodes 0 to {len(memory) - 1}, those that topology.memory_bytes lists"
        raise ConfigError("topology.cpus", max(cpus), expected)
    if not len(cpus) <= topology.nr_cpu_ids <= MAX_CPUS:
        expected = f"{len(cpus)} (the CPUs that are present) to {MAX_CPUS}"
        raise ConfigError("topology.cpus_possible", topology.nr_cpu_ids, expected)
    for node, size in enumerate(memory):
        if size < 0 or size % topology.page_size:
            expected = f"a multiple of the page size {topology.page_size}, 0 for a memoryless node"
            raise ConfigError(f"topology.memory_bytes[{node}]", size, expected)
        if size == 0 and node not in cpus:
            raise ConfigError(f"topology.memory_bytes[{node}]", 0, "memory, as it has no CPUs")
    if not any(memory):
        raise ConfigError("topology.memory_bytes", list(memory), "a node with memory")


def _check_distances(distances: tuple[tuple[int, ...], ...], nodes: int) -> None:
    if len(distances) != nodes or any(len(row) != nodes for row in distances):
        shape = [len(row) for row in distances]
        expected = f"{nodes} rows of {nodes} numbers"
        raise ConfigError("topology.distances", f"rows of {shape}", expected)
    for here, row in enumerate(distances):
        for there, distance in enumerate(row):
            key = f"topology.distances[{here}][{there}]"
            if here == there and distance != LOCAL_DISTANCE:
                raise ConfigError(key, distance, f"{LOCAL_DISTANCE}, a node's distance to itself")
            if here != there and not LOCAL_DISTANCE < distance < 256:
                raise ConfigError(key, distance, f"{LOCAL_DISTANCE + 1} to 255")


def _integer(config: Mapping[str, object], key: str, default: int) -> int:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"topology.{key}", value, "a whole number")
    return value


def _node_of_cpu(given: object) -> tuple[int, ...]:
    """Read CPUs per node: how many (numbered from node 0 on), or which."""
    expected = "for each node a number of CPUs, or the list of them"
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ConfigError("topology.cpus", given, expected)
    if all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in given):
        return tuple(node for node, number in enumerate(given) for _ in range(number))
    nodes: dict[int, int] = {}
    for node, cpus in enumerate(given):
        if not isinstance(cpus, Sequence) or isinstance(cpus, str):
            raise ConfigError(f"topology.cpus[{node}]", cpus, expected)
        for cpu in cpus:
            if isinstance(cpu, bool) or not isinstance(cpu, int) or cpu in nodes:
                raise ConfigError(f"topology.cpus[{node}]", cpu, "CPU numbers, each on one node")
            nodes[cpu] = node
    if sorted(nodes) != list(range(len(nodes))):
        raise ConfigError("topology.cpus", given, f"the CPUs 0 to {len(nodes) - 1} without a gap")
    return tuple(nodes[cpu] for cpu in range(len(nodes)))


def _memory(given: object) -> tuple[int, ...]:
    """Read memory per node: bytes, or a number with a binary unit ("256GiB")."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ConfigError("topology.memory_bytes", given, "for each node its bytes, or 256GiB")
    return tuple(_size(f"topology.memory_bytes[{n}]", value) for n, value in enumerate(given))


def _size(key: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:iB)?", value) if isinstance(value, str) else None
    if match is None:
        raise ConfigError(key, value, "a number of bytes, or one with KiB, MiB, GiB or TiB")
    return int(match[1]) * _SIZE_UNITS[match[2]]


def _distances(given: object, nodes: int) -> tuple[tuple[int, ...], ...]:
    if given is None:
        return tuple(
            tuple(LOCAL_DISTANCE if a == b else REMOTE_DISTANCE for b in range(nodes))
            for a in range(nodes)
        )
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ConfigError("topology.distances", given, f"{nodes} rows of {nodes} numbers")
    rows = []
    for here, row in enumerate(given):
        if not isinstance(row, Sequence) or not all(type(item) is int for item in row):
            raise ConfigError(f"topology.distances[{here}]", row, "a list of whole numbers")
        rows.append(tuple(row))
    return tuple(rows)
