"""A replay script as a workload: the same operations under many orders, kernels and topologies.

Every point is one lane; all lanes go through the script together. Pages never fragment; a node's
memory may run out, then operations fail as in the kernel and are counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from allocator.errors import ConfigError
from allocator.records.script_file import script_text
from allocator.results import Array, Results, Status, Table
from allocator.slabs.draws import defrag_draw
from allocator.slabs.snapshot import active_objects, slab_pages
from allocator.slabs.statistics import NR_STATS, stats_of
from allocator.streams import Stream
from allocator.workloads.replay import bottomless
from allocator.workloads.script import Script, parse_script
from allocator.workloads.script_ops import AllocPages, CreateCache, FreePages
from allocator.workloads.script_run import Lane, ScriptRun
from allocator.workloads.script_sheaves import refuse_without_sheaves

if TYPE_CHECKING:
    from allocator.point import Point

Ints = NDArray[np.int64]

EXAMPLE = """\
cache c 256 0 -
alloc c 0 640 0
free c 0 0 320 2
alloc c 0 160 1000
free c 1 1 320 2
shrink c
"""
"""Script of a workload that names none."""

MOST_CPUS, MOST_NODES = 8192, 1024
"""CPUs and nodes that a script may name before the machine is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A script and where it came from."""

    name: ClassVar[str] = "replay"
    ignores: ClassVar[frozenset[str]] = frozenset({"gfp"})

    text: str
    """The script."""
    source: str
    """Name of its file, for messages."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Read `script: PATH` or `ops: TEXT`; with neither, the script is `EXAMPLE`.

        Raises
        ------
        ConfigError
            If both are given, the file cannot be read, a line is malformed, or the
            script takes pages by itself.
        """
        given = {key: value for key, value in config.items() if value is not None}
        for key in given:
            if key not in ("script", "ops"):
                raise ConfigError(f"workload.{key}", given[key], "script or ops")
        if len(given) > 1:
            expected = "only one of workload.script (a file) and workload.ops (the text)"
            raise ConfigError("workload.script", given["script"], expected)
        key, value = next(iter(given.items()), ("ops", EXAMPLE))
        if not isinstance(value, str):
            raise ConfigError(f"workload.{key}", value, "a text")
        text, source = (script_text(value), value) if key == "script" else (value, "workload.ops")
        parsed = parse_script(text, source=source, cpus=range(MOST_CPUS), nodes=range(MOST_NODES))
        for op in parsed.ops:
            if isinstance(op, AllocPages | FreePages):
                raise ConfigError(f"{source}:{op.line}", "page", "operations on caches only")
        if not any(isinstance(op, CreateCache) for op in parsed.ops):
            raise ConfigError(f"workload.{key}", source, "a script that creates a cache")
        return cls(text=text, source=source)

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Return what lanes must share: CPUs, nodes, kernel behaviour, the script.

        Raises
        ------
        ConfigError
            If the script cannot run on this machine or kernel.
        """
        place = point.topology
        refuse_without_sheaves(self._checked(place.cpus, place.nodes), point.kernel)
        return (place.cpus, place.nodes, point.kernel, self)

    def command_line(self, point: "Point") -> str:
        """Return what shows the result on a real machine."""
        return f"slabreplay {self.source}  # and /sys/kernel/slab"

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Carry the script out, one lane per point."""
        topologies, kernel = [point.topology for point in points], points[0].kernel
        script = self._checked(topologies[0].cpus, topologies[0].nodes)
        caches = sum(isinstance(op, CreateCache) for op in script.ops)
        bits = [stream.generator("defrag").integers(0, 1 << 63, caches) for stream in streams]
        run = ScriptRun(
            script,
            kernel,
            [Lane(topology=p.topology, parameters=p.slab) for p in points],
            bottomless(topologies, kernel),
            draws=partial(_draw, np.concatenate(bits).astype(np.uint64)),
        )
        page_size = np.array([topology.page_size for topology in topologies])
        peak = np.zeros(len(points), dtype=np.int64)
        for op in script.ops:
            run.carry_out(op)
            peak = np.maximum(peak, _bytes(run, page_size).sum(axis=(1, 2)))
        return _results(run, script, page_size, peak)

    def _checked(self, cpus: int, nodes: int) -> Script:
        """Return the script for a machine; a CPU or node that it lacks is an error."""
        return _read(self.text, self.source, cpus, nodes)


@lru_cache(maxsize=8)  # every point asks for it
def _read(text: str, source: str, cpus: int, nodes: int) -> Script:
    return parse_script(text, source=source, cpus=range(cpus), nodes=range(nodes))


def _draw(keys: NDArray[np.uint64], row: Ints, number: Ints) -> Ints:
    return defrag_draw(keys[row], number)


def _bytes(run: ScriptRun, page_size: Ints) -> Ints:
    """Return the memory of each cache, (lane, cache, node) bytes."""
    pages = slab_pages(run.engine.state)
    return pages.reshape(run.nr_lanes, run.nr_caches, -1) * page_size[:, None, None]


def _results(run: ScriptRun, script: Script, page_size: Ints, peak: Ints) -> Results:
    """Return what the machines show in the end."""
    state, cells = run.engine.state, (run.nr_lanes, run.nr_caches)
    lists = (*cells, state.nr_nodes)
    used = _bytes(run, page_size)
    reclaimable = np.array(["RECLAIM_ACCOUNT" in one.flags for one in run.geometries[0]])
    stats = run.engine.statistics.stats.reshape(NR_STATS, *cells)
    active, total = active_objects(state).reshape(cells), state.total_objects.reshape(lists).sum(2)
    failed = [[one for one in told if "asked" in one] for told in run.results]
    of_cache = used.sum(axis=2)
    scalars: dict[str, Array] = {
        "operations": np.full(run.nr_lanes, len(script.ops), dtype=np.int64),
        "failed": np.array([len(told) for told in failed], dtype=np.int64),
        "Slab": of_cache.sum(axis=1),
        "Slab_peak": peak,
        "SReclaimable": of_cache[:, reclaimable].sum(axis=1),
        "SUnreclaim": of_cache[:, ~reclaimable].sum(axis=1),
        "objects_active_percent": _percent(active.sum(axis=1), total.sum(axis=1)),
    }
    caches: dict[str, Array] = {
        "active_objs": active,
        "num_objs": total,
        "num_slabs": state.nr_slabs.reshape(lists).sum(axis=2),
        "bytes": of_cache,
        "active_percent": _percent(active, total),
        "order": state.rows.order.reshape(cells),
        "objs_per_slab": state.rows.objects.reshape(cells),
    }
    for stat in stats_of(state.policy):
        scalars[stat.name.lower()] = stats[stat].sum(axis=1)
        caches[stat.name.lower()] = stats[stat]
    labels = _labels(script)
    nodes = range(state.nr_nodes)
    locks = run.engine.statistics.list_locks.reshape(run.nr_lanes, -1)
    return Results(
        scalars=scalars,
        tables={
            "caches": Table(labels=labels, values=caches),
            "nodes": Table(
                labels=tuple(f"N{node}" for node in nodes), values={"Slab": used.sum(axis=1)}
            ),
            "locks": Table(
                labels=tuple(f"list_lock:{name}:N{node}" for name in labels for node in nodes),
                values={"acquisitions": locks},
            ),
        },
        status=np.full(run.nr_lanes, Status.OK, dtype=np.int8),
    )


def _percent(part: Ints, whole: Ints) -> NDArray[np.float64]:
    percent: NDArray[np.float64] = 100.0 * part / np.maximum(whole, 1)
    return percent


def _labels(script: Script) -> tuple[str, ...]:
    """Return the caches' names; one that is used again gets a number."""
    labels: list[str] = []
    for op in script.ops:
        if isinstance(op, CreateCache):
            again = sum(label.split("#")[0] == op.cache for label in labels)
            labels.append(f"{op.cache}#{again + 1}" if again else op.cache)
    return tuple(labels)
