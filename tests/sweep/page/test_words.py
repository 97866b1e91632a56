"""The summary of a page: which point is the worst, by how much, why, and how sure that is."""

import numpy as np
import pytest
import xarray as xr

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.answer.tables import report_of
from sweep.page.findings import findings_of
from sweep.page.words import hangs_on, headline, p_text, sentences
from tests.sweep.synthetic import dataset, lab

MINUS = "\N{MINUS SIGN}"


def told(ds, baseline="kernel=v6_1", metric=None):
    report = report_of(compare(cells_of(ds), baseline, metric=metric))
    found = findings_of(report, 200)
    return found, headline(found, report), dict(sentences(found, report))


@pytest.fixture(scope="module")
def of_lab():
    return told(lab())


def test_the_worst_regression_says_how_much_where_why_and_how_sure(of_lab):
    found, _, summary = of_lab
    text = summary["Worst regression"]
    assert text.startswith(
        "hackbench_sockets.throughput [1/s] goes from 1.4M with v6_1 to 1.23M with v6_1_order_v2:"
        f" {MINUS}12.5 %"
    )
    assert " at machine=icx, slab_max_order=3, at any gfp." in text
    assert (
        "What moved there: CPU time waiting for a list_lock +9.0 points (6.0 % to 15.0 %)." in text
    )
    assert "3 runs each, whose ranges do not overlap" in text
    assert found.worst.change == pytest.approx(-12.5)


def test_the_best_gain_is_told_too(of_lab):
    found, line, summary = of_lab
    assert found.best.metric == "nr_hugepages"
    assert found.best.change == pytest.approx(100 * 3 / (180 + 3 + 1 / 3), rel=0.3)
    assert "hugepages.nr_hugepages goes from" in summary["Best gain"]
    assert line == (
        "v6_1_order_v2 fails at 1 point where v6_1 does not. v6_1_order_v2 is worse than v6_1 at 6"
        " points and better at 3."
    )


def test_counts_are_of_distinct_points_and_add_up(of_lab):
    counts = of_lab[0].counts
    assert (counts.points, counts.distinct) == (72, 21)
    assert counts.worse + counts.better + counts.other + counts.failed == 21
    assert counts.failed == 1  # graviton2 with atomic is out of memory
    assert "Without a result" in of_lab[2]
    assert of_lab[2]["Without a result"] == "12 of 432 runs: out of memory."


def test_points_that_fail_now_are_named(of_lab):
    assert of_lab[2]["Fails now"] == (
        "3 of 3 runs out of memory with v6_1_order_v2, 0 with v6_1 at machine=graviton2,"
        " gfp=atomic, workload=hugepages, at any slab_max_order."
    )


def test_the_axis_on_which_it_hangs_is_named(of_lab):
    text = of_lab[2]["What it hangs on"]
    assert text.startswith("Most of all on machine: the mean change of hackbench_sockets.through")
    assert "at icx to" in text


def test_shares_of_the_variance_are_told_where_the_change_varies_most():
    report = report_of(compare(cells_of(lab()), "kernel=v6_1"))
    terms = ["machine", "slab_max_order", "machine x slab_max_order", "the rest"]
    shares = xr.Dataset(
        {
            "share": (("workload", "term"), [[60.0, 33.0, 4.9, 2.1], [0, 0, 0, 100]]),
            "stddev": ("workload", [4.0, 1.0]),
            "noise": ("workload", [2.1, 100.0]),
        },
        coords={"workload": ["hackbench_sockets", "hugepages"], "term": terms},
    )
    text = hangs_on(shares, report)
    assert text.startswith(
        "Of the variance of the change at hackbench_sockets, 60 % with machine,"
        " 33 % with slab_max_order. Most of all on machine"
    )
    found = findings_of(report, 10)
    assert dict(sentences(found, report, [shares]))["What it hangs on"] == text
    still = shares.assign(stddev=("workload", [0.0, 0.0]))
    assert hangs_on(still, report) == ""


def test_nothing_changed_is_said_plainly():
    ds = dataset({"kernel": ["a", "b"], "x": [1, 2]}, throughput=lambda x, **_: 5.0 * x)
    found, line, summary = told(ds, "kernel=a")
    assert line == "No difference was found between kernel=a and kernel=b."
    assert (found.worst, found.best) == (None, None)
    assert "Worst regression" not in summary


def test_a_loss_that_is_not_sure_is_told_as_such():
    ds = dataset(
        {"kernel": ["a", "b"], "x": [1, 2]},
        throughput=lambda kernel, x, replicate: 100.0 - 5 * x * (kernel == "b") + 9 * replicate,
    )
    found, line, summary = told(ds, "kernel=a")
    assert line == "Differences between kernel=a and kernel=b are not significant."
    assert found.worst is None
    assert "Worst regression" not in summary
    text = summary["Largest loss, not sure"]
    assert f"{MINUS}9.2 % (95 % interval {MINUS}27.9 to +9.5) at x=2." in text
    assert "3 runs each, whose ranges overlap, p = 0.49 after correction" in text
    assert "With more than 3 runs of each point more may become sure." in summary["How sure"]


def test_a_value_that_fails_is_in_the_first_line():
    def status(*, kernel, x, **_):
        return int(kernel == "b" and x == 2)

    ds = dataset({"kernel": ["a", "b"], "x": [1, 2]}, status=status, throughput=lambda **_: 5.0)
    _, line, summary = told(ds, "kernel=a")
    assert line == (
        "kernel=b fails at 1 point where kernel=a does not. Elsewhere no difference was found."
    )
    assert summary["Fails now"].startswith("3 of 3 runs out of memory with kernel=b, 0 with")


def test_what_does_matter_is_told_where_nothing_changed():
    ds = dataset({"kernel": ["a", "b"], "x": [1, 2]}, throughput=lambda x, **_: 5.0 * x)
    assert told(ds, "kernel=a")[2]["What does matter"] == (
        "Against each axis's first value: throughput by x: 2 +100.0%."
    )


def test_one_replicate_gives_no_confidence():
    ds = dataset(
        {"kernel": ["a", "b"], "x": [1, 2]},
        replicates=1,
        throughput=lambda kernel, x, **_: 100.0 - 10 * x * (kernel == "b"),
    )
    found, line, summary = told(ds, "kernel=a")
    assert line == "kernel=b is worse than kernel=a at 2 points."
    assert f"{MINUS}20.0 % at x=2." in summary["Worst regression"]
    assert "A single run each: there is no telling" in summary["Worst regression"]
    assert summary["How sure"].startswith("Each point was run once, so there is no confidence")
    assert np.isnan(found.worst.p)


def test_where_a_kernel_always_fails_there_is_nothing_to_compare():
    ds = dataset(
        {"kernel": ["a", "b"]}, status=lambda kernel, **_: 2 * (kernel == "b"),
        throughput=lambda **_: 5.0,
    )  # fmt: skip
    found, line, summary = told(ds, "kernel=a")
    assert line == "No point of kernel=b has a result to compare with kernel=a."
    assert found.counts.failed == found.counts.distinct == 1
    assert summary["Without a result"] == "3 of 6 runs: failed."


def test_less_may_be_better():
    ds = dataset(
        {"kernel": ["a", "b"], "x": [1, 2]},
        Slab=lambda kernel, x, replicate: 1000.0 + 100 * x * (kernel == "b") + replicate,
    )
    found, _, summary = told(ds, "kernel=a", "Slab")
    assert found.worst.where == {"x": "2"}
    assert (
        "Slab [byte] goes from 1001 with kernel=a to 1201 with kernel=b: +20.0 %"
        in summary["Worst regression"]
    )
    assert found.best is None


@pytest.mark.parametrize(
    ("p", "text"), [(0.0132, "p = 0.013"), (1e-9, "p < 0.0001"), (float("nan"), "")]
)
def test_p_values_are_short(p, text):
    assert p_text(p) == text
