"""The page allocator twice, product and scalar reference, on machines of a few thousand pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from allocator import gfp as flags
from allocator.kernels import kernel_named
from allocator.pages.alloc import PageAllocator
from allocator.pages.pcp_free import drain_cpu
from allocator.pages.zone import ZONE_NAMES, Zone
from allocator.pages.zones import ZoneMarks
from allocator.workloads.script_ops import gfp_text
from tests.laws.slub_strategies import Pick
from tests.reference import pages_alloc, pages_zone

KERNELS = ("v3_13", "v5_3", "v5_10", "v6_1", "v6_6", "v6_8", "v6_12", "v7_3")
"""One preset of each set of page rules."""
WORDS = (
    "KERNEL",
    "ATOMIC",
    "NOWAIT",
    "HIGH",
    "KERNEL+NORETRY",
    "KERNEL+RETRY_MAYFAIL",
    "KERNEL+RECLAIMABLE",
    "KERNEL+MOVABLE",
    "KERNEL+THISNODE",
    "HIGHUSER_MOVABLE",
    "HIGHUSER_MOVABLE+NORETRY",
    "ATOMIC+MEMALLOC",
    "ATOMIC+MEMALLOC+MOVABLE",
    "ATOMIC+THISNODE",
    "NOWAIT+NOMEMALLOC",
    "NOWAIT+DMA32",
)
"""GFP words of requests."""
CPUS = (0, 1, 2)
SHAPES: tuple[tuple[tuple[int, str, int, int], ...], ...] = (
    ((0, "Normal", 0, 6000),),
    ((0, "DMA32", 0, 4096), (0, "Normal", 4096, 9000)),
    ((0, "DMA32", 0, 5000), (1, "DMA32", 5120, 9000)),
    ((0, "DMA32", 0, 2048), (0, "Normal", 2048, 5120), (1, "Normal", 5120, 9216)),
)
"""Machines: node, zone, first page and end of each zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A kernel and a machine."""

    kernel: str
    shape: tuple[tuple[int, str, int, int], ...]
    min: int
    gap: int
    reserve: int
    batch: int
    high: int
    tuned_to: int
    threshold: int
    large_slice: bool


NOBODY = Pick(first=0, stride=1, count=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operation: a series of requests or frees, a CPU's lists emptied or refreshed."""

    op: str
    cpu: int
    order: int = 0
    words: str = "KERNEL"
    count: int = 1
    node: int | None = None
    pick: Pick = NOBODY


@st.composite
def settings_of_machines(draw: st.DrawFn) -> Setting:
    """Draw a machine."""
    batch = draw(st.sampled_from((1, 3, 7, 15)))
    high = draw(st.sampled_from((4 * batch, 60, 135)))
    return Setting(
        kernel=draw(st.sampled_from(KERNELS)),
        shape=draw(st.sampled_from(SHAPES)),
        min=draw(st.integers(10, 300)),
        gap=draw(st.integers(3, 100)),
        reserve=draw(st.integers(0, 80)),
        batch=batch,
        high=max(high, 4 * batch),
        tuned_to=draw(st.sampled_from((0, 100, 300))),
        threshold=draw(st.sampled_from((1, 4, 10, 16))),
        large_slice=draw(st.booleans()),
    )


_CPU = st.sampled_from(CPUS)
_PICKS = st.builds(
    Pick,
    first=st.integers(0, 4000),
    stride=st.sampled_from((1, 1, 2, -1, 7, -3)),
    count=st.sampled_from((1, 10, 100, 1000, 9000)),
)
_ALLOCS = st.builds(
    Step,
    op=st.just("alloc"),
    cpu=_CPU,
    order=st.sampled_from((0, 0, 0, 0, 1, 2, 3, 3, 4, 5, 9, 10)),
    words=st.sampled_from(WORDS),
    count=st.sampled_from((1, 3, 20, 100, 700, 9000)),
    node=st.sampled_from((None, 0, 1)),
)
_FREES = st.builds(Step, op=st.just("free"), cpu=_CPU, pick=_PICKS)
_DRAINS = st.builds(Step, op=st.sampled_from(("drain", "refresh", "refresh")), cpu=_CPU)
STEPS = st.lists(st.one_of(_ALLOCS, _FREES, _FREES, _DRAINS), min_size=1, max_size=12)
"""Scripts of operations."""


class Twin:
    """Carries each step out on both, and tells how they differ."""

    def __init__(self, setting: Setting) -> None:
        self.policy = kernel_named(setting.kernel).page
        nodes = sorted({node for node, *_ in setting.shape})
        node_of_cpu = {0: 0, 1: 0, 2: nodes[-1]}
        fallback = {node: [node, *(n for n in nodes if n != node)] for node in nodes}
        pairs = [self._zones(setting, place) for place in setting.shape]
        self.product = PageAllocator(
            self.policy,
            [product for product, _ in pairs],
            node_of_cpu=node_of_cpu,
            fallback=fallback,
        )
        self.reference = pages_alloc.Machine(
            self.policy, [scalar for _, scalar in pairs], node_of_cpu, fallback
        )
        self.reference.compact = lambda request, priority: "skipped"
        self.held: list[tuple[int, int]] = []

    def _zones(self, setting: Setting, place: tuple[int, str, int, int]) -> tuple[Zone, Any]:
        node, name, start, end = place
        index = ZONE_NAMES.index(name)
        marks = tuple(setting.min + i * setting.gap for i in range(3))
        reserve = tuple(setting.reserve if i > index else 0 for i in range(4))
        high_max = setting.high
        if self.policy.pcp.startswith("tuned"):
            high_max = max(setting.high, setting.tuned_to)
        product = Zone(
            self.policy,
            ZoneMarks(
                node=node,
                zone=name,
                min=marks[0],
                low=marks[1],
                high=marks[2],
                promo=0,
                protection=reserve,
                pcp_batch=setting.batch,
                pcp_high=setting.high,
                pcp_high_min=setting.high,
                pcp_high_max=high_max,
                stat_threshold=setting.threshold,
            ),
            managed=end - start,
            start=start,
            end=end,
            cpus=CPUS,
            large_slice=setting.large_slice,
        )
        scalar = pages_zone.Zone(
            self.policy,
            CPUS,
            node=node,
            index=index,
            name=name,
            start=start,
            end=end,
            managed=end - start,
            marks=marks,
            reserve=reserve,
            batch=setting.batch,
            high_min=setting.high,
            high_max=high_max,
            threshold=setting.threshold,
        )
        product.buddy.release(start, end)
        for order, row in enumerate(product.buddy.lists):
            for migratetype, blocks in enumerate(row):
                for pfn in blocks.blocks().tolist():
                    scalar.buddy.put(pfn, order, migratetype, tail=True)
        scalar.counter.seen = product.free
        for pcp in scalar.pcps.values():
            pcp.slice_is_large = setting.large_slice
        return product, scalar

    def step(self, step: Step) -> tuple[list[int], list[int]]:
        """Carry one step out; return what both answered."""
        if step.op == "drain":
            for zone in self.product.zones:
                drain_cpu(zone, step.cpu)
            for scalar in self.reference.zones:
                scalar.drain_cpu(step.cpu)
            return [], []
        if step.op == "refresh":
            self.product.refresh(step.cpu)
            home = self.product.node_of_cpu[step.cpu]
            for scalar in self.reference.zones:
                scalar.refresh(step.cpu, scalar.node != home)
            return [], []
        if step.op == "free":
            self._free(step.cpu, step.pick.of(self.held))
            return [], []
        words = step.words
        if self.policy.gfp_names == "wait":  # 3.13 knows no such flag
            words = words.replace("+RETRY_MAYFAIL", "")
        gfp = flags.bits(gfp_text(words.split("+")), self.policy)
        node = step.node if step.node in self.product.own_zones else None
        got = self.product.alloc_many(step.cpu, step.order, gfp, step.count, node).tolist()
        answer: list[int] = []
        while len(answer) < step.count:
            pfn = self.reference.alloc(step.cpu, step.order, gfp, node)
            if pfn is None:
                break
            answer.append(pfn)
        self.held += [(pfn, step.order) for pfn in got]
        return got, answer

    def _free(self, cpu: int, blocks: Sequence[tuple[int, int]]) -> None:
        given = set(blocks)
        self.held = [block for block in self.held if block not in given]
        if len(blocks) == 1:
            self.product.free(cpu, *blocks[0])
        elif blocks:
            self.product.free_many(cpu, *(np.array(column) for column in zip(*blocks, strict=True)))
        for pfn, order in blocks:
            self.reference.free(cpu, pfn, order)

    def differences(self) -> list[str]:
        """Return what differs between the two."""
        pairs = zip(self.product.zones, self.reference.zones, strict=True)
        found = [
            f"{one.name} of node {one.node}: {what} {mine} {theirs}"
            for one, other in pairs
            for what, mine, theirs in _compared(one, other)
            if mine != theirs
        ]
        events = {key: n for key, n in self.reference.stats.items() if isinstance(key, tuple)}
        if self.product.numa != events:
            found.append(f"numa events {self.product.numa} {events}")
        return found


def _compared(one: Zone, other: Any) -> list[tuple[str, Any, Any]]:
    types = {
        block: int(migratetype)
        for block, migratetype in enumerate(one.buddy.block_type, start=one.buddy.base >> 9)
        if migratetype != 1
    }
    theirs = {block: kind for block, kind in other.buddy.block_type.items() if kind != 1}
    compared: list[tuple[str, Any, Any]] = [
        ("pageblock types", types, theirs),
        ("free count", one.free, other.counter.seen),
        ("kept by CPUs", one.pending, other.counter.own),
        ("boost", one.boost, other.boost),
        ("below high", one.below_high, other.below_high),
        ("highatomic pages", one.highatomic, other.highatomic),
        ("lock holds", one.lock_takes, other.lock_takes),
    ]
    for order, row in enumerate(one.buddy.lists):
        for migratetype, blocks in enumerate(row):
            mine = blocks.blocks().tolist()
            compared.append(
                (f"list {order}/{migratetype}", mine, other.buddy.lists[order][migratetype])
            )
    for cpu, pcp in one.pcps.items():
        scalar = other.pcps[cpu]
        compared += [
            (f"CPU {cpu} {name}", getattr(pcp, name), getattr(scalar, name))
            for name in ("count", "high", "free_factor", "alloc_factor", "free_count", "expire")
        ]
        compared.append((f"CPU {cpu} mark", pcp.freed_high_order, scalar.previous_high_order))
        for number, pages in enumerate(pcp.lists):
            mine = pages.blocks().tolist()
            entries = [pfn for pfn, _, _ in scalar.lists.get(number, ())]
            compared.append((f"CPU {cpu} list {number}", mine, entries))
    return compared
