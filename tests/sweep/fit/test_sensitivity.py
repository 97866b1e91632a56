"""Shares of the variance of a change: against statsmodels, and where they are known by hand."""

import numpy as np
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.fit.sensitivity import BINS, REST, sensitivity
from tests.sweep.synthetic import dataset, lab

AXES = {"kernel": ["old", "new"], "a": [1, 2, 3], "b": ["x", "y"], "c": [1, 2, 4, 8]}


def found(ds, **more):
    return sensitivity(compare(cells_of(ds), "kernel=old"), **more)


def drawn(status=lambda **_: 0):
    """Three axes, each two of them together, and noise."""
    rng = np.random.default_rng(1)

    def throughput(*, kernel, a, b, c, **_):
        change = 0.1 * a + 0.05 * a * (b == "x") + 0.02 * c * (b == "x") + 0.03 * rng.normal()
        return 100 * (1 + change * (kernel == "new"))

    return dataset(AXES, replicates=2, status=status, throughput=throughput)


@pytest.mark.parametrize(
    "status",
    [lambda **_: 0, lambda a, b, c, **_: int((a, b, c) in ((1, "x", 4), (2, "x", 1)))],
    ids=["full", "with holes"],
)
def test_shares_are_those_of_statsmodels(status):
    ds = drawn(status)
    data = found(ds)
    change = compare(cells_of(ds), "kernel=old").data["change"].isel(kernel=0)
    frame = change.to_dataframe(name="y").reset_index().dropna(subset=["y"])
    table = anova_lm(ols("y ~ (C(a) + C(b) + C(c)) ** 2", frame).fit(), typ=2)
    whole = ((frame.y - frame.y.mean()) ** 2).sum()
    shares = 100 * table["sum_sq"] / whole
    # type II of single axes is judged beside single axes only
    single = anova_lm(ols("y ~ C(a) + C(b) + C(c)", frame).fit(), typ=2)["sum_sq"] * 100 / whole
    for term in data["term"].values[:-1]:
        name = ":".join(f"C({axis})" for axis in term.split(" x "))
        expected = shares[name] if ":" in name else single[name]
        assert float(data["share"].sel(term=term)) == pytest.approx(expected, abs=1e-6)
    assert float(data["share"].sel(term=REST)) == pytest.approx(shares["Residual"], abs=1e-6)
    assert int(data["points"]) == len(frame)
    assert float(data["stddev"]) == pytest.approx(frame.y.std(ddof=0))


def test_shares_of_a_full_grid_are_sobol_indices_and_add_up():
    data = found(drawn())
    assert float(data["share"].sum()) == pytest.approx(100)
    for axis in data["axis"].values:
        of_axis = [t for t in data["term"].values if axis in t.split(" x ")]
        lower = float(data["share"].sel(term=of_axis).sum())
        total = float(data["total"].sel(axis=axis))
        assert lower <= total <= lower + float(data["share"].sel(term=REST))


def test_a_known_change_is_split_as_it_was_made():
    data = found(lab().sel(kernel=["v6_1", "v6_1_order_v2"]).assign_coords(kernel=["old", "new"]))
    icx = data.sel(machine="icx", workload="hackbench_sockets")
    assert float(icx["share"].sel(term="slab_max_order")) == pytest.approx(100)
    assert float(icx["total"].sel(axis="gfp")) == 0
    # -12.5 % times 0, 1/3, 2/3 and 1
    assert float(icx["stddev"]) == pytest.approx(12.5 * np.std([0, 1 / 3, 2 / 3, 1]))
    # its runs differ by 0.2 %: the variance of a quotient of two means of three
    of_runs = 2 * 0.2**2 / 3 / float(icx["stddev"]) ** 2
    assert float(icx["noise"]) == pytest.approx(100 * of_runs, rel=0.2)
    together = found(
        lab().assign_coords(kernel=["old", "new"]).sel(workload="hackbench_sockets"),
        by_machine=False,
    )
    assert together["share"].dims == ("term",)
    shares = together["share"].sel(term=["machine", "slab_max_order", "machine x slab_max_order"])
    assert float(shares.sum()) == pytest.approx(100)
    assert float(shares[0]) > float(shares[2]) > float(shares[1]) > 0


def test_nothing_that_varies_has_no_shares():
    ds = dataset(AXES, throughput=lambda a, **_: 10.0 * a)
    data = found(ds)
    assert np.isnan(data["share"]).all()
    assert float(data["stddev"]) == 0
    nothing = dataset(AXES, status=lambda c, **_: int(c > 0), throughput=lambda **_: 1.0)
    nothing["status"][0] = 0
    assert int(found(nothing)["points"]) == 0


def test_compared_values_are_an_axis():
    axes = {"kernel": ["old", "new", "newer"], "a": [1, 2, 3]}
    ds = dataset(axes, throughput=lambda kernel, a, **_: 10 + len(kernel) * (kernel != "old"))
    data = found(ds)
    assert data["axis"].values.tolist() == ["a", "kernel"]
    assert float(data["share"].sel(term="kernel")) == pytest.approx(100)


def test_axes_that_were_sampled_together_are_told_apart():
    n = BINS**2
    x = np.arange(n)
    y = x % BINS * BINS + x // BINS  # every bin of y has points of all bins of x
    ds = dataset(
        {"kernel": ["old", "new"], "sample": list(range(n))},
        throughput=lambda kernel, sample, **_: 100 - (kernel == "new") * (x[sample] // BINS),
    )
    ds = ds.assign_coords(x=("sample", x), y=("sample", y))
    data = found(ds)
    assert data["axis"].values.tolist() == ["x", "y"]
    assert data["share"].values == pytest.approx([100, 0, 0], abs=1e-9)
