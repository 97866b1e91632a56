"""What differs between kernels in SLUB, as named choices."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class SlabPolicy:
    """One kernel's SLUB, told as the choices it makes (mm/slub.c unless a field names another)."""

    generation: Literal["cpu_slabs", "sheaves"]
    """Per-CPU layer: a cpu slab with a partial list (up to 6.x), or sheaves and barns (7.x)."""

    # Geometry: slabs/geometry.py
    order_rule: Literal["fractions_min_objects", "fractions", "least_waste"]
    """calculate_order(): until 6.6 min_objects is lowered step by step; 6.7 tries fractions only;
    least_waste is "Optimize slub memory usage" RFC v2 (2023-06-28), partly from memory."""
    order_cpus: Literal["possible", "present"]
    """CPUs that set min_objects: nr_cpu_ids until 5.11, num_present_cpus() from 5.12."""
    max_order: int = 3
    """Default slub_max_order."""
    couples_orders: bool = False
    """slub_min_order above slub_max_order raises the latter, and the reverse (6.12)."""
    slab_prefix: bool = False
    """Boot parameters may be spelled slab_* instead of slub_* (6.8)."""
    kmalloc_suffix_k: bool = True
    """kmalloc-1k rather than kmalloc-1024 (4.20)."""
    kmalloc_aligned: Literal["minimum", "powers_of_two", "largest_divisor"] = "powers_of_two"
    """Alignment of kmalloc caches: minimum only (before 5.4), the size if a power of two (5.4),
    the largest power of two that divides the size (6.12)."""
    arm64_min_align: int = 128
    """ARCH_KMALLOC_MINALIGN on arm64: 128, or 8 from 6.5."""
    kmalloc_types: tuple[str, ...] = ("kmalloc", "dma-kmalloc", "kmalloc-rcl", "kmalloc-cg")
    """Sets of kmalloc caches; kmalloc-rcl from 4.20, kmalloc-cg from 5.14."""
    merge_newest_first: bool = False
    """find_mergeable() looks at the newest cache first (until 3.17)."""
    alias_letters: str = "dDaFA"
    """Letters in the sysfs names of mergeable caches, in order; t until 4.14, A from 4.5, D from
    5.0."""
    kmalloc_merges: bool = False
    """kmalloc caches may be merged (no usercopy window; until 4.15)."""
    own_free_pointer: tuple[str, ...] = ()
    """RCU and ctor caches that name a place for the free pointer inside the object
    (kmem_cache_args.freeptr_offset, 6.12), so that nothing is added for it."""
    track_bytes: int = 32
    """One struct track of slub_debug=U: 32 bytes with a stack depot handle (5.18), 152 with the
    stack itself."""
    kmalloc_tracks_size: Literal["no", "after_tracks", "moves_free_pointer"] = "no"
    """slub_debug=U stores the requested size of kmalloc objects (6.1); with red zones the free
    pointer then leaves the object too (6.2)."""
    sheaf_requests: tuple[tuple[str, int], ...] = ()
    """Caches that ask for a sheaf capacity, and which (7.x)."""

    # Per-CPU partial lists: slabs/cpu.py
    cpu_partial_counts: Literal["objects", "slabs", "none"]
    """Unit in which the per-CPU partial list is limited: objects until 5.15, slabs from 5.16."""
    config_cpu_partial: bool = True
    """CONFIG_SLUB_CPU_PARTIAL; without it no slab is kept on a per-CPU partial list."""
    partial_refill: Literal["half_objects", "half_slabs", "half_slabs_or_first", "rfc_leak", "rfc"]
    """When get_partial_node() stops taking slabs; rfc_leak is "Delay freezing" RFC v1 of 6.6."""
    freezing: Literal["taken", "delayed"]
    """Partial slabs frozen when taken (until 6.7), or only when they become a cpu slab (6.8)."""
    keeps_empty: Literal["above", "at_least"] = "at_least"
    """A further empty slab is discarded when nr_partial > min_partial (3.13) or >= (3.16)."""
    cpu_partial_zero_drains: bool = False
    """cpu_partial = 0 puts the whole list on the node list at every push (until 5.15)."""
    deactivate_updates: Literal["object", "slab"] = "slab"
    """Updates of a slab's freelist when it is deactivated: one per returned object (until 5.11), or
    one in all (5.12)."""
    cpu_partial_alloc_counts: Literal["pops", "used"] = "pops"
    """CPU_PARTIAL_ALLOC counts each slab popped, or only one that suits the request (6.12)."""
    slowpath_counts: Literal["calls", "attempts"] = "calls"
    """ALLOC_SLOWPATH per call (3.15), or per attempt to take slab.freelist (3.13)."""
    clamps_min_partial: bool = False
    """sysfs min_partial is clamped to 5..10 (until 5.10)."""

    # Nodes: slabs/node.py
    memoryless: Literal["mismatch", "rientjes", "blanchard", "joonsoo", "any_node", "sheaves"]
    """What a request for a node without memory does (slub.md 4.7)."""
    local_node: Literal["numa_node_id", "numa_mem_id"] = "numa_mem_id"
    """Node searched when the caller names none: numa_node_id() in 3.13, numa_mem_id() later."""
    trynode: bool = False
    """A first pass on the wanted node only, GFP_NOWAIT|__GFP_THISNODE (6.10)."""
    remote_search_for_node: bool = False
    """A request that names a node may search other nodes' partial lists (6.10)."""

    # Pages: slabs/cpu.py
    high_order_may_reclaim: bool = False
    """The first, high-order attempt of allocate_slab() may reclaim (until 4.1)."""

    # Bulk, shrink, flush
    bulk_free_scan: Literal["holes", "swap"] = "swap"
    """build_detached_freelist(): taken places become holes (5.10), or are swapped out (6.1)."""
    bulk_counts_fastpath: bool = False
    """Bulk allocation counts ALLOC_FASTPATH (6.8)."""
    kfree_rcu: Literal["callbacks", "arrays"] = "arrays"
    """kfree_rcu() frees each object in a callback of its own (until 5.5), or arrays in bulk
    (mm/slab_common.c; kernel/rcu/tree.c until 6.14)."""
    rcu_array_header: int = 16
    """Bytes of a page of such an array that are no pointers (struct kvfree_rcu_bulk_data): 16, or
    40 with list head and grace period (6.4)."""
    shrink: Literal["sort", "promote"] = "promote"
    """__kmem_cache_shrink(): sort by inuse (3.13), or promote the fullest 32 classes (4.0)."""
