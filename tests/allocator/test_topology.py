"""Topologies: fallback order, memoryless nodes, and what cannot be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.errors import ConfigError
from allocator.kernels import PRESETS
from allocator.topology import Topology, node_fallback_order

PAGE = {name: PRESETS[name].page for name in ("v5_10", "v6_1", "v6_12", "v7_3")}
PAIRS = ((10, 12, 32, 32), (12, 10, 32, 32), (32, 32, 10, 12), (32, 32, 12, 10))


def test_an_empty_group_means_the_machines_own() -> None:
    assert Topology.from_config({}) is None


def test_a_group_is_read_with_its_defaults() -> None:
    topology = Topology.from_config({"cpus": [2, 2], "memory_bytes": ["1GiB", 0]})
    assert topology == Topology(
        arch="x86_64",
        page_size=4096,
        nr_cpu_ids=4,
        node_of_cpu=(0, 0, 1, 1),
        memory_bytes=(1 << 30, 0),
        distances=((10, 20), (20, 10)),
        memoryless_nodes=False,
    )


def test_cpus_may_be_listed_by_number() -> None:
    topology = Topology.from_config({"cpus": [[0, 2], [1]], "memory_bytes": ["1GiB", "1GiB"]})
    assert topology is not None
    assert topology.node_of_cpu == (0, 1, 0)
    assert topology.cpus_of(0) == (0, 2)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cpus": [2, 0], "memory_bytes": ["1GiB", 0]}, r"memory_bytes\[1\]: found 0, .* no CPUs"),
        ({"cpus": [0, 0]}, "cpus: found .*at least one CPU"),
        ({"cpus": "2"}, "cpus: found '2'"),
        ({"cpus": [[0, 0], [1]]}, r"cpus\[0\]: found 0, .*each on one node"),
        ({"cpus": [[0, 5], [1]]}, "without a gap"),
        ({"memory_bytes": ["1GiB"]}, "memory_bytes: .*each of the 2 nodes"),
        ({"memory_bytes": ["1GiB", "1 parsec"]}, r"memory_bytes\[1\]: found '1 parsec'"),
        ({"memory_bytes": ["1GiB", 4097]}, r"memory_bytes\[1\]: found 4097, .*page size 4096"),
        ({"memory_bytes": [0, 0]}, "a node with memory"),
        ({"distances": [[10, 20]]}, "distances: .*2 rows of 2"),
        ({"distances": [[10, 20], [20, 11]]}, r"distances\[1\]\[1\]: found 11, expected 10"),
        ({"distances": [[10, 5], [20, 10]]}, r"distances\[0\]\[1\]: found 5, expected 11 to 255"),
        ({"cpus_possible": 3}, "cpus_possible: found 3, expected 4"),
        ({"arch": "vax"}, "arch: found 'vax', expected one of x86_64, arm64, ppc64"),
        ({"page_size": 16384}, "page_size: found 16384, expected a page size of x86_64: 4096"),
        ({"page_size": True}, "page_size: found True, expected a whole number"),
        ({"memoryless_nodes": "yes"}, "memoryless_nodes: found 'yes'"),
        ({"sockets": 2}, "sockets: found 2, expected no such key"),
    ],
)
def test_an_impossible_machine_is_one_line_that_names_the_key(change: dict, text: str) -> None:
    config = {"cpus": [2, 2], "memory_bytes": ["1GiB", "1GiB"]} | change
    with pytest.raises(ConfigError, match=rf"^topology\..*{text}") as caught:
        Topology.from_config(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kernel", "last"), [("v5_10", (3, 2, 0, 1)), ("v6_1", (3, 2, 1, 0)), ("v7_3", (3, 2, 1, 0))]
)
def test_load_spreads_equally_near_nodes_differently_by_release(kernel: str, last: tuple) -> None:
    order = node_fallback_order(PAIRS, [True] * 4, PAGE[kernel])
    assert order[:3] == ((0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 0, 1))
    assert order[3] == last


def test_nodes_without_cpus_are_not_preferred_in_the_lists_of_boot() -> None:
    distances = ((10, 20, 20), (20, 10, 20), (20, 20, 10))
    order = node_fallback_order(distances, [True] * 3, PAGE["v6_1"])
    assert order == ((0, 1, 2), (1, 2, 0), (2, 0, 1))


def test_a_memoryless_node_heads_its_list_until_6_1() -> None:
    distances = ((10, 20), (20, 10))
    assert node_fallback_order(distances, [False, True], PAGE["v6_1"]) == ((0, 1), (1,))
    assert node_fallback_order(distances, [False, True], PAGE["v6_12"]) == ((1,), (1,))


def test_numa_mem_id_is_the_nearest_node_with_memory_where_configured() -> None:
    config = {
        "cpus": [1, 1, 1],
        "memory_bytes": [0, "1GiB", "1GiB"],
        "distances": [[10, 40, 20], [40, 10, 20], [20, 20, 10]],
    }
    here = Topology.from_config(config | {"memoryless_nodes": True})
    x86 = Topology.from_config(config)
    assert here is not None
    assert x86 is not None
    assert [here.numa_mem_id(node) for node in range(3)] == [2, 1, 2]
    assert [x86.numa_mem_id(node) for node in range(3)] == [0, 1, 2]


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.integers(11, 60), min_size=n, max_size=n), min_size=n, max_size=n),
            st.lists(st.booleans(), min_size=n, max_size=n),
        )
    ),
    st.sampled_from(sorted(PAGE)),
)
def test_every_list_holds_each_node_with_memory_once(machine: tuple, kernel: str) -> None:
    distances, populated = machine
    for node, row in enumerate(distances):
        row[node] = 10
    for node, order in enumerate(node_fallback_order(distances, populated, PAGE[kernel])):
        held = [other for other in order if populated[other]]
        assert sorted(held) == [n for n, has_memory in enumerate(populated) if has_memory]
        if populated[node]:
            assert order[0] == node
