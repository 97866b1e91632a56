"""Sheaves in a caller's hands (mm/slub.c v7.3 kmem_cache_prefill_sheaf() and its like)."""

from dataclasses import dataclass

from tests.reference.slub_sheaf_slabs import Sheaf
from tests.reference.slub_sheaves import MAX_FULL_SHEAVES, Sheaves
from tests.reference.slub_types import KERNEL, finish


@dataclass(slots=True)
class Prefilled:
    """A sheaf that a caller holds."""

    capacity: int
    objects: Sheaf


def prefill_sheaf(cache: Sheaves, cpu: int, size: int) -> Prefilled | None:
    """kmem_cache_prefill_sheaf()."""
    if size > cache.capacity:
        cache.stats["SHEAF_ALLOC"] += 1
        cache.stats["SHEAF_PREFILL_OVERSIZE"] += 1
        objects = from_slabs(cache, cpu, size)
        if objects is None:
            cache.stats["SHEAF_FREE"] += 1
            return None
        return Prefilled(size, objects)
    sheaf = Prefilled(cache.capacity, grab(cache, cpu))
    if len(sheaf.objects) < size and not fill(cache, cpu, sheaf):
        flush(cache, cpu, sheaf)
        return None
    return sheaf


def grab(cache: Sheaves, cpu: int) -> Sheaf:
    """The spare sheaf, a full or an empty one of the barn, or a new one."""
    here, barn = cache.cpus[cpu], cache.barn(cpu)
    if here.spare is not None:
        cache.stats["SHEAF_PREFILL_FAST"] += 1
        spare, here.spare = here.spare, None
        return spare
    cache.stats["SHEAF_PREFILL_SLOW"] += 1
    if barn.full:
        barn.lock += 1
        cache.stats["BARN_GET"] += 1
        return barn.full.pop()
    cache.stats["BARN_GET_FAIL"] += 1
    if barn.empty:
        barn.lock += 1
        barn.empty -= 1
    else:
        cache.stats["SHEAF_ALLOC"] += 1
    return []


def alloc_from_sheaf(sheaf: Prefilled, count: int) -> Sheaf:
    """kmem_cache_alloc_from_sheaf() of each object, until the sheaf is empty."""
    return [sheaf.objects.pop() for _ in range(min(count, len(sheaf.objects)))]


def refill_sheaf(cache: Sheaves, cpu: int, sheaf: Prefilled, size: int) -> tuple[Prefilled, bool]:
    """kmem_cache_refill_sheaf()."""
    if len(sheaf.objects) >= size:
        return sheaf, True
    if sheaf.capacity < size:
        larger = prefill_sheaf(cache, cpu, size)
        if larger is None:
            return sheaf, False
        return_sheaf(cache, cpu, sheaf)
        return larger, True
    if sheaf.capacity == cache.capacity:
        return sheaf, fill(cache, cpu, sheaf)
    more = from_slabs(cache, cpu, sheaf.capacity - len(sheaf.objects))
    sheaf.objects += more or []
    return sheaf, more is not None


def return_sheaf(cache: Sheaves, cpu: int, sheaf: Prefilled) -> None:
    """kmem_cache_return_sheaf()."""
    here, barn = cache.cpus[cpu], cache.barn(cpu)
    if sheaf.capacity != cache.capacity:
        flush(cache, cpu, sheaf)
        return
    if here.spare is None:
        cache.stats["SHEAF_RETURN_FAST"] += 1
        here.spare = sheaf.objects
        return
    cache.stats["SHEAF_RETURN_SLOW"] += 1
    if len(barn.full) >= MAX_FULL_SHEAVES or not fill(cache, cpu, sheaf):
        flush(cache, cpu, sheaf)
        return
    barn.lock += 1
    barn.full.append(sheaf.objects)
    cache.stats["BARN_PUT"] += 1


def fill(cache: Sheaves, cpu: int, sheaf: Prefilled) -> bool:
    """refill_sheaf(): up to the cache's capacity; what came before memory ended stays."""
    missing = cache.capacity - len(sheaf.objects)
    more: Sheaf = finish(cache.refill(cpu, missing, KERNEL)) if missing else []
    cache.stats["SHEAF_REFILL"] += len(more)
    sheaf.objects += more
    return len(more) == missing


def from_slabs(cache: Sheaves, cpu: int, count: int) -> Sheaf | None:
    """__kmem_cache_alloc_bulk(): all from slabs, or nothing."""
    objects: Sheaf = finish(cache.refill(cpu, count, KERNEL))
    if len(objects) < count:
        cache.free_array(cpu, objects)
        return None
    cache.stats["ALLOC_SLOWPATH"] += count
    return objects


def flush(cache: Sheaves, cpu: int, sheaf: Prefilled) -> None:
    """Objects back to their slabs, the sheaf is freed."""
    cache.flush_sheaf(cpu, sheaf.objects)
    cache.stats["SHEAF_FREE"] += 1
