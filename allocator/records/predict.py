"""Predict records of any kind, one after another, whatever is wrong with some of them."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from allocator.errors import ConfigError, PredictError
from allocator.records.record import Record, load

_SINGLE = {
    "static": ("allocator.records.static", "predict_static"),
    "hugetlb": ("allocator.workloads.hugepages", "predict_hugetlb"),
}
"""Kinds that are predicted one by one: module and function, imported when first needed."""
_BATCHED = {"replay": ("allocator.workloads.replay", "predict_replay")}
"""Kinds whose records advance together."""

Answer = dict[str, object]
"""`{"name", "kind", "predicted"}`, or `{"name", "kind", "error"}`."""


def predict(record: Record) -> dict[str, object]:
    """Predict one record from `env` and `given`.

    Raises
    ------
    PredictError
        If it cannot be predicted.
    """
    answer = _together([record.blind()])[0]
    if "error" in answer:
        raise PredictError(str(answer["error"]))
    predicted = answer["predicted"]
    assert isinstance(predicted, dict)
    return predicted


def predict_files(paths: Sequence[str]) -> Iterator[Answer]:
    """Yield one answer per file, in the order of the files.

    Records of a batched kind are all predicted when the first of them is reached.
    """
    loaded = [_read(path) for path in paths]
    done: dict[int, Answer] = {}
    for index, item in enumerate(loaded):
        if not isinstance(item, Record):
            yield item
            continue
        if index not in done:
            same = [index]
            if item.kind in _BATCHED:
                same = [n for n, other in enumerate(loaded) if _kind(other) == item.kind]
            answers = _together([record for n in same if isinstance(record := loaded[n], Record)])
            done.update(zip(same, answers, strict=True))
        yield done.pop(index)


def _kind(item: Record | Answer) -> str | None:
    return item.kind if isinstance(item, Record) else None


def _read(path: str) -> Record | Answer:
    try:
        return load(path).blind()
    except PredictError as error:
        return {"name": Path(path).stem, "kind": None, "error": one_line(error)}


def _together(records: list[Record]) -> list[Answer]:
    """Predict records of one kind; if a batch fails, each on its own, to find the one to blame."""
    kind = records[0].kind
    try:
        if kind in _BATCHED:
            predicted = _function(*_BATCHED[kind])(records)
        elif kind in _SINGLE:
            predicted = [_function(*_SINGLE[kind])(record) for record in records]
        else:
            expected = ", ".join((*_SINGLE, *_BATCHED))
            raise PredictError(f"kind: found {kind!r}, expected one that is predicted: {expected}")
    except Exception as error:  # input is never trusted, and one record must not lose the others
        if len(records) > 1:
            return [answer for record in records for answer in _together([record])]
        return [{"name": records[0].name, "kind": kind, "error": one_line(error)}]
    return [
        {"name": record.name, "kind": kind, "predicted": values}
        for record, values in zip(records, predicted, strict=True)
    ]


def _function(module: str, name: str):  # type: ignore[no-untyped-def]  # see _SINGLE, _BATCHED
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PredictError(f"not predicted by this version ({error})") from None


def one_line(error: Exception) -> str:
    """Return what is wrong in one line; errors of ours explain themselves."""
    text = " ".join(str(error).split())
    if isinstance(error, PredictError | ConfigError):
        return text
    return f"{type(error).__name__}: {text}"
