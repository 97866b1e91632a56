"""The page allocator: zones, buddy lists, per-CPU lists, reclaim, compaction, the hugetlb pool."""
