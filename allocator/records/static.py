"""Predict `static` records: geometry of caches, marks of zones, order of nodes."""

from collections.abc import Iterable

from allocator.kernel import Kernel
from allocator.pages.policy import PagePolicy
from allocator.pages.zones import MemoryMarks, ZoneMarks, ZoneSize, before_init_memory_is_freed
from allocator.records.machine import (
    caches_of,
    kernel_of,
    machine_topology,
    nodes_of,
    parameters_of,
    zones_of,
)
from allocator.records.record import Record, Section
from allocator.slabs.geometry import NO_ORDER, CacheGeometry, cache_geometries
from allocator.topology import Topology, node_fallback_order


def predict_static(record: Record) -> dict[str, object]:
    """Predict what a machine shows in /proc and /sys.

    Returns
    -------
    `caches`, `boot`, `steps` and `node_order`, formed as in `measured`.

    Raises
    ------
    PredictError
        If the record lacks something, or says what cannot be.
    """
    kernel = kernel_of(record)
    topology = machine_topology(record)
    parameters = parameters_of(record, kernel)
    specs = caches_of(record)
    geometries = cache_geometries(kernel.slab, topology, parameters, specs)
    boot, steps = _marks(record, kernel, topology)
    populated = [has_memory for _, _, has_memory in nodes_of(record)]
    order = node_fallback_order(topology.distances, populated, kernel.page)
    return {
        "caches": {item.name: _cache(item, kernel) for item in geometries},
        "boot": boot,
        "steps": steps,
        "node_order": {str(node): list(row) for node, row in enumerate(order)},
    }


def memory_marks(record: Record, kernel: Kernel, topology: Topology) -> MemoryMarks:
    """Return the marks of a recorded machine as they are after boot.

    Raises
    ------
    PredictError
        If the record lacks something.
    """
    env = record.section("env")
    sysctl = env.section("sysctl", optional=True)
    online = [len(cpus) for _, cpus, _ in nodes_of(record)]
    ratios = sysctl.integers("lowmem_reserve_ratio") if "lowmem_reserve_ratio" in sysctl else None
    fraction = sysctl.integer("percpu_pagelist_fraction", 0)
    marks = MemoryMarks(
        kernel.page,
        before_init_memory_is_freed(zones_of(record), topology.page_size),
        page_size=topology.page_size,
        pageblock_order=pageblock_order(env, topology),
        online_cpus=online,
        thp=env.text("thp", "never") != "never",
        ratios=ratios,
        scale=sysctl.optional_integer("watermark_scale_factor"),
        fraction=sysctl.integer("percpu_pagelist_high_fraction", fraction),
    )
    if "min_free_kbytes" in sysctl:  # only where an administrator set it
        marks.write("min_free_kbytes", str(sysctl.integer("min_free_kbytes")))
    return marks


def pageblock_order(env: Section, topology: Topology) -> int:
    """Return the order of a pageblock: the huge page's, within what the kernel was built for."""
    order = topology.huge_page_order
    huge_kb = env.optional_integer("huge_page_kb")
    if huge_kb:
        order = (huge_kb * 1024 // topology.page_size).bit_length() - 1
    largest = env.section("config", optional=True).values.get("PAGE_BLOCK_MAX_ORDER")
    if isinstance(largest, str) and largest.isdecimal():
        order = min(order, int(largest))
    return min(max(order, 0), topology.max_buddy_order)


def _marks(
    record: Record, kernel: Kernel, topology: Topology
) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Return the state after boot, and after each sysctl."""
    marks = memory_marks(record, kernel, topology)
    boot = {"exact": False, **_state(marks, kernel.page)}
    marks.resize({(zone.node, zone.zone): zone.managed for zone in zones_of(record)})
    steps = []
    for step in record.section("given").sections("steps", optional=True):
        marks.resize(_managed(step))
        name, value = _setting(step)
        error = step.text("error", "") or None
        if error is None:
            marks.write(name, value)
        state = _state(marks, kernel.page)
        steps.append({"set": [name, value], "error": error, "exact": True, **state})
    return boot, steps


def _setting(step: Section) -> tuple[str, str]:
    pair = step.values.get("set")
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        raise step.fail("set", "a sysctl's name and the value written")
    return pair[0].removeprefix("vm.").removeprefix("vm/"), str(pair[1])


def _managed(step: Section) -> dict[tuple[int, str], int]:
    """Return the managed pages at a step; what it does not tell stays."""
    rows = step.values.get("managed") or []
    expected = "rows of node, zone and managed pages"
    if not isinstance(rows, list):
        raise step.fail("managed", expected)
    managed = {}
    for row in rows:
        if not isinstance(row, list) or [type(item) for item in row] != [int, str, int]:
            raise step.fail("managed", expected)
        managed[row[0], row[1]] = row[2]
    return managed


def _state(marks: MemoryMarks, policy: PagePolicy) -> dict[str, object]:
    return {
        "min_free_kbytes": marks.min_free_kbytes,
        "zones": _zones(zip(marks.zones, marks.read(), strict=True), policy),
    }


def _zones(
    zones: Iterable[tuple[ZoneSize, ZoneMarks]], policy: PagePolicy
) -> list[dict[str, object]]:
    rows = []
    for size, marks in zones:
        row: dict[str, object] = {"node": marks.node, "zone": marks.zone}
        row |= {"min": marks.min, "low": marks.low, "high": marks.high}
        if policy.shows_promo:
            row["promo"] = marks.promo
        row |= {"boost": 0, "protection": list(marks.protection)}
        if size.present:
            row |= {"pcp_high": marks.pcp_high, "pcp_batch": marks.pcp_batch}
            if policy.pcp.startswith("tuned"):
                row |= {"pcp_high_min": marks.pcp_high_min, "pcp_high_max": marks.pcp_high_max}
        rows.append(row)
    return rows


def _cache(geometry: CacheGeometry, kernel: Kernel) -> dict[str, object]:
    possible = geometry.order != NO_ORDER  # else the kernel refuses to make the cache
    row: dict[str, object] = {
        "slab_size": geometry.slab_size,
        "objs_per_slab": geometry.objs_per_slab if possible else None,
        "order": geometry.order if possible else None,
        "min_partial": geometry.min_partial,
        "cpu_partial": geometry.cpu_partial,
    }
    if kernel.slab.generation == "sheaves":
        row["sheaf_capacity"] = geometry.sheaf_capacity
    return row
