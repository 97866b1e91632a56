"""Operations of a script on sheaves that it holds (kmem_cache_prefill_sheaf() and its like)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from allocator.errors import ConfigError
from allocator.kernel import Kernel
from allocator.slabs.held_sheaves import NO_SHEAF
from allocator.slabs.slub import Slub
from allocator.slabs.window import Runs
from allocator.workloads.script import Script
from allocator.workloads.script_ops import (
    AllocFromSheaf,
    PrefillSheaf,
    RefillSheaf,
    ReturnSheaf,
    SheafOp,
)

Ints = NDArray[np.int64]
Result = dict[str, object]
ENOMEM = 12
"""errno of a refill that memory was not enough for."""


def refuse_without_sheaves(script: Script, kernel: Kernel) -> None:
    """Refuse operations on sheaves where the kernel has none.

    Raises
    ------
    ConfigError
        With the first such line.
    """
    if kernel.slab.generation == "sheaves":
        return
    for op in script.ops:
        if isinstance(op, SheafOp):
            found = f"sheaf {op.sheaf} of {op.cache}"
            expected = f"a kernel with sheaves, which {kernel.name} is not"
            raise ConfigError(f"{script.source}:{op.line}", found, expected)


class ScriptSheaves:
    """Sheaves of one cache name and number, in all lanes.

    Parameters
    ----------
    slub
        The engine.
    results
        What each lane's operations told; more is added.
    keep
        Called with cache, first id, ids and runs (request: lane) of objects handed out; returns how
        many each lane got.
    """

    def __init__(
        self,
        slub: Slub,
        results: list[list[Result]],
        keep: Callable[[int, int, int, Runs], Ints],
    ) -> None:
        self.slub, self.results, self.keep = slub, results, keep
        self.held: dict[int, Ints] = {}
        """By number in the script: (lane,) number in the engine, `NO_SHEAF` where there is none."""

    def carry_out(self, op: SheafOp, cache: int, rows: Ints) -> None:
        """Carry out an operation in all lanes; `rows` are those of the cache, (lane,)."""
        if isinstance(op, PrefillSheaf):
            cpus, size = np.full_like(rows, op.cpu), np.full_like(rows, op.size)
            self.held[op.sheaf] = self.slub.prefill_sheaf(rows, cpus, size)
            for lane, number in enumerate(self.held[op.sheaf].tolist()):
                size_now = -1 if number == NO_SHEAF else self._size(number)
                self._tell(lane, op="prefill_sheaf", sheaf=op.sheaf, asked=op.size, size=size_now)
            return
        lanes = (self.held[op.sheaf] != NO_SHEAF).nonzero()[0]
        for lane in np.setdiff1d(np.arange(len(rows)), lanes).tolist():
            self._tell(lane, err=f"{_WORDS[type(op)]}: sheaf {op.sheaf} in the wrong state")
        cpus, number = np.full_like(lanes, op.cpu), self.held[op.sheaf][lanes]
        if isinstance(op, AllocFromSheaf):
            self._alloc(op, cache, lanes, number)
        elif isinstance(op, RefillSheaf):
            size = np.full_like(lanes, op.size)
            number, done = self.slub.refill_sheaf(rows[lanes], cpus, number, size)
            self.held[op.sheaf][lanes] = number
            for lane, one, good in zip(lanes.tolist(), number.tolist(), done.tolist(), strict=True):
                told = {"op": "refill_sheaf", "sheaf": op.sheaf, "asked": op.size}
                self._tell(lane, **told, errno=0 if good else -ENOMEM, size=self._size(one))
        elif isinstance(op, ReturnSheaf):
            self.slub.return_sheaf(rows[lanes], cpus, number)
            del self.held[op.sheaf]

    def _alloc(self, op: AllocFromSheaf, cache: int, lanes: Ints, number: Ints) -> None:
        runs = self.slub.alloc_from_sheaf(number, np.full_like(lanes, op.count))
        every = Runs(lanes[runs.request], runs.slab, runs.count)
        got = self.keep(cache, op.first, op.count, every)
        for lane in lanes[got[lanes] < op.count].tolist():
            told = {"op": "alloc_from_sheaf", "sheaf": op.sheaf, "first": op.first}
            self._tell(lane, **told, asked=op.count, ok=int(got[lane]))

    def _size(self, number: int) -> int:
        return int(self.slub.state.held.size[number])

    def _tell(self, lane: int, **told: object) -> None:
        self.results[lane].append(told)


_WORDS = {
    AllocFromSheaf: "alloc_from_sheaf",
    RefillSheaf: "refill_sheaf",
    ReturnSheaf: "return_sheaf",
}
