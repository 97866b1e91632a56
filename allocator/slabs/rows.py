"""The rows of a batch: one cache of one lane each, with the parameters that steer it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from allocator import gfp
from allocator.slabs.geometry import CacheGeometry

Ints = NDArray[np.int64]

DEFAULT_DEFRAG_RATIO = 100
"""remote_node_defrag_ratio of a new cache, percent."""

_PAGE_FLAGS = {
    "CACHE_DMA": gfp.DMA,
    "CACHE_DMA32": gfp.DMA32,
    "RECLAIM_ACCOUNT": gfp.RECLAIMABLE,
}
"""What flags of a cache add to its page requests (mm/slub.c calculate_sizes(): allocflags)."""


@dataclass(slots=True, kw_only=True, eq=False)
class Rows:
    """Parameters of each row, (row,) int64; sysfs writes change them at run time."""

    lane: Ints
    """Machine that the cache belongs to; the page source knows it by this number."""
    objects: Ints
    """Objects of a slab of the usual order (oo)."""
    objects_min: Ints
    """Objects of a slab of the smallest order (min)."""
    order: Ints
    """Usual order of a slab."""
    order_min: Ints
    """Order that is tried when the usual one cannot be had."""
    cpu_partial: Ints
    """cpu_partial, objects: limit of the cpu partial list until 5.15."""
    cpu_partial_slabs: Ints
    """The limit in slabs, from 5.16."""
    min_partial: Ints
    """min_partial, slabs."""
    defrag_ratio: Ints
    """remote_node_defrag_ratio as the kernel holds it: ten times what sysfs shows."""
    sheaf_capacity: Ints
    """Objects of a sheaf (7.x); 0: the cache has no sheaves."""

    alloc_flags: Ints
    """GFP flags that the cache adds to every page request (allocflags): DMA, RECLAIMABLE."""

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in self.__slots__}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"rows: arrays of different lengths {lengths}")
        for name in self.__slots__:
            setattr(self, name, np.array(getattr(self, name), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.lane)

    @classmethod
    def of(
        cls,
        caches: Sequence[Sequence[CacheGeometry]],
        defrag_percent: Sequence[int | None] | None = None,
    ) -> Self:
        """Build from the caches of each lane; row = lane * caches + cache if all have as many.

        Parameters
        ----------
        caches
            Geometry of the caches of each lane.
        defrag_percent
            remote_node_defrag_ratio of each lane as sysfs has it; None: the default.
        """
        given = defrag_percent or [None] * len(caches)
        percent = [DEFAULT_DEFRAG_RATIO if value is None else value for value in given]
        flat = [(lane, one) for lane, own in enumerate(caches) for one in own]

        def column(values: list[int]) -> Ints:
            return np.array(values, dtype=np.int64)

        return cls(
            lane=column([lane for lane, _ in flat]),
            objects=column([one.objs_per_slab for _, one in flat]),
            objects_min=column([one.min_objects for _, one in flat]),
            order=column([one.order for _, one in flat]),
            order_min=column([one.min_order_ for _, one in flat]),
            cpu_partial=column([one.cpu_partial for _, one in flat]),
            cpu_partial_slabs=column([one.cpu_partial_slabs for _, one in flat]),
            min_partial=column([one.min_partial for _, one in flat]),
            defrag_ratio=column([10 * percent[lane] for lane, _ in flat]),
            sheaf_capacity=column([one.sheaf_capacity for _, one in flat]),
            alloc_flags=column([_page_flags(one) for _, one in flat]),
        )


def _page_flags(cache: CacheGeometry) -> int:
    return sum(bit for flag, bit in _PAGE_FLAGS.items() if flag in cache.flags)
