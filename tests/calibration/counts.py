"""Hold the model's counts against those of booted kernels.

    python -m tests.calibration.counts            # table, summary, and how counts move
    python -m tests.calibration.counts --markdown # the same, short: tests/calibration/counts.md
    python -m tests.calibration.counts --fit      # which parameters explain the counts best

Each record holds two runs; a rate is inside if it lies in their range widened by 20 percent. The
guests' virtual CPUs share two real ones, so that two runs of one record already differ by 10 to
30 percent.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from allocator.point import GROUPS
from allocator.simulate import Tasks, simulate
from tests.calibration.movement import move_rows, moves

HERE = Path(__file__).parent
CONF = HERE.parents[1] / "conf"
COUNTERS = (
    "alloc_slowpath",
    "free_slowpath",
    "free_frozen",
    "alloc_slab",
    "alloc_from_partial",
    "cpu_partial_node",
    "cpu_partial_drain",
)
"""Counters that are compared, per allocation."""
WIDER = 0.2
"""By how much the runs' range is widened at each end."""
SEEDS = 3
"""Replicates whose mean is the model's answer."""


@dataclass(frozen=True, slots=True)
class Rate:
    """One counter of one cache of one record."""

    record: str
    cache: str
    counter: str
    low: float
    high: float
    model: float

    @property
    def inside(self) -> bool:
        """Whether the model lies in the widened range."""
        return self.low * (1 - WIDER) <= self.model <= self.high * (1 + WIDER)

    @property
    def ratio(self) -> float:
        """Model over the mean of the runs."""
        return self.model / (0.5 * (self.low + self.high))


def records(program: str) -> list[dict]:
    """Return the records of `hackbench` (through sockets) or `stress-ng --rawpkt`."""
    found = json.loads((HERE / "workload_records.json").read_text())
    return [
        record
        for record in found
        if record["run"].startswith(program)
        and record["caches"]
        and "-p" not in record["run"].split()
    ]


def cell(record: Mapping, workload: Mapping) -> dict[str, dict]:
    """Return the configuration of a record's machine and kernel under a workload."""
    per_node = record["cpus"] // record["nodes"]
    machine = yaml.safe_load((CONF / "machine" / "icx_2xGold6338.yaml").read_text())
    machine |= {
        "name": "guest",
        "topology": {
            "arch": "x86_64",
            "page_size": 4096,
            "cpus": [per_node] * record["nodes"],
            "memory_bytes": [(record["mem_mib"] << 20) // record["nodes"]] * record["nodes"],
        },
    }
    choices = {} if record["cpu_partial"] else {"config_cpu_partial": False}
    slab = yaml.safe_load((CONF / "slab" / "default.yaml").read_text())
    for word in record["cmdline"].split():
        key, value = word.split("=")
        slab[key.removeprefix("slub_")] = int(value)
    return {
        "machine": machine,
        "topology": {},
        "kernel": {"preset": record["kernel"], "slab": choices},
        "slab": slab,
        "gfp": yaml.safe_load((CONF / "gfp" / "kernel.yaml").read_text()),
        "workload": dict(workload),
    }


def workload_of(record: Mapping, changes: Mapping) -> dict:
    """Return the workload that a record's command line runs."""
    words = record["run"].split()
    options = {word: words[i + 1] for i, word in enumerate(words[:-1]) if word.startswith("-")}
    if words[0] == "hackbench":
        name, given = (
            "hackbench_sockets",
            {
                "groups": int(options["-g"]),
                "loops": int(options["-l"]),
                "message_bytes": int(options.get("-s", 100)),
            },
        )
    else:
        instances = int(options["--rawpkt"])
        packets = int(options["--rawpkt-ops"]) // instances
        name, given = "rawpkt", {"instances": instances, "packets": packets}
    base = yaml.safe_load((CONF / "workload" / f"{name}.yaml").read_text())
    return base | given | dict(changes)


def run(cells: Sequence[Mapping], seeds: int = SEEDS) -> list[dict[str, dict[str, np.ndarray]]]:
    """Simulate cells; return per cell and cache each counter of `caches`, (seed,)."""
    tables: dict[str, list] = {group: [] for group in GROUPS}
    index, replicate = [], []
    for one in cells:
        row = []
        for group in GROUPS:
            if one[group] not in tables[group]:
                tables[group].append(one[group])
            row.append(tables[group].index(one[group]))
        index += [row] * seeds
        replicate += range(seeds)
    results = simulate(
        Tasks(tables=tables, index=np.array(index), replicate=np.array(replicate), seed=0)
    )
    if results.errors:
        raise RuntimeError(results.errors)
    table = results.tables["caches"]
    answers = []
    for number in range(len(cells)):
        lanes = slice(number * seeds, (number + 1) * seeds)
        answers.append(
            {
                cache: {name: array[lanes, at] for name, array in table.values.items()}
                for at, cache in enumerate(table.labels)
            }
        )
    return answers


def rates(
    program: str, changes: Mapping, seeds: int = SEEDS, only: Sequence[str] = ()
) -> list[Rate]:
    """Return all compared rates of a program's records, or of some of them."""
    known = [one for one in records(program) if not only or one["name"] in only]
    answers = run([cell(record, workload_of(record, changes)) for record in known], seeds)
    found = []
    for record, answer in zip(known, answers, strict=True):
        for cache, seen in record["caches"].items():
            got = answer.get(cache)
            if got is None:
                continue
            total = got["alloc_fastpath"] + got["alloc_slowpath"]
            if not total.any():
                continue
            for counter in COUNTERS:
                runs = seen["rates"][counter]
                if max(runs) > 0:
                    model = float((got[counter] / total).mean())
                    found.append(Rate(record["name"], cache, counter, min(runs), max(runs), model))
    return found


def summary(found: Sequence[Rate]) -> str:
    """Return one line per counter: how many are inside, and their ratio's median and mean."""
    lines = []
    for counter in COUNTERS:
        inside, number, middle, mean = _standing(found, counter)
        lines.append(
            f"{counter:20s} inside {inside:3d}/{number:3d}  median ratio {middle:5.2f}"
            f"  geometric mean {mean:5.2f}"
        )
    return "\n".join(lines)


def _standing(found: Sequence[Rate], counter: str) -> tuple[int, int, float, float]:
    """Return how many of a counter's rates are inside, of how many; the ratio's median and mean."""
    of = [rate for rate in found if rate.counter == counter]
    ratio = np.array([max(rate.ratio, 1e-9) for rate in of])
    inside = sum(rate.inside for rate in of)
    return inside, len(of), float(np.median(ratio)), float(np.exp(np.log(ratio).mean()))


def markdown() -> str:
    """Return the summaries of both programs and how hackbench's counts move."""
    hackbench, rawpkt = rates("hackbench", {}), rates("stress-ng --rawpkt", {})
    parts = [
        "# Counts of booted kernels, and the model's",
        "",
        "Made by `python -m tests.calibration.counts --markdown`. Per allocation; the model is the",
        f"mean of {SEEDS} seeds. Inside: in the range of the record's two runs, widened by 20 %.",
        "Ratio: model over record.",
    ]
    for title, found in (
        ("hackbench, 20 records, two caches each", hackbench),
        ("stress-ng rawpkt, 6 records, sk_buff", rawpkt),
    ):
        parts += ["", f"## {title}", "", "| count | inside | median ratio | mean ratio |"]
        parts += ["|---|---|---|---|"]
        for counter in COUNTERS:
            inside, number, middle, mean = _standing(found, counter)
            parts.append(f"| {counter} | {inside}/{number} | {middle:.2f} | {mean:.2f} |")
    parts += [
        "",
        "## From one record to another, kmalloc-cg-512",
        "",
        "After the change over before: means, what the runs' extremes allow, the model. Where both",
        "ends agree on a direction, whether the model goes there (still: by less than 1 %).",
        "Size: whether the model lies in what the extremes allow, widened by 20 %.",
        "",
        move_rows(moves(hackbench, COUNTERS)),
    ]
    return "\n".join(parts)


def fit(program: str, grid: Mapping[str, Sequence[float]]) -> None:
    """Print the summary of each combination of parameters, best last."""
    scored = []
    for values in itertools.product(*grid.values()):
        changes = dict(zip(grid, values, strict=True))
        found = rates(program, changes, seeds=1)
        scored.append((sum(rate.inside for rate in found), changes, len(found)))
    for inside, changes, number in sorted(scored, key=lambda item: item[0]):
        sys.stdout.write(f"{inside:4d}/{number} {changes}\n")


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="hackbench")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    if options.markdown:
        sys.stdout.write(markdown() + "\n")
        return
    if options.fit:
        grid = {
            "turn_messages": (150, 200, 300),
            "head_start": (0.6, 0.7, 0.8),
            "direct_share": (0.15, 0.2),
        }
        fit(options.program, grid)
        return
    found = rates(options.program, {})
    for rate in found:
        sys.stdout.write(
            f"{rate.record:32s} {rate.cache:18s} {rate.counter:20s} "
            f"{rate.low:9.5f} {rate.high:9.5f} {rate.model:9.5f} "
            f"{'' if rate.inside else 'outside'}\n"
        )
    sys.stdout.write(summary(found) + "\n")
    if options.program == "hackbench":
        sys.stdout.write(move_rows(moves(found, COUNTERS)) + "\n")


if __name__ == "__main__":
    main()
