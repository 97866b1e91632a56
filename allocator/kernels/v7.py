"""7.x: sheaves for every cache."""

from allocator.kernels.v6 import V6_12

V7_3 = V6_12.vary(
    "v7_3",
    "7.3 as Debian ships it; records",
    slab={
        "generation": "sheaves",
        "cpu_partial_counts": "none",
        "memoryless": "sheaves",
        "own_free_pointer": ("filp", "vm_area_struct", "TCP", "TCPv6", "ext4_inode_cache"),
        "sheaf_requests": (("maple_node", 32), ("vm_area_struct", 32)),
    },
    page={
        "claim_stop": "order",
        "skips_busy_nodes": True,
        "zero_reclaimable": "none",
        "pcp": "tuned_v7",
        "alloc_flags": "reserve_rights_v7",
        "bailout": "thisnode_only",
        "compact_gap_cap": 32,
        "compacts_in_retry": True,
        "large_folios": True,
    },
)
V7_2 = V7_3.vary("v7_2", "7.2 as Debian ships it; taken as 7.3 where no record says otherwise")
