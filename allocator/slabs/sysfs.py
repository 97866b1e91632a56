"""Writes to /sys/kernel/slab/CACHE: parameters that change at run time (mm/slub.c; slub.md 3)."""

import errno
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.geometry import MAX_PARTIAL, MIN_PARTIAL, cpu_partial_slabs
from allocator.slabs.state import State

Ints = NDArray[np.int64]

ATTRIBUTES = ("cpu_partial", "min_partial", "remote_node_defrag_ratio")
"""Files that can be written."""


def write_sysfs(
    state: State, rows: Ints, attribute: str, value: int, flush_all: Callable[[Ints], None]
) -> int:
    """Write a value for some rows.

    Parameters
    ----------
    state
        The batch.
    rows
        (n,) distinct rows.
    attribute
        One of `ATTRIBUTES`.
    value
        0 or more.
    flush_all
        Flushes all CPUs of rows.

    Returns
    -------
    int
        0, or the errno with which the kernel refuses.

    Raises
    ------
    LookupError
        If the attribute is unknown.
    """
    policy = state.policy
    if attribute not in ATTRIBUTES:
        raise LookupError(f"attribute {attribute!r}; known are {', '.join(ATTRIBUTES)}")
    if attribute == "min_partial":
        kept = min(max(value, MIN_PARTIAL), MAX_PARTIAL) if policy.clamps_min_partial else value
        state.rows.min_partial[rows] = kept
        return 0
    if attribute == "remote_node_defrag_ratio":
        if value > 100:
            return errno.ERANGE
        state.rows.defrag_ratio[rows] = 10 * value
        return 0
    if policy.cpu_partial_counts == "none":
        return errno.EINVAL if value else 0
    if value and not policy.config_cpu_partial:
        return errno.EINVAL
    state.rows.cpu_partial[rows] = value
    objects = state.rows.objects[rows]
    state.rows.cpu_partial_slabs[rows] = cpu_partial_slabs(value, objects, policy)
    flush_all(rows)
    return 0
