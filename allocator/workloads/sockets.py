"""What a message through a local socket allocates: an sk_buff, its data, and how many fit.

net/unix/af_unix.c unix_stream_sendmsg() asks sock_alloc_send_pskb() for one buffer per write up to
the socket's limit; net/core/skbuff.c allocates an sk_buff from skbuff_head_cache and the linear
part with its shared info by kmalloc, what does not fit into one page as page fragments. The
records of hackbench under CONFIG_SLUB_STATS agree: per message one object of skbuff_head_cache and
one of kmalloc-cg-512 (100 bytes), kmalloc-cg-2k (1400) or kmalloc-cg-512 and one page (4096).
"""

import numpy as np

from allocator.slabs.cache import CacheSpec
from allocator.slabs.kmalloc import (
    kmalloc_align,
    kmalloc_class,
    kmalloc_kind,
    kmalloc_name,
    kmalloc_sizes,
    min_align,
)
from allocator.slabs.policy import SlabPolicy
from allocator.topology import Topology

SK_BUFF_BYTES = 232
"""sizeof(struct sk_buff) of a distribution's 6.1, cache-line aligned."""
SHARED_INFO_BYTES = 320
"""sizeof(struct skb_shared_info), cache-line aligned."""
SOCKET_BUFFER_BYTES = 212992
"""net.core.wmem_default and rmem_default."""


def sk_buff_cache() -> CacheSpec:
    """Return skbuff_head_cache."""
    return CacheSpec(
        name="skbuff_head_cache", object_size=SK_BUFF_BYTES, flags=frozenset({"HWCACHE_ALIGN"})
    )


def kmalloc_cache(
    policy: SlabPolicy, topology: Topology, size: int, *, account: bool = False
) -> CacheSpec:
    """Return the kmalloc cache that serves a request of `size` bytes.

    Raises
    ------
    ValueError
        If the request is larger than the largest cache.
    """
    smallest = min_align(policy, topology.arch)
    sizes = kmalloc_sizes(policy, arch=topology.arch, page_size=topology.page_size)
    served = int(kmalloc_class(np.array([size]), sizes)[0])
    if not served:
        raise ValueError(f"kmalloc of {size} bytes is served by pages, not by a cache")
    kind = kmalloc_kind(policy, dma=False, reclaimable=False, account=account)
    return CacheSpec(
        name=kmalloc_name(policy, kind, served),
        object_size=served,
        align=kmalloc_align(policy, served, smallest),
        flags=frozenset({"KMALLOC"} | ({"ACCOUNT"} if kind == "kmalloc-cg" else set())),
        usersize=0 if policy.kmalloc_merges else served,
    )


def linear_bytes(message_bytes: int, page_size: int) -> int:
    """Return how much of a unix message is linear; the rest is in page fragments."""
    room = page_size - SHARED_INFO_BYTES
    paged = max(0, message_bytes - room)
    paged = min(message_bytes, -(-paged // page_size) * page_size)
    return message_bytes - paged


def data_cache(
    policy: SlabPolicy, topology: Topology, message_bytes: int, *, account: bool = True
) -> CacheSpec:
    """Return the cache of a message's data."""
    linear = linear_bytes(message_bytes, topology.page_size)
    size = -(-linear // 64) * 64 + SHARED_INFO_BYTES
    return kmalloc_cache(policy, topology, size, account=account)


def messages_in_flight(message_bytes: int, data: CacheSpec, page_size: int) -> int:
    """Return how many messages a socket holds before its sender sleeps.

    The sum of their truesize reaches sk_sndbuf: sk_buff, data object and fragments each count.
    """
    fragments = message_bytes - linear_bytes(message_bytes, page_size)
    true_size = -(-SK_BUFF_BYTES // 64) * 64 + data.object_size + fragments
    return -(-SOCKET_BUFFER_BYTES // true_size)
