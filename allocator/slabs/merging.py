"""Which caches become aliases of others, and the names of their directories in sysfs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from allocator.slabs.cache import CacheSpec
from allocator.slabs.object_layout import WORD, alignment, object_layout
from allocator.slabs.parameters import SlabParameters
from allocator.slabs.policy import SlabPolicy
from allocator.topology import Topology

_NEVER = frozenset({"TYPESAFE_BY_RCU", "NOLEAKTRACE", "NO_MERGE", "CTOR", "BOOT"})
_NEVER_LETTERS = frozenset("ZPUTA")
_SAME = frozenset({"RECLAIM_ACCOUNT", "CACHE_DMA", "CACHE_DMA32", "ACCOUNT"})
_LETTER_OF_FLAG = {
    "d": "CACHE_DMA",
    "D": "CACHE_DMA32",
    "a": "RECLAIM_ACCOUNT",
    "A": "ACCOUNT",
}


@dataclass(slots=True, kw_only=True)
class MergedCache:
    """A real cache and the names that it goes by."""

    spec: CacheSpec
    """As its first creator asked for it; object_size is that of the largest alias."""
    slab_size: int
    """Bytes from one object to the next."""
    directory: str
    """Name under /sys/kernel/slab; slabinfo lists it under the name of its first creator."""
    names: list[str] = field(default_factory=list)
    """Names of all creators, the first one first."""


def merge_caches(
    specs: Sequence[CacheSpec],
    policy: SlabPolicy,
    topology: Topology,
    parameters: SlabParameters,
) -> list[MergedCache]:
    """Create caches one after another, as aliases of earlier ones where the kernel does.

    mm/slab_common.c find_mergeable(), slab_unmergeable() and mm/slub.c create_unique_id().

    Parameters
    ----------
    specs
        Caches in the order of their creation.
    policy
        Says which cache is looked at first, and what 7.x adds.
    topology
        Cache line.
    parameters
        Merging may be switched off; debugged caches are not merged.
    """
    layout = object_layout(policy, topology, parameters, specs)
    made: list[MergedCache] = []
    for spec, size in zip(specs, layout.slab_size.tolist(), strict=True):
        mergeable = parameters.merge and _mergeable(spec, policy, parameters)
        target = _find(spec, made, policy, topology, parameters) if mergeable else None
        if target is not None:
            largest = max(target.spec.object_size, spec.object_size)
            target.spec = replace(target.spec, object_size=largest)
            target.names.append(spec.name)
            continue
        checks = "F" in parameters.debug_letters(spec.name)
        name = directory_name(spec, size, policy, checks=checks) if mergeable else spec.name
        made.append(MergedCache(spec=spec, slab_size=size, directory=name, names=[spec.name]))
    return made


def directory_name(
    spec: CacheSpec, slab_size: int, policy: SlabPolicy, *, checks: bool = False
) -> str:
    """Return the directory of a mergeable cache, such as `:A-0000192`.

    Parameters
    ----------
    spec
        Its flags give the letters.
    slab_size
        Bytes.
    policy
        Letters that the kernel knows, in its order.
    checks
        Consistency checks (slub_debug=F) are on for the cache.
    """
    letters = ""
    for letter in policy.alias_letters:
        always = letter == "t"  # "trackable": every cache that kmemcheck may track
        if always or (letter == "F" and checks) or _LETTER_OF_FLAG.get(letter, "") in spec.flags:
            letters += letter
    return f":{letters}{'-' if letters else ''}{slab_size:07d}"


def _mergeable(spec: CacheSpec, policy: SlabPolicy, parameters: SlabParameters) -> bool:
    letters = parameters.debug_letters(spec.name)
    asks_sheaf = policy.generation == "sheaves" and bool(spec.sheaf_capacity)
    checked = policy.generation == "sheaves" and "F" in letters
    return not (
        _NEVER & spec.flags
        or spec.is_boot_cache
        or _NEVER_LETTERS & letters
        or spec.usersize
        or asks_sheaf
        or checked
    )


def _find(
    spec: CacheSpec,
    made: Sequence[MergedCache],
    policy: SlabPolicy,
    topology: Topology,
    parameters: SlabParameters,
) -> MergedCache | None:
    """Return the cache that takes a new one in."""
    rounded = replace(spec, object_size=-(-spec.object_size // WORD) * WORD)
    align = int(alignment([rounded], cache_line=topology.cache_line_bytes)[0])
    size = -(-rounded.object_size // align) * align
    for other in reversed(made) if policy.merge_newest_first else made:
        fits = size <= other.slab_size < size + WORD and other.slab_size % align == 0
        alike = not (spec.flags ^ other.spec.flags) & _SAME
        if fits and alike and _mergeable(other.spec, policy, parameters):
            return other
    return None
