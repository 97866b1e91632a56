"""kfree_rcu(): the vectorised SLUB equals the scalar one, and hand-worked counts of 7.3."""

import random

import numpy as np
import pytest

from allocator.kernels import kernel_named
from allocator.workloads.snapshot import snapshot_script
from tests.laws.slub_twin import Twin
from tests.reference.slub_build import machine, shape


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["v7_3", "v6_1", "v5_10", "v5_4"])
def test_engine_equals_reference(name: str, seed: int) -> None:
    draw = random.Random(seed)
    topology = machine((2, 2), (True, True), memoryless_nodes=bool(seed % 2))
    sheaf = draw.choice((2, 3, 5)) if name == "v7_3" else 0
    kernel = kernel_named(name)
    caches = [[shape(objects=draw.choice((3, 8)), sheaf_capacity=sheaf, cpu_partial_slabs=2)]] * 2
    twin = Twin(kernel, [topology] * 2, caches)
    for _ in range(60):
        row, cpu = draw.randrange(2), draw.randrange(4)
        held = range(len(twin.rows[row].held))
        op = draw.choice(("alloc", "alloc", "kfree_rcu", "kfree_rcu", "grace", "free", "shrink"))
        if op == "alloc":
            twin.alloc([(row, cpu, draw.randrange(1, 60), -1)])
        elif op == "grace":
            twin.end_grace_period()
        elif op == "shrink" and draw.random() < 0.5:
            twin.shrink([row])
        elif held and op in ("free", "kfree_rcu"):
            places = draw.sample(held, draw.randrange(1, len(held) + 1))
            if op == "kfree_rcu":
                twin.kfree_rcu(row, cpu, places)
            else:
                twin.free([(row, cpu, places)])
        twin.check()
    assert twin.slub.state.rcu is not None
    told = twin.rows[0].cache.stats
    assert (told["FREE_RCU_SHEAF"] > 0) == (name == "v7_3")


SCRIPT = """\
cache c 256 0 -
alloc c 0 100 0
kfree_rcu c 0 0 60 1
snap waiting
sleep 50
snap after
kfree_rcu c 0 60 40 1
sleep 50
snap again
shrink c
sleep 50
"""


def test_full_sheaves_go_to_the_barn_after_a_grace_period() -> None:
    """Sheaves of 28: 60 objects fill two, 4 stay on the CPU; 40 more fill the third."""

    def told(at: str | None) -> tuple[int, ...]:
        files = snapshot_script(SCRIPT, kernel="v7_3", at=at).sysfs["c"]
        names = (
            "free_rcu_sheaf",
            "barn_put",
            "sheaf_flush",
            "free_fastpath",
            "free_rcu_sheaf_fail",
        )
        return tuple(int(files[name].split()[0]) for name in names)

    assert told("waiting") == (60, 0, 0, 0, 0)
    assert told("after") == (60, 2, 0, 0, 0)
    assert told("again") == (100, 3, 0, 0, 0)
    # shrink: 112 objects were taken for 100; main's 12, three full sheaves, then RCU's 16
    assert told(None) == (100, 3, 12 + 3 * 28 + 16, 0, 0)


def test_a_kernel_without_sheaves_frees_an_array_after_a_grace_period() -> None:
    before = snapshot_script(SCRIPT, kernel="v6_1", at="waiting").sysfs["c"]
    after = snapshot_script(SCRIPT, kernel="v6_1", at="after").sysfs["c"]
    told = (before["free_slowpath"], after["free_slowpath"])
    assert told == ("0", "4 C0=4")  # slabs of 16
    assert after["slabs"] == "7 N0=7"
    assert np.char.startswith(after["slabs_cpu_partial"], "32(4)")
