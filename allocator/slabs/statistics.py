"""What SLUB counts: CONFIG_SLUB_STATS per cache, list_lock and slab updates per node.

include/linux/slub_def.h enum stat_item (mm/slub.c from 6.x); the names here are the kernel's, in
lower case as under /sys/kernel/slab/CACHE/.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.policy import SlabPolicy

Ints = NDArray[np.int64]


class Stat(IntEnum):
    """One counter of CONFIG_SLUB_STATS."""

    ALLOC_FASTPATH = 0
    ALLOC_SLOWPATH = 1
    FREE_FASTPATH = 2
    FREE_SLOWPATH = 3
    FREE_FROZEN = 4
    FREE_ADD_PARTIAL = 5
    FREE_REMOVE_PARTIAL = 6
    ALLOC_FROM_PARTIAL = 7
    ALLOC_SLAB = 8
    ALLOC_REFILL = 9
    ALLOC_NODE_MISMATCH = 10
    FREE_SLAB = 11
    CPUSLAB_FLUSH = 12
    DEACTIVATE_FULL = 13
    DEACTIVATE_EMPTY = 14
    DEACTIVATE_TO_HEAD = 15
    DEACTIVATE_TO_TAIL = 16
    DEACTIVATE_REMOTE_FREES = 17
    DEACTIVATE_BYPASS = 18
    ORDER_FALLBACK = 19
    CMPXCHG_DOUBLE_CPU_FAIL = 20
    CMPXCHG_DOUBLE_FAIL = 21
    CPU_PARTIAL_ALLOC = 22
    CPU_PARTIAL_FREE = 23
    CPU_PARTIAL_NODE = 24
    CPU_PARTIAL_DRAIN = 25
    FREE_RCU_SHEAF = 26
    FREE_RCU_SHEAF_FAIL = 27
    SHEAF_FLUSH = 28
    SHEAF_REFILL = 29
    SHEAF_ALLOC = 30
    SHEAF_FREE = 31
    BARN_GET = 32
    BARN_GET_FAIL = 33
    BARN_PUT = 34
    BARN_PUT_FAIL = 35
    SHEAF_PREFILL_FAST = 36
    SHEAF_PREFILL_SLOW = 37
    SHEAF_PREFILL_OVERSIZE = 38
    SHEAF_RETURN_FAST = 39
    SHEAF_RETURN_SLOW = 40


NR_STATS = len(Stat)

_ALL = frozenset(
    {
        Stat.ALLOC_FASTPATH,
        Stat.ALLOC_SLOWPATH,
        Stat.FREE_FASTPATH,
        Stat.FREE_SLOWPATH,
        Stat.FREE_ADD_PARTIAL,
        Stat.FREE_REMOVE_PARTIAL,
        Stat.ALLOC_SLAB,
        Stat.ALLOC_NODE_MISMATCH,
        Stat.FREE_SLAB,
        Stat.ORDER_FALLBACK,
        Stat.CMPXCHG_DOUBLE_FAIL,
    }
)
_SHEAVES = frozenset(stat for stat in Stat if stat >= Stat.FREE_RCU_SHEAF)


def stats_of(policy: SlabPolicy) -> tuple[Stat, ...]:
    """Return the counters that a kernel has (slub.md 8)."""
    if policy.generation == "sheaves":
        return tuple(stat for stat in Stat if stat in _ALL | _SHEAVES)
    return tuple(stat for stat in Stat if stat not in _SHEAVES)


class Statistics:
    """Counters of a batch.

    Parameters
    ----------
    rows
        Number of rows.
    nodes
        Nodes of each lane.
    """

    def __init__(self, rows: int, nodes: int) -> None:
        self.stats: NDArray[np.int64] = np.zeros((NR_STATS, rows), dtype=np.int64)
        """(Stat, row): events since the start."""
        self.list_locks: NDArray[np.int64] = np.zeros(rows * nodes, dtype=np.int64)
        """(row * nodes + node,): acquisitions of list_lock."""
        self.list_units: NDArray[np.int64] = np.zeros(rows * nodes, dtype=np.int64)
        """(row * nodes + node,): slabs handled under list_lock."""
        self.slab_updates: NDArray[np.int64] = np.zeros(rows * nodes, dtype=np.int64)
        """(row * nodes + node,): atomic updates of a slab's freelist word, by the slab's node."""
        self.barn_locks: NDArray[np.int64] = np.zeros(rows * nodes, dtype=np.int64)
        """(row * nodes + node,): acquisitions of the barn's lock (7.x)."""
        self.by_cpu: NDArray[np.int64] | None = None
        """(Stat, row, cpu): the same as `stats` by the CPU that counted; None: not kept."""

    def keep_by_cpu(self, cpus: int) -> None:
        """Keep counters by CPU from now on; `charge()` says whose they are."""
        self.by_cpu = np.zeros((*self.stats.shape, cpus), dtype=np.int64)

    def charge(self, cpu: int) -> None:
        """Charge what was counted since the last time to a CPU, if that is kept."""
        if self.by_cpu is not None:
            self.by_cpu[:, :, cpu] += self.stats - self.by_cpu.sum(axis=2)

    def add(self, stat: Stat, row: Ints, amount: Ints | int = 1) -> None:
        """Count an event at each entry of `row`, `amount` times."""
        np.add.at(self.stats[stat], row, amount)

    def lock(self, where: Ints, units: Ints | int = 1) -> None:
        """Count one list_lock acquisition at each entry of `where`, `units` slabs under it."""
        np.add.at(self.list_locks, where, 1)
        np.add.at(self.list_units, where, units)

    def update(self, where: Ints, times: Ints | int = 1) -> None:
        """Count `times` slab updates at each entry of `where`."""
        np.add.at(self.slab_updates, where, times)
