"""Hold the model against published regressions, and fit the few numbers that nobody measured.

    python -m tests.calibration.published                  # the table, with the values in use
    python -m tests.calibration.published --fit            # fit on all entries
    python -m tests.calibration.published --leave-one-out  # fit without each machine in turn
    python -m tests.calibration.published --markdown       # the table as it is in published.md

Fitted are one cost of the allocator (`list_slab_lines`: lines fetched per slab under list_lock)
and one number of each workload (its cycles outside slabs), all the same for every machine and
kernel. The model is run once for each point of a grid of values; everything else looks it up.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from allocator.point import GROUPS
from allocator.simulate import Tasks, simulate

HERE = Path(__file__).parent
CONF = HERE.parents[1] / "conf"
SEEDS = 6
"""Replicates whose mean is the model's answer."""
NEAR = 2.0
"""A change below so many percent is none."""
LEAST = 1.0
"""A change below so many percent has no direction: draws alone differ by that."""

Values = Mapping[str, float]
Key = tuple[float, ...]

LINES = "list_slab_lines"
CYCLES = {
    "hackbench_sockets": ("message_cycles", (6500.0, 9000.0, 13000.0)),
    "rawpkt": ("receive_cycles", (1000.0, 2000.0, 3500.0)),
    "will_it_scale_mmap1": ("operation_cycles", (4000.0, 7000.0, 11000.0)),
}
"""Fitted number of each workload, and the values that are tried."""
TRIED_LINES = (1.0, 1.5, 2.0)
"""Values of list_slab_lines that are tried."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says to an entry."""

    entry: Mapping[str, Any]
    model: float

    @property
    def published(self) -> float:
        """Percent, of change or of CPU time."""
        return float(self.entry.get("percent", self.entry.get("value")))

    @property
    def sign(self) -> bool:
        """Whether the direction is right; a level has none."""
        if self.entry["band"] == "none":
            return abs(self.model) < NEAR
        return self.model * self.published > 0 and abs(self.model) >= LEAST

    @property
    def inside(self) -> bool:
        """Whether the answer lies in the entry's band."""
        if self.entry["band"] in ("sign", "none"):
            return self.sign
        return self.sign and 0.5 <= self.model / self.published <= 2.0

    @property
    def loss(self) -> float:
        """How far off it is: log ratio of sizes where sizes are claimed, else 0 or 1."""
        if self.entry["band"] in ("sign", "none"):
            return float(not self.sign)
        if self.model * self.published <= 0:
            return 3.0
        return min(abs(float(np.log(self.model / self.published))), 3.0)


def entries() -> list[dict[str, Any]]:
    """Return the published entries that the model claims."""
    found: list[dict[str, Any]] = yaml.safe_load((HERE / "published.yaml").read_text())["entries"]
    return found


def fitted_entries() -> list[dict[str, Any]]:
    """Return the entries that are fitted on: those whose machine is told, or says `fit`."""
    return [
        entry
        for entry in entries()
        if entry["workload"]["name"] in CYCLES and (not entry.get("stand_in") or entry.get("fit"))
    ]


def conf(group: str, name: str) -> dict[str, Any]:
    """Return a choice of a configuration group."""
    return yaml.safe_load((CONF / group / f"{name}.yaml").read_text()) or {}


def cell(entry: Mapping[str, Any], side: str, values: Values) -> dict[str, Any]:
    """Return the configuration of one side of an entry under given values."""
    given = entry[side]
    load = entry["workload"]
    machine = conf("machine", entry["machine"])
    if LINES in values:
        machine["costs"] = {LINES: values[LINES]}
    name = load["name"]
    if CYCLES.get(name, ("",))[0] in values:
        load = load | {CYCLES[name][0]: values[CYCLES[name][0]]}
    return {
        "machine": machine,
        "topology": {},
        "kernel": {"preset": given["kernel"], "slab": given.get("policy", {})},
        "slab": conf("slab", "default") | given.get("slab", {}),
        "gfp": conf("gfp", "kernel"),
        "workload": conf("workload", name) | load,
    }


def simulated(cells: Sequence[Mapping[str, Any]], seeds: int) -> list[dict[str, float]]:
    """Return the metrics of each cell, the mean of the replicates."""
    tables: dict[str, list[Any]] = {group: [] for group in GROUPS}
    index, replicate = [], []
    for one in cells:
        for group in GROUPS:
            if one[group] not in tables[group]:
                tables[group].append(one[group])
        index += [[tables[group].index(one[group]) for group in GROUPS]] * seeds
        replicate += range(seeds)
    results = simulate(
        Tasks(tables=tables, index=np.array(index), replicate=np.array(replicate), seed=0)
    )
    if results.errors:
        raise RuntimeError(results.errors)
    scalars, locks = results.scalars, results.tables["locks"]
    lists = np.array([label.startswith("list_lock") for label in locks.labels])
    moving = np.nansum(np.where(lists, locks.values["handover_ns"], 0.0), axis=1)
    total = scalars["cpu_time_ns"]
    metrics = {
        "throughput": scalars["throughput"],
        "elapsed": 1.0 / scalars["throughput"],
        "spin": 100.0 * (scalars["list_lock_wait_ns"] + moving) / total,
        "get_partial": 100.0 * scalars["get_partial_ns"] / total,
    }
    means = {name: array.reshape(-1, seeds).mean(axis=1) for name, array in metrics.items()}
    return [{name: float(array[i]) for name, array in means.items()} for i in range(len(cells))]


def answers(known: Sequence[Mapping[str, Any]], values: Values, seeds: int = SEEDS) -> list[Answer]:
    """Return the model's answers to entries; equal cells are simulated once."""
    cells: list[dict[str, Any]] = []
    places = []
    for entry in known:
        pair = []
        for side in ("baseline", "changed"):
            if side not in entry:
                continue
            one = cell(entry, side, values)
            if one not in cells:
                cells.append(one)
            pair.append(cells.index(one))
        places.append(pair)
    metrics = simulated(cells, seeds)
    found = []
    for entry, pair in zip(known, places, strict=True):
        sides = [metrics[i][entry["metric"]] for i in pair]
        change = 100.0 * (sides[1] / sides[0] - 1.0) if len(sides) == 2 else sides[0]
        found.append(Answer(entry, change))
    return found


def grid() -> Iterator[tuple[str, Values]]:
    """Yield each workload and the values that its entries are tried under."""
    for name, (parameter, tried) in CYCLES.items():
        for lines, cycles in itertools.product(TRIED_LINES, tried):
            yield name, {LINES: lines, parameter: cycles}


def table_of_grid(cache: Path) -> dict[str, dict[Key, dict[str, float]]]:
    """Return workload -> (lines, cycles) -> entry -> answer; kept in a file between runs."""
    known = fitted_entries()
    stored: dict[str, dict[str, float]] = json.loads(cache.read_text()) if cache.exists() else {}
    table: dict[str, dict[Key, dict[str, float]]] = {name: {} for name in CYCLES}
    for name, values in grid():
        key = tuple(values.values())
        text = f"{name} {key}"
        if text not in stored:
            of = [entry for entry in known if entry["workload"]["name"] == name]
            stored[text] = {a.entry["id"]: a.model for a in answers(of, values, seeds=1)}
            cache.write_text(json.dumps(stored))
        table[name][key] = stored[text]
    return table


def best(
    table: Mapping[str, Mapping[Key, Mapping[str, float]]], known: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, float], float]:
    """Return the values of the grid with the least mean loss over entries, and that loss."""
    by_id = {entry["id"]: entry for entry in known}
    scored = []
    for lines in TRIED_LINES:
        values: dict[str, float] = {LINES: lines}
        losses: list[float] = []
        for name, (parameter, tried) in CYCLES.items():
            options = []
            for cycles in tried:
                found = table[name][lines, cycles]
                of = [Answer(by_id[i], model).loss for i, model in found.items() if i in by_id]
                options.append((float(np.mean(of)) if of else 0.0, cycles, of))
            _, values[parameter], of = min(options, key=lambda option: option[0])
            losses += of
        scored.append((float(np.mean(losses)), values))
    loss, values = min(scored, key=lambda item: item[0])
    return values, loss


def leave_one_out(table: Mapping[str, Mapping[Key, Mapping[str, float]]]) -> None:
    """Fit without each machine's entries in turn and print how those come out.

    A workload that only the machine left out ran is fitted on nothing then: its number is the first
    one tried, and the line says so.
    """
    known = fitted_entries()
    for machine in sorted({entry["machine"] for entry in known}):
        rest = [entry for entry in known if entry["machine"] != machine]
        values, loss = best(table, rest)
        sys.stdout.write(f"\nwithout {machine}: {values}, loss of the others {loss:.2f}\n")
        seen = {entry["workload"]["name"] for entry in rest}
        for name in sorted(set(CYCLES) - seen):
            sys.stdout.write(
                f"  {CYCLES[name][0]} of {name} is not fitted: no other machine ran it\n"
            )
        for entry in known:
            if entry["machine"] == machine:
                name = entry["workload"]["name"]
                key = (values[LINES], values[CYCLES[name][0]])
                sys.stdout.write(line(Answer(entry, table[name][key][entry["id"]])))


def line(answer: Answer) -> str:
    """Return an entry's line of the table."""
    entry = answer.entry
    stand_in = "*" if entry.get("stand_in") else " "
    return (
        f"{entry['id']:46s} {entry['machine']:18s}{stand_in} {entry['metric']:12s} "
        f"{entry['band']:10s} {answer.published:8.2f} {answer.model:8.2f} "
        f"{answer.model - answer.published:8.2f} {'sign' if answer.sign else '-':5s}"
        f"{'inside' if answer.inside else 'outside'}\n"
    )


def main() -> None:
    """Print the table or the fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--cache", type=Path, default=Path("published_grid.json"))
    options = parser.parse_args()
    if options.fit or options.leave_one_out:
        table = table_of_grid(options.cache)
        values, loss = best(table, fitted_entries())
        sys.stdout.write(f"all entries: {values}, loss {loss:.2f}\n")
        if options.leave_one_out:
            leave_one_out(table)
        return
    found = answers(entries(), {})
    sys.stdout.write(markdown(found) if options.markdown else plain(found))


def totals(found: Sequence[Answer]) -> str:
    """Return how many answers have the right sign, and how many are inside their band."""
    signs, inside = sum(a.sign for a in found), sum(a.inside for a in found)
    return f"sign right {signs}/{len(found)}, inside its band {inside}/{len(found)}\n"


def plain(found: Sequence[Answer]) -> str:
    """Return the table for a terminal."""
    head = (
        f"{'entry':46s} {'machine (* stand-in)':19s} {'metric':12s} {'band':10s} "
        f"{'published':>8s} {'model':>7s} {'residual':>8s}\n"
    )
    return head + "".join(line(answer) for answer in found) + totals(found)


def markdown(found: Sequence[Answer]) -> str:
    """Return the table with the reason of each miss."""
    lines = [
        "# Published results that the model claims\n",
        "Made by `python -m tests.calibration.published --markdown`; entries and sources are in",
        "[published.yaml](published.yaml). Percent of change, or of CPU time where the band is a",
        "level; the residual is in points. `*`: the source does not name its machine, this one",
        f"stands in. The model's answer is the mean of {SEEDS} seeds; less than {LEAST:g} % either",
        f"way has no direction. {totals(found).strip().capitalize()}.\n",
        "| entry | machine | metric | band | published | model | residual | sign | inside |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for answer in found:
        entry = answer.entry
        stand_in = "*" if entry.get("stand_in") else ""
        lines.append(
            f"| {entry['id']} | {entry['machine']}{stand_in} | {entry['metric']} | {entry['band']} "
            f"| {answer.published:.1f} | {answer.model:.1f} "
            f"| {answer.model - answer.published:+.1f} | {'yes' if answer.sign else 'no'} "
            f"| {'yes' if answer.inside else 'no'} |"
        )
    lines += ["\nLikely reasons of the misses:\n"]
    lines += [
        f"- {answer.entry['id']}: {answer.entry.get('miss', 'not known')}."
        for answer in found
        if not answer.inside
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
