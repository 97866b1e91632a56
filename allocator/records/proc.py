"""Read /proc/zoneinfo, buddyinfo, pagetypeinfo, slabinfo and meminfo, of any kernel since 2.6.

Kernels add and drop lines; what a file does not say is missing in the result, and lines that are
not understood are passed over.
"""

import re
from typing import TypedDict

_ZONE_HEAD = re.compile(r"Node (\d+), zone\s+(\S+)")
_NUMBER = re.compile(r"\s*([\w-]+(?: [a-z]+)*):?\s+(-?\d+)\s*$")
_PER_CPU = ("count", "high", "batch", "high_min", "high_max")
_ZONE_KEYS = ("boost", "min", "low", "high", "promo", "spanned", "present", "managed", "cma")


class Zone(TypedDict, total=False):
    """One zone of /proc/zoneinfo; pages."""

    node: int
    zone: str
    free: int
    boost: int
    min: int
    low: int
    high: int
    promo: int
    spanned: int
    present: int
    managed: int
    cma: int
    start_pfn: int
    protection: list[int]
    pcp: dict[int, dict[str, int]]
    """count, high, batch (high_min, high_max) by CPU; of the hot list where there were two."""


class FreeBlocks(TypedDict):
    """One zone of /proc/buddyinfo."""

    node: int
    zone: str
    free: list[int]
    """Free blocks by order."""


class SlabRow(TypedDict):
    """One cache of /proc/slabinfo."""

    active_objs: int
    num_objs: int
    objsize: int
    objperslab: int
    pagesperslab: int
    limit: int
    """Tunable of SLAB; 0 under SLUB."""
    active_slabs: int
    num_slabs: int


class PageTypes(TypedDict, total=False):
    """/proc/pagetypeinfo."""

    pageblock_order: int
    free: list[tuple[int, str, str, list[int]]]
    """Node, zone, migratetype, and free blocks by order; a bound such as ">100000" is 100000."""
    blocks: list[tuple[int, str, dict[str, int]]]
    """Node, zone, and pageblocks by migratetype."""


def zoneinfo(text: str) -> list[Zone]:
    """Read /proc/zoneinfo."""
    zones: list[Zone] = []
    part, cpu, hot = "", -1, True
    for line in text.splitlines():
        head = _ZONE_HEAD.match(line)
        if head:
            zones.append(Zone(node=int(head[1]), zone=head[2], pcp={}))
            part = "zone"
            continue
        if not zones:
            continue
        words = line.split()
        if words[:1] == ["protection:"]:
            zones[-1]["protection"] = [int(number) for number in re.findall(r"\d+", line)]
            part = "counters"
        elif line.strip() in ("pagesets", "per-node stats"):
            part = line.strip()
        elif line.startswith("  pages free"):
            part = "zone"
            zones[-1]["free"] = int(words[-1])
        elif words[:1] == ["start_pfn:"]:
            zones[-1]["start_pfn"] = int(words[-1])
        elif part == "zone" and len(words) == 2 and words[0] in _ZONE_KEYS:
            zones[-1][words[0]] = int(words[1])  # type: ignore[literal-required]
        elif part == "pagesets" and words[:1] == ["cpu:"]:
            cpu, hot = int(words[1]), words[2:] in ([], ["pcp:", "0"])
            zones[-1]["pcp"].setdefault(cpu, {})
        elif part == "pagesets" and hot and cpu >= 0:
            _per_cpu(zones[-1]["pcp"][cpu], line)
    return zones


def _per_cpu(values: dict[str, int], line: str) -> None:
    match = _NUMBER.match(line)
    if match and match[1] in _PER_CPU:
        values[match[1]] = int(match[2])


def buddyinfo(text: str) -> list[FreeBlocks]:
    """Read /proc/buddyinfo."""
    return [
        {"node": int(m[1]), "zone": m[2], "free": [int(count) for count in m[3].split()]}
        for m in re.finditer(r"^Node (\d+), zone +(\S+) +([\d ]+)$", text, re.MULTILINE)
    ]


def pagetypeinfo(text: str) -> PageTypes:
    """Read /proc/pagetypeinfo."""
    found = PageTypes(free=[], blocks=[])
    order = re.search(r"Page block order: (\d+)", text)
    if order:
        found["pageblock_order"] = int(order[1])
    pattern = r"^Node +(\d+), zone +(\S+), type +(\S+) +([>\d ]+)$"
    for m in re.finditer(pattern, text, re.MULTILINE):
        counts = [int(count.lstrip(">")) for count in m[4].split()]
        found["free"].append((int(m[1]), m[2], m[3], counts))
    types: list[str] = []
    for line in text.splitlines():
        if line.startswith("Number of blocks type"):
            types = line.split()[4:]
            continue
        row = re.match(r"Node (\d+), zone +(\S+) +([\d ]+)$", line)
        if types and row:
            counts = [int(count) for count in row[3].split()]
            by_type = dict(zip(types, counts, strict=False))
            found["blocks"].append((int(row[1]), row[2], by_type))
    return found


def slabinfo(text: str) -> dict[str, SlabRow]:
    """Read /proc/slabinfo, version 2; rows that are cut short are passed over."""
    caches: dict[str, SlabRow] = {}
    pattern = (
        r"^(\S.*?) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +: tunables +(\d+) +\d+ +\d+"
        r" +: slabdata +(\d+) +(\d+) +\d+"
    )
    for m in re.finditer(pattern, text, re.MULTILINE):
        numbers = [int(number) for number in m.groups()[1:]]
        caches[m[1]] = SlabRow(
            active_objs=numbers[0],
            num_objs=numbers[1],
            objsize=numbers[2],
            objperslab=numbers[3],
            pagesperslab=numbers[4],
            limit=numbers[5],
            active_slabs=numbers[6],
            num_slabs=numbers[7],
        )
    return caches


def meminfo(text: str) -> dict[str, int]:
    """Read /proc/meminfo: kB, or counts (HugePages_Total)."""
    rows = re.finditer(r"^(?:Node \d+ )?([\w()]+): +(\d+)", text, re.MULTILINE)
    return {m[1]: int(m[2]) for m in rows}
