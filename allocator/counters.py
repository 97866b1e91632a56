"""Names, units and meanings of all that the model counts.

The dataset takes its `units` and `long_name` attributes from here, so a workload may only return
variables that this table knows.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """One result variable."""

    units: str
    """UDUNITS text: "1" for counts, "byte", "ns", "s-1", "percent"."""
    long_name: str
    """What it means, in a few words."""
    better: int = 0
    """+1 if higher is better, -1 if lower is, 0 if neither."""


SLUB_STATS: dict[str, Variable] = {
    "alloc_fastpath": Variable("1", "allocations from the CPU's freelist or sheaf"),
    "alloc_slowpath": Variable("1", "allocations on the slow path", -1),
    "free_fastpath": Variable("1", "frees to the cpu slab or sheaf"),
    "free_slowpath": Variable("1", "frees on the slow path", -1),
    "free_frozen": Variable("1", "frees to a slab that a CPU holds"),
    "free_add_partial": Variable("1", "slabs put on a node list by frees and drains"),
    "free_remove_partial": Variable("1", "slabs taken off a node list when they became empty"),
    "alloc_from_partial": Variable("1", "cpu slabs that came from a node list"),
    "alloc_slab": Variable("1", "new slabs"),
    "alloc_refill": Variable("1", "refills from the cpu slab's own freelist"),
    "alloc_node_mismatch": Variable("1", "allocations whose node was not the cpu slab's", -1),
    "free_slab": Variable("1", "slabs given back to the page allocator"),
    "cpuslab_flush": Variable("1", "cpu slabs flushed"),
    "deactivate_full": Variable("1", "cpu slabs deactivated full"),
    "deactivate_empty": Variable("1", "slabs deactivated or drained empty"),
    "deactivate_to_head": Variable("1", "cpu slabs put at a list's head"),
    "deactivate_to_tail": Variable("1", "cpu slabs put at a list's tail"),
    "deactivate_remote_frees": Variable("1", "cpu slabs deactivated with remote frees"),
    "deactivate_bypass": Variable("1", "exhausted cpu slabs that were dropped"),
    "order_fallback": Variable("1", "new slabs of the smallest order", -1),
    "cmpxchg_double_cpu_fail": Variable("1", "retries of the fast path"),
    "cmpxchg_double_fail": Variable("1", "retries of a slab update"),
    "cpu_partial_alloc": Variable("1", "cpu slabs from the CPU's partial list"),
    "cpu_partial_free": Variable("1", "slabs put on a CPU's partial list by frees"),
    "cpu_partial_node": Variable("1", "slabs moved from a node list to a CPU's"),
    "cpu_partial_drain": Variable("1", "per-CPU partial lists drained"),
    "free_rcu_sheaf": Variable("1", "kfree_rcu() objects put in a sheaf"),
    "free_rcu_sheaf_fail": Variable("1", "kfree_rcu() objects that found no sheaf"),
    "sheaf_flush": Variable("1", "objects flushed from sheaves"),
    "sheaf_refill": Variable("1", "objects put into sheaves from slabs"),
    "sheaf_alloc": Variable("1", "sheaves allocated"),
    "sheaf_free": Variable("1", "sheaves freed"),
    "barn_get": Variable("1", "full sheaves got from a barn"),
    "barn_get_fail": Variable("1", "no full sheaf in the barn"),
    "barn_put": Variable("1", "full sheaves put in a barn"),
    "barn_put_fail": Variable("1", "full sheaves that a barn did not take"),
    "sheaf_prefill_fast": Variable("1", "prefilled sheaves that were the spare"),
    "sheaf_prefill_slow": Variable("1", "prefilled sheaves from elsewhere"),
    "sheaf_prefill_oversize": Variable("1", "prefilled sheaves larger than the capacity"),
    "sheaf_return_fast": Variable("1", "returned sheaves that became the spare"),
    "sheaf_return_slow": Variable("1", "other returned sheaves"),
}
"""CONFIG_SLUB_STATS, of one cache or summed over a workload's caches."""

SCALARS: dict[str, Variable] = {
    "throughput": Variable("s-1", "operations completed per second", +1),
    "elapsed_ns": Variable("ns", "simulated time", -1),
    "operations": Variable("1", "operations completed"),
    "Slab": Variable("byte", "memory in slabs", -1),
    "SReclaimable": Variable("byte", "memory in slabs of reclaimable caches", -1),
    "SUnreclaim": Variable("byte", "memory in slabs of other caches", -1),
    "nr_hugepages": Variable("1", "huge pages obtained", +1),
    "nr_hugepages_run2": Variable("1", "huge pages obtained in a second run", +1),
    "free_pages": Variable("1", "free pages before the first request"),
    "compact_stall": Variable("1", "requests that compacted memory", -1),
    "compact_success": Variable("1", "of them, those that got a block"),
    "compact_fail": Variable("1", "of them, those that did not", -1),
    "allocstall": Variable("1", "direct reclaims", -1),
    "pgsteal_kswapd": Variable("1", "pages reclaimed by kswapd"),
    "pgsteal_direct": Variable("1", "pages reclaimed by requests", -1),
    "pgmigrate_success": Variable("1", "pages moved"),
    "htlb_buddy_alloc_success": Variable("1", "huge pages that a node gave"),
    "htlb_buddy_alloc_fail": Variable("1", "requests for a huge page that a node refused", -1),
    "objects_active_percent": Variable("percent", "objects in use or held by CPUs, of all", +1),
    **SLUB_STATS,
    "Slab_peak": Variable("byte", "largest memory in slabs that was seen", -1),
    "cpu_time_ns": Variable("ns", "CPU time of all CPUs"),
    "work_ns": Variable("ns", "CPU time of the workload itself"),
    "slab_ns": Variable("ns", "CPU time in the slab allocator outside locks", -1),
    "list_lock_wait_ns": Variable("ns", "CPU time waiting for list_locks", -1),
    "list_lock_ns": Variable("ns", "CPU time getting and holding list_locks", -1),
    "get_partial_ns": Variable("ns", "CPU time in get_partial() with its list_locks", -1),
    "zone_lock_wait_ns": Variable("ns", "CPU time waiting for zone->locks", -1),
    "zone_lock_ns": Variable("ns", "CPU time getting and holding zone->locks", -1),
    "numa_local": Variable("1", "slabs taken by CPUs of their own node"),
    "numa_other": Variable("1", "slabs taken by CPUs of another node", -1),
    "failed": Variable("1", "operations of a script that found no memory", -1),
    "lost": Variable("1", "messages that found a full socket", -1),
    "order_mean": Variable("1", "mean order of the caches' slabs", -1),
    "objs_per_slab_mean": Variable("1", "mean number of objects in a slab"),
    "waste_percent_mean": Variable("percent", "mean share of slabs that holds no object", -1),
    "cpu_partial_bytes": Variable("byte", "memory that per-CPU partial lists may hold", -1),
    "min_free_kbytes": Variable("1024 byte", "memory kept free (vm.min_free_kbytes)"),
    "totalreserve_pages": Variable("1", "pages that ordinary requests cannot have", -1),
}
"""Variables of a whole machine, dims (axes..., replicate)."""

TABLES: dict[str, dict[str, Variable]] = {
    "caches": {
        "active_objs": Variable("1", "objects that slabinfo counts as active"),
        "num_objs": Variable("1", "objects in all slabs", -1),
        "num_slabs": Variable("1", "slabs", -1),
        "bytes": Variable("byte", "memory in slabs", -1),
        "active_percent": Variable("percent", "active objects, of all", +1),
        "slab_size": Variable("byte", "bytes from one object to the next"),
        "order": Variable("1", "order of a slab"),
        "objs_per_slab": Variable("1", "objects in a slab"),
        "waste_percent": Variable("percent", "share of a slab that holds no object bytes", -1),
        "min_partial": Variable("1", "empty slabs that a node list keeps"),
        "cpu_partial": Variable("1", "objects that a per-CPU partial list aims at"),
        "cpu_partial_slabs": Variable("1", "slabs that a per-CPU partial list may hold"),
        "sheaf_capacity": Variable("1", "objects in a sheaf"),
        **SLUB_STATS,
    },
    "nodes": {
        "Slab": Variable("byte", "memory in slabs", -1),
        "numa_local": Variable("1", "slabs taken by CPUs of the node"),
        "numa_other": Variable("1", "slabs taken by CPUs of another node", -1),
        "numa_hit": Variable("1", "blocks from the node that was preferred"),
        "numa_miss": Variable("1", "blocks from the node that another one was preferred to", -1),
        "numa_foreign": Variable("1", "blocks that were wanted here and came from elsewhere", -1),
    },
    "locks": {
        "acquisitions": Variable("1", "times the lock was taken"),
        "contended": Variable("1", "times somebody had to wait", -1),
        "wait_ns": Variable("ns", "time spent waiting", -1),
        "hold_ns": Variable("ns", "time the lock was held"),
        "handover_ns": Variable("ns", "time the lock's line travelled", -1),
    },
    "zones": {
        "managed": Variable("1", "pages given to the buddy lists"),
        "min": Variable("1", "min watermark, pages"),
        "low": Variable("1", "low watermark, pages"),
        "high": Variable("1", "high watermark, pages"),
        "pcp_batch": Variable("1", "pages moved to or from a per-CPU list at once"),
        "pcp_high": Variable("1", "pages a per-CPU list may hold"),
        "nr_free_pages": Variable("1", "free pages, without per-CPU lists"),
        "nr_free_pages_blocks": Variable("1", "pages in free blocks of at least a pageblock"),
        "pcp_count": Variable("1", "pages on per-CPU lists"),
        "pgalloc": Variable("1", "pages given"),
        "zone_lock_takes": Variable("1", "times the zone lock was taken", -1),
        "zone_lock_pages": Variable("1", "pages moved under the zone lock"),
        "extfrag_index": Variable("1", "fragmentation index of huge pages, thousandths"),
        "unusable_index": Variable("1", "free memory no use to huge pages, thousandths", -1),
    },
}
"""Variables of each table, one more dim."""

DIMS: dict[str, str] = {"caches": "cache", "nodes": "node", "locks": "lock", "zones": "zone"}
"""Name of the additional dim of each table."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A share of which a rise explains a regression."""

    long_name: str
    """What it is a share of, in a few words."""
    part: tuple[str, ...]
    """Variables of `SCALARS` that are added up."""
    whole: tuple[str, ...]
    """Variables of `SCALARS` whose sum is 100 percent."""


CAUSES: dict[str, Cause] = {
    "list_lock_wait": Cause(
        "CPU time waiting for a list_lock", ("list_lock_wait_ns",), ("cpu_time_ns",)
    ),
    "list_lock": Cause(
        "CPU time getting and holding list_locks", ("list_lock_ns",), ("cpu_time_ns",)
    ),
    "zone_lock_wait": Cause(
        "CPU time waiting for a zone->lock", ("zone_lock_wait_ns",), ("cpu_time_ns",)
    ),
    "zone_lock": Cause(
        "CPU time getting and holding zone->locks", ("zone_lock_ns",), ("cpu_time_ns",)
    ),
    "slab": Cause("CPU time in the slab allocator outside locks", ("slab_ns",), ("cpu_time_ns",)),
    "direct_reclaim": Cause(
        "reclaimed pages that requests had to reclaim themselves",
        ("pgsteal_direct",),
        ("pgsteal_direct", "pgsteal_kswapd"),
    ),
    "compact_fail": Cause(
        "compactions by requests that got no block", ("compact_fail",), ("compact_stall",)
    ),
    "refused": Cause(
        "requests for a huge page that a node refused",
        ("htlb_buddy_alloc_fail",),
        ("htlb_buddy_alloc_success", "htlb_buddy_alloc_fail"),
    ),
    "alloc_slowpath": Cause(
        "allocations on the slow path", ("alloc_slowpath",), ("alloc_fastpath", "alloc_slowpath")
    ),
    "free_slowpath": Cause(
        "frees on the slow path", ("free_slowpath",), ("free_fastpath", "free_slowpath")
    ),
    "order_fallback": Cause(
        "new slabs of the smallest order", ("order_fallback",), ("alloc_slab",)
    ),
    "numa_other": Cause("slabs from another node", ("numa_other",), ("numa_local", "numa_other")),
}
"""What may lie behind a regression, in percent; a cause counts where its variables are there."""

CPU_TIME: tuple[str, ...] = (
    "work_ns",
    "slab_ns",
    "list_lock_ns",
    "list_lock_wait_ns",
    "zone_lock_ns",
    "zone_lock_wait_ns",
)
"""What `cpu_time_ns` is the sum of."""

MAIN: tuple[str, ...] = (
    "nr_hugepages",
    "throughput",
    "elapsed_ns",
    "SUnreclaim",
    "Slab",
    "waste_percent_mean",
)
"""A workload is judged by the first of these that it gives."""
