"""Sections of the page on what the change hangs on, and on how well surfaces fit."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from sweep.answer.lkp import unit_text
from sweep.fit.response import Response
from sweep.fit.rows import APART
from sweep.fit.sensitivity import REST
from sweep.pictures.shades import short

LEAST_SHARE = 1.0
"""Percent of the variance from which on a term is listed."""
MOST_LINES = 60
"""Machines and workloads of a section."""


def sensitivity_section(data: xr.Dataset) -> str:
    """Lay out which axes explain the change, for each machine and workload.

    Parameters
    ----------
    data
        What `sweep.fit.sensitivity` found by machine.

    Returns
    -------
    str
        Title and text; "" where nothing varies, or one axis explains all since there is no other.
    """
    if data.sizes["axis"] < 2:
        return ""
    apart = [dim for dim in APART if dim in data["stddev"].dims]
    rows = []
    for index in np.ndindex(*(data.sizes[dim] for dim in apart)):
        one = data.isel(dict(zip(apart, index, strict=True)))
        stddev = float(one["stddev"])
        if stddev > 0:
            names = [str(one[dim].values) for dim in apart]
            noise = float(one["noise"])
            chance = f"{noise:.0f} %" if noise == noise else "?"
            rows.append([*names, f"{stddev:.2g}", chance, _explained(one)])
    if not rows:
        return ""
    head = [*apart, "stddev", "chance", "explained by"]
    text = _aligned([head, *rows[:MOST_LINES]]) + _left_out(len(rows))
    units = str(data["stddev"].attrs["units"])
    return (
        "What the change hangs on\n"
        f"Variance of the change over the points ({data.attrs['method']}).\n"
        f"stddev: of the change, {units}; chance: what the spread of the runs alone would give.\n\n"
        f"{text}"
    )


def surfaces_section(found: Sequence[Response], where: str) -> str:
    """Lay out how well the surfaces fit, a line for each machine and workload.

    Parameters
    ----------
    found
        Surfaces.
    where
        In which file their coefficients are.

    Returns
    -------
    str
        Title and text; "" where no surface has an axis.
    """
    shown = [one for one in found if one.design.bases]
    if not shown:
        return ""
    rows = [_fit_row(one) for one in shown[:MOST_LINES]]
    head = ["machine", "workload", "metric", "points", "terms", "R2", "residual", "left out"]
    head += ["noise", "largest residual", "scale"]
    return (
        "Response surfaces\n"
        "The metric as a formula of the axes, for each machine. residual: root mean square; left\n"
        "out: the same of each point predicted from the others; noise: standard deviation of a\n"
        "point's mean; -: as many terms as points, or a point that nothing else tells of.\n"
        f"Coefficients: {where}\n\n"
        f"{_aligned([head, *rows])}{_left_out(len(shown))}"
    )


def _fit_row(one: Response) -> list[str]:
    figures = [one.rmse, one.loo_rmse, one.noise_of_mean]
    texts = ["-" if one.saturated else short(one.rmse)]
    texts += [short(figure) if np.isfinite(figure) else "-" for figure in figures[1:]]
    largest = f"{short(one.largest_residual)} at {one.largest_residual_at}"
    return [
        one.machine or "-",
        one.workload or "-",
        f"{one.metric}{unit_text(one.units)}",
        str(one.n),
        str(one.nterms),
        f"{one.r2:.3f}" if np.isfinite(one.r2) else "-",
        *texts,
        "-" if one.saturated else largest,
        one.scale,
    ]


def _explained(one: xr.Dataset) -> str:
    share = one["share"].values
    terms = one["term"].values.tolist()
    order = sorted(range(len(terms)), key=lambda k: (terms[k] == REST, -share[k]))
    told = [f"{share[k]:.0f} % {terms[k]}" for k in order if share[k] >= LEAST_SHARE]
    return ", ".join(told)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def _left_out(every: int) -> str:
    return f"\n... and {every - MOST_LINES} more" if every > MOST_LINES else ""
