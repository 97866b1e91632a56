"""Line transfer times of a batch: one table per machine, looked up by lane and CPUs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allocator.layout import Layout
from allocator.machine import Machine, pair_class

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Transfers:
    """Time to move a cache line between two CPUs of a lane."""

    def __init__(self, machines: Sequence[Machine], layouts: Sequence[Layout]) -> None:
        """Build one table per distinct machine.

        Parameters
        ----------
        machines, layouts
            Machine of each lane, and where its CPUs sit. All have the same CPUs and nodes.
        """
        tables: list[Floats] = []
        known: dict[tuple[int, int], int] = {}
        which = []
        for machine, layout in zip(machines, layouts, strict=True):
            key = (id(machine), id(layout))
            if key not in known:
                known[key] = len(tables)
                tables.append(_table(machine, layout))
            which.append(known[key])
        self._table = np.stack(tables)
        self._which = np.array(which, dtype=np.int64)

    def between(self, lane: Ints, cpu_a: Ints, cpu_b: Ints, home: Ints) -> Floats:
        """Return ns, one way, by shape of the arguments.

        `cpu_a` may be negative (nobody has the line), `home` too (no home penalty): then the time
        is 0, or that of a line homed near.
        """
        return self._table[self._which[lane], cpu_a + 1, cpu_b, home + 1]

    def mean_to(self) -> Floats:
        """Return (lane, cpu, node) ns: a line homed on `node` that any other CPU had last."""
        cpus = self._table.shape[2]
        others: Floats = self._table[:, 1:, :, 1:].sum(axis=1) / max(cpus - 1, 1)
        result: Floats = others[self._which]
        return result


def _table(machine: Machine, layout: Layout) -> Floats:
    """Return (CPU a or none, CPU b, home node or none) ns."""
    cpus, nodes = len(layout.core), len(layout.socket_of_node)
    a = np.arange(-1, cpus, dtype=np.int64)[:, None, None]
    b = np.arange(cpus, dtype=np.int64)[None, :, None]
    home = np.arange(-1, nodes, dtype=np.int64)[None, None, :]
    a, b, home = np.broadcast_arrays(a, b, home)
    return machine.transfer_table()[pair_class(layout, a, b, home)]
