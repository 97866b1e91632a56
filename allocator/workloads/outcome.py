"""What a slab workload's batch gives back: throughput, causes, caches, nodes and locks."""

import numpy as np
from numpy.typing import NDArray

from allocator.results import Array, Results, Status, Table
from allocator.slabs.statistics import Stat, stats_of
from allocator.workloads.batch import Batch, list_bytes, slab_bytes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def outcome(
    batch: Batch, *, operations: Floats, tasks: int, direct: Ints, peak_bytes: Ints
) -> Results:
    """Return a finished batch's results.

    Parameters
    ----------
    batch
        Nothing of it is waiting to be settled.
    operations
        (lane,) operations completed.
    tasks
        Tasks that run them: so many CPUs, at most, are taken to be busy all the time. What idles
        at the begin and the end of a short run does not idle in a long one.
    direct
        (lane, cache) objects that came from and went back to a CPU's own freelist at once, which
        the workload did not ask the engine for; they count as fast allocations and frees.
    peak_bytes
        (lane,) largest use of memory by slabs that was seen, bytes.
    """
    stats = batch.slub.statistics.stats.reshape(len(Stat), batch.lanes, batch.caches).copy()
    stats[Stat.ALLOC_FASTPATH] += direct
    stats[Stat.FREE_FASTPATH] += direct
    spent = batch.charges.spent
    used = slab_bytes(batch)
    elapsed_ns = spent.total() / min(tasks, batch.cpus)
    reclaimable = np.array(["RECLAIM_ACCOUNT" in spec.flags for spec in batch.specs])
    scalars: dict[str, Array] = {
        "throughput": operations / np.maximum(elapsed_ns, 1e-9) * 1e9,
        "operations": operations,
        "elapsed_ns": elapsed_ns,
        "cpu_time_ns": spent.total(),
        "work_ns": spent.work,
        "slab_ns": spent.slab,
        "list_lock_wait_ns": spent.list_lock_wait,
        "list_lock_ns": spent.list_lock,
        "get_partial_ns": batch.charges.get_partial_ns,
        "zone_lock_wait_ns": spent.zone_lock_wait,
        "zone_lock_ns": spent.zone_lock,
        "Slab": used.sum(axis=1),
        "Slab_peak": peak_bytes,
        "SReclaimable": used[:, reclaimable].sum(axis=1),
        "SUnreclaim": used[:, ~reclaimable].sum(axis=1),
        "numa_local": batch.numa[0].sum(axis=1),
        "numa_other": batch.numa[1].sum(axis=1),
    }
    for stat in stats_of(batch.policy):
        scalars[stat.name.lower()] = stats[stat].sum(axis=1)
    status = np.where(batch.failed, Status.OOM, Status.OK).astype(np.int8)
    text = "an allocation found no memory on any node"
    errors = dict.fromkeys(np.flatnonzero(batch.failed).tolist(), text)
    tables = {
        "caches": _caches(batch, stats),
        "nodes": _nodes(batch),
        "locks": _locks(batch),
    }
    return Results(scalars=scalars, tables=tables, status=status, errors=errors)


def _caches(batch: Batch, stats: Ints) -> Table:
    state = batch.slub.state
    shape = (batch.lanes, batch.caches)
    values: dict[str, Array] = {stat.name.lower(): stats[stat] for stat in stats_of(batch.policy)}
    lists = (*shape, batch.nodes)
    values["num_slabs"] = state.nr_slabs.reshape(lists).sum(axis=2)
    values["num_objs"] = state.total_objects.reshape(lists).sum(axis=2)
    values["bytes"] = slab_bytes(batch)
    for name, array in (
        ("order", batch.rows.order),
        ("objs_per_slab", batch.rows.objects),
        ("min_partial", batch.rows.min_partial),
        ("cpu_partial", batch.rows.cpu_partial),
        ("cpu_partial_slabs", batch.rows.cpu_partial_slabs),
        ("sheaf_capacity", batch.rows.sheaf_capacity),
    ):
        values[name] = array.reshape(shape)
    return Table(labels=tuple(spec.name for spec in batch.specs), values=values)


def _nodes(batch: Batch) -> Table:
    values: dict[str, Array] = {
        "Slab": list_bytes(batch).sum(axis=1),
        "numa_local": batch.numa[0],
        "numa_other": batch.numa[1],
    }
    for name in ("numa_hit", "numa_miss", "numa_foreign") if batch.zoned else ():
        counts = [[m.numa.get((name, node), 0) for node in range(batch.nodes)] for m in batch.zoned]
        values[name] = np.array(counts, dtype=np.int64)
    return Table(labels=tuple(f"N{node}" for node in range(batch.nodes)), values=values)


def _locks(batch: Batch) -> Table:
    lists, zones = batch.charges.list_locks, batch.charges.zone_locks
    labels = [
        f"list_lock:{spec.name}:N{node}" for spec in batch.specs for node in range(batch.nodes)
    ]
    labels += [f"zone_lock:N{node}" for node in range(batch.nodes)]
    names = ("acquisitions", "contended", "wait_ns", "hold_ns", "handover_ns")
    values: dict[str, Array] = {}
    for name in names:
        each = [getattr(bank, name).reshape(batch.lanes, -1) for bank in (lists, zones)]
        values[name] = np.concatenate(each, axis=1)
    return Table(labels=tuple(labels), values=values)
