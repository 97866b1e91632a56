"""Zones and their marks, as a running kernel shows them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from allocator.kernels import PRESETS
from allocator.pages.zones import ZONE_TYPES
from allocator.records.files import Files
from allocator.records.proc import Zone, zoneinfo

_MARKS = ("min", "low", "high", "promo")


@dataclass(slots=True, kw_only=True)
class Memory:
    """Parts of a record that tell about memory."""

    zones: list[dict[str, object]] = field(default_factory=list)
    """`given.zones`."""
    marks: list[dict[str, object]] = field(default_factory=list)
    """`measured.boot.zones`."""
    min_free_kbytes: int | None = None
    """vm.min_free_kbytes."""


def read_memory(
    files: Files, env: Mapping[str, object], numbers: Mapping[int, int], kernel: str
) -> Memory:
    """Read the zones.

    Parameters
    ----------
    files
        The machine.
    env
        The record's `env`.
    numbers
        The record's node number by the machine's.
    kernel
        Preset; it says whether the kernel shows the promo mark.

    Raises
    ------
    PredictError
        If neither /proc/zoneinfo nor /proc/meminfo tells of memory.
    """
    zones = zoneinfo(files.text("proc/zoneinfo") or "")
    if not zones and not env.get("mem_total_kb"):
        raise files.missing("proc/zoneinfo", "zones, or a size in proc/meminfo")
    memory = Memory()
    kbytes = files.text("proc/sys/vm/min_free_kbytes")
    memory.min_free_kbytes = int(kbytes) if kbytes and kbytes.isdecimal() else None
    for zone in complete(zones):
        node = numbers.get(zone["node"], zone["node"])
        present = zone.get("present", 0)
        memory.zones.append(
            {
                "node": node,
                "zone": zone["zone"],
                "spanned": zone.get("spanned", 0),
                "present": present,
                "managed": zone.get("managed", present),  # shown from 3.9 on
                "start_pfn": zone.get("start_pfn", 0) if present else None,
            }
        )
        memory.marks.append({"node": node, "zone": zone["zone"], **_marks(zone, kernel)})
    if any(zone.get("boost", 0) for zone in zones):
        files.note("a zone's marks are boosted at the moment; the boost is taken off")
    return memory


def complete(zones: list[Zone]) -> list[Zone]:
    """Return the zones with those that kernels before 4.13 leave out, as they hold no memory.

    The length of `protection` is the number of zone types.
    """
    seen = {zone["zone"] for zone in zones}
    wanted = max((len(zone.get("protection", ())) for zone in zones), default=0)
    types = set(seen)
    for kind in ("Movable", "Normal", "DMA32", "DMA", "Device"):
        if len(types) < wanted:
            types.add(kind)
    have = {(zone["node"], zone["zone"]): zone for zone in zones}
    return [
        have.get((node, kind)) or Zone(node=node, zone=kind, present=0, managed=0)
        for node in sorted({zone["node"] for zone in zones})
        for kind in sorted(types, key=ZONE_TYPES.index)
    ]


def _marks(zone: Zone, kernel: str) -> dict[str, object]:
    """Return marks without a momentary boost, and the limits of per-CPU lists."""
    boost = zone.get("boost", 0)
    shown = _MARKS if PRESETS[kernel].page.shows_promo else _MARKS[:3]
    row: dict[str, object] = {
        key: zone[key] - boost  # type: ignore[literal-required]
        for key in shown
        if key in zone
    }
    row["boost"] = boost
    if "protection" in zone:
        row["protection"] = zone["protection"]
    if zone.get("present"):
        for key in ("high", "batch", "high_min", "high_max"):
            values = [cpu[key] for cpu in zone.get("pcp", {}).values() if key in cpu]
            if values:
                row[f"pcp_{key}"] = values[0] if len(set(values)) == 1 else values
    return row
