"""Compare predictions of records that ran something: replay scripts and the hugetlb pool."""

import re
from collections.abc import Iterator, Mapping, Sequence

from allocator.errors import PredictError
from allocator.records.record import Record, Section
from allocator.records.validate import Comparison

_COUNTS = (
    "slabs",
    "total_objects",
    "objects",
    "objects_partial",
    "partial",
    "cpu_slabs",
    "slabs_cpu_partial",
)
_LEAST_SLACK, _SLACK = 2, 0.03
"""By how much a pool may lie outside of the kernel's own range: pages, share."""


def compare_replay(record: Record, predicted: Mapping[str, object]) -> Iterator[Comparison]:
    """Yield counters, places and results of each snapshot, measured and predicted.

    Parts in which the record's own repeats differ (`agree`) are passed over; of a page script only
    the quiet node is compared.

    Raises
    ------
    PredictError
        If the record holds no measurement.
    """
    measured = _measured(record)
    model = {str(told.get("label")): told for told in _mappings(predicted.get("snapshots"))}
    agreed = {part for part in _PARTS if record.agree.get(part, True)}
    pages = "start" in record.given
    for snapshot in measured.sections("snapshots"):
        label = snapshot.text("label", "")
        mine = model.get(label, {})
        for part in sorted(agreed):
            for what, wanted, told in _PARTS[part](snapshot.values, mine, pages):
                yield Comparison(what=f"{label} {what}", measured=wanted, predicted=told)
        if pages:
            node = record.env.get("quiet_node")
            for what, wanted, told in _zones(snapshot.values, mine, node, record.agree):
                yield Comparison(what=f"{label} {what}", measured=wanted, predicted=told)


Rows = Iterator[tuple[str, object, object]]


def _counts(kernel: Mapping[str, object], model: Mapping[str, object], _: bool) -> Rows:
    for cache, told in _mapping(kernel.get("caches")).items():
        mine = _mapping(_at(model, "caches", cache, "counts"))
        for name, value in _mapping(_mapping(told).get("counts")).items():
            if name in _COUNTS:
                yield f"cache {cache} {name}", value, mine.get(name)


def _place(kernel: Mapping[str, object], model: Mapping[str, object], _: bool) -> Rows:
    for part in ("placed", "slabs", "gone"):
        for cache, value in _mapping(_at(kernel, "place", part)).items():
            yield f"place {part} {cache}", value, _at(model, "place", part, cache)


def _results(kernel: Mapping[str, object], model: Mapping[str, object], pages: bool) -> Rows:
    mine = _mappings(model.get("results"))
    for index, told in enumerate(_mappings(kernel.get("results"))):
        here = mine[index] if index < len(mine) else {}
        for name in ("ok", "asked", "runs") if pages else ("ok", "asked"):
            if name in told:
                yield f"result {index} {name}", told[name], here.get(name)


_PARTS = {"counts": _counts, "place": _place, "results": _results}


def _zones(
    kernel: Mapping[str, object],
    model: Mapping[str, object],
    node: object,
    agree: Mapping[str, bool],
) -> Rows:
    """Yield free lists and per-CPU page lists of the node that only the script touches."""
    if agree.get("buddyinfo") and kernel.get("buddyinfo"):
        free, mine = (_buddyinfo(side.get("buddyinfo"), node) for side in (kernel, model))
        yield "buddyinfo", free, mine
    if agree.get("zones"):
        for zone, told in _mapping(kernel.get("zones")).items():
            if node is None or zone.startswith(f"N{node}."):
                wanted = _pcp_counts(_mapping(told).get("pcp"))
                yield f"{zone} pcp counts", wanted, _pcp_counts(_at(model, "zones", zone, "pcp"))


def _buddyinfo(text: object, node: object) -> list[str]:
    lines = str(text or "").splitlines()
    return [
        " ".join(line.split()) for line in lines if node is None or line.startswith(f"Node {node},")
    ]


def _pcp_counts(pcps: object) -> dict[str, object]:
    return {
        cpu: pcp[0] for cpu, pcp in _mapping(pcps).items() if isinstance(pcp, list | tuple) and pcp
    }


def family(name: str) -> str:
    """Return the name of a point: records that differ in a final number repeat it."""
    return re.sub(r"-\d+$", "", name)


def pool_sizes(record: Record) -> list[int]:
    """Return nr_hugepages of each run of a hugetlb record.

    Raises
    ------
    PredictError
        If the record holds no measurement.
    """
    return _measured(record).integers("nr_hugepages")


def compare_hugetlb(predicted: Mapping[str, object], spread: Sequence[int]) -> Iterator[Comparison]:
    """Yield the first run beside the range of all repeats, widened by 3 % or 2 pages."""
    least, most = min(spread), max(spread)
    runs = predicted.get("nr_hugepages")
    mine = runs[0] if isinstance(runs, list) and runs else None
    nearest = min(max(mine, least), most) if isinstance(mine, int) else least
    slack = max(_LEAST_SLACK, _SLACK * nearest)
    what = f"run 1 nr_hugepages, kernel {least} to {most}"
    yield Comparison(what=what, measured=nearest, predicted=mine, slack=slack)


def _measured(record: Record) -> Section:
    if record.measured is None:
        raise PredictError(f"{record.path or record.name}: measured: found nothing to compare with")
    return Section(record.measured, f"{record.path or record.name}: measured")


def _at(values: object, *keys: str) -> object:
    for key in keys:
        values = _mapping(values).get(key)
    return values


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
