"""What the page says of surfaces and of what the change hangs on."""

import numpy as np

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.fit.response import responses
from sweep.fit.sensitivity import sensitivity
from sweep.page.fits import sensitivity_section, surfaces_section
from tests.sweep.synthetic import dataset, lab


def test_each_machine_has_a_line_with_its_shares():
    text = sensitivity_section(sensitivity(compare(cells_of(lab()), "kernel=v6_1")))
    title, method, units, _, head, *lines = text.splitlines()
    assert title == "What the change hangs on"
    assert "analysis of variance, type II" in method
    assert "percent" in units
    assert head.split() == ["machine", "workload", "stddev", "chance", "explained", "by"]
    assert [line.split()[0] for line in lines] == ["epyc"] * 2 + ["icx"] * 2 + ["graviton2"] * 2
    assert lines[2].split(maxsplit=2) == [
        "icx",
        "hackbench_sockets",
        "4.7     0 %     100 % slab_max_order",
    ]
    assert lines[3].endswith("100 % gfp")


def test_one_axis_alone_needs_no_section():
    ds = dataset(
        {"kernel": ["a", "b"], "x": [1, 2]}, throughput=lambda kernel, x, **_: x * len(kernel) + x
    )
    assert sensitivity_section(sensitivity(compare(cells_of(ds), "kernel=a"))) == ""


def test_surfaces_are_listed_with_their_figures():
    rng = np.random.default_rng(0)
    ds = dataset(
        {"machine": ["m1", "m2"], "x": [1, 2, 3, 4, 5], "kernel": ["old", "new"]},
        throughput=lambda x, kernel, **_: 100 * x + 10 * (kernel == "new") + rng.normal(),
    )
    found = responses(cells_of(ds))
    lines = surfaces_section(found, "in the attic").splitlines()
    assert lines[0] == "Response surfaces"
    assert "Coefficients: in the attic" in lines
    rows = [line.split() for line in lines[-2:]]
    for row, one in zip(rows, found, strict=True):
        assert row[:6] == [one.machine, "-", "throughput", "[1/s]", "10", str(one.nterms)]
        assert row[6] == f"{one.r2:.3f}"
        assert float(row[7]) == float(f"{one.rmse:.4g}")


def test_a_surface_through_all_its_points_shows_no_residual():
    ds = dataset({"kernel": ["a", "b"]}, throughput=lambda kernel, **_: float(ord(kernel)))
    line = surfaces_section(responses(cells_of(ds)), "x").splitlines()[-1].split()
    assert line == ["-", "-", "throughput", "[1/s]", "2", "2", "-", "-", "-", "0", "-", "metric"]


def test_no_axis_no_section():
    ds = dataset({"kernel": ["a", "b"]}, throughput=lambda **_: 1.0)
    assert surfaces_section(responses(cells_of(ds)), "x") == ""
