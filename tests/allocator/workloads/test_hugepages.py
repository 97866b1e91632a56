"""The workload, and predictions of recorded kernels."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from allocator.errors import ConfigError, PredictError
from allocator.gfp import Gfp
from allocator.kernels import kernel_named
from allocator.records.record import Record, load
from allocator.results import Status
from allocator.streams import Stream
from allocator.workloads.hugepages import HugePages, predict_hugetlb
from tests.allocator.pages.machine_of_tests import GIB, topology

GOLDEN = Path(__file__).parents[2] / "golden" / "hugetlb"
POOL = "GFP_HIGHUSER_MOVABLE|__GFP_THISNODE|__GFP_RETRY_MAYFAIL"


class PointOfTests:
    """What the workload reads of a point."""

    def __init__(
        self, kernel: str, workload: HugePages, memory: int = GIB, gfp: str = POOL
    ) -> None:
        self.topology = topology((memory,))
        self.kernel = kernel_named(kernel)
        self.gfp = Gfp.parse(gfp)
        self.workload = workload


def run(points: list[PointOfTests], replicates: list[int] | None = None) -> dict[str, np.ndarray]:
    numbers = replicates or list(range(len(points)))
    streams = [Stream(0, 7, number) for number in numbers]
    results = points[0].workload.run(points, streams)  # type: ignore[arg-type]
    assert (results.status == Status.OK).all(), results.errors
    return results.scalars


def count(point: PointOfTests) -> int:
    """Return the huge pages of the first run."""
    return int(run([point], [0])["nr_hugepages"][0])


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_predicted_counts_lie_in_the_kernel_s_own_spread(path: Path) -> None:
    record = load(path)
    assert record.measured is not None
    counts = record.measured["nr_hugepages"]
    assert isinstance(counts, list)
    predicted = predict_hugetlb(record.blind())["nr_hugepages"]
    assert isinstance(predicted, list)
    assert len(predicted) == len(counts)
    low, high = min(counts), max(counts)
    assert low - max(2, 0.03 * low) <= predicted[0] <= high + max(2, 0.03 * high)


@pytest.mark.parametrize(
    ("drop", "message"),
    [
        ("before_first_request", "before_first_request"),
        ("zones", "given.zones"),
        ("boot", "given.boot"),
        ("steps", "given.steps"),
    ],
)
def test_a_missing_part_is_one_clear_line(drop: str, message: str) -> None:
    record = load(next(iter(sorted(GOLDEN.glob("6.1b*.json")))))
    given = {key: value for key, value in record.given.items() if key != drop}
    with pytest.raises(PredictError, match=message) as caught:
        predict_hugetlb(replace(record, given=given))
    assert "\n" not in str(caught.value)


def test_an_unknown_kernel_is_named() -> None:
    record: Record = load(next(iter(sorted(GOLDEN.glob("6.1b*.json")))))
    with pytest.raises(PredictError, match="v9_9"):
        predict_hugetlb(replace(record, kernel="v9_9"))


def test_zones_without_types_are_refused() -> None:
    path = next(iter(sorted(GOLDEN.glob("6.1b*.json"))))
    raw = json.loads(path.read_text())
    raw["given"]["before_first_request"][-1]["pagetypeinfo"]["free"] = []
    record = load(path)
    with pytest.raises(PredictError, match="free blocks and pageblocks of node 0 DMA32"):
        predict_hugetlb(replace(record, given=raw["given"]))


def test_the_seed_with_and_without_the_fix() -> None:
    wanted = HugePages()
    kernels = ("v5_3", "v5_4rc_bailout", "v5_4")
    got = run([PointOfTests(kernel, wanted) for kernel in kernels])
    for run_of in ("nr_hugepages", "nr_hugepages_run2"):
        assert got[run_of][[0, 2]].tolist() == [256, 256]
        assert 10 <= got[run_of][1] <= 13
    assert got["htlb_buddy_alloc_fail"].tolist() == [0, 1, 0]
    assert got["htlb_buddy_alloc_success"][1] == got["nr_hugepages"][1]


def test_the_bail_out_s_count_moves_with_marks_fill_and_memory() -> None:
    points = [
        PointOfTests("v6_1_bailout", HugePages(runs=1)),
        PointOfTests("v6_1_bailout", HugePages(runs=1, watermark_scale_factor=300)),
        PointOfTests("v6_1_bailout", HugePages(runs=1, fill_share=0.5)),
        PointOfTests("v6_1_bailout", HugePages(runs=1, thp="never")),
        PointOfTests("v6_1_bailout", HugePages(runs=1), memory=GIB // 2),
    ]
    full, scaled, half, no_thp, small = map(count, points)
    assert no_thp < full < scaled < half
    assert small < full
    assert half > 180


def test_a_faster_kswapd_gives_more_under_the_bail_out() -> None:
    got = []
    for pages in (0.0, 300.0, 2000.0):
        wanted = HugePages(runs=1, kswapd_low=pages, kswapd_high=pages)
        lanes = run([PointOfTests("v5_4rc_bailout", wanted)] * 6)
        got.append(int(lanes["nr_hugepages"].sum()))
    assert got[0] < got[1] < got[2]


def test_a_lane_does_not_depend_on_its_neighbours() -> None:
    points = [PointOfTests(k, HugePages(runs=1)) for k in ("v5_4rc_bailout", "v6_1", "v6_12")]
    together = run(points, [3, 4, 5])
    for lane, point in enumerate(points):
        alone = run([point], [3 + lane])
        for name, values in together.items():
            assert alone[name][0] == values[lane], name


def test_memory_that_cannot_move_leaves_fewer_huge_pages() -> None:
    wanted = HugePages(runs=1, pages=480)
    pinned = HugePages(runs=1, pages=480, pinned_share=0.5)
    held = HugePages(runs=1, pages=480, anon_share=0.5)
    free, few, some = (count(PointOfTests("v6_1", w)) for w in (wanted, pinned, held))
    assert few < some < free
    assert some == pytest.approx(free / 2, rel=0.25)


def test_flags_modify_the_pool_s_mask() -> None:
    atomic = PointOfTests("v6_1", HugePages(runs=1), gfp="GFP_ATOMIC")
    got = run([atomic], [0])
    assert got["allocstall"][0] == got["compact_stall"][0] == 0
    assert got["nr_hugepages"][0] < 60


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"pages": 0}, r"workload\.pages: found 0"),
        ({"cache": "tape"}, "raw, file"),
        ({"fill": 1}, r"workload\.fill: .*no such key"),
        ({"kswapd_low": 9.0, "kswapd_high": 3.0}, r"workload\.kswapd_high"),
    ],
)
def test_wrong_values_are_named(config: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HugePages.from_config(config)


def test_the_command_line_says_what_to_run() -> None:
    point = PointOfTests("v6_1", HugePages(node=0, share=0.25))
    assert point.workload.command_line(point) == (  # type: ignore[arg-type]
        "sysctl vm.watermark_scale_factor=10; sysctl vm.drop_caches=3; sysctl vm.compact_memory=1; "
        "dd if=/dev/vda of=/dev/null bs=1M count=1024; "
        "echo 128 > /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages; "
        "cat /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    )
