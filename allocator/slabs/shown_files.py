"""Files of a cache's directory that hold no counters, and a table of what locks cost."""

from collections.abc import Sequence

from allocator.slabs.geometry import CacheGeometry
from allocator.slabs.state import State

_FLAG_FILES = {
    "hwcache_align": "HWCACHE_ALIGN",
    "reclaim_account": "RECLAIM_ACCOUNT",
    "destroy_by_rcu": "TYPESAFE_BY_RCU",
}


def attributes(state: State, row: int, cache: CacheGeometry) -> dict[str, str]:
    """Return the files of /sys/kernel/slab/CACHE that tell of layout and limits.

    mm/slub.c slab_attrs[]; `sheaf_capacity` exists from 7.x on. What was written at run time is
    read back.
    """
    rows = state.rows
    files: dict[str, int] = {
        "object_size": cache.object_size,
        "slab_size": cache.slab_size,
        "align": cache.align,
        "objs_per_slab": int(rows.objects[row]),
        "order": int(rows.order[row]),
        "cpu_partial": int(rows.cpu_partial[row]),
        "min_partial": int(rows.min_partial[row]),
        "remote_node_defrag_ratio": int(rows.defrag_ratio[row]) // 10,
        "aliases": 0,
        **{file: int(flag in cache.flags) for file, flag in _FLAG_FILES.items()},
    }
    if state.sheaves is not None:
        files["sheaf_capacity"] = int(rows.sheaf_capacity[row])
    return {name: str(value) for name, value in files.items()}


def lock_table(state: State, rows: Sequence[int], names: Sequence[str]) -> str:
    """Return a line per cache and node: list_lock, slabs under it, slab updates.

    7.x has the barn's lock besides.
    """
    told = state.statistics
    columns = {
        "list_lock": told.list_locks,
        "slabs_under_lock": told.list_units,
        "slab_updates": told.slab_updates,
    }
    if state.sheaves is not None:
        columns["barn_lock"] = told.barn_locks
    lines = [f"{'# cache':<21} node " + " ".join(f"{name:>16}" for name in columns)]
    for row, name in zip(rows, names, strict=True):
        for node in range(state.nr_nodes):
            at = row * state.nr_nodes + node
            values = " ".join(f"{int(values[at]):16d}" for values in columns.values())
            lines.append(f"{name:<21} N{node:<3d} {values}")
    return "\n".join(lines)
