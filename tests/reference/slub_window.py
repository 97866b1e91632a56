"""Requests of several CPUs at once: windows of the scalar reference.

A window holds requests of one kind, in order (by clock, then CPU number; the caller sorts).

Allocation: at most one request per cache and CPU. Each runs on its own until its next shared
action, then waits for the phase of that kind. A round runs the phases in the order of
`Cache.phases`; a phase lets every request that waits for it do exactly one action, in order, and
run on to its next. So a request that reaches a later phase's action takes it in the same round,
one that needs the same or an earlier phase waits for the next. Rounds repeat until all are done.
Requests of several caches share rounds, because caches share pages.

Freeing, cpu slabs: requests are carried out whole, one after the other. Sheaves: the requests of
one CPU and cache form a sequence, which advances in rounds like an allocation; within a phase the
order is that of the request each sequence has reached.

With one CPU at work this is plain sequential execution.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from tests.reference.slub import Cache
from tests.reference.slub_types import KERNEL, Gfp, Obj, Steps, finish

T = TypeVar("T")


class AllocRequest(NamedTuple):
    """Some objects for one CPU."""

    cache: Cache
    cpu: int
    wanted: int
    node: int | None = None
    gfp: Gfp = KERNEL
    bulk: bool = False
    """One kmem_cache_alloc_bulk() call."""


class FreeRequest(NamedTuple):
    """Objects that one CPU gives back."""

    cache: Cache
    cpu: int
    objects: Sequence[Obj]
    bulk: bool = False
    """One kmem_cache_free_bulk() call."""


def alloc_window(requests: Sequence[AllocRequest]) -> list[list[Obj]]:
    """Return the objects that each request got; a bulk request that failed got none."""
    movers = []
    for place, request in enumerate(requests):
        cache, cpu, count = request.cache, request.cpu, request.wanted
        steps: Steps[list[Obj] | None]
        if request.bulk:
            steps = cache.bulk_alloc_steps(cpu, count, request.gfp)
        else:
            steps = cache.alloc_steps(cpu, count, request.node, request.gfp)
        movers.append(_Mover(steps, [place]))
    _run_rounds(requests[0].cache.phases if requests else (), movers)
    return [mover.result or [] for mover in movers]


def free_window(requests: Sequence[FreeRequest]) -> None:
    """Free the objects of all requests."""
    sequences: dict[tuple[int, int], list[tuple[int, FreeRequest]]] = {}
    for place, request in enumerate(requests):
        cache = request.cache
        if cache.policy.generation == "cpu_slabs":
            finish(_free(request))
        else:
            sequences.setdefault((id(cache), request.cpu), []).append((place, request))
    movers = []
    for sequence in sequences.values():
        reached = [sequence[0][0]]
        movers.append(_Mover(_free_in_turn(sequence, reached), reached))
    _run_rounds(requests[0].cache.phases if requests else (), movers)


def _free(request: FreeRequest) -> Steps[None]:
    cache = request.cache
    free = cache.bulk_free_steps if request.bulk else cache.free_steps
    return free(request.cpu, request.objects)


def _free_in_turn(sequence: Sequence[tuple[int, FreeRequest]], reached: list[int]) -> Steps[None]:
    """Carry out one CPU's requests, telling in `reached` which one is under way."""
    for place, request in sequence:
        reached[0] = place
        yield from _free(request)


@dataclass(slots=True)
class _Mover(Generic[T]):
    """An operation under way and what it waits for."""

    steps: Steps[T]
    reached: list[int]
    """One number: the place in the window's order of the request that is under way."""
    waits_for: str | None = None
    result: T | None = None

    def advance(self) -> None:
        """Do one shared action, then everything local up to the next one."""
        try:
            self.waits_for = next(self.steps)
        except StopIteration as end:
            self.waits_for = None
            self.result = end.value


def _run_rounds(phases: Sequence[str], movers: Sequence[_Mover[T]]) -> None:
    """Run rounds of phases until all operations are done."""
    for mover in movers:
        mover.advance()
    while any(mover.waits_for is not None for mover in movers):
        for phase in phases:
            due = [mover for mover in movers if mover.waits_for == phase]
            for mover in sorted(due, key=lambda mover: mover.reached[0]):
                mover.advance()
