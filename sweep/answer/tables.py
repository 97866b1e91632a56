"""What a report says in text: overview, groups, or the metric by axes if nothing is compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from allocator.counters import CAUSES
from sweep.answer.cells import Cells
from sweep.answer.compare import Comparison
from sweep.answer.effects import effects, means_by_axis, without_comparison
from sweep.answer.frame import frame
from sweep.answer.groups import ANY, Group, Ranking, Stat, groups, marked_places, rank
from sweep.answer.lkp import counted, group_text, mmtests, stat_line, unit_text
from sweep.answer.significance import SHORT_CORRECTION, SIGNIFICANCE, TEST
from sweep.answer.stats import Floats, change

if TYPE_CHECKING:
    from pandas import DataFrame

KEPT_GROUPS = 1000
"""Most groups that compare.txt holds."""
SHOWN_GROUPS, SHOWN_STATS, SHOWN_ROWS = 5, 6, 40
"""What the terminal gets."""
SHOWN_EFFECTS, SHOWN_VALUES = 6, 8
"""Most workloads, and most values of an axis, in the overview."""
NO_EFFECT = 0.05
"""An axis whose mean changes differ by less, in points of percent, is not worth a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A ranked comparison, ready to be printed."""

    comparison: Comparison
    ranking: Ranking
    groups: tuple[Group, ...]
    """The strongest `KEPT_GROUPS` groups."""

    @property
    def data(self) -> xr.Dataset:
        """The comparison as arrays; see `Comparison.data`."""
        return self.comparison.data

    def __str__(self) -> str:
        return self.text(SHOWN_GROUPS, SHOWN_STATS)

    def text(self, limit: int | None = None, stats: int | None = None, layout: str = "lkp") -> str:
        """Return overview and groups.

        Parameters
        ----------
        limit
            Most groups; None: all that are kept.
        stats
            Most stats under a group's metric and causes; None: all.
        layout
            `lkp` or `mmtests`.
        """
        shown = self.groups[:limit]
        comparison = self.comparison
        lines = [self.overview(), ""]
        if layout == "mmtests" and shown:
            better = comparison.better()[self.ranking.cells[: len(shown)]]
            lines.append(mmtests(shown, comparison.labels, better.tolist()))
        elif layout == "lkp":
            fixed = comparison.cells.fixed()
            lines += [
                group_text(group, comparison.axis, comparison.labels, fixed, stats)
                for group in shown
            ]
        legend = self._legend(shown) if layout == "lkp" else ""
        return "\n".join([*lines, legend] if legend else lines)

    def frame(self) -> "DataFrame":
        """Return one row per distinct point and compared value; see `sweep.answer.frame`."""
        return frame(self.comparison)

    def overview(self) -> str:
        """Return a few lines on the whole: how many points, how many worse, on which axes."""
        comparison, ranking = self.comparison, self.ranking
        cells = len(ranking.severity)
        others = len(ranking.cells) - ranking.regressed - ranking.improved
        base, *rest = comparison.labels
        distinct = f" ({ranking.distinct} distinct)" if ranking.distinct < cells else ""
        lines = [
            f"{comparison.axis}: {', '.join(rest)} against {base}",
            f"{counted(cells, 'point')}{distinct}: {ranking.regressed} regressed,"
            f" {ranking.improved} improved, {others} changed otherwise,"
            f" {ranking.distinct - len(ranking.cells)} unchanged"
            f" ({', '.join(dict.fromkeys(comparison.metrics))})",
        ]
        lines.append(self._significance())
        lines += _effect_lines(comparison) if len(ranking.cells) else unchanged(comparison)
        lines += [
            f"{int(counts.sum())} of {comparison.status().size} runs: {reason}"
            for reason, counts in comparison.failures().items()
        ]
        return "\n".join(lines)

    def notices(self) -> list[str]:
        """Return what the reader should know of the data, a line each."""
        fewest = self.comparison.summary.runs
        most = int(np.minimum(fewest[:, :1], fewest[:, 1:]).max(initial=0))
        if most > 1:
            return []
        return [
            f"replicate: found {counted(most, 'run')} of each point, expected 2 or more for"
            " confidence intervals and significance; changes are shown without them"
        ]

    def _significance(self) -> str:
        """Say how many of the distinct cells' changes are significant, and by which test."""
        comparison = self.comparison
        first = comparison.originals == np.arange(len(comparison.originals))
        rows = {
            name: comparison.data[name].values.reshape(len(first), -1)[first]
            for name in ("p_adjusted", "significant")
        }
        tested = int(np.isfinite(rows["p_adjusted"]).sum())
        if not tested:
            return "nothing is tested for significance: that takes 2 runs of a point"
        return (
            f"{int(rows['significant'].sum())} of {counted(tested, 'difference')} significant at"
            f" {SIGNIFICANCE:.0%} ({TEST}; {SHORT_CORRECTION})"
        )

    def _legend(self, shown: Sequence[Group]) -> str:
        lines = []
        if any(ANY in group.where.values() for group in shown):
            lines.append(f"{ANY}: the same results at every value of that axis")
        causes = {cause.key for group in shown for cause in group.causes}
        lines += [f"{key}: {CAUSES[key.partition('.')[2]].long_name}, %" for key in sorted(causes)]
        return "\n".join([*lines, ""]) if lines else ""


def report_of(comparison: Comparison) -> Report:
    """Rank a comparison and build the groups that are worth keeping."""
    ranking = rank(comparison)
    kept = groups(comparison, ranking, ranking.cells[:KEPT_GROUPS].tolist())
    return Report(comparison=comparison, ranking=ranking, groups=tuple(kept))


def summary_table(cells: Cells, metric: str | None = None, limit: int | None = None) -> str:
    """Lay out each point's metric where there is nothing to compare.

    Parameters
    ----------
    cells
        The dataset.
    metric
        Variable to show; without it each workload's own.
    limit
        Most rows, `KEPT_GROUPS` without it; what is left out is counted.
    """
    whole = without_comparison(cells, metric)
    summary = whole.summary
    ranking = rank(whole)
    failures = whole.failures()
    rows = []
    listed = np.flatnonzero(ranking.first)[: KEPT_GROUPS if limit is None else limit].tolist()
    for cell, where in zip(listed, marked_places(whole, ranking, listed), strict=True):
        key = whole.metrics[whole.metric_of_cell()[cell]]
        mean, std = summary.mean[cell], summary.std[cell]
        shown = key + unit_text(whole.units(key))
        stat = Stat(
            key=shown, mean=tuple(mean.tolist()), std=tuple(std.tolist()), change=(), absolute=False
        )
        bad = [f"{int(n[cell].sum())} {why}" for why, n in failures.items() if n[cell].any()]
        rows.append([*where.values(), stat_line(stat) + ("  " + ", ".join(bad) if bad else "")])
    names = [part for dim in whole.dims for part in cells.parts(dim)]
    head = [*names, "         %stddev".ljust(16) + "  metric"]
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *rows]
    ]
    if ranking.distinct > len(rows):
        lines.append(f"... and {ranking.distinct - len(rows)} more points")
    if any(ANY in row for row in rows):
        lines.append(f"{ANY}: the same results at every value of that axis")
    return "\n".join([*lines, ""])


def _effect_lines(comparison: Comparison) -> list[str]:
    """Return the mean change by axis, for each workload, where the axis makes a difference."""
    carrier = comparison.metric_dim
    names = comparison.cells.labels(carrier) if carrier else ("",)
    found = effects(comparison)
    lines = []
    for place, name in enumerate(names[:SHOWN_EFFECTS]):
        metric = comparison.metrics[place if carrier else 0]
        by_axis = []
        for dim, effect in found.items():
            means = np.asarray(effect.values)[place] if carrier else np.asarray(effect.values)
            unit = "" if comparison.is_absolute(metric) else "%"
            by_axis += _by_axis(dim, comparison, means, unit)
        if by_axis:
            lines += [f"mean change of {name}{'.' if name else ''}{metric}", *by_axis]
    return lines


def unchanged(comparison: Comparison) -> list[str]:
    """Say on what the metric does depend, where the compared values make no difference."""
    carrier = comparison.metric_dim
    names = comparison.cells.labels(carrier) if carrier else ("",)
    lines = [f"{comparison.axis} makes no difference here; what does, against its first value:"]
    for dim in comparison.dims:
        labels = comparison.cells.labels(dim)
        if dim == carrier or not 2 <= len(labels) <= SHOWN_VALUES:
            continue
        means = np.atleast_2d(means_by_axis(comparison, dim))
        for place, name in enumerate(names[:SHOWN_EFFECTS]):
            if not means[place, 0]:
                continue
            delta = change(means[place], absolute=False).tolist()
            if max(map(abs, delta)) < NO_EFFECT:
                continue
            parts = ", ".join(f"{lb} {p:+.1f}%" for lb, p in zip(labels[1:], delta, strict=True))
            metric = comparison.metrics[place if carrier else 0]
            lines.append(f"  {name}{'.' if name else ''}{metric} by {dim}: {parts}")
    return lines if len(lines) > 1 else []


def _by_axis(dim: str, comparison: Comparison, means: Floats, unit: str) -> list[str]:
    labels = comparison.cells.labels(dim)
    if not 2 <= len(labels) <= SHOWN_VALUES:
        return []
    lines = []
    for k, value in enumerate(comparison.labels[1:]):
        there = [(n, m) for n, m in zip(labels, means[:, k].tolist(), strict=True) if m == m]
        if len(there) < 2 or max(m for _, m in there) - min(m for _, m in there) < NO_EFFECT:
            continue
        among = f" ({value})" if len(comparison.labels) > 2 else ""
        parts = ", ".join(f"{label} {mean:+.1f}{unit}" for label, mean in there)
        lines.append(f"  by {dim}{among}: {parts}")
    return lines
