"""Write the excerpt of records that the counts are held against.

    python tests/calibration/excerpt.py DIR > tests/calibration/workload_records.json

DIR holds `workload` records: 6.1 with CONFIG_SLUB_STATS under hackbench and stress-ng. Kept are the
machine, the kernel, the command, and per cache the geometry and each run's rates per allocation.
"""

import json
import sys
from pathlib import Path

COUNTERS = (
    "alloc_slowpath",
    "free_slowpath",
    "free_frozen",
    "alloc_slab",
    "alloc_from_partial",
    "cpu_partial_node",
    "cpu_partial_drain",
)
"""Counters that are kept, per allocation."""
CACHES = {
    "hackbench": ("skbuff_head_cache", "kmalloc-cg-512", "kmalloc-cg-2k"),
    "stress-ng": ("skbuff_head_cache", "kmalloc-512", "vm_area_struct", "maple_node"),
}
"""Caches that a program's own operations use."""
LEAST = 5000
"""A cache with fewer allocations shows the shell of the guest rather than the program."""


def excerpt(record: dict) -> dict:
    """Return what is kept of a record."""
    env = record["env"]
    program = env["run"].split()[0]
    runs = record["measured"]["runs"]
    caches = {}
    for name in CACHES[program]:
        if any(name not in run["caches"] for run in runs):
            continue
        of = [run["caches"][name] for run in runs]
        allocations = [_allocations(one["stats"]) for one in of]
        if min(allocations) < LEAST:
            continue
        caches[name] = {
            **{key: of[0]["geometry"][key] for key in ("objs_per_slab", "order", "cpu_partial")},
            "allocations": allocations,
            "rates": {
                key: [
                    round(one["stats"].get(key, 0) / number, 6)
                    for one, number in zip(of, allocations, strict=True)
                ]
                for key in COUNTERS
            },
        }
    return {
        "name": record["name"],
        "kernel": record["kernel"],
        "cpus": env["smp"],
        "nodes": env["nodes"] or 1,
        "mem_mib": env["mem_mib"],
        "cmdline": env["cmdline"],
        "run": env["run"],
        "cpu_partial": env.get("cpu_partial_config", True),
        "caches": caches,
    }


def _allocations(stats: dict[str, int]) -> int:
    return stats.get("alloc_fastpath", 0) + stats.get("alloc_slowpath", 0)


if __name__ == "__main__":
    records = [json.loads(path.read_text()) for path in sorted(Path(sys.argv[1]).glob("*.json"))]
    lines = [json.dumps(excerpt(record)) for record in records]
    sys.stdout.write("[\n" + ",\n".join(lines) + "\n]\n")
