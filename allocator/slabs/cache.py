"""What a creator asks of a cache: its name, size, alignment and flags."""

from dataclasses import dataclass

from allocator.errors import ConfigError

FLAGS = frozenset(
    {
        "HWCACHE_ALIGN",
        "RECLAIM_ACCOUNT",
        "TYPESAFE_BY_RCU",
        "CTOR",
        "CACHE_DMA",
        "CACHE_DMA32",
        "ACCOUNT",
        "NOLEAKTRACE",
        "NO_MERGE",
        "KMALLOC",
        "OWN_FREE_POINTER",
        "BOOT",
    }
)
"""SLAB_* flags that matter; CTOR for a constructor, OWN_FREE_POINTER for a place that the creator
gives for it, KMALLOC, and BOOT for the first two caches."""

BOOT_CACHES = ("kmem_cache", "kmem_cache_node")
"""Caches that the allocator lives in itself."""

LARGEST_OBJECT = 1 << 25
"""No cache has larger objects, bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """A cache as asked for (kmem_cache_create())."""

    name: str
    """Name; kmem_cache and kmem_cache_node are the boot caches."""
    object_size: int
    """Bytes of an object."""
    align: int = 0
    """Alignment wanted, bytes; 0: none."""
    flags: frozenset[str] = frozenset()
    """Words out of `FLAGS`."""
    sheaf_capacity: int | None = None
    """Objects wanted in a sheaf (7.x); None: what the kernel's creator of this name asks."""
    usersize: int = 0
    """Bytes of an object that user copies may touch."""

    def __post_init__(self) -> None:
        key = f"caches.{self.name}"
        if type(self.object_size) is not int or not 0 < self.object_size <= LARGEST_OBJECT:
            expected = f"1 to {LARGEST_OBJECT} bytes"
            raise ConfigError(f"{key}.object_size", self.object_size, expected)
        if type(self.align) is not int or self.align < 0 or self.align & (self.align - 1):
            raise ConfigError(f"{key}.align", self.align, "a power of two, or 0")
        unknown = sorted(self.flags - FLAGS)
        if unknown:
            raise ConfigError(f"{key}.flags", unknown[0], f"one of {', '.join(sorted(FLAGS))}")

    @property
    def is_boot_cache(self) -> bool:
        """Tell whether the allocator needs this cache to work at all."""
        return self.name in BOOT_CACHES or "BOOT" in self.flags
