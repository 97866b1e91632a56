"""Which slabs are kept and which discarded, when the events of a window meet at node lists.

Whether an empty slab is discarded depends on nr_partial at that moment (mm/slub.c __slab_free(),
deactivate_slab(), __unfreeze_partials()), and each decision changes nr_partial for the next. The
events of a list are therefore decided in order: guess all, sum up, correct, until nothing changes.
Every round settles at least the first wrong guess of each list; two or three rounds are usual.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class ListEvent(IntEnum):
    """What one event asks of a node list."""

    ADD = 0
    """A slab with objects in use is added."""
    ADD_EMPTY = 1
    """An empty slab is added, or discarded if the list is long enough."""
    REMOVE_EMPTY = 2
    """A listed slab became empty: it is removed and discarded, or stays if the list is short."""


def decide(
    kind: NDArray[np.int8],
    start: NDArray[np.int64],
    nr_partial: NDArray[np.int64],
    threshold: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Decide events that are sorted by list and, within a list, by time.

    Parameters
    ----------
    kind
        (event,) `ListEvent`.
    start
        (event,) index of the first event of the same list.
    nr_partial
        (event,) length of the event's list before the first of its events.
    threshold
        (event,) nr_partial from which on empty slabs are discarded.

    Returns
    -------
    NDArray
        (event,) whether it changes the list: the slab is added, or removed.
    """
    happens = np.ones(len(kind), dtype=bool)
    removal = kind == ListEvent.REMOVE_EMPTY
    asking = (kind != ListEvent.ADD).nonzero()[0]
    if not len(asking):
        return happens
    step = np.where(removal, -1, 1)
    wants_long = removal[asking]
    happens[asking] = (nr_partial[asking] >= threshold[asking]) == wants_long
    while True:
        change = step * happens
        before = np.cumsum(change) - change
        now = nr_partial[asking] + before[asking] - before[start[asking]]
        decided = (now >= threshold[asking]) == wants_long
        if np.array_equal(decided, happens[asking]):
            return happens
        happens[asking] = decided
