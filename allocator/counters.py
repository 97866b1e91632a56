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


SCALARS: dict[str, Variable] = {
    "throughput": Variable("s-1", "operations completed per second", +1),
    "elapsed_ns": Variable("ns", "simulated time", -1),
    "operations": Variable("1", "operations completed"),
    "Slab": Variable("byte", "memory in slabs", -1),
    "SReclaimable": Variable("byte", "memory in slabs of reclaimable caches", -1),
    "SUnreclaim": Variable("byte", "memory in slabs of other caches", -1),
    "nr_hugepages": Variable("1", "huge pages obtained", +1),
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
        "slab_size": Variable("byte", "bytes from one object to the next"),
        "order": Variable("1", "order of a slab"),
        "objs_per_slab": Variable("1", "objects in a slab"),
        "waste_percent": Variable("percent", "share of a slab that holds no object bytes", -1),
        "min_partial": Variable("1", "empty slabs that a node list keeps"),
        "cpu_partial": Variable("1", "objects that a per-CPU partial list aims at"),
        "cpu_partial_slabs": Variable("1", "slabs that a per-CPU partial list may hold"),
        "sheaf_capacity": Variable("1", "objects in a sheaf"),
    },
    "nodes": {},
    "locks": {},
    "zones": {
        "managed": Variable("1", "pages given to the buddy lists"),
        "min": Variable("1", "min watermark, pages"),
        "low": Variable("1", "low watermark, pages"),
        "high": Variable("1", "high watermark, pages"),
        "pcp_batch": Variable("1", "pages moved to or from a per-CPU list at once"),
        "pcp_high": Variable("1", "pages a per-CPU list may hold"),
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
    "zone_lock_wait": Cause(
        "CPU time waiting for a zone->lock", ("zone_lock_wait_ns",), ("cpu_time_ns",)
    ),
    "reclaim": Cause(
        "CPU time in direct reclaim and compaction", ("direct_reclaim_ns",), ("cpu_time_ns",)
    ),
    "alloc_slowpath": Cause(
        "allocations on the slow path", ("alloc_slowpath",), ("alloc_fastpath", "alloc_slowpath")
    ),
    "free_slowpath": Cause(
        "frees on the slow path", ("free_slowpath",), ("free_fastpath", "free_slowpath")
    ),
    "order_fallback": Cause(
        "new slabs of a lower order than wanted", ("order_fallback",), ("alloc_slab",)
    ),
    "numa_other": Cause("pages from another node", ("numa_other",), ("numa_local", "numa_other")),
}
"""What may lie behind a regression, in percent; a cause counts where its variables are there."""

MAIN: tuple[str, ...] = (
    "nr_hugepages",
    "throughput",
    "elapsed_ns",
    "SUnreclaim",
    "Slab",
    "waste_percent_mean",
)
"""A workload is judged by the first of these that it gives."""
