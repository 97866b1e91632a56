"""The experiments slab_order and delay_freezing: direction and size of what was published."""

import pytest

from tests.calibration.published import Answer, answers, entries

QUICK = {
    "A-lkp-hackbench-12.5": {"loops": 12},
    "A-lkp-profile-native_queued_spin_lock_slowpath": {"loops": 12},
    "A-lkp-profile-get_partial_node": {"loops": 12},
    "A-makin-arm-hackbench": {"groups": 16, "loops": 12},
    "A-makin-amd-hackbench": {"groups": 64, "loops": 12},
    "B-v1-schedmsg": {"loops": 40},
    "B-v1-rawpkt": {"packets": 32},
}
"""Entries that are tested, and what makes them quicker than in the full table."""


@pytest.fixture(scope="module")
def found() -> dict[str, Answer]:
    known = [
        entry | {"workload": entry["workload"] | QUICK[entry["id"]]}
        for entry in entries()
        if entry["id"] in QUICK
    ]
    return {answer.entry["id"]: answer for answer in answers(known, {}, seeds=4)}


@pytest.mark.slow
@pytest.mark.parametrize("entry", QUICK)
def test_the_direction_is_as_published(found: dict[str, Answer], entry: str) -> None:
    assert found[entry].sign, found[entry].model


@pytest.mark.slow
def test_the_order_patch_costs_the_gold_6338_a_tenth(found: dict[str, Answer]) -> None:
    assert -25.0 < found["A-lkp-hackbench-12.5"].model < -4.0
    assert found["A-lkp-profile-native_queued_spin_lock_slowpath"].model > 30.0


@pytest.mark.slow
def test_amd_loses_more_than_arm(found: dict[str, Answer]) -> None:
    assert found["A-makin-amd-hackbench"].model < -5.0
    assert abs(found["A-makin-arm-hackbench"].model) < 2.0


@pytest.mark.slow
def test_delayed_freezing_helps_rawpkt_and_leaves_messaging_alone(found: dict[str, Answer]) -> None:
    assert found["B-v1-rawpkt"].model < -2.0
    assert abs(found["B-v1-schedmsg"].model) < 2.0
