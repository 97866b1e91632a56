"""What /sys/kernel/slab and /proc/slabinfo say of a cache of the reference [10]."""

from collections.abc import Iterable

from tests.reference.slub import Cache
from tests.reference.slub_cpu import Cpu, CpuSlabs
from tests.reference.slub_types import Slab

MANY_PARTIAL = 10000
"""Slabs on a list from which 6.10 only looks at the first and last half of so many."""


def counts(cache: Cache) -> dict[str, dict[str, int] | str]:
    """Return the counters of /sys/kernel/slab/NAME as the records hold them."""
    nodes = list(enumerate(cache.nodes))
    free = {n: sum(slab.free for slab in node.partial) for n, node in nodes}
    per_node = {
        "slabs": {n: node.nr_slabs for n, node in nodes},
        "total_objects": {n: node.total_objects for n, node in nodes},
        "objects": {n: node.total_objects - free[n] for n, node in nodes},
        "objects_partial": {n: sum(slab.inuse for slab in node.partial) for n, node in nodes},
        "partial": {n: node.nr_partial for n, node in nodes},
        "cpu_slabs": _cpu_slabs(cache),
    }
    told: dict[str, dict[str, int] | str] = {
        name: {
            "total": sum(values.values()),
            **{f"N{n}": value for n, value in sorted(values.items()) if value},
        }
        for name, values in per_node.items()
    }
    told["slabs_cpu_partial"] = _slabs_cpu_partial(cache)
    return told


def slabinfo(cache: Cache) -> tuple[int, int, int, int]:
    """Return active_objs, num_objs, active_slabs and num_slabs of /proc/slabinfo."""
    total = sum(node.total_objects for node in cache.nodes)
    free = sum(_count_free(cache, node.partial, node.total_objects) for node in cache.nodes)
    slabs = sum(node.nr_slabs for node in cache.nodes)
    return total - free, total, slabs, slabs


def _count_free(cache: Cache, partial: list[Slab], total_objects: int) -> int:
    """count_partial_free_approx(): exact up to 10000 slabs, else from both ends (6.10)."""
    if len(partial) <= MANY_PARTIAL or not cache.policy.trynode:
        return sum(slab.free for slab in partial)
    half = MANY_PARTIAL // 2
    seen = sum(slab.free for slab in (*partial[:half], *partial[-half:]))
    return min(seen * len(partial) // MANY_PARTIAL, total_objects)


def _cpus(cache: Cache) -> Iterable[Cpu]:
    return cache.cpus if isinstance(cache, CpuSlabs) else ()


def _cpu_slabs(cache: Cache) -> dict[int, int]:
    """CPUs without a cpu slab count nothing; a list is charged to the node of its top slab."""
    by_node: dict[int, int] = {}
    for here in _cpus(cache):
        if here.slab is None:
            continue
        by_node[here.slab.node] = by_node.get(here.slab.node, 0) + 1
        if here.partial:
            top = here.partial[-1]
            by_node[top.node] = by_node.get(top.node, 0) + top.stored_slabs
    return by_node


def _slabs_cpu_partial(cache: Cache) -> str:
    """Objects (an estimate from 5.16 on) and slabs of the CPUs' partial lists."""
    tops = [(cpu, here.partial[-1]) for cpu, here in enumerate(_cpus(cache)) if here.partial]

    def told(slabs: int, stored_objects: int) -> str:
        if cache.policy.cpu_partial_counts == "slabs":
            return f"{slabs * cache.geometry.objs_per_slab // 2}({slabs})"
        return f"{stored_objects}({slabs})"

    total = told(
        sum(top.stored_slabs for _, top in tops), sum(top.stored_objects for _, top in tops)
    )
    each = (f"C{cpu}={told(top.stored_slabs, top.stored_objects)}" for cpu, top in tops)
    return " ".join([total, *each])
