"""The replay workload on many machines at once, and scripts that no machine can carry out."""

import random

import pytest

from allocator.errors import ConfigError
from allocator.kernels import PRESETS
from allocator.workloads.script_ops import USAGE
from allocator.workloads.snapshot import snapshot_script
from tests.allocator.workloads.test_slab_workloads import conf, guest, run

SCRIPT = """\
cache c 256 0 -
cache d 700 0 RECLAIM_ACCOUNT
alloc c 0 300 0
alloc d 1 70 1000
free c 1 0 100 3
balloc c 0 60 2000 16
freel c 0 1,5,2,7
alloc c 1 40 3000 0
bfree c 1 2000 60 1 20
kfree_rcu c 0 10 6 3
sysfs c min_partial 2
sleep 50
shrink c
free d 0 1000 70 1
"""


def test_mixed_kernels_orders_and_machines_equal_each_run_alone() -> None:
    """All presets x two orders x one and two nodes in one batch; single lanes have equal bits."""
    cells = [
        {
            "machine": guest(4, nodes),
            "topology": {},
            "kernel": {"preset": name},
            "slab": conf("slab", "default") | {"max_order": order},
            "gfp": conf("gfp", "kernel"),
            "workload": {"name": "replay", "ops": SCRIPT},
        }
        for name in PRESETS
        for order in (None, 0)
        for nodes in (1, 2)
    ]
    whole = run(cells)
    assert (whole.status == 0).all()
    drawn = random.Random(1).sample(range(len(cells)), 12)
    for lane in drawn:
        alone = run([cells[lane]])
        for name, values in alone.scalars.items():
            assert values[0] == whole.scalars[name][lane], (name, cells[lane]["kernel"])


WORDS = [
    "c",
    "d",
    "0",
    "1",
    "2",
    "7",
    "-1",
    "-",
    "x",
    "3.5",
    "1e3",
    "٣",
    "99999999999999999999",
    "4194303",
    "KERNEL",
    "ATOMIC+DMA",
    "NOWAIT+",
    "1,2,3",
    "1,,2",
    "1,1",
    "min_partial",
    "vm/watermark_boost_factor",
    "HWCACHE_ALIGN",
    "CTOR+",
    "\x00",
    "snap",
    "#",
]


@pytest.mark.parametrize("kernel", ["v3_13", "v6_1", "v7_3"])
def test_scripts_of_random_words_run_or_are_refused_in_one_line(kernel: str) -> None:
    draw = random.Random(kernel)
    refused = []
    for _ in range(400):
        lines = ["cache c 256 0 -", "alloc c 0 20 0"] if draw.random() < 0.8 else []
        for _ in range(draw.randrange(1, 4)):
            op = draw.choice(list(USAGE))
            count = USAGE[op].count(" ") + draw.choice((0, 0, 0, 0, -1, 1))
            words = ["c" if draw.random() < 0.4 else draw.choice(WORDS) for _ in range(count)]
            lines.append(" ".join([op, *words]))
        try:
            snapshot_script("\n".join(lines), source="s.ops", kernel=kernel)
        except ConfigError as error:
            refused.append(str(error))
    assert len(refused) > 300
    assert all(text.startswith("s.ops") and "\n" not in text for text in refused)


SHEAVES = """\
cache c 4096 0 -
alloc c 0 10 0
prefill_sheaf c 0 1 3
prefill_sheaf c 1 2 9
alloc_from_sheaf c 0 1 2 100
alloc_from_sheaf c 1 2 5 200
refill_sheaf c 1 1 4
return_sheaf c 1 1
free c 1 0 10 1
return_sheaf c 0 2
"""


def with_sheaves(kernel: str, nodes: int) -> dict[str, object]:
    return {
        "machine": guest(4, nodes),
        "topology": {},
        "kernel": {"preset": kernel},
        "slab": conf("slab", "default"),
        "gfp": conf("gfp", "kernel"),
        "workload": {"name": "replay", "ops": SHEAVES},
    }


def test_sheaves_of_callers_in_many_lanes_equal_each_run_alone() -> None:
    cells = [with_sheaves(kernel, nodes) for kernel in ("v7_2", "v7_3") for nodes in (1, 2)]
    whole = run(cells)
    assert (whole.status == 0).all()
    assert (whole.tables["caches"].values["sheaf_return_fast"] == 1).all()
    for lane, cell in enumerate(cells):
        for name, values in run([cell]).scalars.items():
            assert values[0] == whole.scalars[name][lane]


def test_a_kernel_without_sheaves_is_refused_before_anything_runs() -> None:
    text = (
        "workload.ops:3: found 'sheaf 1 of c', expected a kernel with sheaves, which v6_12 is not"
    )
    with pytest.raises(ConfigError, match=text):
        run([with_sheaves("v7_3", 1), with_sheaves("v6_12", 1)])
