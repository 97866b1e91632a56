"""5.3 with the two huge-page patches of 5.4-rc, and 5.10 LTS."""

from allocator.kernel import Kernel
from allocator.pages.policy import PagePolicy
from allocator.slabs.policy import SlabPolicy

V5_10 = Kernel(
    name="v5_10",
    follows="5.10 LTS as Debian ships it (late stable updates); records",
    slab=SlabPolicy(
        generation="cpu_slabs",
        order_rule="fractions_min_objects",
        order_cpus="possible",
        kmalloc_types=("kmalloc", "dma-kmalloc", "kmalloc-rcl"),
        track_bytes=152,
        cpu_partial_counts="objects",
        partial_refill="half_objects",
        freezing="taken",
        cpu_partial_zero_drains=True,
        deactivate_updates="object",
        clamps_min_partial=True,
        memoryless="any_node",
        bulk_free_scan="holes",
    ),
    page=PagePolicy(
        thp_off_recomputes=False,
        node_load="online_nodes",
        has_promo=False,
        reserves_first_mib=False,
        max_watermark_scale=3000,
        unmergeable="isolate",
        pcp="batch6",
        pcp_orders=(0,),
        pcp_thp=False,
        gfp_names="atomic",
        alloc_flags="harder",
        bailout="noretry",
    ),
)
V5_4 = V5_10.vary(
    "v5_4",
    "5.4 (b39d0ee2632d with the __GFP_RETRY_MAYFAIL exemption of 3f36d8669457); source reading",
    slab={
        "kmalloc_aligned": "powers_of_two",
        "memoryless": "mismatch",
        "kfree_rcu": "callbacks",
    },
    page={
        "min_free_cap_kb": 65536,
        "max_watermark_scale": 1000,
        "arm64_zone_dma": False,
        "reserves_unpopulated": True,
        "bailout": "pageblock_but_retry",
        "boost": "any_zone",
        "boost_bypass": "never",
        "boot_release": "head",
    },
)
V5_4RC_BAILOUT = V5_4.vary(
    "v5_4rc_bailout",
    "5.3 + b39d0ee2632d: order >= pageblock order gives up when compaction is skipped or deferred",
    page={
        "bailout": "pageblock",
        "compact_retry": "zonelist_suitable",
        "continue_reclaim": "total",
        "hugetlb_noretry": False,
    },
)
V5_3 = V5_4RC_BAILOUT.vary(
    "v5_3",
    "5.3; source reading",
    slab={"kmalloc_aligned": "minimum", "memoryless": "mismatch"},
    page={"bailout": "deferred"},
)
