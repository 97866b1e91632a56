"""Tables to the letter, trailing blanks included."""

import numpy as np
import pytest

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.answer.groups import Failure, Group, Stat
from sweep.answer.lkp import group_text, mmtests, stat_line
from sweep.answer.tables import report_of, summary_table
from tests.sweep.synthetic import dataset, lab

GROUP = """\
=========================================================================================
machine/slab_max_order/gfp/workload:
  icx/3/*/hackbench_sockets

kernel:{blank}
  v6_1
  v6_1_order_v2

            v6_1               v6_1_order_v2{blank}
---------------- ---------------------------{blank}
         %stddev     %change         %stddev
             \\          |                \\{blank}{blank}
   1400000           -12.5%    1225000        hackbench_sockets.throughput
      6.00            +9.0       15.00        cause.list_lock_wait
   6000000          +150.0%   15000000        list_lock_wait_ns
""".format(blank=" ")

FAILED_GROUP = """\
=========================================================================================
machine/slab_max_order/gfp/workload:
  graviton2/*/atomic/hugepages

kernel:{blank}
  v6_1
  v6_1_order_v2

            v6_1               v6_1_order_v2{blank}
---------------- ---------------------------{blank}
       fail:runs  %reproduction    fail:runs
           |             |             |    {nothing}
           :3          100%           3:3     hugepages.oom
         %stddev     %change         %stddev
             \\          |                \\{blank}{blank}
     69.33                           -        hugepages.nr_hugepages
""".format(blank=" ", nothing="")

OVERVIEW = """\
kernel: v6_1_order_v2 against v6_1
72 points (21 distinct): 7 regressed, 3 improved, 1 changed otherwise, 10 unchanged\
 (throughput, nr_hugepages)
9 of 20 differences significant at 5% (Welch's t test, two-sided; Benjamini-Hochberg)
mean change of hackbench_sockets.throughput
  by machine: epyc -1.5%, icx -6.2%, graviton2 +0.2%
  by slab_max_order: 0 +0.0%, 1 -1.7%, 2 -3.4%, 3 -5.0%
mean change of hugepages.nr_hugepages
  by machine: epyc +0.5%, icx +0.5%, graviton2 +0.8%
  by gfp: kernel +1.6%, kernel_retry_mayfail +0.0%, atomic +0.0%
12 of 432 runs: oom"""


@pytest.fixture(scope="module")
def report():
    return report_of(compare(cells_of(lab()), "kernel=v6_1"))


def test_a_group_is_laid_out_as_lkp_does(report):
    text = group_text(report.groups[1], "kernel", report.comparison.labels, {})
    assert text == GROUP


def test_failures_have_a_block_of_their_own(report):
    text = group_text(report.groups[0], "kernel", report.comparison.labels, {})
    assert text == FAILED_GROUP


def test_the_overview_counts_points_and_says_which_axis_matters(report):
    assert report.overview() == OVERVIEW


def test_the_table_tells_what_signs_and_causes_mean(report):
    end = report.text(limit=2).splitlines()[-2:]
    assert end[0] == "*: the same results at every value of that axis"
    assert end[1] == "cause.list_lock_wait: CPU time waiting for a list_lock, %"


def stat(mean, std=(np.nan, np.nan), change=(0.0,), absolute=False):
    return Stat(key="x", mean=mean, std=std, change=change, absolute=absolute)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        # the examples of lkp's own reports
        (
            stat((123456, 138641), (3704, 10), (12.3,)),
            "    123456 ±  3%     +12.3%     138641        x",
        ),
        (
            stat((87.25, 83.15), (5.5, 0.1), (-4.1,), absolute=True),
            "     87.25 ±  6%      -4.1       83.15        x",
        ),
        (
            stat((999.994, 1000.9), change=(0.09,)),
            "    999.99            +0.1%       1000        x",
        ),
        (
            stat((2e8, 1e8), change=(-50.0,)),
            "     2e+08           -50.0%  100000000        x",
        ),
        (
            stat((1.0, 2000.0), change=(199900.0,)),
            "      1.00          +2e+05%       2000        x",
        ),
        (
            stat((0.0, 3.0), change=(np.inf,)),
            "      0.00         +3e+102%       3.00        x",
        ),
        (
            stat((5.0, np.nan), change=(np.nan,)),
            "      5.00                           -        x",
        ),
    ],
)
def test_numbers_are_written_as_lkp_does(given, line):
    assert stat_line(given) == line


def test_several_values_stand_side_by_side(report):
    orders = report_of(compare(cells_of(lab()), "slab_max_order=3"))
    lines = group_text(
        orders.groups[0], "slab_max_order", orders.comparison.labels, {}
    ).splitlines()
    assert lines[-4] == (
        "---------------- --------------------------- --------------------------- "
        "--------------------------- "
    )
    assert lines[-1] == (
        "   1225000           +14.3%    1400000            +9.5%    1341666        "
        "    +4.8%    1283333        hackbench_sockets.throughput"
    )


def test_what_was_not_swept_is_named_too(report):
    text = group_text(
        report.groups[1], "kernel", report.comparison.labels, {"topology": "machine"}, max_stats=0
    )
    assert "topology/machine/slab_max_order/gfp/workload:\n  machine/icx/3/*/" in text
    assert text.endswith("          ... and 1 more stats changed\n")


def test_failures_are_counted_per_value():
    failing = Failure(key="x.failed", fails=(1, 0), runs=(3, 3))
    empty = stat((np.nan, np.nan), change=(np.nan,))
    group = Group(
        where={"m": "a"}, severity=0, failures=(failing,), metric=empty, metric_changed=False,
        significant=(False,), causes=(), stats=(),
    )  # fmt: skip
    last = group_text(group, "kernel", ("a", "b"), {}).splitlines()[-1]
    assert last == "          1:3          -33%            :3     x.failed"


def test_mmtests_layout_has_gains_where_positive_is_better_and_marks_what_is_significant(report):
    text = mmtests(report.groups[1:3], report.comparison.labels, [1, 1])
    assert text == (
        f"{'':63}{'v6_1':>26}{'v6_1_order_v2':>26}\n"
        "Amean   icx/3/*/hackbench_sockets/hackbench_sockets.throughput "
        "       1400000 (    0.00%)       1225000 *  -12.50%*\n"
        "Amean   icx/2/*/hackbench_sockets/hackbench_sockets.throughput "
        "       1400000 (    0.00%)       1283333 *   -8.33%*\n"
    )


def test_lower_is_better_turns_the_sign_in_mmtests_only():
    ds = dataset(
        {"kernel": ["a", "b"]}, SUnreclaim=lambda kernel, **_: 100 if kernel == "a" else 80
    )
    report = report_of(compare(cells_of(ds), "kernel=a"))
    assert "*   20.00%*" in report.text(layout="mmtests")
    assert "     -20.0%      80.00" in report.text()


def test_without_comparison_there_is_a_table_of_the_metric():
    ds = lab().sel(kernel="v6_1_order_v2", machine=["icx", "graviton2"], slab_max_order=[3])
    lines = summary_table(cells_of(ds.drop_vars("kernel"))).splitlines()
    assert lines[0] == (
        "machine    slab_max_order  gfp                   workload           "
        "         %stddev  metric"
    )
    assert lines[1] == (
        "icx        3               *                     hackbench_sockets     1225000        "
        "throughput [1/s]"
    )
    assert lines[-2].endswith("hugepages                   -        nr_hugepages  3 oom")
    assert summary_table(cells_of(ds), limit=2).splitlines()[3] == "... and 6 more points"


def test_where_nothing_changed_the_report_says_what_would():
    ds = dataset(
        {"kernel": ["a", "b"], "order": [0, 3], "gfp": ["x", "y"]},
        throughput=lambda order, **_: 100.0 + 10 * order,
    )
    assert report_of(compare(cells_of(ds), "kernel=a")).overview().splitlines() == [
        "kernel: b against a",
        "4 points (2 distinct): 0 regressed, 0 improved, 0 changed otherwise, 2 unchanged"
        " (throughput)",
        "0 of 2 differences significant at 5% (Welch's t test, two-sided; Benjamini-Hochberg)",
        "kernel makes no difference here; what does, against its first value:",
        "  throughput by order: 3 +30.0%",
    ]
