"""Tables as kernel people read them: lkp compare's layout, and mmtests'.

Widths, formats and headings are those of lkp-tests' lib/compare.rb, trailing blanks included.
"""

import math
from collections.abc import Mapping, Sequence

from sweep.answer.groups import Failure, Group, Stat

ABS_WIDTH = 10
REL_WIDTH = 10
ERR_WIDTH = 6
RULE = "=" * 89
FROM_ZERO = 1e-100
"""lkp divides by this where the baseline is zero."""


def group_text(
    group: Group,
    axis: str,
    labels: Sequence[str],
    fixed: Mapping[str, str],
    max_stats: int | None = None,
) -> str:
    """Lay out one group.

    Parameters
    ----------
    group
        What to print.
    axis, labels
        Compared axis and its values, the baseline first.
    fixed
        Axes that were not swept, and their values.
    max_stats
        Most stats to print under metric and causes; what is left out is counted.
    """
    lines = header(group.where, axis, labels, fixed)
    others = len(labels) - 1
    if group.failures:
        lines.append("       fail:runs" + "  %reproduction    fail:runs" * others)
        lines.append("           |    " + "         |             |    " * others)
        lines += [_failure_line(failure) for failure in group.failures]
    stats = list(group.stats[:max_stats])
    shown = [stat for stat in (group.metric, *group.causes, *stats) if _any_number(stat)]
    if shown:
        lines.append("         %stddev" + "     %change         %stddev" * others)
        lines.append("             \\  " + "        |                \\  " * others)
        lines += [stat_line(stat) for stat in shown]
    left = len(group.stats) - len(stats)
    if left:
        lines.append(f"{'':{ABS_WIDTH}}... and {left} more stats changed")
    return "\n".join([*lines, ""])


def header(
    where: Mapping[str, str], axis: str, labels: Sequence[str], fixed: Mapping[str, str]
) -> list[str]:
    """Return the lines above a group's stats: common axes, compared axis, column names."""
    common = {**{k: v for k, v in fixed.items() if k != axis and k not in where}, **where}
    first = ABS_WIDTH + ERR_WIDTH
    width = first + REL_WIDTH + 1
    lines = [RULE]
    if common:
        lines += ["/".join(common) + ":", "  " + "/".join(common.values()), ""]
    lines += [f"{axis}: ", *(f"  {label}" for label in labels), ""]
    lines.append(
        f"{labels[0][:first]:>{first}} " + "".join(f"{x[:width]:>{width}} " for x in labels[1:])
    )
    lines.append("-" * first + " " + ("-" * width + " ") * (len(labels) - 1))
    return lines


def stat_line(stat: Stat) -> str:
    """Lay out means, spread and changes of one stat."""
    text = ""
    for i, (mean, std) in enumerate(zip(stat.mean, stat.std, strict=True)):
        if i:
            text += _change(stat.change[i - 1], mean, stat.absolute)
        text += _mean(mean) + _stddev(std, mean)
    return f"{text}  {stat.key}"


def mmtests(groups: Sequence[Group], labels: Sequence[str], better: Sequence[int]) -> str:
    """Lay out one line per cell: each value's mean, and its gain over the first in percent.

    Positive is better, as mmtests prints it; the first column has 0.00 %. A gain or loss that is
    significant stands between asterisks rather than brackets.

    Parameters
    ----------
    groups
        Cells to print.
    labels
        Compared values, the baseline first.
    better
        +1 or -1 of each group's metric.
    """
    names = ["/".join([*group.where.values(), group.metric.key]) for group in groups]
    wide = max((len(name) for name in names), default=0)
    column = 26
    lines = [" " * (wide + 9) + "".join(f"{label[:column]:>{column}}" for label in labels)]
    for name, group, sign in zip(names, groups, better, strict=True):
        base = group.metric.mean[0] or math.nan
        gains = [round(sign * 100 * (mean - base) / base, 2) + 0.0 for mean in group.metric.mean]
        marks = ["*" if sure else "()" for sure in (False, *group.significant)]
        cells = "".join(
            f"{_mean(m).strip():>{column - 12}} {mark[0]}{g:>8.2f}%{mark[-1]}"
            for m, g, mark in zip(group.metric.mean, gains, marks, strict=True)
        )
        lines.append(f"Amean   {name:<{wide}} {cells}".rstrip())
    return "\n".join([*lines, ""])


def _failure_line(failure: Failure) -> str:
    text = ""
    base = failure.fails[0] / failure.runs[0]
    for i, (fails, runs) in enumerate(zip(failure.fails, failure.runs, strict=True)):
        if i:
            text += f"{100.0 * (fails / runs - base):{REL_WIDTH}.0f}% "
        text += f"{fails or ' ':>{ABS_WIDTH + 1}}:{runs:<{ERR_WIDTH - 2}d}"
    return f"{text}  {failure.key}"


def _mean(mean: float) -> str:
    if math.isnan(mean):
        return f"{'-':>{ABS_WIDTH}}"
    if abs(mean) < 1000:
        return f"{mean:{ABS_WIDTH}.2f}"
    if abs(mean) > 1e8:
        return f"{mean:{ABS_WIDTH}.4g}"
    return f"{int(mean):{ABS_WIDTH}d}"


def _stddev(std: float, mean: float) -> str:
    percent = 100.0 * std / mean if mean else std
    if percent > 2:  # also False for NaN: a single run has no spread
        return f" ±{int(percent):{ERR_WIDTH - 3}d}%"
    return " " * ERR_WIDTH


def _change(change: float, mean: float, absolute: bool) -> str:
    if math.isnan(change):
        return " " * (REL_WIDTH + 2)
    if math.isinf(change):
        change = 100.0 * mean / FROM_ZERO
    kind = ".1f" if abs(change) < 100_000 else ".2g"
    return f"{change:+{REL_WIDTH}{kind}}" + ("  " if absolute else "% ")


def _any_number(stat: Stat) -> bool:
    return not all(math.isnan(mean) for mean in stat.mean)


def counted(number: int, what: str) -> str:
    """Return a number and what is counted, `1 point` or `2 points`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def unit_text(units: str) -> str:
    """Return units in brackets, as they stand after a name; nothing where there are none."""
    return "" if units == "1" else f" [{units.replace('s-1', '1/s')}]"
