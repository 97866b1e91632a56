"""Executors of the tests: no model, failures from a table, calls counted."""

import hashlib
from collections import Counter

import numpy as np

from allocator.results import Results, Status, Table
from allocator.simulate import Tasks
from allocator.streams import content_key
from sweep.executors import Done, Fault


def fake_results(tasks: Tasks) -> Results:
    """Return results that depend on each lane's own configuration, seed and replicate only."""
    names = list(tasks.tables)
    drawn, orders = [], []
    for row, replicate in zip(tasks.index.tolist(), tasks.replicate.tolist(), strict=True):
        config = {name: tasks.tables[name][i] for name, i in zip(names, row, strict=True)}
        slab = {k: v for k, v in config["slab"].items() if k != "min_order"}
        key = content_key([slab, config["workload"], config["kernel"], replicate, tasks.seed])
        drawn.append(np.random.default_rng(key).random())
        orders.append(config["slab"]["max_order"] or 0)
    order = np.array(orders, dtype=np.int64)
    return Results(
        scalars={"throughput": np.array(drawn), "operations": order * 10},
        tables={
            "nodes": Table(
                labels=("node10", "node9"), values={"pages": np.stack([order, order + 1], axis=1)}
            )
        },
        status=np.full(len(drawn), Status.OK, dtype=np.int8),
    )


class TableExecutor:
    """Ends tasks in a seeded random order; which calls fail is in a table."""

    def __init__(
        self,
        *,
        workers: int = 2,
        faults: dict[int, Fault] | None = None,
        poison: int | None = None,
        seed: int = 0,
        interrupt_at: int | None = None,
    ) -> None:
        self._workers, self._faults, self._poison = workers, faults or {}, poison
        self._rng = np.random.default_rng(seed)
        self._waiting: list[tuple[int, Tasks]] = []
        self._interrupt_at = interrupt_at
        self.calls = 0
        self.simulated: Counter[str] = Counter()
        self.most_waiting = 0
        self.closed = False

    def workers(self) -> int:
        return self._workers

    def submit(self, number: int, tasks: Tasks) -> None:
        self._waiting.append((number, tasks))
        self.most_waiting = max(self.most_waiting, len(self._waiting))

    def next_done(self, timeout: float) -> list[Done]:
        if not self._waiting or timeout <= 0:
            return []
        self.calls += 1
        if self.calls == self._interrupt_at:
            raise KeyboardInterrupt
        number, tasks = self._waiting.pop(int(self._rng.integers(len(self._waiting))))
        orders = [tasks.tables["slab"][row[3]]["max_order"] for row in tasks.index.tolist()]
        if self._poison is not None and self._poison in orders:
            return [Done(number=number, fault=Fault.DIED, text="killed")]
        if self.calls in self._faults:
            return [Done(number=number, fault=self._faults[self.calls], text="lost")]
        for row, replicate in zip(tasks.index.tolist(), tasks.replicate.tolist(), strict=True):
            config = [str(t[i]) for t, i in zip(tasks.tables.values(), row, strict=True)]
            text = f"{config} {replicate} {tasks.seed}"
            self.simulated[hashlib.md5(text.encode()).hexdigest()] += 1
        seconds = 0.001 * len(tasks.replicate)
        return [Done(number=number, results=fake_results(tasks), seconds=seconds)]

    def close(self) -> bool:
        self.closed = True
        return True
