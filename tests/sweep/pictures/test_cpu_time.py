"""Where CPU time goes: the point that is shown, its shares, and how they are drawn."""

import numpy as np
import pytest

from allocator.counters import CPU_TIME
from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.answer.groups import rank
from sweep.pictures.cpu_time import breakdowns, cpu_time_figure
from tests.sweep.synthetic import dataset

SPENT = {"work_ns": 60.0, "slab_ns": 10.0, "list_lock_ns": 5.0, "zone_lock_ns": 2.0}


def lab(**others):
    """Return a patch that makes machine m wait 20 points more for list_locks at x = 2."""

    def waits(*, machine, kernel, x, **_):
        return 20.0 + 30.0 * (machine == "m" and kernel == "b" and x == 2)

    parts = {name: lambda value=value, **_: value for name, value in SPENT.items()}
    return dataset(
        {"machine": ["l", "m"], "kernel": ["a", "b"], "x": [1, 2, 3], "workload": ["w", "still"]},
        throughput=lambda **at: 5000.0 / (80.0 + waits(**at)) + at["x"],
        **parts,
        list_lock_wait_ns=waits,
        zone_lock_wait_ns=lambda **_: 3.0,
        cpu_time_ns=lambda **at: 80.0 + waits(**at),
        **others,
    )


@pytest.fixture(scope="module")
def found():
    comparison = compare(cells_of(lab()), "kernel=a")
    return breakdowns(comparison, rank(comparison))


def test_the_worst_point_of_each_machine_is_shown(found):
    first = found[0].places[0]
    assert (first.machine, first.where, first.values) == ("m", "x=2", ("a", "b"))
    assert first.shares[0].tolist() == pytest.approx([60, 10, 5, 20, 2, 3])
    wanted = np.array([60, 10, 5, 50, 2, 3]) / 1.3
    assert first.shares[1].tolist() == pytest.approx(wanted.tolist())
    other = found[0].places[1]  # of l, and the same on m
    assert (other.machine, other.where) == ("any machine", "x=1")


def test_shares_are_stacked_and_each_part_has_its_hatch(found):
    spot = cpu_time_figure(found, "kernel").axes[0]
    bars = [patch for patch in spot.patches if patch.get_height() == pytest.approx(0.8)][
        : len(CPU_TIME)
    ]
    edges = [patch.get_x() for patch in bars]
    assert edges == pytest.approx([0, 60, 70, 75, 95, 97])
    assert bars[-1].get_x() + bars[-1].get_width() == pytest.approx(100)
    assert len({(patch.get_facecolor(), patch.get_hatch()) for patch in bars}) == len(CPU_TIME)
    assert len({patch.get_hatch() for patch in bars}) >= 5
    assert spot.get_ylabel() == "kernel"


def test_nothing_is_shown_without_the_parts_or_where_only_the_workload_runs():
    comparison = compare(cells_of(lab().drop_vars("slab_ns")), "kernel=a")
    assert breakdowns(comparison, rank(comparison)) == []
    idle = dataset(
        {"machine": ["l", "m"], "kernel": ["a", "b"]},
        throughput=lambda **_: 1.0,
        cpu_time_ns=lambda **_: 100.0,
        **{name: lambda name=name, **_: 100.0 * (name == "work_ns") for name in CPU_TIME},
    )
    comparison = compare(cells_of(idle), "kernel=a")
    assert breakdowns(comparison, rank(comparison)) == []
