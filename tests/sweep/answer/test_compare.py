"""Comparisons: metrics by workload, ranking, causes, and what does not count."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.errors import ConfigError
from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.answer.groups import ANY, groups, rank
from tests.sweep.synthetic import dataset, lab


@pytest.fixture(scope="module")
def patch():
    return compare(cells_of(lab()), "kernel=v6_1")


def test_each_workload_is_judged_by_its_own_metric(patch):
    assert patch.metrics == ("throughput", "nr_hugepages")
    assert patch.metric_dim == "workload"


def test_the_change_is_in_the_arrays(patch):
    at = {"machine": "icx", "slab_max_order": 3, "gfp": "kernel", "workload": "hackbench_sockets"}
    cell = patch.data.sel(at)
    assert cell["change"].item() == pytest.approx(-12.5)
    assert cell["baseline"].item() == pytest.approx(1.4e6)
    assert cell["mean"].item() == pytest.approx(1.225e6)
    assert cell["regressed"].item()
    assert cell["runs"].item() == 3
    assert patch.data["change"].attrs["units"] == "percent"


def test_failures_come_first_then_the_largest_loss(patch):
    ranking = rank(patch)
    first = [patch.where(cell) for cell in ranking.cells[:3].tolist()]
    assert (first[0]["machine"], first[0]["gfp"]) == ("graviton2", "atomic")
    assert [w["machine"] for w in first[1:]] == ["icx", "icx"]
    assert [w["slab_max_order"] for w in first[1:]] == ["3", "2"]
    assert ranking.regressed == 7  # 1 failure, icx at 3 orders, epyc at 3 orders
    assert ranking.improved == 3  # hugepages with GFP kernel on each machine
    assert ranking.distinct == 21


def test_an_axis_without_effect_is_one_group(patch):
    ranking = rank(patch)
    group = groups(patch, ranking, ranking.cells[1:2].tolist())[0]
    assert group.where["gfp"] == ANY
    assert group.where["slab_max_order"] == "3"


def test_an_axis_has_no_effect_only_if_all_results_are_equal():
    ds = dataset(
        {"kernel": ["a", "b"], "gfp": ["x", "y"], "order": [0, 1]},
        throughput=lambda order, **_: 100.0 + order,
        Slab=lambda gfp, order, **_: int(gfp == "y" and order == 1),
    )
    comparison = compare(cells_of(ds), "kernel=a")
    same = comparison.same.reshape(2, 2, 2)  # gfp, order, dim
    assert comparison.dims == ("gfp", "order")
    assert same[:, :, 0].tolist() == [[True, False], [True, False]]
    assert not same[:, :, 1].any()


def test_rounding_is_no_effect():
    ds = dataset(
        {"kernel": ["a", "b"], "gfp": ["x", "y"]},
        throughput=lambda gfp, **_: 1 / 3 if gfp == "x" else 1 / 3 + 1e-16,
    )
    assert compare(cells_of(ds), "kernel=a").same.all()


def test_causes_say_what_moved(patch):
    ranking = rank(patch)
    group = groups(patch, ranking, ranking.cells[1:2].tolist())[0]
    assert [cause.key for cause in group.causes] == ["cause.list_lock_wait"]
    assert group.causes[0].mean == (6.0, 15.0)
    assert group.causes[0].change == (9.0,)


def test_any_axis_can_be_compared():
    cells = cells_of(lab())
    orders = compare(cells, "slab.max_order=3", against=["0"])
    assert orders.labels == ("3", "0")
    assert orders.data["slab_max_order"].values.tolist() == [0]
    assert orders.dims == ("machine", "kernel", "gfp", "workload")
    workloads = compare(cells, "workload=hugepages")
    assert workloads.metrics == ("nr_hugepages",)


def test_less_may_be_better():
    ds = dataset(
        {"kernel": ["a", "b"]}, SUnreclaim=lambda kernel, **_: 100 if kernel == "a" else 80
    )
    comparison = compare(cells_of(ds), "kernel=a", metric="SUnreclaim")
    assert comparison.data["change"].item() == -20
    assert not comparison.data["regressed"].item()
    assert rank(comparison).improved == 1


def test_tables_are_compared_by_entry():
    ds = lab()
    wait = ds["list_lock_wait_ns"]
    waits = xr.concat([wait * 0, wait], xr.Variable("lock", ["zone", "list_lock"]))
    waits = waits.transpose(*wait.dims, "lock").rename("wait_ns").to_dataset()
    comparison = compare(cells_of(xr.DataTree.from_dict({"/": ds, "/locks": waits})), "kernel=v6_1")
    ranking = rank(comparison)
    group = groups(comparison, ranking, ranking.cells[1:2].tolist())[0]
    assert [s.key for s in group.stats] == ["list_lock_wait_ns", "locks.list_lock.wait_ns"]


def test_what_was_never_run_is_no_regression():
    ds = dataset(
        {"kernel": ["a", "b"], "x": [0, 1]},
        status=lambda kernel, x, **_: 3 if (kernel, x) == ("b", 1) else 0,
        throughput=lambda **_: 5.0,
    )
    comparison = compare(cells_of(ds), "kernel=a")
    assert rank(comparison).regressed == 0
    assert comparison.failures()["pending"].tolist() == [[0, 0], [0, 3]]


@pytest.mark.parametrize(
    ("baseline", "options", "text"),
    [
        ("kernel", {}, r"baseline: found 'kernel', expected AXIS=VALUE, AXIS one of machine, "),
        ("colour=red", {}, r"axis: found 'colour', expected one of machine"),
        ("kernel=v5", {}, r"kernel: found 'v5', expected one of v6_1, v6_1_order_v2"),
        ("kernel=v6_1", {"metric": "speed"}, r"metric: found 'speed', expected one of throughput"),
        (
            "kernel=v6_1",
            {"against": ["v6_1"]},
            r"against: found 'v6_1', expected values other than v6_1",
        ),
        (
            "kernel=v6_1",
            {"against": ["v6_1_order_v2", "v6_1"]},
            r"against: found 'v6_1', expected v",
        ),
    ],
)
def test_bad_input_says_what_exists(baseline, options, text):
    with pytest.raises(ConfigError, match=text):
        compare(cells_of(lab()), baseline, **options)


def test_where_no_run_ended_well_the_first_error_is_told():
    ds = dataset({"kernel": ["a", "b"]}, status=lambda **_: 2, throughput=lambda **_: 5.0)
    ds["error"] = (ds.status.dims, np.array([["", "it broke\nin line 2", ""]] * 2, dtype=object))
    text = "status: found '6 of 6 runs failed: it broke', expected at least one run that ended well"
    with pytest.raises(ConfigError, match=text):
        compare(cells_of(ds), "kernel=a")


def test_a_single_value_has_nothing_to_be_compared_with():
    with pytest.raises(ConfigError, match="kernel: found 'v6_1', expected a second value on this"):
        compare(cells_of(lab().sel(kernel=["v6_1"])), "kernel=v6_1")


values = st.lists(st.floats(1, 1e6, width=32), min_size=6, max_size=6)


def two_kernels(numbers):
    table = dict(zip([(k, r) for k in "ab" for r in range(3)], numbers, strict=True))
    return dataset(
        {"kernel": ["a", "b"]}, throughput=lambda kernel, replicate: table[kernel, replicate]
    )


@given(values)
@settings(max_examples=30)
def test_swapping_the_baseline_turns_the_sign(numbers):
    cells = cells_of(two_kernels(numbers))
    there, back = compare(cells, "kernel=a").data, compare(cells, "kernel=b").data
    assert there["changed"].item() == back["changed"].item()
    assert np.sign(there["change"].item()) == -np.sign(back["change"].item())
    assert (1 + there["change"] / 100).item() == pytest.approx(
        (1 / (1 + back["change"] / 100)).item()
    )


@given(values)
@settings(max_examples=30)
def test_a_kernel_does_not_differ_from_itself(numbers):
    cells = cells_of(two_kernels(numbers[:3] * 2))
    comparison = compare(cells, "kernel=a")
    assert comparison.data["change"].item() == 0
    assert len(rank(comparison).cells) == 0
