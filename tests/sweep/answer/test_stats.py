"""lkp's rule, means and changes over replicates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sweep.answer.stats import change, changed, summarise


def of(*values):
    return summarise(np.array([list(values)], dtype=float))


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        ([100, 101, 102], [110, 111, 112], True),  # gap 8 > 10 / 2
        ([100, 105, 110], [111, 116, 121], False),  # apart, but gap 1 < 11 / 2
        ([100, 101, 102], [101, 102, 103], False),  # ranges overlap
        ([110, 111, 112], [100, 101, 102], True),  # and downwards
        ([100, 100, 100], [100, 100, 100], False),
        ([100, 100, 100], [101, 101, 101], True),
        ([0, 0, 0], [1, 1, 1], True),
        ([100, 110], [131, 132], True),  # two runs: gap 21 > 2 x 10
        ([100, 110], [129, 130], False),  # gap 19
        ([100], [101], True),  # a single run has no spread
    ],
)
def test_a_stat_changed_by_the_rule_of_lkp(base, other, expected):
    assert changed(of(base, other)).item() is expected


def test_small_changes_can_be_passed_over():
    summary = of([100, 100, 100], [100.9, 100.9, 100.9])
    assert changed(summary).item() is True
    assert changed(summary, 1.01).item() is False


def test_failed_runs_do_not_count():
    summary = of([np.nan, 10, 12], [np.nan, np.nan, np.nan])
    assert summary.mean[0, 0] == 11
    assert summary.std[0, 0] == pytest.approx(np.sqrt(2))
    assert summary.runs.tolist() == [[2, 0]]
    assert np.isnan(summary.mean[0, 1])
    assert changed(summary).item() is False


def test_a_single_run_has_no_spread():
    summary = of([5], [6])
    assert np.isnan(summary.std).all()


def test_percentages_change_by_points_and_others_by_percent():
    mean = np.array([[6.0, 15.0]])
    assert change(mean, absolute=True).item() == 9.0
    assert change(mean, absolute=False).item() == 150.0


def test_a_change_from_zero_is_infinite():
    assert change(np.array([[0.0, 3.0]]), absolute=False).item() == np.inf
    assert change(np.array([[0.0, 0.0]]), absolute=False).item() == 0.0


samples = arrays(
    np.float64, st.tuples(st.just(2), st.integers(1, 5)), elements=st.integers(1, 10**9).map(float)
)


@given(samples)
def test_equal_runs_never_change(values):
    same = np.stack([values[0], values[0]])
    assert not changed(summarise(same)).any()
    assert change(summarise(same).mean, absolute=False).item() == 0


@given(samples)
def test_the_rule_does_not_depend_on_who_is_the_baseline(values):
    assert changed(summarise(values)) == changed(summarise(values[::-1]))


@given(samples, st.permutations(range(5)))
def test_the_order_of_replicates_is_irrelevant(values, order):
    shuffled = values[:, [k for k in order if k < values.shape[1]]]
    one, other = summarise(values), summarise(shuffled)
    assert one.low.tolist() == other.low.tolist()
    assert one.mean == pytest.approx(other.mean)
    assert changed(one) == changed(other)


@given(samples)
def test_means_lie_between_the_runs(values):
    summary = summarise(values)
    slack = 1e-12 * summary.high
    assert (summary.low - slack <= summary.mean).all()
    assert (summary.mean <= summary.high + slack).all()
