"""`python -m sweep.report RUN --baseline kernel=v6_1`: tables and pictures of a finished run."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import xarray as xr

from allocator.errors import ConfigError
from sweep.answer.cells import Cells, cells_of, open_cells
from sweep.answer.compare import Comparison, compare, configured, swept_baseline
from sweep.answer.formats import SUFFIXES, written
from sweep.answer.tables import (
    SHOWN_GROUPS,
    SHOWN_ROWS,
    SHOWN_STATS,
    Report,
    report_of,
    summary_table,
)
from sweep.page.build import comparison_page, metric_page
from sweep.pictures.curve import curve_table, curves
from sweep.settings import CompareSettings

if TYPE_CHECKING:
    from sweep.pictures.album import Picture

LAYOUTS = ("lkp", "mmtests")
TABLE = "table"
"""Format of the whole report; the others have rows for programs and mails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to report."""

    baseline: str | None = None
    """`axis=value`; None: no comparison."""
    against: tuple[str, ...] = ()
    """Values to compare; none: all others of the axis."""
    metric: str | None = None
    """Variable to judge by; None: each workload's own."""
    layout: str = "lkp"
    """One of `LAYOUTS`."""
    format: str = TABLE
    """The text with its pictures, or one of `SUFFIXES`: the rows alone."""
    limit: int = SHOWN_GROUPS
    """Most groups on the terminal."""
    html: bool = True
    """Write a page, too."""
    saved_in: Path | None = None
    """Dataset in which surfaces and comparison are saved; None: nowhere."""
    suffix: str = ""
    """What follows `compare` and `surface` in file names."""


def finish(
    run_dir: Path, dataset: "xr.DataTree | xr.Dataset", config: Mapping[str, object]
) -> list[Path]:
    """Report a run that has just ended: print the table, write the files.

    Parameters
    ----------
    run_dir
        Directory of the run; `compare.txt` (or `summary.txt`) and `surface-MACHINE.png` go there.
    dataset
        The finished dataset.
    config
        Resolved configuration, of which the section `compare` counts. A baseline that was not
        swept is replaced by the first value of its axis; without that axis there is no comparison.

    Returns
    -------
    list of Path
        The files written.
    """
    cells = cells_of(dataset)
    if not cells.ended_well:
        print(f"nothing to compare: {cells.endings()}")
        return []
    asked = CompareSettings.from_config(config.get("compare") or {})
    baseline = asked.baseline and swept_baseline(cells, asked.baseline)
    if baseline and baseline != asked.baseline:
        print(f"{asked.baseline} was not swept: compared with {baseline}")
    wish = Wish(
        baseline=baseline,
        metric=asked.metric,
        html=asked.html,
        saved_in=run_dir / "dataset.nc",
    )
    return write(cells, run_dir, wish)


def write(cells: Cells, directory: Path, wish: Wish) -> list[Path]:
    """Print the report and write its files.

    Raises
    ------
    ConfigError
        If an axis, a value or the metric does not exist, or the directory cannot be written.
    """
    if wish.baseline is None:
        return _write_summary(cells, directory, wish)
    comparison = compare(cells, wish.baseline, metric=wish.metric, against=wish.against)
    report = report_of(comparison)
    for notice in report.notices():
        print(notice, file=sys.stderr)
    if wish.format != TABLE:
        return [_write_rows(report, directory, wish)]
    text = _save(directory / f"compare{wish.suffix}.txt", report.text(layout=wish.layout))
    from sweep.pictures.album import album_of  # matplotlib is slow to import

    pictures = album_of(comparison, report.ranking)
    paths = [text, *_save_pictures(pictures, directory, wish.suffix)]
    fits = _fitted(cells, wish, comparison)
    if wish.html:
        body = comparison_page(
            report, pictures, table=text.name, extra=fits.sections, sensitivities=fits.sensitivities
        )
        paths.append(_save(directory / f"report{wish.suffix}.html", body))
    # only now: who reads through a pipe may close it, and the files are wanted all the same
    print(report.text(wish.limit, SHOWN_STATS, wish.layout))
    if len(report.groups) > wish.limit:
        print(f"{len(report.groups) - wish.limit} more groups in {text}")
    print(*(f"wrote {path}" for path in paths), sep="\n")
    return paths


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fits:
    """What the page tells of surfaces and sensitivities."""

    sections: tuple[str, ...]
    sensitivities: "tuple[xr.Dataset, ...]" = ()


def _fitted(cells: Cells, wish: Wish, comparison: Comparison | None = None) -> _Fits:
    """Fit surfaces, split the variance of the change, and save both in the dataset."""
    from sweep.fit.response import responses  # statsmodels is slow to import
    from sweep.fit.saved import FIT, save
    from sweep.fit.sensitivity import sensitivity
    from sweep.page.fits import sensitivity_section, surfaces_section

    found = responses(cells, wish.metric)
    where = "not saved"
    if wish.saved_in is not None:
        where = f"group /{FIT} of {wish.saved_in.name}"
        try:
            save(wish.saved_in, found, None if comparison is None else comparison.data)
        except ConfigError as error:
            where = "not saved"
            print(f"sweep.report: {error}; the report goes on", file=sys.stderr)
    sections = [surfaces_section(found, where)]
    several: tuple[xr.Dataset, ...] = ()
    if comparison is not None:
        several = (sensitivity(comparison, by_machine=False), sensitivity(comparison))
        sections.insert(0, sensitivity_section(several[1]))
    return _Fits(sections=tuple(filter(None, sections)), sensitivities=several)


def _write_rows(report: Report, directory: Path, wish: Wish) -> Path:
    """Write the rows to a file, and alone to the standard output, for a pipe to read."""
    path = directory / f"compare{wish.suffix}.{SUFFIXES[wish.format]}"
    text = written(report, wish.format, wish.limit)
    _save(path, text)
    print(text, end="")
    print(f"wrote {path}", file=sys.stderr)
    return path


def write_curves(
    cells: Cells, directory: Path, axis: str | None, metric: str | None, mark: str | None
) -> list[Path]:
    """Print how the metric grows along an axis, and draw it.

    Raises
    ------
    ConfigError
        If the axis, the metric or the cause does not exist, or the directory cannot be written.
    """
    if not axis:
        raise ConfigError("--mark", mark, "a --curve to mark")
    found = curves(cells, axis, metric=metric, mark=mark or "")
    if not found:
        raise ConfigError("--curve", axis, "at least one point with a result")
    from sweep.pictures.album import curves_picture  # matplotlib is slow to import

    picture = curves_picture(found, growth=True)
    text = _save(directory / f"{picture.stem}.txt", curve_table(found))
    paths = [text, *_save_pictures([picture], directory, "")]
    print(curve_table(found))
    print(*(f"wrote {path}" for path in paths), sep="\n")
    return paths


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        cells = open_cells(arguments.run)
        wish = _wish(arguments, cells)
        directory = arguments.out or (
            arguments.run if arguments.run.is_dir() else arguments.run.parent
        )
        if arguments.curve or arguments.mark:
            write_curves(cells, directory, arguments.curve, arguments.metric, arguments.mark)
        else:
            write(cells, directory, wish)
    except ConfigError as error:
        print(f"sweep.report: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


class _Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and leave with status 2."""
        self.exit(2, f"sweep.report: {message}\n")
        raise AssertionError  # exit() does not return


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m sweep.report",
        description="Compare one value of an axis with the others, as lkp compare does, "
        "and draw the regression surface of each machine.",
    )
    parser.add_argument("run", type=Path, help="directory of a run, or its dataset.nc")
    parser.add_argument("--baseline", metavar="AXIS=VALUE", help="e.g. kernel=v6_1")
    parser.add_argument(
        "--against", metavar="VALUE,...", help="values to compare (default: all others)"
    )
    parser.add_argument("--metric", help="variable to judge by (default: each workload's own)")
    parser.add_argument("--layout", choices=LAYOUTS, default="lkp", help="of the table")
    parser.add_argument(
        "--format",
        choices=(TABLE, *SUFFIXES),
        default=TABLE,
        help="rows alone, for programs and mails (default: the table, with pictures and page)",
    )
    parser.add_argument(
        "--groups", type=int, default=SHOWN_GROUPS, help="groups to print (default: %(default)s)"
    )
    parser.add_argument(
        "--curve", metavar="AXIS", help="draw the metric along an axis of numbers instead"
    )
    parser.add_argument(
        "--mark", metavar="CAUSE=PERCENT", help="mark where curves pass it: list_lock_wait=50"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where files go (default: the run)")
    parser.add_argument(
        "--no-html", action="store_true", help="do without the self-contained page report.html"
    )
    return parser


def _wish(arguments: argparse.Namespace, cells: Cells) -> Wish:
    if arguments.groups < 0:
        raise ConfigError("--groups", arguments.groups, "0 or more")
    if arguments.against and not arguments.baseline:
        raise ConfigError("--against", arguments.against, "a --baseline to compare with")
    baseline = arguments.baseline or swept_baseline(cells, str(configured(cells, "baseline")))
    if arguments.format != TABLE and baseline is None:
        raise ConfigError("--format", arguments.format, "a --baseline to compare with")
    own = arguments.out is None
    asked = [text for text in (arguments.baseline, arguments.metric, arguments.against) if text]
    return Wish(
        baseline=baseline,
        against=tuple(arguments.against.split(",")) if arguments.against else (),
        metric=arguments.metric or configured(cells, "metric"),
        layout=arguments.layout,
        format=arguments.format,
        limit=arguments.groups,
        html=not arguments.no_html,
        saved_in=arguments.run / "dataset.nc" if arguments.run.is_dir() and own else None,
        suffix="".join(f"-{re.sub(r'[^A-Za-z0-9_.=,+]', '_', text)}" for text in asked),
    )


def _write_summary(cells: Cells, directory: Path, wish: Wish) -> list[Path]:
    from sweep.pictures.album import album_of_metric  # matplotlib is slow to import

    text = _save(directory / f"summary{wish.suffix}.txt", summary_table(cells, wish.metric))
    pictures = album_of_metric(cells, wish.metric)
    paths = [text, *_save_pictures(pictures, directory, wish.suffix)]
    axes = [axis for axis in cells.axes if cells.root.sizes[axis] > 1]
    command = ""
    if axes:
        example = f"{axes[0]}={cells.labels(axes[0])[0]}"
        command = shlex.join(
            ["python", "-m", "sweep.report", str(directory), "--baseline", example]
        )
    if wish.html:
        extra = _fitted(cells, wish).sections
        body = metric_page(
            cells, wish.metric, pictures, table=text.name, command=command, extra=extra
        )
        paths.append(_save(directory / f"report{wish.suffix}.html", body))
    print(summary_table(cells, wish.metric, SHOWN_ROWS))
    if command:
        print(f"nothing is compared; to compare, e.g.: {command}\n")
    print(*(f"wrote {path}" for path in paths), sep="\n")
    return paths


def _save_pictures(pictures: "Sequence[Picture]", directory: Path, suffix: str) -> list[Path]:
    """Write pictures; the suffix goes before a machine's name."""
    paths = []
    for picture in pictures:
        kind, dash, name = picture.stem.partition("-")
        paths.append(_save(directory / f"{kind}{suffix}{dash}{name}.png", picture.png))
    return paths


def _save(path: Path, content: str | bytes) -> Path:
    """Write a file so that a reader sees the old or the new one, never a part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".tmp")
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise ConfigError("--out", str(path), f"a place to write to ({error.strerror})") from error
    return path


if __name__ == "__main__":
    sys.exit(main())
