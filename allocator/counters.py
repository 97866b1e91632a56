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
}
"""Variables of a whole machine, dims (axes..., replicate)."""

TABLES: dict[str, dict[str, Variable]] = {
    "caches": {},
    "nodes": {},
    "locks": {},
    "zones": {},
}
"""Variables of each table, one more dim."""

DIMS: dict[str, str] = {"caches": "cache", "nodes": "node", "locks": "lock", "zones": "zone"}
"""Name of the additional dim of each table."""
