"""The page: one HTML file with everything in it, to be mailed or opened anywhere.

Its size is bounded whatever the grid's: so many rows, so many groups in full, so many pictures.
"""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sweep.answer.cells import Cells
from sweep.answer.effects import without_comparison
from sweep.answer.groups import ANY, rank
from sweep.answer.lkp import counted, group_text, unit_text
from sweep.answer.stats import summarise
from sweep.answer.tables import KEPT_GROUPS, Report, summary_table
from sweep.page.commands import on_hardware, reproducing
from sweep.page.findings import Finding, findings_of
from sweep.page.words import (
    cause_text,
    change_text,
    headline,
    interval_text,
    missing,
    p_text,
    sentences,
)
from sweep.pictures.shades import short

if TYPE_CHECKING:
    import xarray as xr

    from sweep.pictures.album import Picture

MOST_ROWS = 200
"""Groups in the table."""
MOST_DETAILS = 60
"""Groups with all their stats."""
MOST_STATS = 60
"""Stats of one of them."""
MOST_BYTES = 2_500_000
"""Of pictures; a third more in the page."""
ON_HARDWARE = 5
"""Points whose command lines are shown."""


def comparison_page(
    report: Report,
    pictures: "Sequence[Picture]",
    *,
    table: str,
    extra: Sequence[str] = (),
    sensitivities: "Sequence[xr.Dataset]" = (),
) -> str:
    """Build the page of a comparison.

    Parameters
    ----------
    report
        What was compared.
    pictures
        PNG pictures; embedded.
    table
        Name of the file that holds all groups.
    extra
        Further sections as text, such as that on fits; each starts with its title's line.
    sensitivities
        What `sweep.fit.sensitivity` found, of all machines first; none: mean changes are told.
    """
    comparison = report.comparison
    found = findings_of(report, MOST_ROWS)
    base, *rest = comparison.labels
    strongest = [one.cell for one in (found.worst, found.best) if one is not None]
    ranked = [*report.ranking.cells[:ON_HARDWARE].tolist()]
    ranked = ranked or np.flatnonzero(report.ranking.first)[:1].tolist()
    axes = [part for dim in comparison.dims for part in comparison.cells.parts(dim)]
    shown = len(report.groups[:MOST_ROWS])
    return _render(
        comparison.cells,
        title=f"{comparison.axis}: {', '.join(rest)} against {base}",
        headline=headline(found, report),
        summary=sentences(found, report, sensitivities),
        pictures=pictures,
        table=_table(found.rows, axes, len(rest) > 1, comparison.axis),
        tested=found.counts.tested,
        more=_more(len(report.ranking.cells), shown, table, len(report.groups)),
        groups=[
            (
                " ".join(f"{axis}={value}" for axis, value in group.where.items()) or "all points",
                group_text(
                    group,
                    comparison.axis,
                    comparison.labels,
                    comparison.cells.fixed(),
                    MOST_STATS,
                ),
            )
            for group in report.groups[:MOST_DETAILS]
        ],
        more_groups=_more(
            len(report.ranking.cells), min(MOST_DETAILS, shown), table, len(report.groups)
        ),
        hardware=on_hardware(comparison, list(dict.fromkeys([*strongest, *ranked]))[:ON_HARDWARE]),
        extra=extra,
    )


def metric_page(
    cells: Cells,
    metric: str | None,
    pictures: "Sequence[Picture]",
    *,
    table: str,
    command: str,
    extra: Sequence[str] = (),
) -> str:
    """Build the page of a run in which nothing is compared.

    Parameters
    ----------
    cells
        The dataset.
    metric
        Variable to show; None: each workload's own.
    pictures
        PNG pictures; embedded.
    table
        Name of the file that holds all points.
    command
        Command that compares, "" where nothing can be compared.
    extra
        Further sections as text.
    """
    whole = without_comparison(cells, metric)
    ranking = rank(whole)
    summary = summarise(whole.metric_values())
    told = []
    which = whole.metric_of_cell()
    for number, name in enumerate(whole.metrics):
        mine = np.flatnonzero((which == number) & np.isfinite(summary.mean[:, 0]))
        if not mine.size:
            continue
        means = summary.mean[mine, 0]
        workload = cells.labels(whole.metric_dim)[number] if whole.metric_dim else ""
        low, high = (int(mine[k]) for k in (means.argmin(), means.argmax()))
        unit = unit_text(whole.units(name))
        told.append(
            (
                f"{workload}.{name}" if workload else name,
                f"From {short(float(summary.mean[low, 0]))}{unit}{_at(whole.where(low))} to"
                f" {short(float(summary.mean[high, 0]))}{unit}{_at(whole.where(high))}.",
            )
        )
    told += [("Without a result", text) for text in [missing(whole)] if text]
    told += [("To compare", command)] if command else []
    runs = counted(whole.status().shape[2], "run")
    points = counted(ranking.distinct, "distinct point")
    return _render(
        cells,
        title=", ".join(dict.fromkeys(whole.metrics)),
        headline=f"{points}, {runs} each; nothing is compared.",
        summary=told,
        pictures=pictures,
        text=summary_table(cells, metric, MOST_ROWS),
        more=_more(ranking.distinct, MOST_ROWS, table, KEPT_GROUPS),
        hardware=on_hardware(whole, np.flatnonzero(ranking.first)[:1].tolist()),
        extra=extra,
    )


def _render(cells: Cells, *, pictures: "Sequence[Picture]", **parts: object) -> str:
    provenance = {k: v for k, v in cells.provenance().items() if k not in ("groups", "provenance")}
    template = _environment().get_template("report.html.j2")
    defaults: dict[str, object] = {
        "table": None,
        "text": "",
        "groups": [],
        "more_groups": "",
        "tested": False,
    }
    return template.render(
        **{**defaults, **parts},
        pictures=[
            {
                "title": picture.title,
                "alt": picture.alt,
                "apart": picture.apart,
                "width": picture.width,
                "height": picture.height,
                "data": base64.b64encode(picture.png).decode(),
            }
            for picture in _light(pictures)
        ],
        command=reproducing(cells.provenance()),
        source=_source(provenance),
        provenance=json.dumps(provenance, indent=1, default=str),
    )


def _light(pictures: "Sequence[Picture]") -> "list[Picture]":
    """Leave out pictures of single machines once there are `MOST_BYTES`; they are files as well."""
    sizes = np.cumsum([len(picture.png) for picture in pictures])
    return [p for p, size in zip(pictures, sizes, strict=True) if size <= MOST_BYTES or not p.apart]


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _source(provenance: Mapping[str, object]) -> str:
    """Say in a line where the data come from."""
    git = provenance.get("git")
    commit = str(git.get("commit", "")) if isinstance(git, Mapping) else ""
    changed = isinstance(git, Mapping) and git.get("dirty")
    parts = [str(provenance[key]) for key in ("source",) if key in provenance]
    if commit:
        parts.append(f"commit {commit[:12]}{' with local changes' if changed else ''}")
    if "seed" in provenance:
        seeds = provenance["seed"]
        many = seeds if isinstance(seeds, list) else [seeds]
        parts.append(f"seed {', '.join(map(str, many))}")
    if "finished" in provenance:
        parts.append(f"finished {provenance['finished']}")
    return ", ".join(parts)


def _table(
    rows: Sequence[Finding], axes: Sequence[str], several: bool, compared: str
) -> dict[str, object]:
    """Return heads and rows of the table; a cell is (text, number to sort by or None)."""
    heads = [*axes, *([compared] if several else []), "metric", "baseline", "mean", "change"]
    heads += ["95 % interval", "p, corrected", "runs", "what moved"]
    body = []
    for one in (row for row in rows if row.told):
        cells: list[tuple[str, float | None]] = [(one.where.get(axis, ""), None) for axis in axes]
        cells += [(one.value, None)] if several else []
        cells += [
            (f"{one.metric}{unit_text(one.units)}", None),
            _number(one.baseline),
            _number(one.mean),
            (change_text(one), one.change if math.isfinite(one.change) else None),
            (interval_text(one).removeprefix(" (95 % interval ").rstrip(")"), None),
            (p_text(one.p).removeprefix("p = ").removeprefix("p "), _finite(one.p)),
            ("/".join(map(str, one.runs)), None),
            ("; ".join([*_failures(one), *(cause_text(*c) for c in one.causes[:2])]), None),
        ]
        tone = "" if not one.sure else "worse" if one.gain < 0 else "better" if one.gain > 0 else ""
        body.append({"cells": cells, "tone": tone})
    used = [any(row["cells"][k][0] for row in body) for k in range(len(heads))]
    for row in body:
        row["cells"] = [cell for cell, keep in zip(row["cells"], used, strict=True) if keep]
    heads = [head for head, keep in zip(heads, used, strict=True) if keep]
    star = any(ANY in one.where.values() for one in rows)
    return {"heads": heads, "rows": body, "star": star}


def _number(value: float) -> tuple[str, float | None]:
    return ("-", None) if math.isnan(value) else (short(value), value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _failures(one: Finding) -> list[str]:
    return [f"{name}: {b} of {runs} runs, {a} before" for name, a, b, runs in one.failures]


def _more(every: int, shown: int, table: str, kept: int) -> str:
    """Say how many are not on the page, and where they are; the file is bounded, too."""
    if every <= shown:
        return ""
    where = f" in {table}" if every <= kept else f"; {table} has the first {kept}"
    return f"and {every - shown} more{where}"


def _at(where: Mapping[str, str]) -> str:
    named = [f"{key}={value}" for key, value in where.items() if key != "workload"]
    return f" at {', '.join(named)}" if named else ""
