"""What a running kernel shows of its caches: /sys/kernel/slab, /proc/slabinfo, slabinfo -AD.

mm/slub.c show_slab_objects(), slabs_cpu_partial_show(), get_slabinfo(); slub.md 10.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.geometry import CacheGeometry
from allocator.slabs.pool import FREE, NONE
from allocator.slabs.ranks import ranks_from
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat, stats_of

Ints = NDArray[np.int64]

MANY_PARTIAL = 10000
"""Slabs on a list from which 6.10 counts only the first and last half of so many."""

SLABINFO_HEADER = """\
slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> \
: tunables <limit> <batchcount> <sharedfactor> \
: slabdata <active_slabs> <num_slabs> <sharedavail>"""
"""First lines of /proc/slabinfo (mm/slab_common.c print_slabinfo_header())."""

Counts = dict[str, dict[str, int] | str]
"""Files of one cache's directory: a total and its parts by node (`N0`), or a text."""


def by_node(state: State) -> dict[str, Ints]:
    """Return what the directories of all caches tell, each (row, node).

    `slabs`, `total_objects`, `objects`, `objects_partial`, `partial`, `cpu_slabs`, as in sysfs.
    """
    shape = (state.nr_rows, state.nr_nodes)
    free, used, _ = _on_lists(state)
    total = state.total_objects.reshape(shape)
    return {
        "slabs": state.nr_slabs.reshape(shape).copy(),
        "total_objects": total.copy(),
        "objects": total - free,
        "objects_partial": used,
        "partial": state.lists.nr_partial.reshape(shape).copy(),
        "cpu_slabs": _cpu_slabs(state),
    }


def counts(state: State, row: int, told: dict[str, Ints] | None = None) -> Counts:
    """Return the counters of one cache as its directory shows them.

    Parameters
    ----------
    state
        The batch.
    row
        Row of the cache.
    told
        What `by_node()` returned, if it is at hand.
    """
    every = by_node(state) if told is None else told
    files: Counts = {}
    for name, values in every.items():
        nodes = values[row].tolist()
        parts = {f"N{node}": value for node, value in enumerate(nodes) if value}
        files[name] = {"total": sum(nodes), **parts}
    files["slabs_cpu_partial"] = _slabs_cpu_partial(state, row)
    return files


def active_objects(state: State) -> Ints:
    """Return active_objs of /proc/slabinfo, (row,).

    Only free objects on node lists count as free. From 6.10 on long lists are estimated from both
    ends (count_partial_free_approx()).
    """
    free, _, approximate = _on_lists(state)
    if state.policy.trynode:
        free = np.where(approximate >= 0, approximate, free)
    total = state.total_objects.reshape(free.shape)
    active: Ints = (total - free).sum(axis=1)
    return active


def slab_pages(state: State) -> Ints:
    """Return the pages in slabs, (row, node), whatever order each slab has."""
    pool = state.pool
    live = pool.objects[: pool.used].nonzero()[0]
    pages = np.zeros(state.nr_rows * state.nr_nodes, dtype=np.int64)
    np.add.at(pages, pool.home[live], np.int64(1) << pool.order[live].astype(np.int64))
    return pages.reshape(state.nr_rows, state.nr_nodes)


def slabinfo(state: State, rows: Sequence[int], caches: Sequence[CacheGeometry]) -> str:
    """Return lines of /proc/slabinfo.

    Parameters
    ----------
    state
        The batch.
    rows
        Rows to be told.
    caches
        Geometry of each.
    """
    active = active_objects(state)
    lines = []
    for row, cache in zip(rows, caches, strict=True):
        where = slice(row * state.nr_nodes, (row + 1) * state.nr_nodes)
        slabs = int(state.nr_slabs[where].sum())
        lines.append(
            f"{cache.name:<17} {active[row]:6d} {state.total_objects[where].sum():6d} "
            f"{cache.slab_size:6d} {cache.objs_per_slab:4d} {1 << cache.order:4d}"
            f" : tunables {0:4d} {0:4d} {0:4d} : slabdata {slabs:6d} {slabs:6d} {0:6d}"
        )
    return "\n".join(lines)


def sysfs_text(files: Counts) -> dict[str, str]:
    """Return counters as the files read."""
    return {name: _file_text(value) for name, value in files.items()}


def statistics_text(state: State, row: int) -> dict[str, str]:
    """Return the counters of CONFIG_SLUB_STATS of one cache by their file's name.

    A total, and its parts by CPU (`C0=`) where they are kept (mm/slub.c show_stat()).
    """
    told, by_cpu = state.statistics.stats[:, row], state.statistics.by_cpu
    files = {}
    for stat in stats_of(state.policy):
        parts = [] if by_cpu is None else by_cpu[stat, row].tolist()
        each = [f"C{cpu}={number}" for cpu, number in enumerate(parts) if number]
        files[stat.name.lower()] = " ".join([str(told[stat]), *each])
    return files


def slabinfo_activity(state: State, rows: Sequence[int], names: Sequence[str]) -> str:
    """Return what `slabinfo -AD` prints: allocations and frees, and how many took the fast path.

    Caches without a slab are passed over (tools/mm/slabinfo.c slabcache(), sort_slabs()).
    """
    lines = ["Name                   Objects      Alloc       Free   %Fast Fallb O CmpX   UL"]
    stats = state.statistics.stats
    told = by_node(state)
    objects, slabs = told["objects"].sum(axis=1), told["slabs"].sum(axis=1)
    shown = [pair for pair in zip(rows, names, strict=True) if slabs[pair[0]]]
    for row, name in sorted(shown, key=lambda pair: -_activity(stats, pair[0])):
        alloc = int(stats[Stat.ALLOC_FASTPATH, row] + stats[Stat.ALLOC_SLOWPATH, row])
        free = int(stats[Stat.FREE_FASTPATH, row] + stats[Stat.FREE_SLOWPATH, row])
        fast_alloc = 100 * int(stats[Stat.ALLOC_FASTPATH, row]) // max(alloc, 1)
        fast_free = 100 * int(stats[Stat.FREE_FASTPATH, row]) // max(free, 1)
        lines.append(
            f"{name:<21} {objects[row]:8d} {alloc:10d} {free:10d} {fast_alloc:3d} {fast_free:3d} "
            f"{stats[Stat.ORDER_FALLBACK, row]:5d} {state.rows.order[row]:1d} "
            f"{stats[Stat.CMPXCHG_DOUBLE_FAIL, row]:4d} "
            f"{stats[Stat.CMPXCHG_DOUBLE_CPU_FAIL, row]:4d}"
        )
    return "\n".join(lines)


def _activity(stats: Ints, row: int) -> int:
    paths = (Stat.ALLOC_FASTPATH, Stat.ALLOC_SLOWPATH, Stat.FREE_FASTPATH, Stat.FREE_SLOWPATH)
    return int(sum(stats[path, row] for path in paths))


def _on_lists(state: State) -> tuple[Ints, Ints, Ints]:
    """Return free objects and objects in use on node lists, and the estimate of the free ones.

    Each (row, node); the estimate is -1 where the list is counted whole.
    """
    shape = (state.nr_rows, state.nr_nodes)
    lists = np.arange(state.nr_rows * state.nr_nodes)
    slabs, length = state.lists.contents(lists)
    which = np.repeat(lists, length)
    free = (state.pool.word[slabs] & FREE).astype(np.int64)
    objects = state.pool.objects[slabs].astype(np.int64)
    free_sum = np.zeros(len(lists), dtype=np.int64)
    used_sum = np.zeros(len(lists), dtype=np.int64)
    np.add.at(free_sum, which, free)
    np.add.at(used_sum, which, objects - free)
    guess = np.full(len(lists), -1, dtype=np.int64)
    long = length > MANY_PARTIAL
    if long.any():
        place = ranks_from(np.cumsum(length) - length, len(slabs))
        half = MANY_PARTIAL // 2
        seen = (place < half) | (place >= np.repeat(length, length) - half)
        counted = np.zeros(len(lists), dtype=np.int64)
        np.add.at(counted, which[seen], free[seen])
        scaled = np.minimum(counted * length // MANY_PARTIAL, state.total_objects)
        guess = np.where(long, scaled, guess)
    return free_sum.reshape(shape), used_sum.reshape(shape), guess.reshape(shape)


def _cpu_slabs(state: State) -> Ints:
    """Return cpu_slabs, (row, node).

    A CPU without a cpu slab counts nothing; its partial list is charged to the node of its top.
    """
    cpu, pool = state.cpu, state.pool
    told = np.zeros(state.nr_rows * state.nr_nodes, dtype=np.int64)
    places = (cpu.slab != NONE).nonzero()[0]
    np.add.at(told, pool.home[cpu.slab[places]], 1)
    places = places[cpu.nr[places] > 0]
    top = cpu.partial[places * cpu.width + cpu.nr[places] - 1]
    np.add.at(told, pool.home[top], cpu.nr[places])
    return told.reshape(state.nr_rows, state.nr_nodes)


def _slabs_cpu_partial(state: State, row: int) -> str:
    """Return objects (an estimate from 5.16 on) and slabs of the CPUs' partial lists."""
    first = row * state.nr_cpus
    slabs = state.cpu.nr[first : first + state.nr_cpus]
    top = (np.arange(first, first + state.nr_cpus) * state.cpu.width) + np.maximum(slabs, 1) - 1
    stored = np.where(slabs > 0, state.pool.pobjects[state.cpu.partial[top]], 0)
    per_slab = int(state.rows.objects[row])

    def told(number: int, objects: int) -> str:
        if state.policy.cpu_partial_counts == "slabs":
            objects = number * per_slab // 2
        return f"{objects}({number})"

    def each() -> Iterator[str]:
        yield told(int(slabs.sum()), int(stored.sum()))
        for cpu in slabs.nonzero()[0].tolist():
            yield f"C{cpu}={told(int(slabs[cpu]), int(stored[cpu]))}"

    return " ".join(each())


def _file_text(value: dict[str, int] | str) -> str:
    if isinstance(value, str):
        return value
    parts = [f"{name}={number}" for name, number in value.items() if name != "total"]
    return " ".join([str(value["total"]), *parts])
