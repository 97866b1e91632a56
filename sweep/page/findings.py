"""What a comparison found at one point, gathered from its arrays: how much, how sure, and why."""

import math
from dataclasses import dataclass

import numpy as np
import xarray as xr

from sweep.answer.cells import known
from sweep.answer.groups import Failure, Group, Ranking, Stat
from sweep.answer.stats import METRIC_RATIO, Bools, Floats, summarise
from sweep.answer.tables import Report
from sweep.pictures.panels import ROUNDS_TO_ZERO, sure_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One point and one compared value."""

    cell: int
    """Number of the point in the comparison."""
    where: dict[str, str]
    """Axis values, `ANY` where an axis has no effect."""
    value: str
    """Compared value."""
    metric: str
    """Variable that the point is judged by."""
    units: str
    better: int
    """+1 where a higher metric is better, -1 where a lower is, 0 if neither."""
    absolute: bool
    """The metric is a percentage: its change is in points."""
    baseline: float
    mean: float
    change: float
    """Percent, or points where `absolute`; NaN without a result."""
    low: float
    """Interval of the change at 95 %; NaN with one run."""
    high: float
    p: float
    """p value after correction; NaN with one run."""
    sure: bool
    """Significant; with one run, changed by lkp's rule."""
    runs: tuple[int, int]
    """Runs with a result, of the baseline and of the value."""
    apart: bool
    """The ranges of the runs do not overlap."""
    causes: tuple[tuple[str, float, float], ...]
    """Causes that moved: name, share of the baseline and of the value, percent."""
    failures: tuple[tuple[str, int, int, int], ...]
    """Reason, failed runs of the baseline and of the value, all runs."""

    @property
    def gain(self) -> float:
        """Change with its sign turned where less is better."""
        return self.change * (self.better or 1)

    @property
    def told(self) -> bool:
        """Whether there is anything to tell: a change that is not 0.0, or a failure."""
        return self.sure or bool(self.failures) or abs(self.change) >= ROUNDS_TO_ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many distinct points there are, by what became of them."""

    points: int
    """All, copies included."""
    distinct: int
    worse: int
    better: int
    other: int
    """Neither, or not sure."""
    failed: int
    """Of the distinct ones, those without any result to compare."""
    worse_by: tuple[int, ...]
    """Distinct points that became worse, by compared value."""
    better_by: tuple[int, ...]
    tested: bool
    """Whether sure means significant after correction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a page tells."""

    counts: Counts
    rows: tuple[Finding, ...]
    """One for each compared value of the groups that are told, in their order."""
    worst: Finding | None
    """The largest sure loss."""
    best: Finding | None
    """The largest sure gain."""
    likely_worst: Finding | None
    """The largest loss that is not sure, where none is."""
    likely_best: Finding | None
    """The largest gain that is not sure, where none is."""


def findings_of(report: Report, most: int) -> Findings:
    """Gather what is found at the first groups of a report.

    Parameters
    ----------
    report
        A ranked comparison.
    most
        Most groups that get rows.
    """
    data = _Arrays.of(report)
    groups = report.groups[:most]
    rows = [
        _finding(report, data, int(cell), group, k)
        for cell, group in zip(report.ranking.cells[:most], groups, strict=False)
        for k in range(len(report.comparison.labels) - 1)
    ]
    worst, best = (_strongest(report, data, rows, sign, data.sure) for sign in (-1, +1))
    large = np.abs(data.gain) >= 100.0 * (METRIC_RATIO - 1)
    return Findings(
        counts=_counts(report.ranking, data),
        rows=tuple(rows),
        worst=worst,
        best=best,
        likely_worst=None if worst else _strongest(report, data, rows, -1, large),
        likely_best=None if best else _strongest(report, data, rows, +1, large),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrays:
    """Arrays of a comparison, (cell, value)."""

    gain: Floats
    low: Floats
    high: Floats
    p: Floats
    sure: Bools
    apart: Bools
    runs: Floats
    """Of the baseline first, (cell, 1 + value)."""
    tested: bool

    @classmethod
    def of(cls, report: Report) -> "_Arrays":
        comparison = report.comparison
        data = comparison.data
        shape = (-1, len(comparison.labels) - 1)
        sure, tested = sure_of(data)
        summary = summarise(comparison.metric_values())
        base = np.s_[:, :1]
        gap = np.maximum(
            summary.low[:, 1:] - summary.high[base], summary.low[base] - summary.high[:, 1:]
        )

        def array(name: str) -> Floats:
            return _values(data, name).reshape(shape)

        return cls(
            gain=array("change") * comparison.better()[:, None],
            low=array("change_low"),
            high=array("change_high"),
            p=array("p_adjusted"),
            sure=sure.reshape(shape),
            apart=gap > 0,
            runs=summary.runs.astype(np.float64),
            tested=tested,
        )


def _values(data: xr.Dataset, name: str) -> Floats:
    if name in data:
        return np.asarray(data[name].values, dtype=np.float64)
    return np.full(data["change"].shape, np.nan)


def _counts(ranking: Ranking, data: _Arrays) -> Counts:
    sure = data.sure & ranking.first[:, None]
    down, up = sure & (data.gain < 0), sure & (data.gain > 0)
    worse = down.any(axis=1)
    better = up.any(axis=1) & ~worse
    none = np.isnan(data.gain).all(axis=1) & ranking.first
    return Counts(
        points=len(ranking.first),
        distinct=ranking.distinct,
        worse=int(worse.sum()),
        better=int(better.sum()),
        other=ranking.distinct - int((worse | better | none).sum()),
        failed=int(none.sum()),
        worse_by=tuple(down.sum(axis=0).tolist()),
        better_by=tuple(up.sum(axis=0).tolist()),
        tested=data.tested,
    )


def _strongest(
    report: Report, data: _Arrays, rows: list[Finding], sign: int, among: Bools
) -> Finding | None:
    """Return the finding with the largest loss (-1) or gain (+1) of the whole grid."""
    size = np.where(among, np.clip(sign * data.gain, 0, 1e300), 0.0)
    size = np.nan_to_num(size) * report.ranking.first[:, None]
    if not size.size or not size.max() > 0:
        return None
    cell, value = (int(k) for k in np.unravel_index(int(size.argmax()), size.shape))
    label = report.comparison.labels[1 + value]
    told = [row for row in rows if (row.cell, row.value) == (cell, label)]
    if told:
        return told[0]
    from sweep.answer.groups import groups  # only where it is not among the groups kept

    (group,) = groups(report.comparison, report.ranking, [cell])
    return _finding(report, data, cell, group, value)


def _finding(report: Report, data: _Arrays, cell: int, group: Group, k: int) -> Finding:
    comparison = report.comparison
    name = comparison.metrics[int(comparison_metric(report, cell))]
    variable = known(name, comparison.cells.root[name].attrs)
    return Finding(
        cell=cell,
        where=dict(group.where),
        value=comparison.labels[1 + k],
        metric=name,
        units=variable.units,
        better=variable.better,
        absolute=group.metric.absolute,
        baseline=group.metric.mean[0],
        mean=group.metric.mean[1 + k],
        change=group.metric.change[k],
        low=float(data.low[cell, k]),
        high=float(data.high[cell, k]),
        p=float(data.p[cell, k]),
        sure=bool(data.sure[cell, k]),
        runs=(int(data.runs[cell, 0]), int(data.runs[cell, 1 + k])),
        apart=bool(data.apart[cell, k]),
        causes=tuple(_causes(group.causes, k)),
        failures=tuple(_failures(group.failures, k)),
    )


def comparison_metric(report: Report, cell: int) -> int:
    """Return the position of a cell's metric in `Comparison.metrics`."""
    comparison = report.comparison
    if comparison.metric_dim is None:
        return 0
    index = np.unravel_index(cell, comparison.shape)
    return int(index[comparison.dims.index(comparison.metric_dim)])


def _causes(causes: tuple[Stat, ...], k: int) -> list[tuple[str, float, float]]:
    """Return the causes that moved at one value, those that moved most first."""
    found = [
        (stat.key.partition(".")[2], stat.mean[0], stat.mean[1 + k])
        for stat in causes
        if math.isfinite(stat.change[k]) and abs(stat.change[k]) >= 0.05
    ]
    return sorted(found, key=lambda cause: -abs(cause[2] - cause[1]))


def _failures(failures: tuple[Failure, ...], k: int) -> list[tuple[str, int, int, int]]:
    return [
        (failure.key.rpartition(".")[2], failure.fails[0], failure.fails[1 + k], failure.runs[0])
        for failure in failures
        if failure.fails[0] or failure.fails[1 + k]
    ]
