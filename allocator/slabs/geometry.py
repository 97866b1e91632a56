"""Geometry of a cache: layout of an object, order of its slabs, limits of its lists."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allocator.slabs.cache import CacheSpec
from allocator.slabs.kmalloc import kmalloc_class, kmalloc_sizes
from allocator.slabs.order import NO_ORDER, OrderLimits, calculate_order, get_order
from allocator.slabs.parameters import SlabParameters
from allocator.slabs.policy import SlabPolicy
from allocator.topology import Topology

__all__ = [
    "NO_ORDER",
    "CacheGeometry",
    "OrderLimits",
    "alignment",
    "cache_geometries",
    "cache_geometry",
    "calculate_order",
    "cpu_partial_objects",
    "cpu_partial_slabs",
    "get_order",
    "min_partial_slabs",
    "sheaf_capacity",
    "slab_size",
]

WORD = 8
"""Bytes of a pointer."""
MIN_PARTIAL, MAX_PARTIAL = 5, 10
"""Bounds of the computed min_partial (mm/slub.c)."""
METADATA_LETTERS = frozenset("ZPU")
"""Debug options that add bytes to objects (DEBUG_METADATA_FLAGS)."""

_PER_CPU_LETTERS = frozenset("FZPUT")  # SLAB_DEBUG_FLAGS: such caches bypass the per-CPU layer
_CPU_PARTIAL = {"objects": (2, 6, 13, 30), "slabs": (6, 24, 52, 120), "none": (0, 0, 0, 0)}
_SHEAF_BASE = (4, 12, 26, 60)
_SHEAF_HEADER = 32  # bytes before the objects of struct slab_sheaf


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGeometry:
    """Everything that follows from a cache's size, the kernel and the machine."""

    name: str
    """Name of the cache."""
    object_size: int
    """Bytes of an object."""
    align: int
    """Alignment of objects, bytes."""
    slab_size: int
    """Bytes from one object to the next."""
    order: int
    """Order of a slab when pages are plenty (s.oo)."""
    objs_per_slab: int
    """Objects in such a slab."""
    min_order_: int
    """Order of a slab when they are not (s.min): the smallest that holds an object."""
    min_objects: int
    """Objects in such a slab."""
    min_partial: int
    """Empty slabs that a node list keeps."""
    cpu_partial: int
    """Objects that a per-CPU partial list aims at, 0 if there is none."""
    cpu_partial_slabs: int
    """Slabs that such a list holds at most (5.16), 0 where objects are counted."""
    sheaf_capacity: int
    """Objects in a sheaf (7.x), 0 without sheaves."""
    flags: frozenset[str]
    """Flags, as in `CacheSpec`."""

    def waste_bytes(self, page_size: int) -> int:
        """Return the bytes of a slab that belong to no object's own bytes."""
        return (page_size << self.order) - self.objs_per_slab * self.object_size


def alignment(
    object_size: int, want: int, flags: Collection[str], *, cache_line: int, slab_min: int = WORD
) -> int:
    """Return the alignment of objects, bytes (mm/slab_common.c calculate_alignment()).

    Parameters
    ----------
    object_size
        Bytes.
    want
        Alignment asked for.
    flags
        HWCACHE_ALIGN asks for a cache line, or the part of one that an object fills.
    cache_line
        Bytes.
    slab_min
        ARCH_SLAB_MINALIGN, bytes: 8, or 16 with tag-based KASAN.
    """
    align = want
    if "HWCACHE_ALIGN" in flags:
        line = cache_line
        while object_size <= line // 2:
            line //= 2
        align = max(align, line)
    return _round_up(max(align, slab_min), WORD)


def slab_size(
    spec: CacheSpec, policy: SlabPolicy, align: int, letters: Collection[str] = ()
) -> int:
    """Return the bytes from one object to the next (mm/slub.c calculate_sizes(), v6.1).

    Parameters
    ----------
    spec
        The cache.
    policy
        Says which caches keep their free pointer inside, and how large debug records are.
    align
        Alignment of objects, bytes.
    letters
        Debug options of this cache: Z adds red zones, P moves the free pointer out, U adds two
        records of who allocated and freed.
    """
    size = _round_up(spec.object_size, WORD)
    tracks_size = "U" in letters and "KMALLOC" in spec.flags and policy.kmalloc_tracks_size
    if "Z" in letters and size == spec.object_size:
        size += WORD
    needs_word = {"TYPESAFE_BY_RCU", "CTOR"} & spec.flags
    if (
        (needs_word and spec.name not in policy.own_free_pointer)
        or "P" in letters
        or ("Z" in letters and spec.object_size < WORD)
        or ("Z" in letters and tracks_size == "moves_free_pointer")
    ):
        size += WORD
    if "U" in letters:
        size += 2 * policy.track_bytes
    if tracks_size and tracks_size != "no":
        size += 4
    if "Z" in letters:
        size += WORD + _round_up(WORD, align)
    return _round_up(size, align)


def min_partial_slabs(size: ArrayLike) -> NDArray[np.int64]:
    """Return min_partial of caches by slab_size: half its binary logarithm, 5 to 10."""
    log2 = np.frexp(np.asarray(size, dtype=np.float64))[1].astype(np.int64) - 1
    return np.clip(log2 // 2, MIN_PARTIAL, MAX_PARTIAL)


def cpu_partial_objects(
    size: ArrayLike, policy: SlabPolicy, page_size: int | NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return cpu_partial of caches by slab_size (mm/slub.c set_cpu_partial(), v6.1)."""
    counts = _CPU_PARTIAL[policy.cpu_partial_counts if policy.config_cpu_partial else "none"]
    return _by_size(size, page_size, counts)


def cpu_partial_slabs(
    cpu_partial: ArrayLike, objs_per_slab: ArrayLike, policy: SlabPolicy
) -> NDArray[np.int64]:
    """Return the slabs a per-CPU partial list holds (slub_set_cpu_partial(), v5.16).

    Slabs are taken to be half full; 0 where the kernel counts objects, or has no such list.
    """
    wanted = np.asarray(cpu_partial, dtype=np.int64)
    if policy.cpu_partial_counts != "slabs":
        return np.zeros_like(wanted)
    objects = np.maximum(np.asarray(objs_per_slab, dtype=np.int64), 1)
    return -(-2 * wanted // objects)


def sheaf_capacity(
    size: ArrayLike, page_size: int | NDArray[np.int64], kmalloc: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return the objects in a sheaf by slab_size (mm/slub.c calculate_sheaf_capacity(), v7.3).

    A sheaf is a kmalloc object, so that the capacity is what fits into the class of the wanted
    number.

    Parameters
    ----------
    size
        slab_size, bytes.
    page_size
        Bytes.
    kmalloc
        Sizes of the kmalloc caches.
    """
    table = kmalloc_class([_SHEAF_HEADER + WORD * base for base in _SHEAF_BASE], kmalloc)
    filled = ((table - _SHEAF_HEADER) // WORD).tolist()
    return _by_size(size, page_size, tuple(filled))


def cache_geometries(
    policy: SlabPolicy,
    topology: Topology,
    parameters: SlabParameters,
    specs: Sequence[CacheSpec],
    *,
    dma_align: int = 8,
) -> list[CacheGeometry]:
    """Return the geometry of caches on a machine.

    Parameters
    ----------
    policy
        The kernel's SLUB.
    topology
        The machine: page size, CPUs, cache line.
    parameters
        Boot parameters and sysfs values.
    specs
        The caches.
    dma_align
        As in `kmalloc_sizes()`.
    """
    letters = [parameters.debug_letters(spec.name) for spec in specs]
    aligns = [
        alignment(spec.object_size, spec.align, spec.flags, cache_line=topology.cache_line_bytes)
        for spec in specs
    ]
    if parameters.debugs_low_orders_only:
        letters = [
            _low_order_letters(*each, policy, topology.page_size)
            for each in zip(specs, aligns, letters, strict=True)
        ]
    page = topology.page_size
    each = zip(specs, aligns, letters, strict=True)
    sizes = np.array([slab_size(s, policy, a, x) for s, a, x in each], dtype=np.int64)
    orders = calculate_order(sizes, policy, OrderLimits.of(policy, topology, parameters))
    objects = np.where(orders >= 0, (page << np.maximum(orders, 0)) // sizes, 0)
    smallest = get_order(sizes, page)
    bypass = np.array([bool(_PER_CPU_LETTERS & own) for own in letters], dtype=bool)
    cpu_partial = cpu_partial_objects(sizes, policy, page)
    if parameters.cpu_partial is not None:
        cpu_partial = np.where(cpu_partial > 0, parameters.cpu_partial, 0)
    cpu_partial = np.where(bypass, 0, cpu_partial)
    columns = zip(
        specs,
        aligns,
        sizes.tolist(),
        orders.tolist(),
        objects.tolist(),
        smallest.tolist(),
        ((page << smallest) // sizes).tolist(),
        _min_partial(sizes, policy, parameters).tolist(),
        cpu_partial.tolist(),
        cpu_partial_slabs(cpu_partial, objects, policy).tolist(),
        _sheaves(specs, sizes, bypass, policy, topology, dma_align),
        strict=True,
    )
    return [
        CacheGeometry(
            name=spec.name,
            object_size=spec.object_size,
            align=align,
            slab_size=size,
            order=order,
            objs_per_slab=objs,
            min_order_=low,
            min_objects=low_objs,
            min_partial=keep,
            cpu_partial=wanted,
            cpu_partial_slabs=slabs,
            sheaf_capacity=sheaf,
            flags=spec.flags,
        )
        for spec, align, size, order, objs, low, low_objs, keep, wanted, slabs, sheaf in columns
    ]


def cache_geometry(
    policy: SlabPolicy,
    topology: Topology,
    parameters: SlabParameters,
    *,
    name: str,
    object_size: int,
    align: int = 0,
    flags: Collection[str] = (),
    sheaf_capacity: int | None = None,
) -> CacheGeometry:
    """Return the geometry of one cache; see `cache_geometries()` and `CacheSpec`."""
    spec = CacheSpec(
        name=name,
        object_size=object_size,
        align=align,
        flags=frozenset(flags),
        sheaf_capacity=sheaf_capacity,
    )
    return cache_geometries(policy, topology, parameters, [spec])[0]


def _low_order_letters(
    spec: CacheSpec, align: int, letters: frozenset[str], policy: SlabPolicy, page_size: int
) -> frozenset[str]:
    """Drop what adds bytes where that would raise the order (slub_debug=O)."""
    size = slab_size(spec, policy, align, letters)
    before, after = get_order([spec.object_size, size], page_size).tolist()
    return letters - METADATA_LETTERS if after > before else letters


def _min_partial(
    sizes: NDArray[np.int64], policy: SlabPolicy, parameters: SlabParameters
) -> NDArray[np.int64]:
    if parameters.min_partial is None:
        return min_partial_slabs(sizes)
    given = parameters.min_partial
    if policy.clamps_min_partial:
        given = min(max(given, MIN_PARTIAL), MAX_PARTIAL)
    return np.full_like(sizes, given)


def _sheaves(
    specs: Sequence[CacheSpec],
    sizes: NDArray[np.int64],
    bypass: NDArray[np.bool_],
    policy: SlabPolicy,
    topology: Topology,
    dma_align: int,
) -> list[int]:
    """Return the sheaf capacity of each cache, 0 for those without sheaves."""
    if policy.generation != "sheaves":
        return [0] * len(specs)
    page = topology.page_size
    kmalloc = kmalloc_sizes(policy, arch=topology.arch, page_size=page, dma_align=dma_align)
    usual = sheaf_capacity(sizes, page, kmalloc).tolist()
    requests = dict(policy.sheaf_requests)
    capacities = []
    for spec, capacity, without in zip(specs, usual, bypass.tolist(), strict=True):
        asked = spec.sheaf_capacity
        if asked is None:
            asked = requests.get(spec.name, 0)
        none = without or spec.is_boot_cache or "NOLEAKTRACE" in spec.flags
        capacities.append(0 if none else max(capacity, asked))
    return capacities


def _by_size(
    size: ArrayLike, page_size: int | NDArray[np.int64], values: tuple[int, ...]
) -> NDArray[np.int64]:
    """Choose by slab_size: a page and more, 1024 and more, 256 and more, less."""
    sizes = np.asarray(size, dtype=np.int64)
    chosen = np.where(sizes >= 256, values[2], values[3])
    chosen = np.where(sizes >= 1024, values[1], chosen)
    return np.where(sizes >= page_size, values[0], chosen).astype(np.int64)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
