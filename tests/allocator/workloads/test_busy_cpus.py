"""Workloads on some of a machine's CPUs: who is busy, and how throughput grows."""

from typing import Any

import numpy as np
import pytest

from allocator.errors import ConfigError
from allocator.point import Point, parse_group
from tests.allocator.workloads.test_slab_workloads import SMALL, cell, guest, run, same


def on(load: str, cpus: int, **more: Any) -> dict[str, Any]:
    one = cell(load, machine=guest(8, 2))
    return one | {"workload": one["workload"] | {"cpus": cpus, **more}}


def point(one: dict[str, Any]) -> Point:
    parsed: dict[str, Any] = {group: parse_group(group, config) for group, config in one.items()}
    return Point.of(**parsed)


@pytest.mark.parametrize("load", ["hackbench_sockets", "will_it_scale_mmap1"])
def test_all_cpus_by_number_are_all_cpus(load: str) -> None:
    named, every = (run([on(load, n)], replicates=5).scalars["throughput"] for n in (8, 0))
    assert named.mean() == pytest.approx(every.mean(), rel=0.03)


def test_twice_the_cpus_pass_almost_twice_the_messages() -> None:
    alone, two, four = (
        float(run([on("hackbench_sockets", n, groups=0)]).scalars["throughput"][0])
        for n in (1, 2, 4)
    )
    assert 1.7 < two / alone < 2.1
    assert 1.7 < four / two < 2.1


def test_one_group_for_each_cpu_in_use() -> None:
    one = run([on("hackbench_sockets", 3, groups=0)])
    messages = 3 * 20 * 20 * int(SMALL["hackbench_sockets"]["loops"])  # type: ignore[call-overload]
    assert one.scalars["operations"].tolist() == [messages]


def test_pages_come_from_the_node_whose_cpus_are_in_use() -> None:
    nodes = run([on("hackbench_sockets", 4)]).tables["nodes"].values
    assert nodes["Slab"][0, 0] > 0
    assert nodes["Slab"][0, 1] == 0
    assert nodes["numa_local"][0, 1] == 0


def test_lanes_with_other_cpus_are_batches_of_their_own() -> None:
    cells = [on("will_it_scale_mmap1", n) for n in (2, 8, 1)]
    together = run(cells)
    for lane, one in enumerate(cells):
        same(run([one]), together, slice(0, 1), slice(lane, lane + 1))
    assert (np.diff(together.scalars["throughput"][[2, 0, 1]]) > 0).all()


def test_the_command_names_the_cpus() -> None:
    words = point(on("hackbench_sockets", 4, groups=0)).workload.command_line
    assert (
        words(point(on("hackbench_sockets", 4)))
        == "taskset -c 0-3 hackbench -g 4 -f 20 -l 10 -s 100"
    )
    mmap1 = point(on("will_it_scale_mmap1", 4))
    assert mmap1.workload.command_line(mmap1) == "will-it-scale mmap1_processes -t 4"


@pytest.mark.parametrize("load", ["hackbench_sockets", "will_it_scale_mmap1"])
def test_cpus_that_are_not_there_are_refused(load: str) -> None:
    with pytest.raises(ConfigError, match=r"workload\.cpus: found 9, expected at most"):
        run([on(load, 9)])
