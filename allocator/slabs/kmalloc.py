"""kmalloc: its size classes, their caches and names, per architecture and release."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allocator.slabs.cache import CacheSpec
from allocator.slabs.policy import SlabPolicy
from allocator.topology import Topology

ARCHES_WITH_ZONE_DMA = ("x86_64", "arm64")
"""Architectures that have dma-kmalloc caches."""

_FLAGS_OF_KIND = {
    "dma-kmalloc": frozenset({"CACHE_DMA"}),
    "kmalloc-rcl": frozenset({"RECLAIM_ACCOUNT"}),
    "kmalloc-cg": frozenset({"ACCOUNT"}),
}


def min_align(policy: SlabPolicy, arch: str) -> int:
    """Return ARCH_KMALLOC_MINALIGN, bytes: at least 8, more where DMA is not coherent."""
    return policy.arm64_min_align if arch == "arm64" else 8


def kmalloc_sizes(
    policy: SlabPolicy, *, arch: str, page_size: int, dma_align: int = 8
) -> tuple[int, ...]:
    """Return the sizes of the kmalloc caches, bytes, ascending.

    include/linux/slab.h and mm/slab_common.c create_kmalloc_caches(): powers of two up to two
    pages, with 96 and 192 where the smallest is small enough.

    Parameters
    ----------
    policy
        Its `arm64_min_align` sets arm64's smallest size.
    arch
        Architecture.
    page_size
        Bytes.
    dma_align
        Alignment found at boot (new_kmalloc_cache(), v6.5), bytes: 8 with a bounce buffer or
        coherent DMA, else the cache line. Classes that become equal share one cache.
    """
    smallest = min_align(policy, arch)
    sizes = {smallest << shift for shift in range((2 * page_size // smallest).bit_length())}
    if smallest <= 32:
        sizes.add(96)
    if smallest <= 64:
        sizes.add(192)
    return tuple(sorted({-(-size // dma_align) * dma_align for size in sizes}))


def kmalloc_class(size: ArrayLike, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the class that serves each request, bytes; 0 where no cache does.

    A request of 0 bytes allocates nothing, one above the largest class takes pages.

    Parameters
    ----------
    size
        Requested bytes.
    sizes
        Classes, as `kmalloc_sizes()` returns them.
    """
    wanted = np.asarray(size, dtype=np.int64)
    table = np.array((*sizes, 0), dtype=np.int64)
    found: NDArray[np.int64] = table[np.searchsorted(table[:-1], wanted)]
    return np.where(wanted > 0, found, 0)


def kmalloc_align(policy: SlabPolicy, size: int, smallest: int) -> int:
    """Return the alignment that a kmalloc cache asks for (mm/slab_common.c), bytes."""
    divisor = size & -size
    if policy.kmalloc_aligned == "largest_divisor":
        return max(divisor, smallest)
    if policy.kmalloc_aligned == "powers_of_two" and divisor == size:
        return max(size, smallest)
    return smallest


def kmalloc_name(policy: SlabPolicy, kind: str, size: int) -> str:
    """Return a cache's name, `kmalloc-1k` or (until 4.19) `kmalloc-1024`."""
    if policy.kmalloc_suffix_k and size >= 1024:
        return f"{kind}-{size // 1024}k"
    return f"{kind}-{size}"


def kmalloc_kind(policy: SlabPolicy, *, dma: bool, reclaimable: bool, account: bool) -> str:
    """Return the set that serves a request with these GFP flags (kmalloc_type())."""
    wanted = [("dma-kmalloc", dma), ("kmalloc-rcl", reclaimable), ("kmalloc-cg", account)]
    for kind, asked in wanted:
        if asked and kind in policy.kmalloc_types:
            return kind
    return "kmalloc"


def kmalloc_caches(
    policy: SlabPolicy, topology: Topology, *, dma_align: int = 8
) -> tuple[CacheSpec, ...]:
    """Return the kmalloc caches of a machine, in the order of kinds and sizes."""
    smallest = min_align(policy, topology.arch)
    sizes = kmalloc_sizes(
        policy, arch=topology.arch, page_size=topology.page_size, dma_align=dma_align
    )
    kinds = [
        kind
        for kind in policy.kmalloc_types
        if kind != "dma-kmalloc" or topology.arch in ARCHES_WITH_ZONE_DMA
    ]
    return tuple(
        CacheSpec(
            name=kmalloc_name(policy, kind, size),
            object_size=size,
            align=kmalloc_align(policy, size, smallest),
            flags=_FLAGS_OF_KIND.get(kind, frozenset()) | {"KMALLOC"},
            usersize=0 if policy.kmalloc_merges else size,
        )
        for kind in kinds
        for size in sizes
    )
