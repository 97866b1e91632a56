"""Workloads that drive SLUB in time: laws that hold for each, and what each is known to show."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from allocator import counters
from allocator.errors import ConfigError
from allocator.point import GROUPS, parse_group
from allocator.results import Results
from allocator.simulate import Tasks, simulate

CONF = Path(__file__).parents[3] / "conf"
SMALL: dict[str, dict[str, object]] = {
    "hackbench_sockets": {"groups": 2, "loops": 10},
    "hackbench_pipes": {"groups": 2, "loops": 10},
    "perf_sched_messaging": {"groups": 2, "loops": 10},
    "rawpkt": {"packets": 60},
    "will_it_scale_mmap1": {"batches": 12},
    "netperf": {"batches": 10},
    "unixbench": {"batches": 6},
}
"""Slab workloads, and what makes them quick."""


def conf(group: str, name: str) -> dict[str, Any]:
    return yaml.safe_load((CONF / group / f"{name}.yaml").read_text()) or {}


def guest(cpus: int, nodes: int = 1) -> dict[str, Any]:
    """Return a small machine with the costs of a Xeon."""
    topology = {
        "arch": "x86_64",
        "page_size": 4096,
        "cpus": [cpus // nodes] * nodes,
        "memory_bytes": [(2 << 30) // nodes] * nodes,
    }
    return conf("machine", "icx_2xGold6338") | {"topology": topology}


def cell(workload: str, **changes: Any) -> dict[str, Any]:
    groups: dict[str, Any] = {
        "machine": guest(8, 2),
        "topology": {},
        "kernel": {"preset": "v6_1"},
        "slab": conf("slab", "default"),
        "gfp": conf("gfp", "kernel"),
        "workload": conf("workload", workload) | SMALL[workload],
    }
    for path, value in changes.items():
        group, _, key = path.partition("__")
        groups[group] = groups[group] | {key: value} if key else value
    return groups


def run(cells: list[dict[str, Any]], replicates: int = 1, seed: int = 0) -> Results:
    tables: dict[str, list[Any]] = {group: [] for group in GROUPS}
    index, replicate = [], []
    for one in cells:
        for group in GROUPS:
            if one[group] not in tables[group]:
                tables[group].append(one[group])
        index += [[tables[g].index(one[g]) for g in GROUPS]] * replicates
        replicate += range(replicates)
    tasks = Tasks(tables=tables, index=np.array(index), replicate=np.array(replicate), seed=seed)
    results = simulate(tasks)
    assert results.errors == {}
    return results


def same(a: Results, b: Results, lanes_a: slice, lanes_b: slice) -> None:
    assert a.scalars.keys() == b.scalars.keys()
    for name, values in a.scalars.items():
        np.testing.assert_array_equal(values[lanes_a], b.scalars[name][lanes_b], err_msg=name)
    for group, table in a.tables.items():
        for name, values in table.values.items():
            np.testing.assert_array_equal(
                values[lanes_a], b.tables[group].values[name][lanes_b], err_msg=name
            )


@pytest.mark.parametrize("workload", SMALL)
def test_every_result_is_registered_with_units(workload: str) -> None:
    results = run([cell(workload)])
    assert set(results.scalars) <= set(counters.SCALARS)
    for group, table in results.tables.items():
        assert set(table.values) <= set(counters.TABLES[group])
    assert results.scalars["throughput"][0] > 0


@pytest.mark.parametrize("workload", SMALL)
def test_a_lane_does_not_depend_on_its_batch(workload: str) -> None:
    cells = [cell(workload, slab__max_order=order) for order in (0, 3)]
    together, alone = run(cells, 2), run(cells[1:], 2)
    same(together, alone, slice(2, 4), slice(0, 2))


@pytest.mark.parametrize("workload", [name for name in SMALL if name != "hackbench_pipes"])
def test_what_was_allocated_is_freed_in_the_end(workload: str) -> None:
    scalars = run([cell(workload, kernel__preset=k) for k in ("v6_1", "v6_12")]).scalars
    allocated = scalars["alloc_fastpath"] + scalars["alloc_slowpath"]
    freed = scalars["free_fastpath"] + scalars["free_slowpath"]
    np.testing.assert_array_equal(allocated, freed)
    assert (allocated > 1000).all()


@pytest.mark.parametrize("workload", SMALL)
def test_cpu_time_is_the_sum_of_its_parts(workload: str) -> None:
    scalars = run([cell(workload)]).scalars
    parts = ("work_ns", "slab_ns", "list_lock_wait_ns", "list_lock_ns")
    total = sum(scalars[name] for name in (*parts, "zone_lock_wait_ns", "zone_lock_ns"))
    np.testing.assert_allclose(scalars["cpu_time_ns"], total)


@pytest.mark.parametrize("workload", SMALL)
def test_replicates_differ_and_repeat(workload: str) -> None:
    first, again = run([cell(workload)], 2), run([cell(workload)], 2)
    same(first, again, slice(0, 2), slice(0, 2))
    if workload != "hackbench_pipes":
        assert first.scalars["cpu_time_ns"][0] != first.scalars["cpu_time_ns"][1]


@pytest.mark.parametrize("workload", SMALL)
def test_an_unknown_key_and_a_wrong_value_name_the_key(workload: str) -> None:
    good = conf("workload", workload)
    with pytest.raises(ConfigError, match=r"workload\.colour: found 'red', expected no such key"):
        parse_group("workload", good | {"colour": "red"})
    number = next(key for key, value in good.items() if isinstance(value, int))
    with pytest.raises(ConfigError, match=rf"workload\.{number}: found -1"):
        parse_group("workload", good | {number: -1})
    with pytest.raises(ConfigError, match=rf"workload\.{number}: found 'x'"):
        parse_group("workload", good | {number: "x"})


@pytest.mark.parametrize("workload", SMALL)
def test_the_real_command_line_is_told(workload: str) -> None:
    from allocator.point import Point

    groups = {g: parse_group(g, c) for g, c in cell(workload).items()}
    point = Point.of(**groups)  # type: ignore[arg-type]
    assert point.workload.command_line(point).startswith(
        {
            "hackbench_sockets": "hackbench -g 2 -f 20 -l 10 -s 100",
            "hackbench_pipes": "hackbench -g 2 -f 20 -l 10 -s 100 -p",
            "perf_sched_messaging": "perf bench sched messaging -g 2 -l 10 -t",
            "rawpkt": "stress-ng --rawpkt 8 --rawpkt-ops 480",
            "will_it_scale_mmap1": "will-it-scale mmap1_processes -t 8",
            "netperf": "netperf -H 127.0.0.1 -t TCP_RR",
            "unixbench": "./Run -c 8 spawn",
        }[workload]
    )


def test_hackbench_takes_an_sk_buff_and_its_data_per_message() -> None:
    results = run([cell("hackbench_sockets", workload__message_bytes=size) for size in (100, 1400)])
    table = results.tables["caches"]
    taken = table.values["alloc_fastpath"] + table.values["alloc_slowpath"]
    messages = 2 * 20 * 20 * 10
    by_cache = dict(zip(table.labels, taken.T.tolist(), strict=True))
    assert by_cache["skbuff_head_cache"] == [messages, messages]
    assert by_cache["kmalloc-cg-512"] == [messages, 0]
    assert by_cache["kmalloc-cg-2k"] == [0, messages]


def test_slow_paths_fall_with_the_order_of_slabs() -> None:
    orders = (0, 1, 2, 3)
    machine = conf("machine", "graviton2")
    cells = [cell("hackbench_sockets", machine=machine, slab__max_order=order) for order in orders]
    results = run(cells)
    slow = results.scalars["alloc_slowpath"]
    assert slow[0] > slow[1] > slow[2]
    assert results.scalars["throughput"][2] > results.scalars["throughput"][0]


def test_without_per_cpu_partial_lists_nothing_is_drained() -> None:
    off = {"preset": "v6_1", "slab": {"config_cpu_partial": False}}
    results = run([cell("hackbench_sockets"), cell("hackbench_sockets", kernel=off)])
    assert results.scalars["cpu_partial_drain"][0] > 0
    assert results.scalars["cpu_partial_drain"][1] == 0
    assert results.scalars["cpu_partial_free"][1] == 0


def test_delayed_freezing_frees_to_no_frozen_partial_slab() -> None:
    cells = [cell("rawpkt", kernel__preset=kernel) for kernel in ("v6_6", "v6_8")]
    frozen = run(cells).scalars["free_frozen"]
    assert frozen[1] < 0.75 * frozen[0]


def test_a_second_node_brings_remote_objects_home() -> None:
    results = run([cell("hackbench_sockets")])
    nodes = results.tables["nodes"]
    assert nodes.labels == ("N0", "N1")
    assert (nodes.values["numa_local"] > 0).all()
    assert results.scalars["numa_other"][0] == 0


def test_locks_say_where_the_time_went() -> None:
    results = run([cell("hackbench_sockets", machine=conf("machine", "graviton2"))])
    locks = results.tables["locks"]
    waited = dict(zip(locks.labels, locks.values["wait_ns"][0].tolist(), strict=True))
    assert set(waited) == {
        "list_lock:skbuff_head_cache:N0",
        "list_lock:kmalloc-cg-512:N0",
        "zone_lock:N0",
    }
    lists = sum(ns for name, ns in waited.items() if name.startswith("list_lock"))
    np.testing.assert_allclose(lists, results.scalars["list_lock_wait_ns"][0], rtol=1e-9)
