"""The table that `validate` prints: what differs, and how much is equal."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from allocator.errors import PredictError
from allocator.records.predict import one_line, predict
from allocator.records.record import Record, load
from allocator.records.validate import Comparison, compare_static
from allocator.records.validate_runs import (
    compare_hugetlb,
    compare_replay,
    family,
    pool_sizes,
)


def validate_files(paths: Sequence[str]) -> Iterator[tuple[str, bool | None]]:
    """Predict and compare records of all kinds that are predicted.

    Yields
    ------
    A line of the table, and whether it reports agreement; None where a record cannot be read or
    predicted, and the line says why.
    """
    loaded = [_load(path) for path in paths]
    spreads: dict[str, list[int]] = {}
    for record in loaded:
        if isinstance(record, Record) and record.kind == "hugetlb" and record.measured is not None:
            with suppress(PredictError):  # told when its turn comes
                spreads.setdefault(family(record.name), []).extend(pool_sizes(record))
    for path, record in zip(paths, loaded, strict=True):
        try:
            if isinstance(record, Exception):
                raise record
            rows = list(_compare(record, spreads))
        except Exception as error:  # one record must not hide the others
            text = one_line(error)
            yield text if text.startswith(path) else f"{path}: {text}", None
            continue
        wrong = [row for row in rows if not row.equal]
        if wrong:
            yield from ((line, False) for line in _table(record.name, wrong))
        equal = len(rows) - len(wrong)
        yield f"{record.name} ({record.kernel}): {equal} of {len(rows)} values equal", not wrong


def _load(path: str) -> Record | PredictError:
    try:
        return load(path)
    except PredictError as error:
        return error


def _compare(record: Record, spreads: Mapping[str, Sequence[int]]) -> Iterator[Comparison]:
    if record.measured is None:
        raise PredictError("measured: found nothing to compare with")
    predicted = predict(record)
    if record.kind == "replay":
        yield from compare_replay(record, predicted)
    elif record.kind == "hugetlb":
        pool_sizes(record)  # says what is wrong with them, if anything is
        yield from compare_hugetlb(predicted, spreads[family(record.name)])
    else:
        yield from compare_static(record, predicted)


def _table(name: str, rows: Sequence[Comparison]) -> Iterator[str]:
    """Yield a header and one line per difference, columns of fixed width."""
    cells = [(row.what, _short(row.measured), _short(row.predicted)) for row in rows]
    cells.insert(0, (name, "measured", "predicted"))
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    for what, measured, predicted in cells:
        yield f"{what:<{widths[0]}}  {measured:>{widths[1]}}  {predicted:>{widths[2]}}"


def _short(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
