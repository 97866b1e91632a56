"""6.1 to 6.12, with the patches that were tried on them."""

from allocator.kernels.v5 import V5_10

V6_1 = V5_10.vary(
    "v6_1",
    "6.1 LTS as Debian ships it, with the 6.3 allocation flags and pcp scale limit; records",
    slab={
        "order_cpus": "present",
        "track_bytes": 32,
        "kmalloc_tracks_size": "after_tracks",
        "kmalloc_types": ("kmalloc", "dma-kmalloc", "kmalloc-rcl", "kmalloc-cg"),
        "cpu_partial_counts": "slabs",
        "partial_refill": "half_slabs",
        "cpu_partial_zero_drains": False,
        "deactivate_updates": "slab",
        "clamps_min_partial": False,
        "bulk_free_scan": "swap",
    },
    page={
        "thp_off_recomputes": True,
        "node_load": "one",
        "has_promo": True,
        "reserves_first_mib": True,
        "max_watermark_scale": 3000,
        "unmergeable": "isolate_highatomic",
        "zero_reclaimable": "free",
        "pcp": "shared_low",
        "pcp_orders": (0, 1, 2, 3),
        "pcp_thp": True,
        "alloc_flags": "reserve_rights",
        "bailout": "noretry_thisnode",
    },
)
V6_1_ORDER_V2 = V6_1.vary(
    "v6_1_order_v2",
    '6.1 + "mm/slub: Optimize slub memory usage" RFC v2, 28 June 2023. That slub_max_order becomes '
    "2 is known from the thread; the least-waste search is partly from memory (slub.md 2.4).",
    slab={"order_rule": "least_waste", "max_order": 2},
)
V6_1_BAILOUT = V6_1.vary(
    "v6_1_bailout",
    "6.1 with the bail-out of b39d0ee2632d put back; records of a kernel built so",
    page={"bailout": "pageblock"},
)
V6_6 = V6_1.vary(
    "v6_6",
    "6.6; allocation and free as 6.1; source reading",
    slab={
        "arm64_min_align": 8,
        "kmalloc_tracks_size": "moves_free_pointer",
        "rcu_array_header": 40,
    },
    page={"gfp_names": "no_atomic", "boost_bypass": "min_reserve"},
)
V6_6_DELAY_RFC = V6_6.vary(
    "v6_6_delay_rfc",
    '6.6 + "slub: Delay freezing of CPU partial slabs" RFC v1, 17 October 2023: without '
    "CONFIG_SLUB_CPU_PARTIAL, get_partial_node() loses the second slab it sees",
    slab={"partial_refill": "rfc_leak", "freezing": "delayed"},
)
V6_6_DELAY_RFC_FIXED = V6_6_DELAY_RFC.vary(
    "v6_6_delay_rfc_fixed",
    "the same with the quick fix of 18 October 2023",
    slab={"partial_refill": "rfc"},
)
V6_8 = V6_6.vary(
    "v6_8",
    "6.8: delayed freezing as merged, order rule of 6.7; source reading",
    slab={
        "order_rule": "fractions",
        "slab_prefix": True,
        "freezing": "delayed",
        "bulk_counts_fastpath": True,
    },
    page={"pcp": "tuned", "below_high": True},
)
V6_12 = V6_8.vary(
    "v6_12",
    "6.12 LTS as Debian ships it, with the 6.15 claim/steal split; records",
    slab={
        "couples_orders": True,
        "kmalloc_aligned": "largest_divisor",
        "own_free_pointer": ("filp",),
        "partial_refill": "half_slabs_or_first",
        "cpu_partial_alloc_counts": "used",
        "trynode": True,
        "remote_search_for_node": True,
    },
    page={
        "lists_memoryless_first": False,
        "movable_capped": True,
        "shows_promo": True,
        "nowait_nowarn": True,
        "list_type": "pageblock",
        "free_counted": "block",
        "fallback": "claim_then_steal",
        "claim_stop": "block",
        "highatomic_free_only": True,
        "lru": "generations",
    },
)
