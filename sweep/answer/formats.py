"""The rows of a comparison for other programs and for mails: CSV, JSON, Markdown."""

import json
import math
from collections.abc import Sequence

import numpy as np

from sweep.answer.lkp import counted
from sweep.answer.tables import Report

SUFFIXES = {"csv": "csv", "json": "json", "markdown": "md"}
"""Formats and how their files end."""
POINTS = {"percent": " %", "points": " points"}


def written(report: Report, format_: str, limit: int | None = None) -> str:
    """Write the rows of a report.

    Parameters
    ----------
    report
        The comparison.
    format_
        One of `SUFFIXES`; the columns of `csv` and `json` are those of `sweep.answer.frame`.
    limit
        Most rows of `markdown`, which is for reading; the others always have all.
    """
    if format_ == "csv":
        return str(report.frame().to_csv(index=False, lineterminator="\n"))
    return _json(report) if format_ == "json" else _markdown(report, limit)


def _json(report: Report) -> str:
    """Return a header and a list of rows, a line each; what is no number is null."""
    comparison = report.comparison
    base, *others = comparison.labels
    header = {
        "axis": comparison.axis,
        "baseline": base,
        "values": others,
        "fixed": comparison.cells.fixed(),
        "methods": {key: report.data.attrs[key] for key in ("test", "interval", "correction")},
        "provenance": comparison.cells.provenance(),
    }
    table = report.frame().replace([np.inf, -np.inf], np.nan).astype(object)
    rows = table.where(table.notna(), None).to_dict("records")
    lines = ",\n".join(json.dumps(row, default=_plain, allow_nan=False) for row in rows)
    head = json.dumps(_finite(header), default=_plain, allow_nan=False)
    return f'{{"header": {head},\n"rows": [\n{lines}\n]}}\n'


def _markdown(report: Report, limit: int | None) -> str:
    """Return the columns that one reads, numbers as the text report has them."""
    comparison = report.comparison
    every = report.frame()
    table = every[:limit]
    axes = [part for dim in comparison.dims for part in comparison.cells.parts(dim)]
    several = len(comparison.labels) > 2
    head = [
        *axes,
        *([comparison.axis] if several else []),
        "metric",
        comparison.labels[0],
        "value" if several else comparison.labels[1],
        "change",
        "95 % interval",
        "p adjusted",
        "causes",
    ]
    lines = [head, ["---"] * len(head)]
    for row in table.to_dict("records"):
        unit = POINTS[row["change_units"]]
        low, high = row["change_low"], row["change_high"]
        causes = [
            f"{row[f'cause_{k}']} {row[f'cause_{k}_points']:+.1f}"
            for k in (1, 2, 3)
            if row[f"cause_{k}"]
        ]
        lines.append(
            [
                *(str(row[axis]) for axis in axes),
                *([str(row["value"])] if several else []),
                row["metric"],
                _mean(row["baseline_mean"], row["baseline_failed"]),
                _mean(row["mean"], row["failed"]),
                "" if math.isnan(row["change"]) else f"{row['change']:+.1f}{unit}",
                "" if math.isnan(low + high) else f"{low:+.1f} to {high:+.1f}{unit}",
                "" if math.isnan(row["p_adjusted"]) else _p(row["p_adjusted"]),
                ", ".join(causes),
            ]
        )
    more = len(every) - len(table)
    end = f"\n{counted(more, 'more row')}\n" if more else ""
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines) + end


def _mean(mean: float, failed: int) -> str:
    text = "-" if math.isnan(mean) else f"{mean:.5g}"
    return f"{text} ({failed} failed)" if failed else text


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-4 else "< 0.0001"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _finite(value: object) -> object:
    """Return nested values with null for what is no finite number."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: object) -> object:
    """Return a NumPy scalar as Python's."""
    return value.item() if isinstance(value, np.generic) else str(value)
