"""Significance against scipy on the raw numbers, and where there is nothing to test."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, ttest_ind

from allocator.results import Status
from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.answer.significance import adjusted, welch
from sweep.answer.stats import summarise
from tests.sweep.synthetic import dataset

MACHINES, ORDERS, KERNELS = ("icx", "epyc", "altra"), (0, 1, 2, 3), ("old", "new", "newer")
COST = {"old": 0.0, "new": 30.0, "newer": -4.0}


def by_hand() -> xr.Dataset:
    """Return 5 runs of each point: `new` costs icx 30 per order, `newer` gains 4 everywhere."""
    random = np.random.default_rng(7)
    noise = {}

    def throughput(*, machine, order, kernel, replicate):
        share = {"icx": order, "epyc": order / 10, "altra": 0.0}[machine]
        cost = COST[kernel] * (1 if kernel == "newer" else share)
        at = (machine, order, kernel, replicate)
        noise[at] = random.normal(0, 2 + 3 * (kernel == "new"))
        return 1000.0 - cost + noise[at]

    def status(*, machine, order, kernel, replicate):
        lost = (machine, order, kernel) == ("epyc", 2, "new") and replicate > 2
        none = (machine, order, kernel) == ("altra", 3, "newer")
        return Status.FAILED if lost or none else Status.OK

    axes = {"machine": MACHINES, "order": ORDERS, "kernel": KERNELS}
    return dataset(axes, replicates=5, status=status, throughput=throughput)


def test_every_cell_equals_scipy_on_the_raw_numbers():
    ds = by_hand()
    data = compare(cells_of(ds), "kernel=old").data
    raw = ds["throughput"].where(ds["status"] == Status.OK)
    p_values = []
    for machine in MACHINES:
        for order in ORDERS:
            base = raw.sel(machine=machine, order=order, kernel="old").dropna("replicate")
            for kernel in KERNELS[1:]:
                other = raw.sel(machine=machine, order=order, kernel=kernel).dropna("replicate")
                cell = data.sel(machine=machine, order=order, kernel=kernel)
                assert cell["runs"].item() == other.size
                assert cell["baseline_runs"].item() == 5
                if not other.size:
                    assert np.isnan(cell["p_value"].item())
                    continue
                test = ttest_ind(other, base, equal_var=False)
                ends = test.confidence_interval(0.95)
                difference = other.mean().item() - base.mean().item()
                percent = 100 / base.mean().item()
                assert cell["mean"].item() == pytest.approx(other.mean().item())
                assert cell["stddev"].item() == pytest.approx(other.std(ddof=1).item())
                assert cell["baseline_stddev"].item() == pytest.approx(base.std(ddof=1).item())
                assert cell["difference"].item() == pytest.approx(difference)
                assert cell["difference_low"].item() == pytest.approx(ends.low)
                assert cell["difference_high"].item() == pytest.approx(ends.high)
                assert cell["change"].item() == pytest.approx(difference * percent)
                assert cell["change_low"].item() == pytest.approx(ends.low * percent)
                assert cell["change_high"].item() == pytest.approx(ends.high * percent)
                assert cell["p_value"].item() == pytest.approx(test.pvalue, rel=1e-9)
                p_values.append(test.pvalue)
    assert len(p_values) == 23
    found = data["p_adjusted"].values.ravel()
    assert found[~np.isnan(found)] == pytest.approx(false_discovery_control(p_values))


def test_the_known_differences_are_found_and_no_others():
    found = compare(cells_of(by_hand()), "kernel=old").data
    sure = found["significant"]
    assert sure.sel(kernel="new", machine="icx").values.tolist() == [False, True, True, True]
    assert not sure.sel(kernel="new", machine="altra").any()
    assert found["regressed"].sel(kernel="new", machine="icx", order=3).item()
    assert not found["improved"].sel(kernel="new").any()
    assert sure.dtype == bool
    low, high = (
        found["difference_low"].sel(kernel="new"),
        found["difference_high"].sel(kernel="new"),
    )
    truth = xr.DataArray([-30.0 * order for order in ORDERS], dims="order")
    assert ((low < truth) & (truth < high)).sel(machine="icx").all()


def test_the_methods_are_named():
    attrs = compare(cells_of(by_hand()), "kernel=old").data.attrs
    assert attrs["test"] == "Welch's t test, two-sided"
    assert attrs["interval"] == "95 % Welch t interval of the difference of means"
    assert attrs["correction"].startswith("Benjamini-Hochberg, false discovery rate")


def test_a_simulation_counts_once_however_many_cells_show_it():
    values = iter(np.random.default_rng(3).normal(100, 1, 100).tolist())
    known = {}

    def throughput(*, gfp, order, kernel, replicate):
        at = (gfp if order else "any", order, kernel, replicate)  # GFP flags: of no effect at 0
        return known.setdefault(at, next(values) - "xyz".index(gfp) * (kernel == "b"))

    axes = {"gfp": ["x", "y", "z"], "order": [0, 1], "kernel": ["a", "b"]}
    data = compare(cells_of(dataset(axes, 4, throughput=throughput)), "kernel=a").data
    raw, found = data["p_value"].squeeze("kernel"), data["p_adjusted"].squeeze("kernel")
    distinct = [raw[0, 0].item(), *raw[:, 1].values.tolist()]
    expected = false_discovery_control(distinct)
    assert found[:, 1].values == pytest.approx(expected[1:])
    assert found[:, 0].values.tolist() == [pytest.approx(expected[0])] * 3
    counted_thrice = false_discovery_control([*[distinct[0]] * 2, *distinct])
    assert expected[1:] != pytest.approx(counted_thrice[3:])


def runs(*sides):
    """Return the summary of one cell, sides filled up with NaN."""
    longest = max(len(side) for side in sides)
    rows = [[*side, *[np.nan] * (longest - len(side))] for side in sides]
    return summarise(np.array([rows], dtype=float))


def test_without_any_spread_equal_is_equal_and_different_is_certain():
    same, apart = welch(runs([5, 5, 5], [5, 5, 5])), welch(runs([5, 5, 5], [7, 7]))
    assert (same.p_value.item(), same.low.item(), same.high.item()) == (1.0, 0.0, 0.0)
    assert (apart.p_value.item(), apart.low.item(), apart.high.item()) == (0.0, 2.0, 2.0)
    zero = welch(runs([0, 0, 0], [0, 0, 0]))
    assert (zero.p_value.item(), zero.low.item(), zero.high.item()) == (1.0, 0.0, 0.0)


def test_the_last_bit_is_no_difference():
    third = 1 / 3
    near = np.nextafter(third, 1)
    assert welch(runs([third] * 3, [near] * 3)).p_value.item() == 1.0
    assert welch(runs([third] * 3, [third, near, near])).p_value.item() == 1.0


@pytest.mark.parametrize("other", [[7], [], [7, 8, 9]])
def test_a_single_run_on_either_side_is_not_tested(other):
    base = [5] if len(other) == 3 else [4, 5, 6]
    found = welch(runs(base, other))
    assert np.isnan([found.p_value.item(), found.low.item(), found.high.item()]).all()


def test_one_replicate_has_changes_without_confidence():
    ds = dataset(
        {"kernel": ["a", "b"], "order": [0, 1]},
        replicates=1,
        throughput=lambda kernel, order, **_: 100.0 - 20 * order * (kernel == "b"),
    )
    data = compare(cells_of(ds), "kernel=a").data
    assert data["change"].values.ravel().tolist() == [0.0, -20.0]
    assert data["regressed"].values.ravel().tolist() == [False, True]
    assert (
        data[["p_value", "p_adjusted", "change_low", "difference_high"]]
        .isnull()
        .all()
        .to_array()
        .all()
    )
    assert not data["significant"].any()


def test_a_percentage_changes_by_points_and_so_does_its_interval():
    ds = dataset(
        {"kernel": ["a", "b"]},
        share=lambda kernel, replicate: 40.0 + replicate - 10 * (kernel == "b"),
    )
    ds["share"].attrs["units"] = "percent"
    data = compare(cells_of(ds), "kernel=a", metric="share").data
    assert data["change"].item() == data["difference"].item() == -10.0
    assert data["change_low"].item() == data["difference_low"].item() < -10
    assert data["change"].attrs["units"] == "points of percent"


samples = st.lists(st.integers(-(10**6), 10**6).map(float), min_size=2, max_size=6)


@given(samples, samples)
@pytest.mark.filterwarnings("ignore:Precision loss")  # one side may be constant
def test_any_two_samples_equal_scipy(base, other):
    assume(len({*base}) > 1 or len({*other}) > 1)
    found = welch(runs(base, other))
    test = ttest_ind(other, base, equal_var=False)
    ends = test.confidence_interval(0.95)
    assert found.p_value.item() == pytest.approx(test.pvalue, rel=1e-6, abs=1e-12)
    scale = 1e-9 * max(map(abs, [*base, *other]))
    assert found.low.item() == pytest.approx(ends.low, rel=1e-6, abs=scale)
    assert found.high.item() == pytest.approx(ends.high, rel=1e-6, abs=scale)


@given(samples, samples)
def test_who_is_the_baseline_does_not_matter_to_significance(base, other):
    there, back = welch(runs(base, other)), welch(runs(other, base))
    assert there.p_value.item() == pytest.approx(back.p_value.item(), rel=1e-9)
    assert there.low.item() == pytest.approx(-back.high.item())


@given(samples, st.permutations(range(8)))
def test_runs_that_failed_do_not_count(base, order):
    padded = np.array([*base, *[np.nan] * (8 - len(base))])[list(order)]
    other = [3.0, 4.0, 9.0]
    gaps = summarise(np.array([[padded, [*other, *[np.nan] * 5]]]))
    assert welch(gaps).p_value.item() == pytest.approx(
        welch(runs(base, other)).p_value.item(), rel=1e-6
    )


chances = st.lists(st.one_of(st.floats(0, 1), st.just(np.nan)), min_size=1, max_size=30)


@given(chances)
def test_correction_never_makes_surer_and_keeps_the_order(values):
    p = np.array(values)[:, None]
    found = adjusted(p, np.arange(len(p)))
    assert (np.isnan(found) == np.isnan(p)).all()
    there = ~np.isnan(p)
    assert (found[there] >= p[there]).all()
    assert (np.diff(found[there][np.argsort(p[there], kind="stable")]) >= 0).all()
