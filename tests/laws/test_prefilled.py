"""Sheaves in callers' hands: the vectorised SLUB equals the scalar one."""

import random
from dataclasses import dataclass

import numpy as np
import pytest

from allocator.kernels import kernel_named
from allocator.slabs.held_sheaves import NO_SHEAF
from tests.laws.slub_twin import Twin
from tests.reference.slub_build import machine, shape
from tests.reference.slub_prefilled import (
    Prefilled,
    alloc_from_sheaf,
    prefill_sheaf,
    refill_sheaf,
    return_sheaf,
)
from tests.reference.slub_sheaves import Sheaves


@dataclass
class Held:
    """One sheaf, by number of the engine and as the reference has it."""

    row: int
    number: int
    sheaf: Prefilled


class Holder:
    """Takes sheaves from engine and references, of several rows at once."""

    def __init__(self, twin: Twin) -> None:
        self.twin, self.held = twin, list[Held]()

    def reference(self, row: int) -> Sheaves:
        cache = self.twin.rows[row].cache
        assert isinstance(cache, Sheaves)
        return cache

    def prefill(self, rows: list[int], cpus: list[int], sizes: list[int]) -> None:
        told = self.twin.slub.prefill_sheaf(np.array(rows), np.array(cpus), np.array(sizes))
        for row, cpu, size, number in zip(rows, cpus, sizes, told.tolist(), strict=True):
            sheaf = prefill_sheaf(self.reference(row), cpu, size)
            assert (sheaf is None) == (number == NO_SHEAF)
            if sheaf is not None:
                self.held.append(Held(row, number, sheaf))

    def use(self, one: Held, count: int) -> None:
        runs = self.twin.slub.alloc_from_sheaf(np.array([one.number]), np.array([count]))
        objects = alloc_from_sheaf(one.sheaf, count)
        self.twin._hand_out([(one.row,)], [objects], runs.request, runs.slab, runs.count)

    def refill(self, one: Held, cpu: int, size: int) -> None:
        rows, number = np.array([one.row]), np.array([one.number])
        told, done = self.twin.slub.refill_sheaf(rows, np.array([cpu]), number, np.array([size]))
        one.sheaf, good = refill_sheaf(self.reference(one.row), cpu, one.sheaf, size)
        assert done[0] == good
        one.number = int(told[0])

    def give_back(self, some: list[Held], cpu: int) -> None:
        rows, numbers = ([getattr(one, name) for one in some] for name in ("row", "number"))
        self.twin.slub.return_sheaf(np.array(rows), np.full(len(some), cpu), np.array(numbers))
        for one in some:
            return_sheaf(self.reference(one.row), cpu, one.sheaf)
            self.held.remove(one)

    def check(self) -> None:
        self.twin.check()
        held = self.twin.slub.state.held
        assert sorted(held.row[held.row >= 0]) == sorted(one.row for one in self.held)
        for one in self.held:
            number = np.array([one.number])
            assert held.capacity[one.number] == one.sheaf.capacity
            slabs = held.objects(number).tolist()
            for slab, obj in zip(slabs, one.sheaf.objects, strict=True):
                self.twin._same(self.twin.rows[one.row], slab, obj.slab)


@pytest.mark.parametrize("limit", [None, 6])
@pytest.mark.parametrize("seed", range(8))
def test_engine_equals_reference(seed: int, limit: int | None) -> None:
    draw = random.Random(seed)
    sizes = [draw.choice((2, 3, 5)), draw.choice((0, 2, 4))]
    caches = [[shape(objects=draw.choice((3, 8)), sheaf_capacity=size) for size in sizes]] * 2
    topology = machine((2, 2), (True, True))
    twin = Twin(kernel_named("v7_3"), [topology] * 2, caches, limits=[limit] * 2)
    holder = Holder(twin)
    for _ in range(200):
        row, cpu = draw.randrange(4), draw.randrange(4)
        op = draw.choice(("prefill", "prefill", "use", "refill", "return", "alloc", "free", "rcu"))
        objects = range(len(twin.rows[row].held))
        if op == "prefill":
            rows = draw.sample(range(4), draw.randrange(1, 5))
            cpus = [draw.randrange(4) for _ in rows]
            holder.prefill(rows, cpus, [draw.randrange(1, 8) for _ in rows])
        elif op == "alloc":
            twin.alloc([(row, cpu, draw.randrange(1, 30), -1)])
        elif op in ("free", "rcu") and objects:
            places = draw.sample(objects, draw.randrange(1, len(objects) + 1))
            if op == "free":
                twin.free([(row, cpu, places)])
            else:
                twin.kfree_rcu(row, cpu, places)
                twin.end_grace_period()
        elif holder.held:
            one = draw.choice(holder.held)
            if op == "use":
                holder.use(one, draw.randrange(1, 9))
            elif op == "refill":
                holder.refill(one, cpu, draw.randrange(1, 10))
            else:
                some = {each.row: each for each in holder.held}
                holder.give_back(list(some.values()) if draw.random() < 0.5 else [one], cpu)
        holder.check()
    told = [row.cache.stats for row in twin.rows]
    for stat in ("PREFILL_FAST", "PREFILL_SLOW", "PREFILL_OVERSIZE", "RETURN_FAST", "RETURN_SLOW"):
        assert any(stats[f"SHEAF_{stat}"] for stats in told)
