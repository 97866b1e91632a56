"""Machines: profiles, distances between CPUs, and what a wrong profile says."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from allocator.costs import COSTS
from allocator.errors import ConfigError
from allocator.machine import TRANSFERS, Machine

PROFILES = Path(__file__).parents[2] / "conf" / "machine"
REGULAR = sorted(p.stem for p in PROFILES.glob("*.yaml") if p.stem != "record")


def profile(name: str, **changes: object) -> Machine:
    config = yaml.safe_load((PROFILES / f"{name}.yaml").read_text())
    return Machine.from_config({**config, **changes})


def ns(machine: Machine, a: int, b: int, home: int = -1) -> float:
    found = machine.transfer(np.array([a]), np.array([b]), np.array([home]))
    return float(found[0])


@pytest.mark.parametrize("name", REGULAR)
def test_every_profile_loads_under_its_own_name(name: str) -> None:
    assert profile(name).name == name


@pytest.mark.parametrize("name", REGULAR)
def test_every_unmeasured_number_has_a_reason_and_a_range(name: str) -> None:
    machine = profile(name)
    numbers = [machine.frequency_ghz, machine.dram_local_ns, machine.dram_remote_ns]
    for number in [*numbers, *machine.transfer_ns.values(), *machine.costs.values()]:
        assert number.source or (number.unmeasured and number.range), number
        if number.range is not None:
            assert number.range[0] <= number.value <= number.range[1], number


def test_rome_pays_the_far_price_for_a_line_homed_on_the_other_socket() -> None:
    rome = profile("epyc_rome_2x7742")
    assert rome.topology.node_of_cpu[:3] == (0, 0, 0)
    assert rome.topology.node_of_cpu[64] == 1
    assert rome.topology.node_of_cpu[128] == 0
    assert ns(rome, 0, 0) == 0.0
    assert ns(rome, 0, 128) == 8.0
    assert ns(rome, 0, 3) == 25.3
    assert ns(rome, 0, 4, home=0) == 117.9
    assert ns(rome, 0, 8, home=0) == 132.8
    assert ns(rome, 0, 8, home=1) == 268.3
    assert ns(rome, 0, 3, home=1) == 25.3
    assert ns(rome, 0, 64, home=0) == ns(rome, 0, 64, home=1) == 266.6


def test_ice_lake_has_no_home_penalty() -> None:
    icx = profile("icx_2xGold6338")
    assert ns(icx, 0, 64) == 8.0
    assert ns(icx, 0, 5, home=0) == ns(icx, 0, 5, home=1) == 51.3
    assert ns(icx, 0, 32, home=1) == 107.8


def test_transfer_is_symmetric_and_absent_holders_are_free() -> None:
    rome = profile("epyc_rome_2x7742")
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (2, 500))
    home = rng.integers(-1, 2, 500)
    assert np.array_equal(rome.transfer(a, b, home), rome.transfer(b, a, home))
    assert ns(rome, -1, 3) == 0.0


def test_cost_in_cycles_becomes_time_by_the_frequency() -> None:
    icx = profile("icx_2xGold6338")
    assert icx.cost_ns("alloc_fast_cycles") == COSTS["alloc_fast_cycles"].value / 2.0
    assert icx.cost_ns("zone_lock_ns") == COSTS["zone_lock_ns"].value


def test_a_sweep_may_set_a_number_bare() -> None:
    icx = profile("icx_2xGold6338", costs={"list_lock_cycles": 150}, frequency_ghz=3.0)
    assert icx.cost_ns("list_lock_cycles") == 50.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"speed": 3}, "machine.speed: found 3, expected one of"),
        ({"costs": {"lock": 1}}, "machine.costs.lock: found 1, expected one of"),
        ({"costs": {"zone_lock_ns": -1}}, "machine.costs.zone_lock_ns: found -1"),
        ({"sockets": 0}, "machine.sockets: found 0"),
        ({"frequency_ghz": {"value": 2, "unmeasured": "x"}}, "machine.frequency_ghz.range"),
        ({"transfer_ns": {"near": 3}}, "machine.transfer_ns.near"),
        ({"node_memory_gib": [1, 2, 3]}, "machine.node_memory_gib"),
        ({"distances": [[10, 20]]}, "machine.distances"),
    ],
)
def test_a_wrong_profile_names_the_key(change: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        profile("icx_2xGold6338", **change)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_transfer_classes_are_ordered_from_near_to_far() -> None:
    for name in REGULAR:
        table = profile(name).transfer_table()
        kept = [table[1 + i] for i, kind in enumerate(TRANSFERS) if kind != "same_socket_away"]
        assert kept == sorted(kept), name


def test_kunpeng_dies_are_nodes_of_one_socket() -> None:
    kunpeng = profile("kunpeng_920")
    assert kunpeng.topology.nodes == 2
    assert (ns(kunpeng, 0, 1), ns(kunpeng, 0, 31), ns(kunpeng, 0, 32)) == (34.5, 35.7, 80.5)


def test_the_lpar_has_all_its_cpus_on_a_node_without_memory() -> None:
    lpar = profile("power_lpar_memoryless")
    assert lpar.topology.cpus == 200
    assert lpar.topology.memory_bytes == (0, 8 << 30)
    assert ns(lpar, 0, 3) == 20.0
    assert ns(lpar, 0, 4) == 173.3


def test_a_record_machine_needs_a_path() -> None:
    config = yaml.safe_load((PROFILES / "record.yaml").read_text())
    with pytest.raises(ConfigError, match=r"machine\.record: found None, expected the path"):
        Machine.from_config(config)
    with pytest.raises(ConfigError, match=r"machine\.record"):
        Machine.from_config({**config, "record": "/no/such/file.json"})
