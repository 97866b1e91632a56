"""Compare a prediction of a static record with what was measured."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from allocator.errors import PredictError
from allocator.records.record import Record, Section

_MARKS = ("min", "low", "high", "promo")
_EXACT = (*_MARKS, "protection", "pcp_batch", "pcp_high", "pcp_high_min", "pcp_high_max")
_INIT_MEMORY_PAGES = 16384


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One value, measured and predicted."""

    what: str
    """Where it stands, e.g. `cache dentry order`."""
    measured: object
    """The kernel's value."""
    predicted: object
    """The model's value."""
    slack: float = 0.0
    """By how much a number may differ."""

    @property
    def equal(self) -> bool:
        """Tell whether the prediction holds."""
        measured, predicted = self.measured, self.predicted
        if self.slack and isinstance(measured, int | float) and isinstance(predicted, int | float):
            return abs(measured - predicted) <= self.slack
        return measured == predicted


def compare_static(record: Record, predicted: Mapping[str, object]) -> Iterator[Comparison]:
    """Yield every value that was measured beside its prediction.

    Marks at boot were computed before init memory was freed (up to 64 MiB) and may differ by that
    share; after a sysctl everything is exact. A self-tuned pcp_high is not compared.

    Raises
    ------
    PredictError
        If the record holds no measurement.
    """
    if record.measured is None:
        raise PredictError(f"{record.path or record.name}: measured: found nothing to compare with")
    measured = Section(record.measured, f"{record.path or record.name}: measured")
    model = Section(predicted, "predicted")
    for name, cache in measured.named_sections("caches"):
        mine = _part(predicted.get("caches"), name)
        for key, value in cache.values.items():
            if value is not None:
                yield Comparison(
                    what=f"cache {name} {key}", measured=value, predicted=mine.get(key)
                )
    tuned = _tunes_itself(predicted)
    if "boot" in measured:
        yield from _boot(record, measured.section("boot"), model.section("boot"))
    steps = model.sections("steps")
    for index, step in enumerate(measured.sections("steps", optional=True)):
        here = steps[index] if index < len(steps) else Section({}, "predicted.steps")
        yield from _step(index, step, here, tuned=tuned)
    yield from _node_order(record, measured, predicted)


def boot_share(managed: int) -> float:
    """Return by which share marks of boot may differ, from the pages of all zones."""
    return 0.01 + min(0.3, _INIT_MEMORY_PAGES / max(managed, 1))


def _boot(record: Record, measured: Section, model: Section) -> Iterator[Comparison]:
    managed = sum(z.integer("managed") for z in record.section("given").sections("zones"))
    share = boot_share(managed)
    mine = _by_zone(model)
    for place, zone in _by_zone(measured).items():
        for key in _MARKS:
            value = zone.get(key)
            if isinstance(value, int):
                yield Comparison(
                    what=f"boot node {place[0]} {place[1]} {key}",
                    measured=value,
                    predicted=mine.get(place, {}).get(key),
                    slack=max(4.0, share * value),
                )
        if isinstance(zone.get("pcp_batch"), int):
            yield Comparison(
                what=f"boot node {place[0]} {place[1]} pcp_batch",
                measured=zone["pcp_batch"],
                predicted=mine.get(place, {}).get("pcp_batch"),
            )


def _step(index: int, measured: Section, model: Section, *, tuned: bool) -> Iterator[Comparison]:
    yield Comparison(
        what=f"step {index} min_free_kbytes",
        measured=measured.integer("min_free_kbytes"),
        predicted=model.values.get("min_free_kbytes"),
    )
    mine = _by_zone(model)
    for place, zone in _by_zone(measured).items():
        for key in _EXACT:
            if key not in zone or isinstance(zone[key], dict) or (tuned and key == "pcp_high"):
                continue
            yield Comparison(
                what=f"step {index} node {place[0]} {place[1]} {key}",
                measured=zone[key],
                predicted=mine.get(place, {}).get(key),
            )


def _node_order(
    record: Record, measured: Section, predicted: Mapping[str, object]
) -> Iterator[Comparison]:
    """Compare the order of nodes with memory; whether others are listed differs by release."""
    nodes = record.section("env").sections("nodes")
    empty = {node.integer("id") for node in nodes if not node.flag("has_memory", True)}
    mine = _part(predicted, "node_order")
    for node, order in measured.section("node_order", optional=True).values.items():
        ours = mine.get(node)
        yield Comparison(
            what=f"node order {node}",
            measured=_without(order, empty),
            predicted=_without(ours, empty),
        )


def _without(order: object, empty: set[int]) -> object:
    return [node for node in order if node not in empty] if isinstance(order, list) else order


def _by_zone(section: Section) -> dict[tuple[int, str], Mapping[str, object]]:
    return {
        (zone.integer("node"), zone.text("zone")): zone.values
        for zone in section.sections("zones", optional=True)
    }


def _part(values: object, key: str) -> Mapping[str, object]:
    part = values.get(key) if isinstance(values, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _tunes_itself(predicted: Mapping[str, object]) -> bool:
    zones = _part(predicted, "boot").get("zones")
    return isinstance(zones, list) and any("pcp_high_max" in zone for zone in zones)
