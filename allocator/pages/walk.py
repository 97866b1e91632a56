"""Who gives the block: a walk over the zones of a request (get_page_from_freelist())."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allocator import gfp as flags
from allocator.pages.marks import last_failing, watermark_fast
from allocator.pages.rmqueue import Series, rmqueue
from allocator.pages.runs import Pfns
from allocator.pages.zone import Zone

if TYPE_CHECKING:  # the allocator calls this module
    from allocator.pages.alloc import PageAllocator

_NEVER = 1 << 62
_DMA32 = 1
_NORMAL = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """One request, or a series of equal ones, on its way through the allocator."""

    allocator: "PageAllocator"
    """The machine."""
    cpu: int
    """CPU that asks."""
    order: int
    """Order of the block."""
    gfp: int
    """Flags as `allocator.gfp` lays them out."""
    migratetype: int
    """Type of the block."""
    highest: int
    """Index of the highest zone that may be used."""
    zonelist: tuple[Zone, ...]
    """Zones that may be used, the preferred one first."""
    nodemask: frozenset[int] | None
    """Nodes allowed, or none: all."""
    node: int
    """Node whose zonelist it is."""
    home: int
    """Node of the CPU."""


def avoids_fragments(request: Request) -> bool:
    """Tell whether the fast path leaves other types' small blocks alone (alloc_flags_nofragment()).

    Only where ZONE_DMA32 exists to take the load: the preferred zone is Normal, and its node has
    pages in DMA32 or is alone.
    """
    preferred = request.zonelist[0]
    if preferred.index != _NORMAL:
        return False
    zones = request.allocator.zones
    alone = all(zone.node == preferred.node for zone in zones)
    return alone or any(z.node == preferred.node and z.index == _DMA32 for z in zones)


class Taken(NamedTuple):
    """What came of a request or a series of them."""

    pfns: Pfns
    """(block,) first pages."""
    failed: bool
    """A request found nothing; those after it were not tried."""
    tried: bool
    """A zone was tried in vain by the last request: the next one will try there again."""


_NOTHING: Pfns = np.empty(0, dtype=np.int64)
_FAILED = Taken(_NOTHING, True, False)


def take(
    request: Request, which: str, rights: int, count: int = 1, *, nofragment: bool = False
) -> Taken:
    """Take up to `count` blocks, each from the first zone that may give it.

    Parameters
    ----------
    request
        What is asked.
    which
        Mark that zones must stay above: `low`, `min` or `high`.
    rights
        Rights of the caller.
    count
        How many equal requests there are.
    nofragment
        First try without breaking other types' pageblocks.
    """
    if count == 1:
        return _serve(request, which, rights, 1, nofragment)
    each = 1 if _may_reserve(request, rights, which) else count
    got, last = 0, Taken(_NOTHING, False, False)
    parts: list[Pfns] = []
    while not last.failed and got < count:
        last = _serve(request, which, rights, min(each, count - got), nofragment)
        parts.append(last.pfns)
        got += len(last.pfns)
    return Taken(parts[0] if len(parts) == 1 else np.concatenate(parts), last.failed, last.tried)


def _serve(request: Request, which: str, rights: int, count: int, nofragment: bool) -> Taken:
    """Take blocks for as long as it is clear where they come from."""
    idle = _idle_zones(request)
    taken = _walk(request, idle, which, rights, count, nofragment)
    if taken.failed and len(idle) < len(request.zonelist):
        left = 1 if taken.tried else count - len(taken.pfns)
        again = _walk(request, request.zonelist, which, rights, left, nofragment)
        pfns = np.concatenate([taken.pfns, again.pfns])
        taken = Taken(pfns, again.failed, taken.tried or again.tried)
    if not taken.failed or not nofragment:
        return taken
    left = count - len(taken.pfns)
    again = _walk(request, request.zonelist, which, rights, 1 if taken.tried else left, False)
    pfns = np.concatenate([taken.pfns, again.pfns])
    return Taken(pfns, again.failed, taken.tried or again.tried)


def _idle_zones(request: Request) -> tuple[Zone, ...]:
    """Return the zones of nodes whose kswapd sleeps, which 7.3 looks at first."""
    allocator = request.allocator
    if not allocator.policy.skips_busy_nodes or not allocator.busy_nodes:
        return request.zonelist
    if len(allocator.own_zones) < 2:
        return request.zonelist
    return tuple(zone for zone in request.zonelist if zone.node not in allocator.busy_nodes)


def _walk(
    request: Request,
    zones: Sequence[Zone],
    which: str,
    rights: int,
    count: int,
    nofragment: bool,
) -> Taken:
    """Ask zones in turn; after a try in vain only one request is served."""
    tried = False
    for place, zone in enumerate(zones):
        if nofragment and zone.node != request.zonelist[0].node:
            break
        if not _passes(request, zone, which, rights):
            continue
        pfns, failed = rmqueue(
            zone,
            _as_series(request, rights, nofragment),
            1 if tried else count,
            partial(_passes, request, zone, which, rights),
            partial(_floor, request, zone, which, rights),
        )
        if not len(pfns):
            tried = True
            continue
        _settle(request, zone, pfns, rights, which)
        if not failed:
            return Taken(pfns, False, tried)
        rest = _walk(request, zones[place + 1 :], which, rights, 1, nofragment)
        return Taken(np.concatenate([pfns, rest.pfns]), rest.failed, True)
    return Taken(_NOTHING, True, True) if tried else _FAILED


def _as_series(request: Request, rights: int, nofragment: bool) -> Series:
    return Series(
        cpu=request.cpu,
        order=request.order,
        migratetype=request.migratetype,
        rights=rights,
        nofragment=nofragment,
    )


def _passes(request: Request, zone: Zone, which: str, rights: int) -> bool:
    """Tell whether a zone may give a block; note whether it is below its high mark (6.7)."""
    order, highest, gfp = request.order, request.highest, request.gfp
    if zone.policy.below_high and not zone.below_high:
        if watermark_fast(zone, order, "high", highest, rights, gfp):
            return True
        zone.below_high = True
    if rights & flags.RIGHT_NO_WATERMARKS:
        return True
    return watermark_fast(zone, order, which, highest, rights, gfp)


def _floor(request: Request, zone: Zone, which: str, rights: int) -> int:
    """Return a count of free pages above which a zone passes and nothing is noted."""
    if zone.policy.watermark_test == "orders" and request.order:
        return _NEVER
    names = ["high"] if zone.policy.below_high and not zone.below_high else []
    if not rights & flags.RIGHT_NO_WATERMARKS:
        names.append(which)
    tests = [
        last_failing(zone, request.order, zone.mark(name), request.highest, rights)
        for name in names
    ]
    return max(tests, default=-_NEVER)


def _may_reserve(request: Request, rights: int, which: str) -> bool:
    """Tell whether the pageblock of a block given becomes Highatomic."""
    policy = request.allocator.policy
    if policy.alloc_flags == "harder":
        return bool(request.order and rights & flags.RIGHT_HARDER)
    if not rights & flags.RIGHT_HIGHATOMIC:
        return False
    return policy.alloc_flags != "reserve_rights_v7" or which == "min"


def _settle(request: Request, zone: Zone, pfns: Pfns, rights: int, which: str) -> None:
    """Do what follows a successful request."""
    allocator = request.allocator
    if zone.boosted and (rights & flags.RIGHT_KSWAPD or allocator.policy.pcp == "batch6"):
        zone.boosted = False
        allocator.wake_kswapd(replace(request, order=0, highest=zone.index), zone)
    if _may_reserve(request, rights, which):
        zone.reserve_highatomic(request.cpu, int(pfns[0]), request.order)
    allocator.count_given(request, zone, len(pfns))
