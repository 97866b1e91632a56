"""Bulk freeing: build_detached_freelist() (mm/slub.c; slub.md 6.2).

kmem_cache_free_bulk() gathers objects of one slab from the end of its array and gives up at the
third object of another slab. All arrays advance together; the loop is over places of an array.
"""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.policy import SlabPolicy
from allocator.slabs.window import Runs

Ints = NDArray[np.int64]

LOOKAHEAD = 3
"""The scan ends at this many objects of other slabs."""
_HOLE = -1  # a place whose object has been taken (5.10)


def detached_freelists(policy: SlabPolicy, request: Ints, slab: Ints) -> Runs:
    """Group the objects of arrays into lists of one slab each.

    Parameters
    ----------
    policy
        Says whether taken objects leave holes or are swapped out.
    request
        (n,) ascending: number of the array of each object.
    slab
        (n,) slab of each object, in the order of the array.

    Returns
    -------
    Runs
        Lists in the order in which they are freed, array after array.
    """
    size = np.bincount(request)
    width = int(size.max(initial=0))
    array = np.full((len(size), width), _HOLE, dtype=np.int64)
    array[np.arange(width) < size[:, None]] = slab
    scan = _scan_with_holes if policy.bulk_free_scan == "holes" else _scan_with_swaps
    live = size.nonzero()[0]
    parts: list[tuple[Ints, Ints, Ints]] = []
    size = size.copy()
    while len(live):
        head, count = scan(array, size, live)
        some = count > 0
        parts.append((live[some], head[some], count[some]))
        live = live[size[live] > 0]
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return Runs(none, none, np.zeros(0, dtype=np.int32))
    number, head, count = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Runs.sorted(number, head, count.astype(np.int32), len(size))


def _scan_with_swaps(array: Ints, size: Ints, live: Ints) -> tuple[Ints, Ints]:
    """Take one list from each array (6.1): an object that is taken swaps with the lowest staying.

    `size` becomes what is left.
    """
    size[live] -= 1
    head = array[live, size[live]]
    count = np.ones(len(live), dtype=np.int64)
    left = np.full(len(live), LOOKAHEAD)
    place = size[live] - 1
    going = (place >= 0).nonzero()[0]
    while len(going):
        who = live[going]
        same = array[who, place[going]] == head[going]
        taken = going[same]
        count[taken] += 1
        size[live[taken]] -= 1
        lowest = size[live[taken]]
        array[live[taken], place[taken]] = array[live[taken], lowest]
        array[live[taken], lowest] = head[taken]
        left[going[~same]] -= 1
        place[going] -= 1
        going = going[(place[going] >= 0) & (left[going] > 0)]
    return head, count


def _scan_with_holes(array: Ints, size: Ints, live: Ints) -> tuple[Ints, Ints]:
    """Take one list from each array (5.10): taken objects leave holes.

    `size` becomes one more than the place of the first object that was skipped.
    """
    head = np.full(len(live), _HOLE)
    count = np.zeros(len(live), dtype=np.int64)
    left = np.full(len(live), LOOKAHEAD)
    skipped = np.zeros(len(live), dtype=np.int64)
    place = size[live] - 1
    going = np.arange(len(live))
    while len(going):
        found = array[live[going], place[going]]
        solid = found != _HOLE
        first = solid & (head[going] == _HOLE)
        head[going[first]] = found[first]
        same = solid & (found == head[going])
        taken = going[same]
        count[taken] += 1
        array[live[taken], place[taken]] = _HOLE
        other = going[solid & ~same]
        skipped[other] = np.where(skipped[other] == 0, place[other] + 1, skipped[other])
        left[other] -= 1
        place[going] -= 1
        going = going[(place[going] >= 0) & (left[going] > 0)]
    size[live] = skipped
    return head, count
