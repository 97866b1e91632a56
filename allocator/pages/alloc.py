"""The page allocator of one machine (alloc_pages(), __free_pages())."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from allocator import gfp as flags
from allocator.pages.marks import watermark_ok
from allocator.pages.pcp_free import free_block, free_blocks, refresh
from allocator.pages.policy import PagePolicy
from allocator.pages.runs import Pfns
from allocator.pages.slowpath import NoReclaim, Reclaim, Request, serve
from allocator.pages.walk import avoids_fragments, take
from allocator.pages.zone import Zone

_MOVABLE_ZONE = 3


class PageAllocator:
    """All zones of a machine, and the way from a request to a zone.

    Parameters
    ----------
    policy
        The kernel's page allocator.
    zones
        Populated zones.
    node_of_cpu
        Node of each online CPU.
    fallback
        For each node, nodes in the order in which its requests fall back (itself first).
    reclaim
        What the slow path may do; None: nothing can be reclaimed.
    """

    def __init__(
        self,
        policy: PagePolicy,
        zones: Iterable[Zone],
        *,
        node_of_cpu: Mapping[int, int],
        fallback: Mapping[int, Sequence[int]],
        reclaim: Reclaim | None = None,
    ) -> None:
        self.policy = policy
        self.zones = sorted(zones, key=lambda zone: (zone.node, zone.index))
        self.node_of_cpu = dict(node_of_cpu)
        self.cpus = tuple(sorted(node_of_cpu))
        self.pageblock_order = self.zones[0].buddy.pageblock_order
        own: dict[int, list[Zone]] = {node: [] for node in fallback}
        for zone in self.zones:
            own.setdefault(zone.node, []).insert(0, zone)
        self.own_zones = {node: tuple(zones) for node, zones in own.items()}
        """Zones of each node, the highest first: the zonelist of __GFP_THISNODE."""
        self.zonelists = {
            node: tuple(zone for other in order for zone in own.get(other, ()))
            for node, order in fallback.items()
        }
        """Zones that requests for each node walk over."""
        self.reclaim: Reclaim = NoReclaim() if reclaim is None else reclaim
        self.busy_nodes: set[int] = set()
        """Nodes whose kswapd is running."""
        self._requests: dict[tuple[int, int, int, int | None], Request] = {}
        self.counters: dict[str, int] = {}
        """vmstat events: pgalloc_*, pgfree, allocstall_*, compact_* and others."""
        self.numa: dict[tuple[str, int], int] = {}
        """numastat events by name and node."""

    # Allocation

    def request(
        self,
        cpu: int,
        order: int,
        gfp: int,
        node: int | None = None,
        nodemask: Iterable[int] | None = None,
    ) -> Request:
        """Return a request with the zones that it may use (prepare_alloc_pages())."""
        if nodemask is not None:
            return self._request(cpu, order, gfp, node, nodemask)
        known = self._requests.get((cpu, order, gfp, node))
        if known is None:
            known = self._requests[cpu, order, gfp, node] = self._request(cpu, order, gfp, node)
        return known

    def _request(
        self,
        cpu: int,
        order: int,
        gfp: int,
        node: int | None,
        nodemask: Iterable[int] | None = None,
    ) -> Request:
        home = self.node_of_cpu[cpu]
        wanted = home if node is None else node
        mask = None if nodemask is None else frozenset(nodemask)
        return Request(
            allocator=self,
            cpu=cpu,
            order=order,
            gfp=gfp,
            migratetype=flags.migratetype(gfp),
            highest=flags.highest_zone(gfp),
            zonelist=self._zonelist(gfp, wanted, mask),
            nodemask=mask,
            node=wanted,
            home=home,
        )

    def _zonelist(self, gfp: int, node: int, mask: frozenset[int] | None) -> tuple[Zone, ...]:
        highest = flags.highest_zone(gfp)
        zones = self.own_zones[node] if gfp & flags.THISNODE else self.zonelists[node]
        return tuple(
            zone for zone in zones if zone.index <= highest and (mask is None or zone.node in mask)
        )

    def unmasked(self, request: Request) -> Request:
        """Return a request without its nodemask: who may use the reserves may use all nodes."""
        if request.nodemask is None:
            return request
        zones = self._zonelist(request.gfp, request.node, None)
        return replace(request, nodemask=None, zonelist=zones)

    def alloc(
        self,
        cpu: int,
        order: int,
        gfp: int,
        node: int | None = None,
        nodemask: Iterable[int] | None = None,
    ) -> int:
        """Allocate one block; return its first page, -1 if that fails."""
        found = self.alloc_many(cpu, order, gfp, 1, node, nodemask)
        return int(found[0]) if len(found) else -1

    def alloc_many(
        self,
        cpu: int,
        order: int,
        gfp: int,
        count: int,
        node: int | None = None,
        nodemask: Iterable[int] | None = None,
    ) -> Pfns:
        """Allocate blocks one after the other, until one request fails.

        Parameters
        ----------
        cpu
            CPU that asks.
        order
            Order of each block.
        gfp
            Flags as `allocator.gfp` lays them out.
        count
            How many blocks.
        node
            Node to prefer, or with __GFP_THISNODE the only one; None: the CPU's.
        nodemask
            Nodes allowed, or none: all.

        Returns
        -------
        (block,) first pages, in the order of the requests.
        """
        request = self.request(cpu, order, gfp, node, nodemask)
        parts: list[Pfns] = []
        got = 0
        rights = flags.fast_rights(gfp, order, self.policy)
        failed = not request.zonelist
        nofragment = not failed and avoids_fragments(request)
        while not failed and got < count:
            taken = take(request, "low", rights, count - got, nofragment=nofragment)
            parts.append(taken.pfns)
            got += len(taken.pfns)
            if taken.failed:
                served = serve(request, 1 if taken.tried else count - got)
                parts.append(served.pfns)
                got += len(served.pfns)
                failed = served.failed
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def count_given(self, request: Request, zone: Zone, blocks: int) -> None:
        """Count blocks that a zone gave (pgalloc_*, numa_*)."""
        self._add(f"pgalloc_{zone.name.lower()}", blocks << request.order)
        preferred = request.zonelist[0].node
        if zone.node == preferred:
            self._add_numa("numa_hit", zone.node, blocks)
        else:
            self._add_numa("numa_miss", zone.node, blocks)
            self._add_numa("numa_foreign", preferred, blocks)
        local = "numa_local" if zone.node == request.home else "numa_other"
        self._add_numa(local, zone.node, blocks)

    def pages_given(self) -> int:
        """Return the pages given so far, given back or not."""
        return sum(count for name, count in self.counters.items() if name.startswith("pgalloc_"))

    def _add(self, name: str, count: int) -> None:
        self.counters[name] = self.counters.get(name, 0) + count

    def _add_numa(self, name: str, node: int, count: int) -> None:
        self.numa[name, node] = self.numa.get((name, node), 0) + count

    # Freeing

    def zone_at(self, pfn: int) -> Zone:
        """Return the zone of a page.

        Raises
        ------
        LookupError
            If the page is in no zone.
        """
        for zone in self.zones:
            if zone.buddy.start <= pfn < zone.buddy.end:
                return zone
        raise LookupError(f"page {pfn} is in no zone")

    def free(self, cpu: int, pfn: int, order: int) -> None:
        """Free one block."""
        self._add("pgfree", 1 << order)
        zone = self.zone_at(pfn)
        free_block(zone, cpu, pfn, order, partial(_is_high, zone))

    def free_many(self, cpu: int, pfns: Pfns, orders: NDArray[np.int64]) -> None:
        """Free blocks one after the other.

        Parameters
        ----------
        cpu
            CPU that frees.
        pfns, orders
            (block,) first page and order of each.
        """
        self._add("pgfree", int((1 << orders).sum()))
        for zone in self.zones:  # zones do not influence each other
            mine = (pfns >= zone.buddy.start) & (pfns < zone.buddy.end)
            if mine.any():
                free_blocks(zone, cpu, pfns[mine], orders[mine], partial(_is_high, zone))

    def refresh(self, cpu: int) -> None:
        """Do a CPU's second-by-second work on its lists of all zones (vmstat_update())."""
        for zone in self.zones:
            refresh(zone, cpu, remote=zone.node != self.node_of_cpu[cpu])

    # Daemons

    def wake_kswapd(self, request: Request, zone: Zone) -> None:
        """Wake a node's kswapd unless it has nothing to do (wakeup_kswapd())."""
        self.reclaim.wake_kswapd(zone, request.order, request.highest, request.gfp)


def _is_high(zone: Zone) -> bool:
    """Tell whether a zone is above its high mark."""
    return watermark_ok(zone, 0, zone.mark("high"), _MOVABLE_ZONE, 0)
