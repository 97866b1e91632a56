"""A comparison in words: the worst, the best, where, why and how sure."""

import math
import re
from collections.abc import Sequence

import numpy as np
import xarray as xr

from allocator.counters import CAUSES
from sweep.answer.compare import Comparison
from sweep.answer.effects import effects
from sweep.answer.groups import ANY
from sweep.answer.lkp import counted, unit_text
from sweep.answer.stats import METRIC_RATIO
from sweep.answer.tables import Report, unchanged
from sweep.page.findings import Counts, Finding, Findings
from sweep.pictures.shades import percent, short

NO_DIFFERENCE = "No difference was found between"
FAILURES = ("oom", "failed")
"""Statuses that are worse than a result."""
SMALLEST_P = 1e-4
"""p values below are written as that."""
TOLD_CAUSES = 3
"""Causes in a sentence."""
TOLD_FAILURES = 3
"""Points that fail now, in a sentence."""
TOLD_TERMS, LEAST_SHARE = 3, 5.0
"""Terms of a sensitivity that are told, and percent that each explains at least."""
TOLD_FROM = 3
"""Terms of a sensitivity from which on shares tell something: two axes, and the rest."""
TOLD_VALUES = 8
"""Compared values whose counts are told."""
ALL_CHANCE = 50.0
"""Percent of the variance that chance explains, from which on its split tells nothing."""
WORTH = 0.5
"""Percent by which mean changes along an axis differ at least, to be told."""


def headline(found: Findings, report: Report) -> str:
    """Return the page's first sentence or two."""
    failing = _newly_failing(report.comparison)
    usual = _changes_in_a_line(found, report)
    if not failing or found.counts.failed == found.counts.distinct:
        return usual
    if usual.startswith(NO_DIFFERENCE):
        usual = "Elsewhere no difference was found."
    return f"{failing} {usual}"


def _newly_failing(comparison: Comparison) -> str:
    """Say which values fail at how many points at which the baseline does not; "" if none."""
    axis, (base, *rest) = comparison.axis, comparison.labels
    failed = sum(
        (count for name, count in comparison.failures().items() if name in FAILURES),
        np.zeros((1, len(comparison.labels)), dtype=np.int64),
    )
    distinct = comparison.originals == np.arange(len(comparison.originals))
    points = ((failed[:, 1:] > failed[:, :1]) & distinct[:, None]).sum(axis=0).tolist()
    bad = [(named(axis, label), n) for label, n in zip(rest, points, strict=True) if n]
    if not bad:
        return ""
    parts = [f"{label} fails at {counted(n, 'point')}" for label, n in bad[:TOLD_FAILURES]]
    more = f" and {len(bad) - TOLD_FAILURES} more values" if len(bad) > TOLD_FAILURES else ""
    return f"{_capital(', '.join(parts))}{more} where {named(axis, base)} does not."


def _changes_in_a_line(found: Findings, report: Report) -> str:
    axis, (base, *rest) = report.comparison.axis, report.comparison.labels
    counts = found.counts
    one = len(rest) == 1
    what = named(axis, rest[0]) if one else f"{len(rest)} other values of {axis}"
    than = named(axis, base)
    if counts.failed == counts.distinct:
        return f"No point of {what} has a result to compare with {than}."
    if found.worst is None and found.best is None:
        if found.likely_worst is None and found.likely_best is None:
            return f"{NO_DIFFERENCE} {than} and {what}."
        why = "are not significant" if counts.tested else "are no changes by lkp's rule"
        return f"Differences between {than} and {what} {why}."
    if found.worst is None:
        verb = "is better" if one else "are better"
        return f"{_capital(what)} {verb} than {than} or the same, wherever tried."
    verb = "is worse" if one else "are worse, some of them,"
    text = f"{_capital(what)} {verb} than {than} at {counted(counts.worse, 'point')}"
    return f"{text}." if found.best is None else f"{text} and better at {counts.better}."


def named(axis: str, label: str) -> str:
    """Write a value so that it is plain what it is a value of.

    >>> named("kernel", "v6_1"), named("slab_max_order", "3")
    ('v6_1', 'slab_max_order=3')
    """
    return label if re.match(r"[A-Za-z]+\d*_|v\d", label) else f"{axis}={label}"


def sentences(
    found: Findings, report: Report, sensitivities: Sequence[xr.Dataset] = ()
) -> list[tuple[str, str]]:
    """Return the summary: what each paragraph is about, and the paragraph."""
    told = []
    if found.worst is not None:
        told.append(("Worst regression", paragraph(found.worst, report)))
    if found.likely_worst is not None:
        told.append(("Largest loss, not sure", paragraph(found.likely_worst, report)))
    if found.best is not None:
        told.append(("Best gain", paragraph(found.best, report)))
    if found.likely_best is not None:
        told.append(("Largest gain, not sure", paragraph(found.likely_best, report)))
    new = _failing(found, report)
    if new:
        told.append(("Fails now", new))
    told.append(("How many", _how_many(found.counts, report.comparison.labels[1:])))
    matters = "" if len(report.ranking.cells) else _what_matters(report.comparison)
    if matters:
        told.append(("What does matter", matters))
    axis = hangs_on(sensitivities[0], report) if sensitivities else ""
    axis = axis or _axis(report)
    if axis:
        told.append(("What it hangs on", axis))
    told += [("Without a result", text) for text in [missing(report.comparison)] if text]
    sure = _confidence(found, report)
    if sure:
        told.append(("How sure", sure))
    return told


def paragraph(one: Finding, report: Report) -> str:
    """Tell one finding: how much, where, why, how sure."""
    axis = report.comparison.axis
    base, value = (named(axis, label) for label in (report.comparison.labels[0], one.value))
    parts = [
        f"{_name(one)}{unit_text(one.units)} goes from {short(one.baseline)} with {base} to"
        f" {short(one.mean)} with {value}: {change_text(one)}{interval_text(one)}{place(one)}."
    ]
    reasons = [cause_text(*cause) for cause in one.causes[:TOLD_CAUSES]]
    parts.append(
        f"What moved there: {'; '.join(reasons)}."
        if reasons
        else "None of the known causes moved there."
    )
    parts.append(certainty(one))
    return " ".join(parts)


def change_text(one: Finding) -> str:
    """Write a change with its unit, `−12.5 %`."""
    if math.isnan(one.change):
        return "no result"
    if math.isinf(one.change):
        return "up from 0"
    return f"{percent(one.change)} {'points' if one.absolute else '%'}"


def interval_text(one: Finding) -> str:
    """Write the interval of a change in brackets; nothing where there is none."""
    if math.isnan(one.low) or math.isnan(one.high):
        return ""
    return f" (95 % interval {percent(one.low)} to {percent(one.high)})"


def place(one: Finding, *, workload: bool = False) -> str:
    """Write where a finding is, without the axes that have no effect there."""
    left_out = () if workload else ("workload",)
    here = [f"{k}={v}" for k, v in one.where.items() if v != ANY and k not in left_out]
    free = [k for k, v in one.where.items() if v == ANY]
    text = f" at {', '.join(here)}" if here else ""
    return f"{text}, at any {' and '.join(free)}" if free else text


def cause_text(name: str, before: float, after: float) -> str:
    """Write how far a cause moved."""
    meaning = CAUSES[name].long_name if name in CAUSES else name
    sign = "+" if after >= before else "\N{MINUS SIGN}"
    return f"{meaning} {sign}{abs(after - before):.1f} points ({before:.1f} % to {after:.1f} %)"


def p_text(p: float) -> str:
    """Write a p value.

    >>> p_text(0.0132), p_text(0.0)
    ('p = 0.013', 'p < 0.0001')
    """
    if math.isnan(p):
        return ""
    return f"p < {SMALLEST_P:g}" if p < SMALLEST_P else f"p = {p:.2g}"


def certainty(one: Finding) -> str:
    """Say how sure a finding is."""
    before, after = one.runs
    runs = f"{before} runs each" if before == after else f"{before} and {after} runs"
    if min(before, after) < 2:
        return "A single run each: there is no telling how much of it is chance."
    ranges = "whose ranges do not overlap" if one.apart else "whose ranges overlap"
    p = f", {p_text(one.p)} after correction for all points" if not math.isnan(one.p) else ""
    return f"{_capital(runs)}, {ranges}{p}."


def _name(one: Finding) -> str:
    workload = one.where.get("workload", ANY)
    return one.metric if workload == ANY else f"{workload}.{one.metric}"


def _how_many(counts: Counts, values: Sequence[str]) -> str:
    copies = ""
    if counts.distinct < counts.points:
        copies = f" (of {counts.points}; an axis has no effect on the others, which are copies)"
    rest = "did not change significantly" if counts.tested else "did not change by lkp's rule"
    by_value = ""
    if len(values) > 1:
        parts = [
            f"{value} {worse} worse, {better} better"
            for value, worse, better in zip(values, counts.worse_by, counts.better_by, strict=True)
        ]
        left = f"; and {len(parts) - TOLD_VALUES} more values" if len(parts) > TOLD_VALUES else ""
        by_value = f" By value: {'; '.join(parts[:TOLD_VALUES])}{left}."
    failed = f", {counts.failed} have no result to compare" if counts.failed else ""
    return (
        f"Of {counted(counts.distinct, 'distinct point')}{copies}, {counts.worse} became worse,"
        f" {counts.better} became better, {counts.other} {rest}{failed}.{by_value}"
    )


def hangs_on(data: xr.Dataset, report: Report) -> str:
    """Name the axes that explain most of the change, where it varies most; "" if it does not vary.

    Parameters
    ----------
    data
        What `sweep.fit.sensitivity` found: `share` by `term`, `stddev`, `noise`.
    """
    stddev = data["stddev"]
    if data.sizes["term"] < TOLD_FROM or not float(stddev.max()) > 0:
        return ""
    flat = int(np.nanargmax(stddev.values))
    index = np.unravel_index(flat, stddev.shape) if stddev.dims else ()
    at = {str(dim): int(k) for dim, k in zip(stddev.dims, index, strict=True)}
    share = data["share"].isel(at)
    order = np.argsort(-np.nan_to_num(share.values))
    parts = [
        f"{float(share[k]):.0f} % with {share['term'].values[k]}"
        for k in order[:TOLD_TERMS].tolist()
        if float(share[k]) >= LEAST_SHARE
    ]
    if not parts or float(data["noise"].isel(at)) > ALL_CHANCE:
        return ""
    where = [str(data[dim].values[k]) for dim, k in at.items()]
    of = f" at {', '.join(where)}" if where else ""
    means = _axis(report)
    return f"Of the variance of the change{of}, {', '.join(parts)}. {means}".strip()


def _axis(report: Report) -> str:
    """Name the axis along which the mean change differs most."""
    best, text = WORTH, ""
    for dim, effect in effects(report.comparison).items():
        labels = report.comparison.cells.labels(dim)
        values = np.asarray(effect.values).reshape(-1, len(labels), effect.shape[-1])
        low, high = (
            np.nanmin(values, axis=1, initial=1e300),
            np.nanmax(values, axis=1, initial=-1e300),
        )
        spread = np.where(high >= low, high - low, 0.0)
        if spread.size and spread.max() > best:
            best = float(spread.max())
            row, k = np.unravel_index(int(spread.argmax()), spread.shape)
            along = values[row, :, k]
            lowest, highest = int(np.nanargmin(along)), int(np.nanargmax(along))
            carrier = report.comparison.metric_dim
            of = report.comparison.cells.labels(carrier)[row] if carrier else ""
            metric = report.comparison.metrics[row if carrier else 0]
            unit = "points" if report.comparison.is_absolute(metric) else "%"
            name = f"{of}.{metric}" if of else metric
            text = (
                f"Most of all on {dim}: the mean change of {name} goes from"
                f" {percent(float(along[lowest]))} {unit} at {labels[lowest]} to"
                f" {percent(float(along[highest]))} {unit} at {labels[highest]}."
            )
    return text


def _what_matters(comparison: Comparison) -> str:
    """Say on which axes the metric depends, where the compared one makes no difference."""
    lines = [line.strip() for line in unchanged(comparison)[1:]]
    return f"Against each axis's first value: {'; '.join(lines)}." if lines else ""


def _failing(found: Findings, report: Report) -> str:
    """Name the points where runs fail that did not fail with the baseline; the first few."""
    axis, base = report.comparison.axis, report.comparison.labels[0]
    parts = []
    for one in found.rows:
        for reason, before, after, runs in one.failures:
            if after > before:
                parts.append(
                    f"{after} of {runs} runs {_REASONS.get(reason, reason)} with"
                    f" {named(axis, one.value)}, {before} with {named(axis, base)}"
                    f"{place(one, workload=True)}"
                )
    more = f"; and {len(parts) - TOLD_FAILURES} more points" if len(parts) > TOLD_FAILURES else ""
    return f"{'; '.join(parts[:TOLD_FAILURES])}{more}." if parts else ""


def missing(comparison: Comparison) -> str:
    """Say how many runs have no result, and why; "" where all have."""
    total = comparison.status().size
    parts = [
        f"{int(counts.sum())} of {total} runs: {_REASONS.get(reason, reason)}"
        for reason, counts in comparison.failures().items()
    ]
    return f"{'; '.join(parts)}." if parts else ""


_REASONS = {
    "oom": "out of memory",
    "failed": "failed",
    "pending": "not simulated yet",
    "excluded": "left out of the grid",
}


def _confidence(found: Findings, report: Report) -> str:
    """Say what is compared how, where that is not plain."""
    replicates = report.comparison.status().shape[2]
    if found.counts.tested:
        attrs = report.data.attrs
        names = [str(attrs[key]) for key in ("test", "correction") if key in attrs]
        text = f"Significant means p < 0.05: {', '.join(names)}." if names else ""
        if found.likely_worst or found.likely_best:
            text += (
                f" With more than {counted(replicates, 'run')} of each point more may become sure."
            )
        return text
    least = f"{100 * (METRIC_RATIO - 1):.0f} %"
    if replicates < 2:
        return (
            "Each point was run once, so there is no confidence in any of this; a change counts"
            f" from {least} on. More seeds tell more: replicates=5."
        )
    return f"A change counts by lkp's rule: ranges that do not overlap, and at least {least}."


def _capital(text: str) -> str:
    """Begin with a capital, but for names: v6_1 and slab_max_order=3 stay as they are."""
    return text if re.match(r"\w+[_=]", text) else text[:1].upper() + text[1:]
