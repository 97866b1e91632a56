"""Operations of a replay script, one frozen dataclass for each.

The language is that of the records' `given.ops`: one operation a line, carried out on a named CPU,
one after the other. `allocator.workloads.script` reads it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

GFP_NAMES: dict[str, str] = {
    "KERNEL": "GFP_KERNEL",
    "ATOMIC": "GFP_ATOMIC",
    "NOWAIT": "GFP_NOWAIT",
    "HIGHUSER_MOVABLE": "GFP_HIGHUSER_MOVABLE",
    "NOIO": "GFP_NOIO",
    "NOFS": "GFP_NOFS",
    "NORETRY": "__GFP_NORETRY",
    "RETRY_MAYFAIL": "__GFP_RETRY_MAYFAIL",
    "THISNODE": "__GFP_THISNODE",
    "MEMALLOC": "__GFP_MEMALLOC",
    "NOMEMALLOC": "__GFP_NOMEMALLOC",
    "HIGH": "__GFP_HIGH",
    "DMA32": "__GFP_DMA32",
    "DMA": "__GFP_DMA",
    "RECLAIMABLE": "__GFP_RECLAIMABLE",
    "MOVABLE": "__GFP_MOVABLE",
    "COMP": "__GFP_COMP",
}
"""GFP words of a script and the kernel's names for them."""

USAGE: dict[str, str] = {
    "cache": "cache NAME SIZE [ALIGN] [FLAGS|-] [SHEAF_CAPACITY]",
    "alloc": "alloc NAME CPU COUNT FIRST_ID [NODE|-1] [GFP]",
    "free": "free NAME CPU FIRST COUNT STRIDE",
    "freel": "freel NAME CPU ID,ID,..",
    "balloc": "balloc NAME CPU COUNT FIRST_ID [BATCH]",
    "bfree": "bfree NAME CPU FIRST COUNT STRIDE [BATCH]",
    "kfree_rcu": "kfree_rcu NAME CPU FIRST COUNT STRIDE",
    "prefill_sheaf": "prefill_sheaf NAME CPU SHEAF SIZE",
    "alloc_from_sheaf": "alloc_from_sheaf NAME CPU SHEAF COUNT FIRST_ID",
    "refill_sheaf": "refill_sheaf NAME CPU SHEAF SIZE",
    "return_sheaf": "return_sheaf NAME CPU SHEAF",
    "shrink": "shrink NAME [CPU]",
    "destroy": "destroy NAME",
    "reset": "reset",
    "page": "page ORDER CPU COUNT FIRST_ID GFP [NODE|-1]",
    "pfree": "pfree CPU FIRST COUNT STRIDE",
    "sysfs": "sysfs NAME ATTR VALUE",
    "proc": "proc PATH VALUE",
    "drain": "drain N",
    "sleep": "sleep MS",
    "snap": "snap LABEL",
}
"""Form of each operation."""

CACHE_FLAGS = ("RECLAIM_ACCOUNT", "HWCACHE_ALIGN", "TYPESAFE_BY_RCU", "NOLEAKTRACE", "CTOR")
"""Words of a `cache` line's FLAGS, joined with `+`; `-` is none; CTOR gives a constructor."""

SYSFS_ATTRIBUTES = ("min_partial", "cpu_partial", "remote_node_defrag_ratio")
"""Files of /sys/kernel/slab/NAME that a script may write."""


PROC_PATHS: dict[str, tuple[int, int]] = {
    "vm/compaction_proactiveness": (0, 100),
    "vm/percpu_pagelist_fraction": (8, (1 << 31) - 1),
    "vm/percpu_pagelist_high_fraction": (8, (1 << 31) - 1),
    "vm/watermark_boost_factor": (0, (1 << 31) - 1),
}
"""Files below /proc/sys that a script may write, and their bounds; 0 is taken by all
(kernel/sysctl.c vm_table v6.1; MIN_PERCPU_PAGELIST_HIGH_FRACTION). A kernel that lacks the file
passes the line over."""


def gfp_text(words: Iterable[str]) -> str:
    """Return GFP words as kernel flags; `__GFP_NOWARN` is always there, as in the records.

    Raises
    ------
    KeyError
        If a word is none of `GFP_NAMES`.
    """
    return "|".join([GFP_NAMES[word] for word in words] + ["__GFP_NOWARN"])


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCache:
    """`cache NAME SIZE [ALIGN] [FLAGS|-] [SHEAF_CAPACITY]`: kmem_cache_create()."""

    line: int
    """Number of the script's line, from 1."""
    cache: str
    """Name of the cache."""
    size: int
    """Object size in bytes."""
    align: int
    """Requested alignment in bytes, 0 for none."""
    flags: tuple[str, ...]
    """Words of `CACHE_FLAGS`."""
    sheaf_capacity: int
    """Requested objects in a sheaf (7.x), 0 for the automatic choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alloc:
    """`alloc NAME CPU COUNT FIRST_ID [NODE|-1] [GFP]`: objects one by one, until one fails."""

    line: int
    """Number of the script's line, from 1."""
    cache: str
    """Name of the cache."""
    cpu: int
    """CPU that allocates."""
    count: int
    """Objects asked for."""
    first: int
    """Id of the first object; the others follow."""
    node: int | None
    """Node named by the request, or none."""
    gfp: tuple[str, ...]
    """Words of `GFP_NAMES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """`free NAME CPU FIRST COUNT STRIDE` and `freel NAME CPU ID,ID,..`: objects one by one."""

    line: int
    """Number of the script's line, from 1."""
    cache: str
    """Name of the cache."""
    cpu: int
    """CPU that frees."""
    ids: range | tuple[int, ...]
    """Ids in the order of freeing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAlloc:
    """`balloc NAME CPU COUNT FIRST_ID [BATCH]`: kmem_cache_alloc_bulk(), until one fails."""

    line: int
    """Number of the script's line, from 1."""
    cache: str
    """Name of the cache."""
    cpu: int
    """CPU that allocates."""
    count: int
    """Objects asked for in all."""
    first: int
    """Id of the first object; the others follow."""
    batch: int
    """Objects of one call; the last call may be shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkFree:
    """`bfree NAME CPU FIRST COUNT STRIDE [BATCH]`: kmem_cache_free_bulk()."""

    line: int
    """Number of the script's line, from 1."""
    cache: str
    """Name of the cache."""
    cpu: int
    """CPU that frees."""
    ids: range
    """Ids in the order of the array."""
    batch: int
    """Objects of one call; the last call may be shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeRcu:
    """`kfree_rcu NAME CPU FIRST COUNT STRIDE`: freed after a grace period, which `sleep` ends."""

    line: int
    """Number of the script's line, from 1."""
    cache: str
    """Name of the cache."""
    cpu: int
    """CPU that frees."""
    ids: range
    """Ids in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SheafOp:
    """An operation on a sheaf that the script holds (6.18 and later), under a number of its own."""

    line: int
    """Number of the script's line, from 1."""
    cache: str
    """Name of the cache."""
    cpu: int
    """CPU that it runs on."""
    sheaf: int
    """Number of the sheaf."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillSheaf(SheafOp):
    """`prefill_sheaf NAME CPU SHEAF SIZE`: kmem_cache_prefill_sheaf()."""

    size: int
    """Objects that it has at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocFromSheaf(SheafOp):
    """`alloc_from_sheaf NAME CPU SHEAF COUNT FIRST_ID`: objects one by one, until it is empty."""

    count: int
    """Objects asked for."""
    first: int
    """Id of the first object; the others follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefillSheaf(SheafOp):
    """`refill_sheaf NAME CPU SHEAF SIZE`: kmem_cache_refill_sheaf()."""

    size: int
    """Objects that it has at least, again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnSheaf(SheafOp):
    """`return_sheaf NAME CPU SHEAF`: kmem_cache_return_sheaf()."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """`shrink NAME [CPU]`: kmem_cache_shrink()."""

    line: int
    """Number of the script's line, from 1."""
    cache: str
    """Name of the cache."""
    cpu: int | None
    """CPU that asks for it, or none: the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destroy:
    """`destroy NAME`: the cache's objects are freed, then the cache."""

    line: int
    """Number of the script's line, from 1."""
    cache: str
    """Name of the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """`reset`: all caches are destroyed, all pages freed."""

    line: int
    """Number of the script's line, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sysfs:
    """`sysfs NAME ATTR VALUE`: a write to /sys/kernel/slab/NAME/ATTR."""

    line: int
    """Number of the script's line, from 1."""
    cache: str
    """Name of the cache."""
    attribute: str
    """One of `SYSFS_ATTRIBUTES`."""
    value: int
    """Value written; what the kernel makes of it is its own affair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocPages:
    """`page ORDER CPU COUNT FIRST_ID GFP [NODE]`: blocks one by one, until one fails."""

    line: int
    """Number of the script's line, from 1."""
    order: int
    """Order of each block."""
    cpu: int
    """CPU that allocates."""
    count: int
    """Blocks asked for."""
    first: int
    """Id of the first block (page ids are not object ids); the others follow."""
    gfp: tuple[str, ...]
    """Words of `GFP_NAMES`."""
    node: int | None
    """Node named by the request, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreePages:
    """`pfree CPU FIRST COUNT STRIDE`: ids without a page are passed over."""

    line: int
    """Number of the script's line, from 1."""
    cpu: int
    """CPU that frees."""
    ids: range
    """Page ids in the order of freeing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proc:
    """`proc PATH VALUE`: a write to /proc/sys/PATH."""

    line: int
    """Number of the script's line, from 1."""
    path: str
    """Path below /proc/sys."""
    value: str
    """Text written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """`drain N`: vmstat is folded N times (each fourth gives a batch of remote pages back)."""

    line: int
    """Number of the script's line, from 1."""
    times: int
    """How often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """`sleep MS`: long enough for a grace period to end."""

    line: int
    """Number of the script's line, from 1."""
    duration_ms: int
    """How long, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snap:
    """`snap LABEL`: counters and placement are told."""

    line: int
    """Number of the script's line, from 1."""
    label: str
    """Name of the snapshot."""


Op = (
    CreateCache
    | Alloc
    | Free
    | BulkAlloc
    | BulkFree
    | FreeRcu
    | SheafOp
    | Shrink
    | Destroy
    | Reset
    | Sysfs
    | AllocPages
    | FreePages
    | Proc
    | Drain
    | Sleep
    | Snap
)
"""Any operation."""
