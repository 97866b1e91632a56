"""Laws that hold for a cache of the reference after every operation."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.reference.slub import Cache
from tests.reference.slub_cpu import CpuSlabs
from tests.reference.slub_pages import Pages
from tests.reference.slub_sheaves import MAX_FULL_SHEAVES, Sheaves
from tests.reference.slub_types import Obj, Slab


def check(cache: Cache, held: Sequence[Obj]) -> None:
    """Raise AssertionError if a law is broken; `held` are the objects that the caller holds."""
    alive = [slab for slab in cache.slabs if slab.alive]
    _check_objects(cache, alive, held)
    _check_lists(cache, alive)
    _check_totals(cache, alive)
    if isinstance(cache, CpuSlabs):
        _check_cpu_slabs(cache, alive)
    else:
        assert isinstance(cache, Sheaves)
        _check_sheaves(cache, alive)


def parked(cache: Cache) -> Iterable[Obj]:
    """Yield objects that are free, and in use by the slab's own word."""
    if isinstance(cache, CpuSlabs):
        for here in cache.cpus:
            if here.slab is not None:
                yield from (Obj(here.slab, slot) for slot in here.freelist)
    elif isinstance(cache, Sheaves):
        for pcs in cache.cpus:
            yield from pcs.main
            yield from pcs.spare or ()
        for barn in cache.barns:
            for sheaf in barn.full:
                yield from sheaf


def lost(cache: Cache) -> list[Slab]:
    """Return slabs with free objects that are on no list: what the 6.6 RFC leaks."""
    assert isinstance(cache, CpuSlabs)
    owned = {slab for here in cache.cpus for slab in (*here.partial, here.slab)}
    return [
        slab
        for slab in cache.slabs
        if slab.alive and slab.freelist and not slab.in_list and slab not in owned
    ]


def _check_objects(cache: Cache, alive: Sequence[Slab], held: Sequence[Obj]) -> None:
    """Every object is held, parked or on its slab's freelist, and only one of these."""
    whereabouts = Counter([*held, *parked(cache)])
    for slab in alive:
        whereabouts.update(Obj(slab, slot) for slot in slab.freelist)
        assert slab.inuse == slab.objects - len(slab.freelist)
    every = {Obj(slab, slot) for slab in alive for slot in range(slab.objects)}
    assert whereabouts.keys() == every
    assert set(whereabouts.values()) <= {1}


def _check_lists(cache: Cache, alive: Sequence[Slab]) -> None:
    """A slab is on its own node's list at most, once, with free objects and unfrozen."""
    for number, node in enumerate(cache.nodes):
        assert len(set(node.partial)) == len(node.partial)
        assert cache.has_list(number) or not node.partial
        for slab in node.partial:
            assert slab.alive
            assert slab.node == number
            assert slab.in_list
            assert slab.freelist
            assert not slab.frozen
    assert sum(slab.in_list for slab in cache.slabs) == sum(n.nr_partial for n in cache.nodes)
    assert all(slab in cache.nodes[slab.node].partial for slab in alive if slab.in_list)


def _check_totals(cache: Cache, alive: Sequence[Slab]) -> None:
    """Counters of nodes and of the page source are those of the slabs."""
    for number, node in enumerate(cache.nodes):
        mine = [slab for slab in alive if slab.node == number]
        assert node.nr_slabs == len(mine)
        assert node.total_objects == sum(slab.objects for slab in mine)
        if isinstance(cache.pages, Pages):
            assert cache.pages.used[number] == sum(1 << slab.block.order for slab in mine)


def _check_cpu_slabs(cache: CpuSlabs, alive: Sequence[Slab]) -> None:
    """Cpu slabs and cpu partial lists are disjoint, and frozen as the kernel does it."""
    cpu_slabs = [here.slab for here in cache.cpus if here.slab is not None]
    on_cpus = [slab for here in cache.cpus for slab in here.partial]
    listed = [slab for node in cache.nodes for slab in node.partial]
    whose = Counter([*cpu_slabs, *on_cpus, *listed])
    assert set(whose.values()) <= {1}
    assert all(slab.alive for slab in whose)
    assert cache.policy.config_cpu_partial or not on_cpus
    frozen = {*cpu_slabs, *(() if cache.delayed else on_cpus)}
    assert {slab for slab in alive if slab.frozen} == frozen
    for here in cache.cpus:
        assert here.slab is not None or not here.freelist
        for below, slab in zip([None, *here.partial], here.partial, strict=False):
            assert slab.freelist
            assert slab.stored_slabs == 1 + (below.stored_slabs if below else 0)
    leaks = cache.policy.partial_refill == "rfc_leak" and not cache.policy.config_cpu_partial
    assert leaks or not lost(cache)


def _check_sheaves(cache: Sheaves, alive: Sequence[Slab]) -> None:
    """Sheaves keep within their capacity and are neither made nor freed unnoticed."""
    for pcs in cache.cpus:
        assert len(pcs.main) <= cache.capacity
        assert pcs.spare is None or len(pcs.spare) in (0, cache.capacity)
    for barn in cache.barns:
        assert barn.empty >= 0
        assert len(barn.full) <= MAX_FULL_SHEAVES
        assert all(len(sheaf) == cache.capacity for sheaf in barn.full)
    existing = sum(pcs.spare is not None for pcs in cache.cpus) + sum(
        len(barn.full) + barn.empty for barn in cache.barns
    )
    made = cache.stats["SHEAF_ALLOC"] - cache.stats["SHEAF_FREE"]
    assert made == existing + (cache.nr_cpu_ids if cache.capacity else 0)
    assert all(slab.in_list == bool(slab.freelist) for slab in alive)
    assert not any(slab.frozen for slab in alive)
