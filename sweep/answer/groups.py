"""Cells of a comparison as groups of stats, the worst regression first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.results import Status
from sweep.answer.compare import Comparison
from sweep.answer.stats import (
    OTHER_RATIO,
    Bools,
    Floats,
    Summary,
    change,
    changed,
    summarise,
)
from sweep.dataset import EXCLUDED, STATUSES

ANY = "*"
"""Stands for all values of an axis that has no effect on a cell."""
MOVED_POINTS = 0.1
"""A cause is listed if its share moved by at least this many points of percent."""
TOP_CAUSES = 5
CAP = 1e6
"""Percent from which on one change is not stronger than another (a baseline of zero)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """One line of a group."""

    key: str
    """Name, e.g. `hackbench_sockets.throughput` or `locks.list_lock.wait_ns`."""
    mean: tuple[float, ...]
    """Mean of each compared value; NaN where no run ended well."""
    std: tuple[float, ...]
    """Standard deviation; NaN for a single run."""
    change: tuple[float, ...]
    """Change of each value but the first: percent, or points where `absolute`."""
    absolute: bool
    """The stat is itself a percentage."""

    @property
    def size(self) -> float:
        """Largest change, capped."""
        sizes = [min(abs(p), CAP) for p in self.change if not np.isnan(p)]
        return max(sizes, default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Runs of a group that did not end well."""

    key: str
    """Name, e.g. `hugepages.oom`."""
    fails: tuple[int, ...]
    """Failed runs of each compared value."""
    runs: tuple[int, ...]
    """All runs of each compared value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What one cell shows."""

    where: Mapping[str, str]
    """Axis values; `ANY` where the axis has no effect here."""
    severity: float
    """How much worse it became, in percent; 0 or less: it did not."""
    failures: tuple[Failure, ...]
    metric: Stat
    """What the workload is judged by, changed or not."""
    metric_changed: bool
    """Whether that is a change by lkp's rule."""
    significant: tuple[bool, ...]
    """Whether it is significant, for each value but the first; see `Comparison.data`."""
    causes: tuple[Stat, ...]
    """Shares that moved most, largest first."""
    stats: tuple[Stat, ...]
    """Other stats that changed, largest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Cells in the order in which they should be read."""

    cells: NDArray[np.int64]
    """Cells in which something changed or failed, worst regression first; copies left out."""
    severity: Floats
    """Severity of every cell, (all cells,)."""
    same: Bools
    """Whether an axis has no effect on a cell, (all cells, dim)."""
    first: Bools
    """Cells that are not copies of another, (all cells,)."""
    improved: int
    """Of these, how many improved."""

    @property
    def distinct(self) -> int:
        """Number of cells that are not copies of another."""
        return int(self.first.sum())

    @property
    def regressed(self) -> int:
        """Of the distinct cells, how many became worse."""
        return int((self.severity[self.cells] > 0).sum())


def rank(comparison: Comparison) -> Ranking:
    """Order the cells: regressions of the metric and of failures first, then by lkp's score."""
    gain, reproduction = gains(comparison)
    loss = np.maximum(-gain, reproduction)
    severity = loss.max(axis=1, initial=0.0)
    best = np.maximum(gain, -reproduction).max(axis=1, initial=0.0)
    failing = _failing(comparison)
    first = comparison.originals == np.arange(len(severity))
    score = np.zeros(len(severity))
    quiet = np.flatnonzero(first & (severity <= 0) & (best <= 0))
    score[quiet] = _score(comparison, quiet)
    worth = first & ((severity > 0) | (best > 0) | (score > 0) | (failing > 0).any(axis=1))
    chosen = np.flatnonzero(worth)
    order = np.lexsort((chosen, -score[chosen], -best[chosen], -np.maximum(severity[chosen], 0)))
    return Ranking(
        cells=chosen[order],
        severity=severity,
        same=comparison.same,
        first=first,
        improved=int((first & (severity <= 0) & (best > 0)).sum()),
    )


def gains(comparison: Comparison) -> tuple[Floats, Floats]:
    """Return how much better each value is, and how many more of its runs fail, in percent.

    Returns
    -------
    tuple
        Gain of the metric, 0 where it did not change by lkp's rule, and additional failures, both
        (cell, value - 1).
    """
    signed = np.clip(comparison.changes(comparison.summary), -CAP, CAP)
    gain = np.where(
        comparison.moves(comparison.summary), signed * comparison.better()[:, None], 0.0
    )
    failing = _failing(comparison)
    return gain, 100.0 * (failing[:, 1:] - failing[:, :1])


def groups(comparison: Comparison, ranking: Ranking, cells: Sequence[int]) -> list[Group]:
    """Build the groups of some cells, in the order given."""
    chosen = np.asarray(cells, dtype=np.int64)
    metric = comparison.summary.rows(chosen)
    moved = comparison.moves(metric)
    absolute = comparison.absolute()[chosen]
    which = comparison.metric_of_cell()[chosen]
    tests = comparison.data["significant"].values.reshape(len(comparison.originals), -1)
    sure = tests[chosen].tolist()
    others = _other_stats(comparison, chosen)
    causes = _causes(comparison, chosen)
    failures = _failures(comparison, chosen)
    built = []
    places = marked_places(comparison, ranking, chosen.tolist())
    for i, (cell, where) in enumerate(zip(chosen.tolist(), places, strict=True)):
        name = comparison.metrics[which[i]]
        prefix = _workload(comparison, where)
        built.append(
            Group(
                where=where,
                severity=float(ranking.severity[cell]),
                failures=tuple(
                    Failure(key=f"{prefix}{key}", fails=fails, runs=runs)
                    for key, fails, runs in failures[i]
                ),
                metric=_stats(f"{prefix}{name}", metric.rows(np.array([i])), bool(absolute[i]))[0],
                metric_changed=bool(moved[i].any()),
                significant=tuple(sure[i]),
                causes=tuple(sorted(causes[i], key=lambda s: -s.size)[:TOP_CAUSES]),
                stats=tuple(s for s in others[i] if s.key != name),
            )
        )
    return built


def marked_places(
    comparison: Comparison, ranking: Ranking, cells: Sequence[int]
) -> list[dict[str, str]]:
    """Return the axis values of cells, `ANY` where an axis has no effect."""
    parts = [comparison.cells.parts(dim) for dim in comparison.dims]
    places = comparison.places(cells)
    for place, same in zip(places, ranking.same[list(cells)].tolist(), strict=True):
        for names, copy in zip(parts, same, strict=True):
            if copy:
                place.update(dict.fromkeys(names, ANY))
    return places


def _failing(comparison: Comparison) -> Floats:
    """Return the share of runs that ended badly, (cell, value)."""
    status = comparison.status()
    bad = (status == Status.OOM) | (status == Status.FAILED)
    return np.asarray(bad.mean(axis=-1), dtype=np.float64)


def _score(comparison: Comparison, chosen: NDArray[np.int64]) -> Floats:
    """Return lkp's score of each chosen cell: the largest change of a stat that changed."""
    score = np.zeros(len(chosen))
    for name in comparison.cells.scalars:
        summary = summarise(comparison.values(name, chosen=chosen))
        size = np.abs(change(summary.mean, comparison.is_absolute(name)))
        listed = changed(summary, OTHER_RATIO) & np.isfinite(size)
        score = np.maximum(score, np.where(listed, size, 0.0).max(axis=1, initial=0.0))
    return score


def _other_stats(comparison: Comparison, chosen: NDArray[np.int64]) -> list[list[Stat]]:
    """Return the stats of each chosen cell that changed: scalars first, then tables."""
    found: list[list[Stat]] = [[] for _ in chosen]
    for name in comparison.cells.scalars:
        summary = summarise(comparison.values(name, chosen=chosen))
        _collect(found, name, summary, comparison.is_absolute(name))
    for stats in found:
        stats.sort(key=lambda stat: -stat.size)
    for table in comparison.cells.tables:
        of_table: list[list[Stat]] = [[] for _ in chosen]
        for name in comparison.cells.columns(table):
            values = np.moveaxis(comparison.values(name, table, chosen), -1, 0)
            absolute = comparison.is_absolute(name, table)
            for entry, per_entry in zip(comparison.cells.entries(table), values, strict=True):
                key = f"{table}.{entry.replace(' ', ':')}.{name}"  # one word, to cut by column
                _collect(of_table, key, summarise(per_entry), absolute)
        for stats, more in zip(found, of_table, strict=True):
            stats += sorted(more, key=lambda stat: -stat.size)
    return found


def _collect(found: list[list[Stat]], key: str, summary: Summary, absolute: bool) -> None:
    rows = np.flatnonzero(changed(summary, OTHER_RATIO).any(axis=1))
    for i, stat in zip(rows.tolist(), _stats(key, summary.rows(rows), absolute), strict=True):
        found[i].append(stat)


def _causes(comparison: Comparison, chosen: NDArray[np.int64]) -> list[list[Stat]]:
    found: list[list[Stat]] = [[] for _ in chosen]
    for name, share in comparison.causes(chosen).data_vars.items():
        summary = summarise(np.asarray(share.values))
        moved = np.abs(change(summary.mean, True)) >= MOVED_POINTS
        rows = np.flatnonzero((moved & changed(summary)).any(axis=1))
        stats = _stats(f"cause.{name}", summary.rows(rows), True)
        for i, stat in zip(rows.tolist(), stats, strict=True):
            found[i].append(stat)
    return found


def _failures(
    comparison: Comparison, chosen: NDArray[np.int64]
) -> list[list[tuple[str, tuple[int, ...], tuple[int, ...]]]]:
    runs = comparison.status().shape[2]
    found: list[list[tuple[str, tuple[int, ...], tuple[int, ...]]]] = [[] for _ in chosen]
    for key, counts in comparison.failures().items():
        if key == STATUSES[EXCLUDED]:
            continue
        for i, row in enumerate(counts[chosen].tolist()):
            if any(row):
                found[i].append((key, tuple(row), (runs,) * len(row)))
    return found


def _stats(key: str, summary: Summary, absolute: bool) -> list[Stat]:
    """Return one stat per row of a summary, (row, value)."""
    delta = change(summary.mean, absolute)
    rows = zip(summary.mean.tolist(), summary.std.tolist(), delta.tolist(), strict=True)
    return [
        Stat(key=key, mean=tuple(m), std=tuple(s), change=tuple(c), absolute=absolute)
        for m, s, c in rows
    ]


def _workload(comparison: Comparison, where: Mapping[str, str]) -> str:
    name = where.get("workload") or comparison.cells.fixed().get("workload", "")
    return f"{name}." if name and name != ANY else ""
