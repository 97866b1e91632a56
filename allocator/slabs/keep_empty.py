"""Which slabs are kept and which discarded, when the events of a window meet at node lists.

Whether an empty slab is discarded depends on nr_partial at that moment (mm/slub.c __slab_free(),
deactivate_slab(), __unfreeze_partials()), and each decision changes nr_partial for the next. The
events of a list are therefore decided in order: guess all, sum up, correct, until nothing changes.
Every round settles at least the first wrong guess of each list; two or three rounds are usual.
"""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Asks = NDArray[np.int8]

ADD = 0
"""A slab is added to its list."""
EMPTY = 1
"""The slab is empty: it is discarded instead if the list is long enough."""
REMOVE_EMPTY = 3
"""A listed slab became empty: it is removed and discarded, or stays if the list is short."""

_KIND = 3  # mask of the above


def decide(ask: Asks, starts: Ints, nr_partial: Ints, threshold: Ints) -> NDArray[np.bool_]:
    """Decide events that are sorted by list and, within a list, by time.

    Parameters
    ----------
    ask
        (event,) what is asked: ADD, EMPTY or REMOVE_EMPTY in the low bits.
    starts
        (list,) first event of each list.
    nr_partial
        (list,) length of each list before the first of its events.
    threshold
        (list,) nr_partial from which on empty slabs are discarded.

    Returns
    -------
    NDArray
        (event,) whether it changes the list: the slab is added, or removed.
    """
    happens = np.ones(len(ask), dtype=bool)
    asking = (ask & EMPTY).view(np.bool_).nonzero()[0]
    if not len(asking):
        return happens
    wants_long = (ask[asking] & _KIND) == REMOVE_EMPTY
    owner = starts.searchsorted(asking, side="right") - 1
    first = asking.searchsorted(starts)[owner]  # among those that ask
    room = threshold[owner] - nr_partial[owner]
    room -= asking - starts[owner] - (np.arange(len(asking)) - first)  # added without asking
    decided = (room <= 0) == wants_long
    sign = np.where(wants_long, -1, 1)
    grown = np.zeros(len(asking) + 1, dtype=np.int64)
    while True:
        (decided * sign).cumsum(out=grown[1:])
        again = (grown[:-1] - grown[first] >= room) == wants_long
        if (again == decided).all():
            happens[asking] = decided
            return happens
        decided = again
