"""The series that leaks every second partial slab when one config option is off."""

from pathlib import Path

import numpy as np
import yaml

from allocator.point import GROUPS
from allocator.results import Results, Status
from allocator.simulate import Tasks, simulate

CONF = Path(__file__).parents[3] / "conf"
KERNELS = ("v6_6", "v6_6_delay_rfc", "v6_6_delay_rfc_fixed", "v6_8")


def choice(group: str, name: str) -> dict[str, object]:
    loaded = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def hackbench(*, cpu_partial: bool, memory: str, loops: int = 6) -> Results:
    """Run a small hackbench on 8 CPUs under the four kernels, one lane each."""
    small = {"cpus_possible": 8, "cpus": [8], "memory_bytes": [memory]}
    kernels = [choice("kernel", name) for name in KERNELS]
    tables = {
        "machine": [choice("machine", "graviton2")],
        "topology": [choice("topology", "one_node_1g") | small],
        "kernel": [k | {"slab": {"config_cpu_partial": cpu_partial}} for k in kernels],
        "slab": [choice("slab", "default")],
        "gfp": [choice("gfp", "kernel")],
        "workload": [choice("workload", "hackbench_sockets") | {"groups": 4, "loops": loops}],
    }
    index = np.zeros((4, len(GROUPS)), dtype=np.int64)
    index[:, GROUPS.index("kernel")] = range(4)
    return simulate(Tasks(tables=tables, index=index, replicate=np.zeros(4, np.int64), seed=0))


def test_without_cpu_partial_the_rfc_keeps_memory_that_nobody_can_use() -> None:
    results = hackbench(cpu_partial=False, memory="64MiB")
    assert (results.status == Status.OK).all()
    base, rfc, fixed, merged = results.scalars["SUnreclaim"].tolist()
    assert base == fixed == merged
    assert rfc > 5 * base
    taken = results.scalars["cpu_partial_node"].tolist()
    assert taken[0] == taken[2] == taken[3] == 0  # one slab a visit, and no list to keep more on
    assert taken[1] > 0  # each of these is a slab lost


def test_with_cpu_partial_nothing_is_lost() -> None:
    slab = hackbench(cpu_partial=True, memory="64MiB").scalars["SUnreclaim"].tolist()
    assert slab[1] == slab[2] == slab[3]


def test_on_a_small_machine_the_leak_ends_in_oom() -> None:
    results = hackbench(cpu_partial=False, memory="8MiB", loops=12)
    statuses = [Status(status) for status in results.status]
    assert statuses == [Status.OK, Status.OOM, Status.OK, Status.OK]
