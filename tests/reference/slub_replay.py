"""Replay of an op script on the reference, told as the records tell it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from allocator.workloads import script_ops as ops
from tests.reference.slub import Cache
from tests.reference.slub_prefilled import (
    Prefilled,
    alloc_from_sheaf,
    prefill_sheaf,
    refill_sheaf,
    return_sheaf,
)
from tests.reference.slub_sheaves import Sheaves
from tests.reference.slub_snapshot import counts
from tests.reference.slub_types import Obj, Slab


@dataclass(slots=True)
class Seen:
    """What the records' module knows of one cache: slabs it was handed objects of."""

    cache: Cache
    by_rcu: bool
    """TYPESAFE_BY_RCU: pages outlive their slab by a grace period, and are seen until then."""
    slabs: list[Slab] = field(default_factory=list)
    """By number: the order in which their first objects were handed out."""
    numbers: dict[Slab, int] = field(default_factory=dict)
    live: dict[Slab, int] = field(default_factory=dict)
    """Ids held of each slab."""
    placed: dict[int, int] = field(default_factory=dict)
    """Ids given since the last snapshot, and the number of their slab."""
    gone: set[Slab] = field(default_factory=set)
    """Slabs that are known to be gone."""
    told_gone: set[Slab] = field(default_factory=set)

    def gave(self, number: int, obj: Obj) -> None:
        """Note that an object was handed out."""
        if obj.slab not in self.numbers:
            self.numbers[obj.slab] = len(self.slabs)
            self.slabs.append(obj.slab)
        self.live[obj.slab] = self.live.get(obj.slab, 0) + 1
        self.placed[number] = self.numbers[obj.slab]

    def reap(self, *, grace_period: bool = False) -> None:
        """Notice slabs whose pages were given back."""
        if grace_period or not self.by_rcu:
            self.gone.update(slab for slab in self.slabs if not slab.alive)


class Replay:
    """Carries a script out, one operation at a time.

    Parameters
    ----------
    create
        Makes a cache.
    cpus
        CPUs of the machine; the last one shrinks where a script names none.
    flush_order
        Order in which the CPUs' flush works run.
    other
        Carries out the page allocator's operations; what it returns becomes a result.
    """

    def __init__(
        self,
        create: Callable[[ops.CreateCache], Cache],
        cpus: int,
        *,
        flush_order: Sequence[int] | None = None,
        other: Callable[[ops.Op], dict[str, Any] | None] | None = None,
    ) -> None:
        self.create = create
        self.cpus = cpus
        self.flush_order = flush_order
        self.other = other
        self.caches: dict[str, Seen] = {}
        self.held: dict[int, Obj] = {}
        self.sheaves: dict[int, Prefilled | None] = {}
        self.results: list[dict[str, Any]] = []
        self.snapshots: list[dict[str, Any]] = []

    def run(self, script: Sequence[ops.Op]) -> list[dict[str, Any]]:
        """Carry out all operations and return the snapshots."""
        for op in script:
            self.step(op)
        return self.snapshots

    def step(self, op: ops.Op) -> None:
        """Carry out one operation."""
        match op:
            case ops.CreateCache():
                self.caches[op.cache] = Seen(self.create(op), "TYPESAFE_BY_RCU" in op.flags)
            case ops.Alloc():
                self.alloc(op)
            case ops.BulkAlloc():
                self.bulk_alloc(op)
            case ops.Free():
                self.free(op)
            case ops.BulkFree():
                self.bulk_free(op)
            case ops.FreeRcu():
                seen = self.caches[op.cache]
                seen.cache.kfree_rcu(op.cpu, self.release(seen, list(op.ids)))
            case ops.SheafOp():
                self.on_sheaf(op)
            case ops.Shrink():
                cpu = self.cpus - 1 if op.cpu is None else op.cpu
                self.caches[op.cache].cache.shrink(cpu, self.flush_order)
            case ops.Destroy():
                self.destroy(op.cache)
            case ops.Reset():
                for name in list(self.caches):
                    self.destroy(name)
            case ops.Sysfs():
                error = self.caches[op.cache].cache.write_sysfs(op.attribute, op.value)
                if error:
                    what = f"{op.cache}/{op.attribute}={op.value}"
                    self.snapshots.append({"label": "sysfs-failed", "what": what, "errno": error})
            case ops.Snap():
                self.snap(op.label)
            case ops.Sleep():  # scripts without one end before a grace period does
                for seen in self.caches.values():
                    seen.cache.end_grace_period()
                    seen.reap(grace_period=True)
                if self.other is not None:
                    self.other(op)
            case _ if self.other is not None:
                result = self.other(op)
                if result is not None:
                    self.results.append(result)
            case _:
                raise NotImplementedError(f"line {op.line}: no page allocator")

    def alloc(self, op: ops.Alloc) -> None:
        seen = self.caches[op.cache]
        objects = seen.cache.alloc(op.cpu, op.count, op.node, frozenset(op.gfp))
        self.keep(seen, op.first, objects)
        if len(objects) < op.count:
            self.results.append(
                {
                    "op": "alloc",
                    "cache": op.cache,
                    "first": op.first,
                    "asked": op.count,
                    "ok": len(objects),
                }
            )

    def bulk_alloc(self, op: ops.BulkAlloc) -> None:
        seen = self.caches[op.cache]
        for done in range(0, op.count, op.batch):
            objects = seen.cache.bulk_alloc(op.cpu, min(op.batch, op.count - done))
            if objects is None:
                result = {"op": "balloc", "first": op.first, "asked": op.count, "ok": done}
                self.results.append(result)
                return
            self.keep(seen, op.first + done, objects)

    def free(self, op: ops.Free) -> None:
        seen = self.caches[op.cache]
        ids = [number for number in op.ids if number in self.held]
        if len(ids) < len(op.ids):  # memory had run out; a list is freed up to the missing id
            missing = next(number for number in op.ids if number not in self.held)
            if isinstance(op.ids, range):
                self.results.append({"err": f"free: id {missing} is not live"})
                return
            self.results.append({"err": f"freel: bad id {missing}"})
            ids = list(op.ids[: op.ids.index(missing)])
        seen.cache.free(op.cpu, self.release(seen, ids))

    def bulk_free(self, op: ops.BulkFree) -> None:
        seen = self.caches[op.cache]
        missing = [number for number in op.ids if number not in self.held]
        if missing:
            self.results.append({"err": f"bulk: id {missing[0]} in the wrong state"})
            return
        for done in range(0, len(op.ids), op.batch):
            seen.cache.bulk_free(op.cpu, self.release(seen, op.ids[done : done + op.batch]))

    def on_sheaf(self, op: ops.SheafOp) -> None:
        """Operations on sheaves that the script holds."""
        seen = self.caches[op.cache]
        cache, told = seen.cache, {"sheaf": op.sheaf}
        assert isinstance(cache, Sheaves)
        if isinstance(op, ops.PrefillSheaf):
            sheaf = prefill_sheaf(cache, op.cpu, op.size)
            self.sheaves[op.sheaf] = sheaf
            told |= {"op": "prefill_sheaf", "asked": op.size}
            self.results.append(told | {"size": len(sheaf.objects) if sheaf else -1})
            return
        sheaf = self.sheaves[op.sheaf]
        if sheaf is None:
            word = {ops.AllocFromSheaf: "alloc_from", ops.RefillSheaf: "refill"}.get(type(op))
            word = f"{word or 'return'}_sheaf"
            self.results.append({"err": f"{word}: sheaf {op.sheaf} in the wrong state"})
        elif isinstance(op, ops.AllocFromSheaf):
            objects = alloc_from_sheaf(sheaf, op.count)
            self.keep(seen, op.first, objects)
            if len(objects) < op.count:
                told |= {"op": "alloc_from_sheaf", "first": op.first, "asked": op.count}
                self.results.append(told | {"ok": len(objects)})
        elif isinstance(op, ops.RefillSheaf):
            sheaf, done = refill_sheaf(cache, op.cpu, sheaf, op.size)
            self.sheaves[op.sheaf] = sheaf
            told |= {"op": "refill_sheaf", "asked": op.size, "errno": 0 if done else -12}
            self.results.append(told | {"size": len(sheaf.objects)})
        else:
            return_sheaf(cache, op.cpu, sheaf)

    def destroy(self, name: str) -> None:
        seen = self.caches.pop(name)
        self.held = {n: obj for n, obj in self.held.items() if obj.slab not in seen.numbers}

    def keep(self, seen: Seen, first: int, objects: Sequence[Obj]) -> None:
        """Note objects under consecutive ids."""
        for number, obj in enumerate(objects, start=first):
            self.held[number] = obj
            seen.gave(number, obj)

    def release(self, seen: Seen, ids: Sequence[int]) -> list[Obj]:
        """Give up ids."""
        objects = [self.held.pop(number) for number in ids]
        for obj in objects:
            seen.live[obj.slab] -= 1
        return objects

    def snap(self, label: str) -> None:
        """Tell counters and placement."""
        for seen in self.caches.values():
            seen.reap()
        self.snapshots.append(
            {
                "label": label,
                "results": self.results,
                "caches": {
                    name: {
                        "counts": counts(seen.cache),
                        "stats": {name: n for name, n in seen.cache.stats.items() if n},
                    }
                    for name, seen in self.caches.items()
                },
                "place": {
                    "placed": {name: _placed(seen) for name, seen in self.caches.items()},
                    "slabs": {name: _slabs(seen) for name, seen in self.caches.items()},
                    "gone": {name: _gone(seen) for name, seen in self.caches.items()},
                },
            }
        )
        self.results = []


def _placed(seen: Seen) -> list[list[int]]:
    """Return [first id, count, slab] of ids given since the last snapshot, and forget them."""
    runs: list[list[int]] = []
    for number, slab in sorted(seen.placed.items()):
        if runs and runs[-1][0] + runs[-1][1] == number and runs[-1][2] == slab:
            runs[-1][1] += 1
        else:
            runs.append([number, 1, slab])
    seen.placed.clear()
    return runs


def _slabs(seen: Seen) -> list[list[int]]:
    """Return [slab, how many alike, node, objects, live, inuse, frozen] of slabs that exist."""
    runs: list[list[int]] = []
    for number, slab in enumerate(seen.slabs):
        if slab in seen.gone:
            continue
        what = [slab.node, slab.objects, seen.live[slab], slab.inuse, int(slab.frozen)]
        if runs and runs[-1][0] + runs[-1][1] == number and runs[-1][2:] == what:
            runs[-1][1] += 1
        else:
            runs.append([number, 1, *what])
    return runs


def _gone(seen: Seen) -> list[int]:
    """Return slabs given back since the last snapshot."""
    gone = [slab for slab in seen.slabs if slab in seen.gone - seen.told_gone]
    seen.told_gone.update(gone)
    return [seen.numbers[slab] for slab in gone]
