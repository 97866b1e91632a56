"""How fragmented free memory is: the kernel's three measures of a zone's free blocks.

mm/vmstat.c __fragmentation_index(), unusable_free_index(), extfrag_for_order(); all in integers.
"""

from collections.abc import Sequence


def _sums(counts: Sequence[int], order: int) -> tuple[int, int, int]:
    """Return free blocks, free pages, and the blocks of `order` that they could give."""
    blocks = sum(counts)
    pages = sum(count << have for have, count in enumerate(counts))
    suitable = sum(count << have for have, count in enumerate(counts[order:]))
    return blocks, pages, suitable


def extfrag_index(counts: Sequence[int], order: int) -> int:
    """Return why a request fails: 0 lack of memory, 1000 fragmentation; -1000 if it does not.

    Parameters
    ----------
    counts
        Free blocks by order, as /proc/buddyinfo.
    order
        Order of the request.
    """
    blocks, pages, suitable = _sums(counts, order)
    if not blocks:
        return 0
    if suitable:
        return -1000
    return 1000 - (1000 + pages * 1000 // (1 << order)) // blocks


def unusable_index(counts: Sequence[int], order: int) -> int:
    """Return the thousandths of free memory that are no use to requests of an order."""
    _, pages, suitable = _sums(counts, order)
    return (pages - (suitable << order)) * 1000 // pages if pages else 1000


def extfrag_percent(counts: Sequence[int], order: int) -> int:
    """Return the same in percent, 0 for a full zone: what proactive compaction goes by."""
    _, pages, suitable = _sums(counts, order)
    return (pages - (suitable << order)) * 100 // pages if pages else 0
