"""Huge pages asked of a machine whose memory is full of page cache.

The seed of this workload is the hugetlb regression of 5.4-rc (b39d0ee2632d): a request that gives
up when its first compaction is skipped gets what is free above the min mark, and no more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from allocator import gfp as flags
from allocator.errors import ConfigError
from allocator.pages.hugetlb import POOL_MASK, HugetlbPool
from allocator.pages.kswapd import Pace
from allocator.pages.pagecache import read_file
from allocator.pages.pcp_free import drain_all
from allocator.pages.reclaimer import Reclaimer
from allocator.records.record import Record
from allocator.results import Results, Status
from allocator.streams import Stream
from allocator.topology import Topology
from allocator.workloads.fields import read_fields
from allocator.workloads.hugepage_machine import Load, boot, pool_of
from allocator.workloads.hugetlb_record import HugetlbRecord

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point

COUNTERS = (
    "compact_stall",
    "compact_success",
    "compact_fail",
    "allocstall",
    "pgsteal_kswapd",
    "pgsteal_direct",
    "pgmigrate_success",
    "htlb_buddy_alloc_success",
    "htlb_buddy_alloc_fail",
)
"""Events that are counted from the first request of the first run to its last."""

RECORD_PAGES = 120
"""Pages that kswapd reclaims beside one request in the virtual machines of the records: between 75
and 300 follow from where the 6.1 kernels with the bail-out stopped."""
SLICE_PAGES = 1000
"""Pages that kswapd reclaims in a time slice where it shares the only CPU: 840 to 1790 in the
records of machines with one CPU."""
_DRAWS, _MORE_DRAWS = 3, 9
"""Runs of a record under different draws, and how many if these differ by more than 3 %; the median
is the prediction."""

_BOUNDS = {
    "pages": (1, 1 << 30),
    "share": (0, 1),
    "fill_share": (0, 16),
    "anon_share": (0, 1),
    "pinned_share": (0, 1),
    "runs": (1, 2),
    "watermark_scale_factor": (1, 3000),
    "node": (-1, 1023),
    "kswapd_low": (0, 1 << 20),
    "kswapd_high": (0, 1 << 20),
}
_CHOICES = {"cache": ("raw", "file"), "compact": ("first", "never"), "thp": ("always", "never")}

_ZONE_BITS = flags.DMA | flags.DMA32 | flags.HIGHMEM | flags.MOVABLE | flags.RECLAIMABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePages:
    """Parameters of the request and of what is in memory before it."""

    name: ClassVar[str] = "hugepages"
    ignores: ClassVar[frozenset[str]] = frozenset({"slab"})

    pages: int = 256
    """Huge pages asked for."""
    share: float = 0.0
    """If not 0: share of the machine's memory asked for, in place of `pages`."""
    fill_share: float = 1.0
    """Data read into the page cache before each run, as a share of the machine's memory."""
    runs: int = 2
    """Times that the pool is emptied and asked for again."""
    compact: str = "first"
    """`first`: caches are dropped and memory is compacted before each run."""
    cache: str = "raw"
    """`raw`: a block device is read; `file`: a file of a file system, whose cache can be moved."""
    anon_share: float = 0.0
    """Share of memory that processes hold."""
    pinned_share: float = 0.0
    """Share of memory in which an eighth is the kernel's and cannot be moved."""
    watermark_scale_factor: int = 10
    """vm.watermark_scale_factor."""
    thp: str = "always"
    """transparent_hugepage/enabled; `never` leaves min_free_kbytes as computed."""
    node: int = -1
    """Node whose nr_hugepages file is written; -1: the whole machine's."""
    kswapd_low: float = 4.0
    """Fewest pages that kswapd reclaims beside one request; each replicate draws."""
    kswapd_high: float = 50.0
    """Most of them."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `workload` group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        made = cls(**read_fields(cls, config, bounds=_BOUNDS, choices=_CHOICES))
        if made.kswapd_low > made.kswapd_high:
            expected = f"at least workload.kswapd_low, {made.kswapd_low}"
            raise ConfigError("workload.kswapd_high", made.kswapd_high, expected)
        return made

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Return nothing: machines advance one by one, as series of page runs."""
        place = point.topology
        if self.node >= place.nodes or (self.node >= 0 and not place.has_memory(self.node)):
            raise ConfigError("workload.node", self.node, "a node of the machine with memory")
        return ()

    def command_line(self, point: "Point") -> str:
        """Return the commands that do this on a real machine."""
        source = "FILE" if self.cache == "file" else "/dev/vda"
        memory = sum(point.topology.memory_bytes)
        mib = int(self.fill_share * memory) >> 20
        steps = [f"sysctl vm.watermark_scale_factor={self.watermark_scale_factor}"]
        if self.compact == "first":
            steps += ["sysctl vm.drop_caches=3", "sysctl vm.compact_memory=1"]
        steps += [f"dd if={source} of=/dev/null bs=1M count={mib}"] if mib else []
        file = "/proc/sys/vm/nr_hugepages"
        if self.node >= 0:
            kib = point.topology.page_size << point.topology.huge_page_order >> 10
            where = f"/sys/devices/system/node/node{self.node}"
            file = f"{where}/hugepages/hugepages-{kib}kB/nr_hugepages"
        return "; ".join([*steps, f"echo {self._asked(point.topology)} > {file}", f"cat {file}"])

    def _asked(self, topology: Topology) -> int:
        if not self.share:
            return self.pages
        huge = topology.page_size << topology.huge_page_order
        return int(self.share * sum(topology.memory_bytes)) // huge

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Ask each machine in turn: each is a series of bulk operations on runs of pages."""
        names = ("nr_hugepages", "nr_hugepages_run2", "free_pages", *COUNTERS)
        values = {name: np.zeros(len(points), dtype=np.int64) for name in names}
        status = np.full(len(points), Status.OK, dtype=np.int8)
        errors: dict[int, str] = {}
        for lane, (point, stream) in enumerate(zip(points, streams, strict=True)):
            try:
                found = self._one(point, stream)
            except MemoryError as error:
                status[lane] = Status.OOM
                errors[lane] = str(error)
                continue
            for name, value in found.items():
                values[name][lane] = value
        return Results(scalars=dict(values), status=status, errors=errors)

    def _one(self, point: "Point", stream: Stream) -> dict[str, int]:
        """Simulate one machine."""
        place = point.topology
        draws = stream.generator("kswapd")
        speed = round(draws.uniform(self.kswapd_low, self.kswapd_high))
        pace = Pace(pages=speed, slice_pages=SLICE_PAGES if place.cpus == 1 else None)
        memory = sum(place.memory_bytes)
        load = Load(
            watermark_scale_factor=self.watermark_scale_factor,
            thp=self.thp == "always",
            anon_bytes=int(self.anon_share * memory),
            pinned_bytes=int(self.pinned_share * memory),
        )
        reclaimer = boot(place, point.kernel, load, pace, draws)
        mask = pool_mask(point.gfp.bits(point.kernel.page))
        pool = pool_of(reclaimer, place, mask)
        fill = int(self.fill_share * memory) // place.page_size
        others = stream.generator("others")
        found: dict[str, int] = {}
        for run in range(self.runs):
            # what other tasks read meanwhile: it moves the moment at which the fill ends
            extra = int(others.integers(1024)) if fill else 0
            self._prepare(reclaimer, pool, fill + extra, place.node_of_cpu[0])
            if run == 0:
                found["free_pages"] = sum(zone.free for zone in reclaimer.allocator.zones)
            before = dict(reclaimer.counters)
            got = pool.write(self._asked(place), self.node if self.node >= 0 else None)
            if run == 0:
                found |= dict.fromkeys(COUNTERS, 0)
                found |= _events(before, reclaimer.counters)
            found["nr_hugepages" if run == 0 else f"nr_hugepages_run{run + 1}"] = got
        reclaimer.take_apart()
        return found

    def _prepare(self, reclaimer: Reclaimer, pool: HugetlbPool, fill: int, node: int) -> None:
        """Empty the pool, and fill the cache; what tasks do meanwhile empties per-CPU lists."""
        pool.write(0)
        for zone in reclaimer.allocator.zones:
            drain_all(zone)
        if self.compact == "first":
            reclaimer.drop_caches()
            reclaimer.compact_memory()
        if fill:
            read_file(reclaimer, fill, node=node, movable=self.cache == "file")


def pool_mask(value: int) -> int:
    """Return the mask of a pool page with the modifiers of some GFP flags.

    Zone and mobility are the pool's own; what may be waited for, retried and used up, and on which
    node, is as the flags say. The kernel's own choice is THISNODE with RETRY_MAYFAIL.
    """
    waits = flags.DIRECT_RECLAIM | flags.KSWAPD_RECLAIM | flags.IO | flags.FS
    return POOL_MASK & ~waits | value & ~_ZONE_BITS


def _events(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the events of one write; allocstall is summed over zones."""
    grown = {name: count - before.get(name, 0) for name, count in after.items()}
    found = {name: count for name, count in grown.items() if name in COUNTERS}
    found["allocstall"] = sum(n for name, n in grown.items() if name.startswith("allocstall_"))
    return found


def predict_hugetlb(record: Record) -> dict[str, object]:
    """Predict `nr_hugepages` of a record: one count a run.

    What no record tells (how far kswapd gets between two requests, where inside a pageblock
    reclaim stopped) is drawn a few times, and the median is the prediction. Later runs begin in
    the same way, so they are predicted to end like the first.

    Raises
    ------
    PredictError
        If a field that is needed is missing or cannot be used.
    """
    read = HugetlbRecord(record)
    counts = [_one_draw(read, draw) for draw in range(_DRAWS)]
    if max(counts) - min(counts) > max(2, 0.03 * max(counts)):
        counts += [_one_draw(read, draw) for draw in range(_DRAWS, _MORE_DRAWS)]
    return {"nr_hugepages": [sorted(counts)[len(counts) // 2]] * read.asked.runs}


def _one_draw(read: HugetlbRecord, draw: int) -> int:
    """Return what the first request of a record gets under one set of draws."""
    pace = Pace(pages=RECORD_PAGES, slice_pages=SLICE_PAGES if read.one_cpu else None)
    machine = read.build(pace, np.random.Generator(np.random.PCG64(draw)))
    pool = HugetlbPool(
        machine.allocator, machine.reclaimer, order=machine.pageblock_order, nodes=machine.nodes
    )
    got = pool.write(read.asked.pages, read.asked.node)
    machine.reclaimer.take_apart()
    return got
