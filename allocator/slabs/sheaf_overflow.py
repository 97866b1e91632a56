"""Many flushes of one CPU at once: what it frees when its sheaves and its barn are full.

From then on every `capacity` objects push the spare sheaf out to slabs, and nothing else changes;
which objects each flush holds is known beforehand (mm/slub.c v7.3 __pcs_replace_full_main()).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.ranks import group_starts, ragged, ranks_from
from allocator.slabs.sheaves import Sheaves

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """Objects that some CPUs still have to free and that may all enter sheaves, in order."""

    cpu: Ints
    """(object,): which of the CPUs, ascending."""
    slab: Ints
    """(object,): its slab."""
    request: Ints
    """(object,): the request it belongs to."""
    number: Ints
    """(cpu,): how many."""

    @classmethod
    def until_remote(
        cls, cpus: int, cpu: Ints, slab: Ints, request: Ints, remote: NDArray[np.bool_]
    ) -> "Ahead":
        """Keep the objects of each CPU before its first remote one."""
        seen = np.cumsum(remote)
        starts = group_starts(cpu)
        before: Ints = np.repeat(seen[starts] - remote[starts], np.diff(starts, append=len(cpu)))
        kept = seen == before
        number = np.bincount(cpu[kept], minlength=cpus)
        return cls(cpu=cpu[kept], slab=slab[kept], request=request[kept], number=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """Flushes of some CPUs, each an array of `capacity` objects; a CPU's first is main's slot."""

    slab: Ints
    """(object,): slabs, array after array."""
    array: Ints
    """(object,): number of the array, ascending."""
    cpu: Ints
    """(array,): which CPU."""
    request: Ints
    """(array,): request in whose course it is flushed."""
    more: Ints
    """(cpu,): flushes beside the first; each let `capacity` objects in."""


def overflow(sheaves: Sheaves, place: Ints, now: Ints, ahead: Ahead) -> Overflow:
    """Return the flushes of CPUs whose main slot holds the sheaf to be flushed first.

    The spare sheaves are left with the last objects that entered.

    Parameters
    ----------
    sheaves
        All sheaves.
    place, now
        (cpu,) the CPUs, and the request that each is at.
    ahead
        What they free from here on.
    """
    size = sheaves.capacity[place]
    more = np.maximum(ahead.number - 1, 0) // size
    first = np.cumsum(ahead.number) - ahead.number
    arrays = 1 + more
    base = np.cumsum(arrays * size) - arrays * size
    slab = np.zeros(int((arrays * size).sum()), dtype=np.int64)
    spare = np.where(more > 0, size, 0)
    chunks = np.maximum(more - 1, 0) * size
    slab[ragged(base, size)] = sheaves.read(sheaves.main[place], 0, size)
    slab[ragged(base + size, spare)] = sheaves.read(sheaves.spare[place], 0, spare)
    slab[ragged(base + 2 * size, chunks)] = ahead.slab[ragged(first, chunks)]
    last = ahead.slab[ragged(first + chunks, spare)]
    sheaves.write(sheaves.spare[place], np.zeros_like(spare), spare, last)
    cpu = np.repeat(np.arange(len(place)), arrays)
    number = ranks_from(group_starts(cpu), len(cpu))
    request = now[cpu]
    later = number > 0
    request[later] = ahead.request[first[cpu[later]] + (number * size[cpu])[later]]
    array = np.repeat(np.arange(len(cpu)), size[cpu])
    return Overflow(slab=slab, array=array, cpu=cpu, request=request, more=more)
