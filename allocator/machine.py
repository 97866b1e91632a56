"""A machine: where its CPUs sit, what a cache line costs to move, and what events cost.

Core-to-core numbers are one way, of a compare-exchange ping-pong between pairs of one class
(nviennot/core-to-core-latency, commit 96a943a; medians over all pairs). On two-socket AMD machines
the class of a pair is not enough: a line that is homed on the other socket costs the cross-socket
latency even between two cores of one socket, unless they share an L3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from allocator.costs import Quantity, costs_from_config, quantity
from allocator.errors import ConfigError
from allocator.layout import Layout, layout_of
from allocator.topology import Topology

TRANSFERS = (
    "smt",
    "same_cluster",
    "same_die",
    "same_socket",
    "same_socket_away",
    "cross_socket",
)
"""Classes of CPU pairs, nearest first; `same_socket_away`: one socket, line homed on another."""

_NUMBERS = {"sockets": 1, "cores_per_socket": 1, "threads_per_core": 1, "nodes_per_socket": 1}
_SIZES = ("cores_per_cluster", "cores_per_die", "cpus_possible")
_KEYS = (
    *("name", "title", "arch", "page_size", *_NUMBERS, *_SIZES, "node_memory_gib", "distances"),
    *("layout_source", "frequency_ghz", "transfer_ns", "dram_ns", "costs", "topology", "record"),
)
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Costs and layout of one machine."""

    name: str
    """Name of the profile."""
    title: str
    """What it is, in words."""
    topology: Topology
    """CPUs, nodes, memory and distances of the machine itself."""
    layout: Layout = field(compare=False, repr=False)
    """Core, cluster, die and socket of each CPU."""
    frequency_ghz: Quantity
    """Clock that turns cycles into time."""
    transfer_ns: Mapping[str, Quantity]
    """Cache-line transfer, one way, by class of `TRANSFERS` (those that differ)."""
    dram_local_ns: Quantity
    """Load from the memory of the CPU's own node."""
    dram_remote_ns: Quantity
    """Load from the memory of another socket."""
    costs: Mapping[str, Quantity] = field(repr=False)
    """Costs of single events by name, `allocator.costs.COSTS`."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `machine` group.

        Raises
        ------
        ConfigError
            If a key is unknown or missing, or a value cannot be used.
        """
        for key in config:
            if key not in _KEYS:
                raise ConfigError(f"machine.{key}", config[key], f"one of {', '.join(_KEYS)}")
        name = _text("machine.name", config.get("name"))
        counts = {k: _count(f"machine.{k}", config.get(k, d)) for k, d in _NUMBERS.items()}
        sizes = {k: _count(f"machine.{k}", config[k]) for k in _SIZES if config.get(k) is not None}
        topology = _topology(config, counts, sizes)
        return cls(
            name=name,
            title=_text("machine.title", config.get("title") or name),
            topology=topology,
            layout=layout_of(
                topology,
                sockets=counts["sockets"],
                threads_per_core=counts["threads_per_core"],
                cores_per_cluster=sizes.get("cores_per_cluster", 0),
                cores_per_die=sizes.get("cores_per_die", 0),
            ),
            frequency_ghz=quantity("machine.frequency_ghz", config.get("frequency_ghz")),
            transfer_ns=_transfers(config.get("transfer_ns")),
            dram_local_ns=_dram(config.get("dram_ns"), "local"),
            dram_remote_ns=_dram(config.get("dram_ns"), "remote"),
            costs=costs_from_config(config.get("costs")),
        )

    def on(self, topology: Topology) -> Layout:
        """Return where the CPUs of another topology would sit on a machine of this kind."""
        if topology == self.topology:
            return self.layout
        return layout_of(
            topology,
            sockets=self.layout.sockets,
            threads_per_core=self.layout.threads_per_core,
            cores_per_cluster=self.layout.cores_per_cluster,
            cores_per_die=self.layout.cores_per_die,
        )

    def cost_ns(self, name: str) -> float:
        """Return a cost in ns; costs in cycles are divided by the frequency.

        Raises
        ------
        KeyError
            If no cost has this name.
        """
        value = self.costs[name].value
        return value / self.frequency_ghz.value if name.endswith("_cycles") else value

    def cycles_ns(self, cycles: float) -> float:
        """Return the time that so many cycles take, in ns."""
        return cycles / self.frequency_ghz.value

    def transfer_table(self) -> NDArray[np.float64]:
        """Return ns by class of `TRANSFERS`, those that the profile omits filled in.

        Absent classes cost what the next farther one costs; `same_socket_away` costs what
        `same_socket` does.
        """
        table = np.zeros(len(TRANSFERS) + 1)
        farther = self.transfer_ns["cross_socket"].value
        for place in range(len(TRANSFERS) - 1, -1, -1):
            name = TRANSFERS[place]
            if name in self.transfer_ns:
                value = self.transfer_ns[name].value
            elif name == "same_socket_away":
                value = self.transfer_ns["same_socket"].value
            else:
                value = farther
            table[place + 1] = value
            farther = value if name != "same_socket_away" else self.transfer_ns["same_socket"].value
        return table

    def transfer(
        self,
        cpu_a: NDArray[np.int64],
        cpu_b: NDArray[np.int64],
        home: NDArray[np.int64],
        layout: Layout | None = None,
    ) -> NDArray[np.float64]:
        """Return the time to move a line from one CPU's cache to another's.

        Parameters
        ----------
        cpu_a, cpu_b
            CPU numbers, any equal shapes; a negative one means no CPU has the line.
        home
            Node whose memory backs the line; negative: unknown, no home penalty.
        layout
            Where the CPUs sit; the machine's own by default.

        Returns
        -------
        ns, the shape of the arguments; 0 where both CPUs are the same or one is absent.
        """
        place = self.layout if layout is None else layout
        return self.transfer_table()[pair_class(place, cpu_a, cpu_b, home)]

    def dram(
        self, cpu: NDArray[np.int64], node: NDArray[np.int64], layout: Layout | None = None
    ) -> NDArray[np.float64]:
        """Return the load latency in ns from a CPU to a node's memory, by shape of `cpu`."""
        place = self.layout if layout is None else layout
        far = place.socket[cpu] != place.socket_of_node[node]
        return np.where(far, self.dram_remote_ns.value, self.dram_local_ns.value)


def pair_class(
    layout: Layout,
    cpu_a: NDArray[np.int64],
    cpu_b: NDArray[np.int64],
    home: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return 0 for the same CPU (or an absent one), else 1 + the place in `TRANSFERS`."""
    absent = (cpu_a < 0) | (cpu_b < 0)
    a, b = np.where(absent, 0, cpu_a), np.where(absent, 0, cpu_b)
    same_socket = layout.socket[a] == layout.socket[b]
    home_socket = np.where(home >= 0, layout.socket_of_node[home], layout.socket[a])
    away = same_socket & (home_socket != layout.socket[a])
    kind = np.where(same_socket, 4, 6)
    kind = np.where(same_socket & (layout.die[a] == layout.die[b]), 3, kind)
    kind = np.where(away, 5, kind)
    kind = np.where(layout.cluster[a] == layout.cluster[b], 2, kind)
    kind = np.where(layout.core[a] == layout.core[b], 1, kind)
    return np.where(absent | (a == b), 0, kind)


def _topology(
    config: Mapping[str, object], counts: Mapping[str, int], sizes: Mapping[str, int]
) -> Topology:
    """Return the machine's topology: explicit, of a record, or regular from its counts."""
    if "record" in config:
        if config["record"] is None:
            expected = "the path of a record: python -m allocator capture > PATH"
            raise ConfigError("machine.record", None, expected)
        return _recorded(_text("machine.record", config["record"]))
    explicit = config.get("topology")
    if explicit is not None:
        if not isinstance(explicit, Mapping):
            raise ConfigError("machine.topology", explicit, "a mapping as in the topology group")
        topology = Topology.from_config(explicit)
        if topology is None:
            raise ConfigError("machine.topology", explicit, "CPUs and nodes")
        return topology
    cores = counts["cores_per_socket"] * counts["sockets"]
    cpus = cores * counts["threads_per_core"]
    nodes = counts["sockets"] * counts["nodes_per_socket"]
    if cores % nodes:
        raise ConfigError("machine.nodes_per_socket", counts["nodes_per_socket"], "equal nodes")
    node_of_cpu = tuple(cpu % cores * nodes // cores for cpu in range(cpus))
    return Topology(
        arch=_text("machine.arch", config.get("arch")),
        page_size=_count("machine.page_size", config.get("page_size", 4096)),
        nr_cpu_ids=max(sizes.get("cpus_possible", cpus), cpus),
        node_of_cpu=node_of_cpu,
        memory_bytes=_memory(config.get("node_memory_gib"), nodes),
        distances=_distances(config.get("distances"), nodes, counts["nodes_per_socket"]),
        memoryless_nodes=False,
    )


def _recorded(path: str) -> Topology:
    """Return the topology of a captured machine."""
    from allocator.records.machine import load_topology  # lazy: only this profile reads a file

    return load_topology(path)


def _memory(config: object, nodes: int) -> tuple[int, ...]:
    """Return bytes per node from GiB: one number for all, a list, or either with a source."""
    value = config.get("value") if isinstance(config, Mapping) else config
    values = value if isinstance(value, list | tuple) else [value] * nodes
    if len(values) != nodes:
        raise ConfigError("machine.node_memory_gib", value, f"one number or {nodes}")
    about = dict(config) if isinstance(config, Mapping) else {"source": "set in the configuration"}
    gib = [quantity("machine.node_memory_gib", {**about, "value": v}).value for v in values]
    return tuple(round(item * _GIB) for item in gib)


def _distances(config: object, nodes: int, per_socket: int) -> tuple[tuple[int, ...], ...]:
    """Return the distance matrix: explicit, or from `{same_socket, cross_socket}`."""
    if isinstance(config, Mapping):
        near = _count("machine.distances.same_socket", config.get("same_socket", 12))
        far = _count("machine.distances.cross_socket", config.get("cross_socket", 20))
        return tuple(
            tuple(
                10 if a == b else near if a // per_socket == b // per_socket else far
                for b in range(nodes)
            )
            for a in range(nodes)
        )
    if config is None:
        return _distances({}, nodes, per_socket)
    if not isinstance(config, list | tuple) or len(config) != nodes:
        raise ConfigError("machine.distances", config, f"{nodes} rows, or same_socket/cross_socket")
    rows = []
    for row in config:
        if not isinstance(row, list | tuple) or len(row) != nodes:
            raise ConfigError("machine.distances", row, f"{nodes} distances")
        rows.append(tuple(_count("machine.distances", item) for item in row))
    return tuple(rows)


def _transfers(config: object) -> dict[str, Quantity]:
    if not isinstance(config, Mapping):
        raise ConfigError("machine.transfer_ns", config, f"a mapping of {', '.join(TRANSFERS)}")
    for name in config:
        if name not in TRANSFERS:
            known = ", ".join(TRANSFERS)
            raise ConfigError(f"machine.transfer_ns.{name}", config[name], f"one of {known}")
    given = {name: quantity(f"machine.transfer_ns.{name}", item) for name, item in config.items()}
    if "same_socket" not in given:
        raise ConfigError("machine.transfer_ns.same_socket", None, "a number of ns")
    return {"cross_socket": given["same_socket"], **given}


def _dram(config: object, which: str) -> Quantity:
    if not isinstance(config, Mapping) or set(config) - {"local", "remote"}:
        raise ConfigError("machine.dram_ns", config, "a mapping of local and remote")
    return quantity(f"machine.dram_ns.{which}", config.get(which))


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(key, value, "text")
    return value


def _count(key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(key, value, "a whole number, 1 or more")
    return value
