"""Hold the scalar SLUB against replay records of real kernels.

    python -m tests.reference.slub_truth DIR...

Prints equal and all records per kernel and the first differences; exit 1 if there are any.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from allocator.records.machine import kernel_of, machine_topology, parameters_of
from allocator.records.record import Record, load
from allocator.slabs.geometry import cache_geometry
from allocator.workloads.script import parse_script
from allocator.workloads.script_ops import CreateCache
from tests.reference.slub import Cache
from tests.reference.slub_cpu import CpuSlabs
from tests.reference.slub_pages import Pages
from tests.reference.slub_replay import Replay
from tests.reference.slub_sheaves import Sheaves
from tests.reference.slub_types import Places

SHOWN = 12


def replay(
    record: Record,
    *,
    draw: Callable[[], int] = lambda: 0,
    flush_order: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """Return what the reference predicts for a slab record."""
    kernel, topology = kernel_of(record), machine_topology(record)
    parameters = parameters_of(record, kernel)
    pages = Pages(Places.of(kernel, topology))
    kind = Sheaves if kernel.slab.generation == "sheaves" else CpuSlabs

    def create(op: CreateCache) -> Cache:
        geometry = cache_geometry(
            kernel.slab,
            topology,
            parameters,
            name=op.cache,
            object_size=op.size,
            align=op.align,
            flags=op.flags,
            sheaf_capacity=op.sheaf_capacity or None,
        )
        return kind(kernel, topology, geometry, pages, draw=draw, name=op.cache)

    script = parse_script(
        str(record.given["ops"]),
        source=record.name,
        cpus=range(topology.cpus),
        nodes=range(topology.nodes),
    )
    return Replay(create, topology.cpus, flush_order=flush_order).run(script.ops)


def differences(
    record: Record, agree: dict[str, bool], snapshots: Sequence[dict[str, Any]]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield what, measured, predicted of all that the record's repeats agree in."""
    assert record.measured is not None
    measured: Any = record.measured["snapshots"]
    if len(measured) != len(snapshots):
        yield "snapshots", len(measured), len(snapshots)
        return
    for want, got in zip(measured, snapshots, strict=True):
        label = want["label"]
        pairs = [("label", label, got["label"])]
        if label != "sysfs-failed":
            for cache, told in want["caches"].items():
                if agree["counts"]:
                    pairs.append((cache, told["counts"], got["caches"][cache]["counts"]))
                if "stats" in told:  # a kernel with CONFIG_SLUB_STATS
                    pairs.append((f"{cache} stats", told["stats"], got["caches"][cache]["stats"]))
            if agree["place"]:
                pairs += [(part, want["place"][part], got["place"][part]) for part in got["place"]]
            if agree["results"]:
                pairs.append(("results", want["results"], got["results"]))
        else:
            pairs.append(("errno", (want["what"], want["errno"]), (got["what"], got["errno"])))
        yield from ((f"{label} {what}", w, g) for what, w, g in pairs if w != g)


def main(folders: Sequence[str]) -> int:
    """Compare all slab records below the folders."""
    equal: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    shown: list[str] = []
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*.json")):
        record = load(path)
        if record.kind != "replay" or record.measured is None or path.stem.startswith("page-"):
            continue
        raw = _outline(path)
        agree = {part: raw["stable"] or raw["agree"][part] for part in raw["agree"]}
        kind = record.kernel + ("" if raw["stable"] else " unstable")
        if not any(agree[part] for part in ("counts", "place")):
            kind += ", nothing to compare"
        found = list(differences(record, agree, replay(record)))
        seen[kind] += 1
        equal[kind] += not found
        shown += [f"{path.parent.name}/{path.stem}: {w}: {a} model {b}" for w, a, b in found[:1]]
    for kind, count in seen.items():
        print(f"{kind:40} {equal[kind]}/{count}")
    for line in shown[:SHOWN]:
        print("  " + line[:600])
    return 1 if shown else 0


def _outline(path: Path) -> dict[str, Any]:
    """Return what the loader does not keep: whether repeats agreed."""
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
