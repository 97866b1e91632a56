"""Grouping of objects of a bulk free: build_detached_freelist() [6.2]."""

from collections.abc import Iterator, Sequence

from allocator.slabs.policy import SlabPolicy
from tests.reference.slub_types import Obj

LOOKAHEAD = 3
"""The scan ends at the third object of another slab."""


def detached_freelists(policy: SlabPolicy, objects: Sequence[Obj]) -> Iterator[list[Obj]]:
    """Yield lists of objects of one slab each; every list is freed in one go."""
    if policy.bulk_free_scan == "holes":
        yield from _with_holes(objects)
    else:
        yield from _with_swaps(objects)


def _with_holes(objects: Sequence[Obj]) -> Iterator[list[Obj]]:
    """5.10: taken places become holes, which the scan passes over."""
    array: list[Obj | None] = list(objects)
    size = len(array)
    while size:
        while size and array[size - 1] is None:
            size -= 1
        if not size:
            return
        group: list[Obj] = []
        first_skipped = 0  # size of the array for the next scan
        lookahead = LOOKAHEAD
        for place in range(size - 1, -1, -1):
            item = array[place]
            if item is None:
                continue
            if not group or item.slab is group[0].slab:
                group.append(item)
                array[place] = None
                continue
            first_skipped = first_skipped or place + 1
            lookahead -= 1
            if not lookahead:
                break
        size = first_skipped
        yield group


def _with_swaps(objects: Sequence[Obj]) -> Iterator[list[Obj]]:
    """6.1: an object that is taken changes places with the lowest of those that stay."""
    array = list(objects)
    size = len(array)
    while size:
        size -= 1
        group = [array[size]]
        lookahead = LOOKAHEAD
        for place in range(size - 1, -1, -1):
            if array[place].slab is group[0].slab:
                group.append(array[place])
                size -= 1
                array[place], array[size] = array[size], array[place]
                continue
            lookahead -= 1
            if not lookahead:
                break
        yield group
