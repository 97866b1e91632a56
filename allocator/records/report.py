"""The table that `validate` prints: what differs, and how much is equal."""

from collections.abc import Iterator, Sequence

from allocator.errors import PredictError
from allocator.records.predict import one_line, predict
from allocator.records.record import load
from allocator.records.validate import Comparison, compare_static


def validate_files(paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Predict and compare static records.

    Yields
    ------
    A line of the table, and whether it reports agreement. Other kinds, and records that cannot be
    read or predicted, are reported in place.
    """
    for path in paths:
        try:
            record = load(path)
            if record.kind != "static":
                expected = "static; other kinds are compared by their own tests"
                raise PredictError(f"{path}: kind: found {record.kind!r}, expected {expected}")
            rows = list(compare_static(record, predict(record)))
        except Exception as error:  # one record must not hide the others
            yield f"{path}: {one_line(error)}", False
            continue
        wrong = [row for row in rows if not row.equal]
        if wrong:
            yield from ((line, False) for line in _table(record.name, wrong))
        equal = len(rows) - len(wrong)
        yield f"{record.name} ({record.kernel}): {equal} of {len(rows)} values equal", not wrong


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
