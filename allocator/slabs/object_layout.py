"""Layout of a cache's objects: alignment, and the bytes from one object to the next."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.cache import CacheSpec
from allocator.slabs.order import get_order
from allocator.slabs.parameters import SlabParameters
from allocator.slabs.policy import SlabPolicy
from allocator.topology import Topology

WORD = 8
"""Bytes of a pointer."""
SLAB_MIN_ALIGN = 8
"""ARCH_SLAB_MINALIGN without tag-based KASAN, bytes."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_METADATA = frozenset("ZPU")  # DEBUG_METADATA_FLAGS: options that add bytes to objects
_PER_CPU = frozenset("FZPUT")  # SLAB_DEBUG_FLAGS: such caches bypass the per-CPU layer
_NONE: frozenset[str] = frozenset()


class ObjectLayout(NamedTuple):
    """Layouts of caches."""

    align: Ints
    """(cache,) alignment, bytes."""
    slab_size: Ints
    """(cache,) bytes from one object to the next."""
    bypass: Flags
    """(cache,) debugging keeps the cache from per-CPU lists and sheaves."""


def object_layout(
    policy: SlabPolicy, topology: Topology, parameters: SlabParameters, specs: Sequence[CacheSpec]
) -> ObjectLayout:
    """Return the layout of caches on a machine, with what debug options add.

    Parameters
    ----------
    policy
        Says which caches keep their free pointer inside, and how large debug records are.
    topology
        Cache line and page size.
    parameters
        Debug options.
    specs
        The caches.
    """
    align = alignment(specs, cache_line=topology.cache_line_bytes)
    letters = [_NONE] * len(specs)
    if parameters.debug is not None:
        letters = [parameters.debug_letters(spec.name) for spec in specs]
    sizes = slab_size(specs, policy, align, letters)
    if parameters.debugs_low_orders_only:
        raised = get_order(sizes, topology.page_size) > get_order(
            [spec.object_size for spec in specs], topology.page_size
        )
        letters = [
            own - _METADATA if more else own
            for own, more in zip(letters, raised.tolist(), strict=True)
        ]
        sizes = slab_size(specs, policy, align, letters)
    bypass = np.fromiter((bool(_PER_CPU & own) for own in letters), np.bool_, len(specs))
    return ObjectLayout(align, sizes, bypass)


def alignment(specs: Sequence[CacheSpec], *, cache_line: int) -> Ints:
    """Return the alignment of objects, bytes (mm/slab_common.c calculate_alignment()).

    HWCACHE_ALIGN asks for a cache line, or for the part of one that an object fills.

    Parameters
    ----------
    specs
        The caches, with the alignment asked for.
    cache_line
        Bytes.
    """
    count = len(specs)
    size = np.fromiter((spec.object_size for spec in specs), np.int64, count)
    align = np.fromiter((spec.align for spec in specs), np.int64, count)
    line = np.full_like(align, cache_line)
    for _ in range(cache_line.bit_length()):
        line = np.where(size <= line // 2, line // 2, line)
    align = np.where(_have(specs, "HWCACHE_ALIGN"), np.maximum(align, line), align)
    return _round_up(np.maximum(align, SLAB_MIN_ALIGN), WORD)


def slab_size(
    specs: Sequence[CacheSpec],
    policy: SlabPolicy,
    align: Ints,
    letters: Sequence[frozenset[str]],
) -> Ints:
    """Return the bytes from one object to the next (mm/slub.c calculate_sizes(), v6.1).

    Parameters
    ----------
    specs
        The caches.
    policy
        Says which caches keep their free pointer inside, and how large debug records are.
    align
        (cache,) alignment of objects, bytes.
    letters
        Debug options of each cache: Z adds red zones, P moves the free pointer out, U adds two
        records of who allocated and freed.
    """
    count = len(specs)
    requested = np.fromiter((spec.object_size for spec in specs), np.int64, count)
    inside = np.zeros(count, dtype=np.bool_)
    if policy.own_free_pointer:
        own = frozenset(policy.own_free_pointer)
        inside = np.fromiter((spec.name in own for spec in specs), np.bool_, count)
    inside |= _have(specs, "OWN_FREE_POINTER")
    zones, poison, owners = (
        np.fromiter((letter in own for own in letters), np.bool_, count) for letter in "ZPU"
    )
    tracks = owners & _have(specs, "KMALLOC") & (policy.kmalloc_tracks_size != "no")
    size = _round_up(requested, WORD)
    size += WORD * (zones & (size == requested))
    outside = (_have(specs, "TYPESAFE_BY_RCU") | _have(specs, "CTOR")) & ~inside
    outside |= poison | (zones & (requested < WORD))
    outside |= zones & tracks & (policy.kmalloc_tracks_size == "moves_free_pointer")
    size += WORD * outside
    size += 2 * policy.track_bytes * owners
    size += 4 * tracks
    size += zones * (WORD + _round_up(np.full_like(align, WORD), align))
    return _round_up(size, align)


def _have(specs: Sequence[CacheSpec], flag: str) -> Flags:
    return np.fromiter((flag in spec.flags for spec in specs), np.bool_, len(specs))


def _round_up(value: Ints, multiple: int | Ints) -> Ints:
    rounded: Ints = -(-value // multiple) * multiple
    return rounded
