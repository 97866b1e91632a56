"""The vectorised SLUB equals the scalar reference in every counter, list, sheaf and slab.

Hypothesis draws kernels, machines, caches and windows; one engine runs all lanes at once, each
lane has its own references.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from allocator.kernel import Kernel
from allocator.slabs.geometry import CacheGeometry
from allocator.topology import Topology
from tests.laws.slub_strategies import Step, Window, kernels, machines, picks, shapes, windows
from tests.laws.slub_twin import Twin

EQUAL = settings(
    max_examples=70,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Lanes of one kernel and machine."""

    kernel: Kernel
    topology: Topology
    caches: tuple[tuple[CacheGeometry, ...], ...]
    """Caches of each lane."""
    ratio: int
    limits: tuple[int | None, ...]
    largest_order: tuple[int | None, ...]
    lucky: bool

    def twin(self, lanes: Sequence[int] | None = None) -> Twin:
        """Return engine and references of some lanes."""
        caches = self.caches if lanes is None else [self.caches[lane] for lane in lanes]
        return Twin(
            self.kernel,
            [self.topology] * len(caches),
            caches,
            ratio=self.ratio,
            limits=self.limits,
            largest_order=self.largest_order,
            lucky=self.lucky,
        )


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """One or two lanes with one or two caches each; memory is plenty, scarce or fragmented."""
    kernel, topology = draw(kernels()), draw(machines())
    lanes, caches = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    some = st.one_of(st.none(), st.none(), st.integers(0, 25))
    orders = st.one_of(st.none(), st.none(), st.integers(0, 1))
    return Batch(
        kernel=kernel,
        topology=topology,
        caches=tuple(tuple(draw(shapes(kernel)) for _ in range(caches)) for _ in range(lanes)),
        ratio=draw(st.sampled_from((0, 50, 100, 100))),
        limits=tuple(draw(some) for _ in range(topology.nodes)),
        largest_order=tuple(draw(orders) for _ in range(topology.nodes)),
        lucky=draw(st.booleans()),
    )


@dataclass(frozen=True, slots=True)
class Moves:
    """One window over several rows, or an operation on one."""

    op: str
    steps: tuple[tuple[int, Step], ...]
    """Row and request, in order."""


@st.composite
def moves(draw: st.DrawFn, rows: int, topology: Topology) -> Moves:
    """A window that some rows take part in, or a shrink, offline CPU or write."""
    kind = draw(st.integers(0, 11))
    if kind >= 10:
        cpu, pick = draw(st.integers(0, topology.cpus - 1)), draw(picks(24))
        step = Step(op="kfree_rcu", cpu=cpu, pick=pick)
        return Moves(
            draw(st.sampled_from(("kfree_rcu", "kfree_rcu", "grace"))),
            ((draw(st.integers(0, rows - 1)), step),),
        )
    if kind == 0:
        op = draw(st.sampled_from(("shrink", "offline", "cpu_partial", "min_partial", "ratio")))
        step = Step(
            op=op, cpu=draw(st.integers(0, topology.cpus - 1)), count=draw(st.integers(0, 12))
        )
        return Moves(op, ((draw(st.integers(0, rows - 1)), step),))
    first: Window = draw(windows(topology))
    steps = [(0, step) for step in first.requests]
    for row in range(1, rows):
        other = draw(windows(topology))
        if other.op == first.op:
            steps += [(row, step) for step in other.requests]
    return Moves(first.op, tuple(steps))


def carry_out(twin: Twin, move: Moves) -> None:
    """Let engine and references make a move."""
    row, step = move.steps[0]
    if move.op == "alloc":
        twin.alloc([(r, s.cpu, s.count, -1 if s.node is None else s.node) for r, s in move.steps])
    elif move.op == "balloc":
        twin.bulk_alloc([(r, s.cpu, s.count) for r, s in move.steps])
    elif move.op in ("free", "bfree"):
        taken: dict[int, set[int]] = {}
        requests = []
        for r, s in move.steps:
            gone = taken.setdefault(r, set())
            places = [n for n in s.pick.of(range(len(twin.rows[r].held))) if n not in gone]
            gone.update(places)
            if places:
                requests.append((r, s.cpu, places))
        if requests:
            (twin.free if move.op == "free" else twin.bulk_free)(requests)
    elif move.op == "kfree_rcu":
        places = step.pick.of(range(len(twin.rows[row].held)))
        if places:
            twin.kfree_rcu(row, step.cpu, places)
    elif move.op == "grace":
        twin.end_grace_period()
    elif move.op == "shrink":
        twin.shrink([row])
    elif move.op == "offline":
        twin.offline(row, step.cpu)
    else:
        name = "remote_node_defrag_ratio" if move.op == "ratio" else move.op
        twin.write(row, name, step.count)


@EQUAL
@given(st.data())
def test_every_counter_list_and_slab_equals_the_reference(data):
    batch = data.draw(batches())
    twin = batch.twin()
    for _ in range(data.draw(st.integers(1, 14))):
        move = data.draw(moves(len(twin.rows), batch.topology))
        note(str(move))
        carry_out(twin, move)
        twin.check()


@settings(EQUAL, max_examples=15)
@given(st.data())
def test_a_lane_does_not_feel_the_others_of_its_batch(data):
    """Two lanes together end up as each of them alone."""
    batch = data.draw(batches().filter(lambda b: len(b.caches) == 2))
    both, alone = batch.twin(), [batch.twin([0]), batch.twin([1])]
    caches = len(batch.caches[0])
    for _ in range(data.draw(st.integers(1, 8))):
        move = data.draw(moves(len(both.rows), batch.topology))
        carry_out(both, move)
        for lane, twin in enumerate(alone):
            own = [(r % caches, s) for r, s in move.steps if r // caches == lane]
            if own:
                carry_out(twin, Moves(move.op, tuple(own)))
    for lane, twin in enumerate(alone):
        rows = slice(lane * caches, (lane + 1) * caches)
        assert (
            both.slub.statistics.stats[:, rows] == twin.slub.statistics.stats
        ).all() or not batch.lucky
        twin.check()
