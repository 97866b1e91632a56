"""What differs between kernels in the page allocator, as named choices."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePolicy:
    """One kernel's page allocator, told as the choices it makes (mm/page_alloc.c by default)."""

    # Zones: pages/zones.py, topology.py
    min_free_cap_kb: int = 262144
    """Cap of the computed min_free_kbytes: 65536 until 5.3, 262144 from 5.10 (5.8)."""
    thp_off_recomputes: bool = True
    """Turning all THP off recomputes min_free_kbytes and drops the raise (6.1)."""
    node_load: Literal["online_nodes", "one"] = "one"
    """Penalty added to a node chosen as fallback: remaining nodes (5.10), or one (6.1)."""
    lists_memoryless_first: bool = True
    """A node without memory heads its own fallback order (until 6.1)."""
    movable_capped: bool = False
    """Zone Movable's min mark is clamped to 32..128 pages (6.12)."""
    has_promo: bool = True
    """The promo watermark exists (6.1)."""
    shows_promo: bool = False
    """/proc/zoneinfo shows promo (6.12)."""
    reserves_unpopulated: bool = False
    """lowmem_reserve is computed for zones without managed pages too (5.3)."""
    max_watermark_scale: int = 3000
    """Largest legal watermark_scale_factor: 1000 until 5.4, 3000 from 5.18 on and in 5.10's
    long-term updates (Debian's 5.10.0-46 takes 3000); 0: none exists (3.13)."""
    arm64_zone_dma: bool = True
    """arm64 has ZONE_DMA below 4 GiB (5.10); before, DMA32 only."""
    ppc64_zone: Literal["DMA", "Normal"] = "Normal"
    """The zone that holds ppc64's memory: DMA in 3.13, Normal later."""
    reserves_first_mib: bool = True
    """x86 keeps the first MiB from the buddy lists (5.14)."""

    # Per-CPU lists: pages/pcp.py
    pcp: Literal["batch6", "shared_low", "tuned", "tuned_v7"] = "shared_low"
    """pcp high: 6 x batch (5.10); low mark shared by the CPUs (6.1); tuned between two ends (6.7);
    tuned, with 7.3's drains and high-atomic rule."""
    pcp_orders: tuple[int, ...] = (0, 1, 2, 3)
    """Orders kept on per-CPU lists; only 0 until 5.13."""
    pcp_thp: bool = True
    """Huge pages are kept on per-CPU lists (5.14)."""

    # Buddy: pages/buddy.py
    fallback: Literal["steal_largest", "claim_then_steal"] = "steal_largest"
    """Taking from a foreign migratetype: largest block first (6.1); claim, else smallest (6.12)."""
    claim_stop: Literal["block", "order"] = "order"
    """Claiming ends at an order too small to claim: when a block of it is met (6.12), always."""
    boot_release: Literal["head", "tail"] = "tail"
    """List end that boot memory is released to: head (5.3), tail (5.10)."""
    list_type: Literal["given", "pageblock"] = "given"
    """A free block's list: the type known when the page was freed, or always its pageblock's
    (6.10), and then pageblocks that merge take one type."""
    unmergeable: Literal["isolate", "isolate_highatomic"] = "isolate_highatomic"
    """Types whose pageblocks do not merge with others: Isolate, also Highatomic from 5.18."""

    # GFP flags: gfp.py
    gfp_names: Literal["wait", "atomic", "no_atomic"] = "no_atomic"
    """Names of GFP flags: 3.13's __GFP_WAIT; 4.4's split of it, with an __GFP_ATOMIC bit (until
    6.2, and in 6.1 stable) or without one (6.3)."""
    nowait_nowarn: bool = False
    """GFP_NOWAIT contains __GFP_NOWARN (6.12)."""

    # Watermarks in use: pages/slowpath.py
    alloc_flags: Literal["harder", "reserve_rights", "reserve_rights_v7"] = "reserve_rights"
    """ALLOC_HARDER (5.10), or the split rights of 6.3, back-ported to 6.1 stable."""
    highatomic_free_only: bool = False
    """Only the free pages of highatomic blocks are held back in the mark test (6.12)."""
    below_high: bool = False
    """Zones below their high mark do not grow pcp lists (6.7)."""
    watermark_test: Literal["lists", "orders"] = "lists"
    """What a mark demands of orders above 0: a block on some list (4.4), or that enough pages are
    left in each higher order (3.13)."""
    boost: Literal["none", "any_zone", "large_zones"] = "large_zones"
    """Who raises its marks after a fallback: nobody (3.13), any zone (5.0), zones of at least four
    pageblocks (5.10)."""
    boost_bypass: Literal["never", "atomic_bit", "min_reserve"] = "atomic_bit"
    """Who may ignore the boost of the min mark at order 0: nobody (5.3), __GFP_ATOMIC (5.10, and
    6.1 stable), who may use the min reserve (6.3)."""
    skips_busy_nodes: bool = False
    """With several nodes, those whose kswapd is running are passed over at first (7.3)."""
    free_counted: Literal["refill", "block"] = "refill"
    """The free counter is told of a refill at once, or of each block (6.10)."""

    # Slow path: pages/slowpath.py
    bailout: Literal[
        "deferred",
        "pageblock",
        "pageblock_but_retry",
        "noretry",
        "noretry_thisnode",
        "thisnode_only",
    ] = "noretry_thisnode"
    """When a costly request gives up after its first compaction (page_alloc.md 5.3)."""
    compact_retry: Literal["zonelist_suitable", "priority"] = "priority"
    """What DEFERRED, CONTENDED and PARTIAL_SKIPPED do: ask the zones (5.3), or the priority."""
    zero_reclaimable: Literal["none", "free"] = "none"
    """zone_reclaimable_pages() of a zone without LRU pages: none, or its free pages (6.1 stable,
    6.12)."""
    compact_gap_cap: int | None = None
    """Upper bound of compact_gap() in pages: none, or 32 (7.3)."""
    compacts_in_retry: bool = False
    """The first compaction is part of the retry loop (7.3)."""
    continue_reclaim: Literal["total", "suitable"] = "suitable"
    """should_continue_reclaim(): stop at a total (5.3), or when a zone is suitable (5.4)."""
    lru: Literal["classic", "generations"] = "classic"
    """Default reclaim: two lists, or MGLRU (Debian 6.12 on)."""
    large_folios: bool = False
    """Page cache of block devices and files holds large folios (7.3)."""

    # hugetlb: pages/hugetlb.py
    hugetlb_noretry: bool = True
    """A pool write remembers nodes that failed and drops __GFP_RETRY_MAYFAIL there (5.4)."""
