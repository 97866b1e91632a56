"""3.13 and the four answers of the memoryless-node thread (January 2014)."""

from allocator.kernel import Kernel
from allocator.pages.policy import PagePolicy
from allocator.slabs.policy import SlabPolicy

V3_13 = Kernel(
    name="v3_13",
    follows="3.13; memoryless nodes as in mainline. No record covers it: source reading only.",
    slab=SlabPolicy(
        generation="cpu_slabs",
        order_rule="fractions_min_objects",
        order_cpus="possible",
        kmalloc_suffix_k=False,
        kmalloc_aligned="minimum",
        kmalloc_types=("kmalloc", "dma-kmalloc"),
        merge_newest_first=True,
        kmalloc_merges=True,
        alias_letters="daFt",
        track_bytes=152,
        arm64_min_align=64,
        cpu_partial_counts="objects",
        partial_refill="half_objects",
        freezing="taken",
        keeps_empty="above",
        deactivate_updates="object",
        slowpath_counts="attempts",
        clamps_min_partial=True,
        memoryless="mismatch",
        local_node="numa_node_id",
        high_order_may_reclaim=True,
        bulk_free_scan="holes",
        shrink="sort",
        kfree_rcu="callbacks",
    ),
    page=PagePolicy(
        min_free_cap_kb=65536,
        thp_off_recomputes=False,
        node_load="online_nodes",
        has_promo=False,
        reserves_unpopulated=True,
        max_watermark_scale=0,
        arm64_zone_dma=False,
        ppc64_zone="DMA",
        reserves_first_mib=False,
        unmergeable="isolate",
        pcp="batch6",
        pcp_orders=(0,),
        pcp_thp=False,
        boot_release="head",
        watermark_test="orders",
        boost="none",
        boost_bypass="never",
        gfp_names="wait",
        alloc_flags="harder",
        bailout="deferred",
        compact_retry="zonelist_suitable",
        continue_reclaim="total",
        hugetlb_noretry=False,
    ),
)
V3_13_RIENTJES = V3_13.vary(
    "v3_13_rientjes",
    "3.13 + Rientjes, 24 January 2014: on a mismatch with a node without pages, numa_mem_id()",
    slab={"memoryless": "rientjes"},
)
V3_13_BLANCHARD = V3_13.vary(
    "v3_13_blanchard",
    "3.13 + Blanchard, 7 January 2014: keep the cpu slab when the wanted node spans nothing",
    slab={"memoryless": "blanchard"},
)
V3_13_JOONSOO = V3_13.vary(
    "v3_13_joonsoo",
    "3.13 + Kim, 27 January 2014: Rientjes' change, and get_partial() looks at numa_mem_id()",
    slab={"memoryless": "joonsoo"},
)
