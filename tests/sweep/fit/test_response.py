"""Surfaces: known formulas come back, nothing is said outside of what was run."""

import numpy as np
import pytest
import statsmodels.formula.api as smf
import xarray as xr

from allocator.errors import ConfigError
from sweep.answer.cells import Cells
from sweep.fit.response import chosen, responses
from tests.sweep.synthetic import dataset, lab


def cells(*args, **kwargs) -> Cells:
    return Cells(root=dataset(*args, **kwargs))


def coefficients(response) -> dict[str, float]:
    return dict(zip(response.terms, response.coefficients.tolist(), strict=True))


def test_a_quadratic_with_an_interaction_comes_back_exactly():
    def throughput(*, kernel, order, **_):
        slope = 7.0 if kernel == "new" else 3.0
        return 1000 + slope * order - 2 * order**2 + (50 if kernel == "new" else 0)

    axes = {"kernel": ["old", "new"], "order": [0, 1, 2, 3, 4]}
    (found,) = responses(cells(axes, throughput=throughput))
    # order = 2 + 2 z: 1000 + 3 (2 + 2z) - 2 (2 + 2z)^2 = 998 - 10 z - 8 z^2
    want = {
        "intercept": 998,
        "kernel[new]": 58,
        "order": -10,
        "order^2": -8,
        "kernel[new] x order": 8,
        "kernel[new] x order^2": 0,
    }
    assert coefficients(found) == pytest.approx(want, abs=1e-9)
    assert found.scale == "metric"
    assert found.r2 == pytest.approx(1)
    assert not found.saturated
    assert found.loo_rmse < 1e-5
    assert found.predict(kernel="new", order=2.5).value == pytest.approx(1000 + 17.5 - 12.5 + 50)


def test_a_product_of_powers_is_fitted_in_the_logarithm():
    def throughput(*, cpus, groups, **_):
        return 5.0 * cpus**0.75 * groups**-0.5

    axes = {"cpus": [1, 2, 4, 8, 16], "groups": [10, 20, 40]}
    (found,) = responses(cells(axes, throughput=throughput))
    assert found.scale == "logarithm"
    # log2(cpus) = 2 + 2 z
    assert coefficients(found)["cpus"] == pytest.approx(0.75 * 2 * np.log(2))
    assert found.predict(cpus=6, groups=30).value == pytest.approx(throughput(cpus=6, groups=30))


def test_a_spline_bends_where_a_cubic_cannot():
    def throughput(*, cpus, **_):
        return 100 * np.tanh((cpus - 16) / 3)

    (found,) = responses(cells({"cpus": list(range(1, 33))}, throughput=throughput))
    (curve,) = found.design.bases
    assert curve.knots == (1, 5, 10, 14, 19, 23, 28, 32)
    assert found.terms[1] == "cpus@5"
    assert found.r2 > 0.99
    # a coefficient of a spline: from the first knot to this one
    at = found.predict(cpus=np.array([1, 19])).value
    assert coefficients(found)["cpus@19"] == pytest.approx(at[1] - at[0])


def noisy() -> xr.Dataset:
    rng = np.random.default_rng(5)
    axes = {"kernel": ["a", "b", "c"], "order": [0, 1, 2, 3]}

    def throughput(*, kernel, order, **_):
        return 10 * order - 250 + ord(kernel) * (1 + order) + rng.normal(0, 20)

    return dataset(axes, replicates=4, throughput=throughput)


def test_the_figures_are_those_of_statsmodels():
    ds = noisy()
    (found,) = responses(Cells(root=ds))
    frame = ds["throughput"].mean("replicate").to_dataframe().reset_index()
    frame["z"] = (frame["order"] - 1.5) / 1.5
    powers = " + ".join(["z", "I(z**2)", "I(z**3)"][: found.design.bases[1].degree])
    between = {1: "+", 2: "*"}[found.design.together]
    fit = smf.ols(f"throughput ~ kernel {between} ({powers})", frame).fit()
    assert found.scale == "metric"
    assert sorted(found.coefficients) == pytest.approx(sorted(fit.params))
    assert sorted(found.stderr) == pytest.approx(sorted(fit.bse))
    assert found.r2 == pytest.approx(fit.rsquared)
    assert found.r2_adjusted == pytest.approx(fit.rsquared_adj)
    assert found.rmse == pytest.approx(np.sqrt((fit.resid**2).mean()))
    press = fit.get_influence().resid_press
    assert found.loo_rmse == pytest.approx(np.sqrt((press**2).mean()))
    assert found.largest_residual == pytest.approx(fit.resid[fit.resid.abs().idxmax()])
    inside = ds["throughput"].var("replicate", ddof=1).mean()
    assert found.noise == pytest.approx(np.sqrt(float(inside)))
    assert found.noise_of_mean == pytest.approx(found.noise / 2)
    at = fit.get_prediction(frame).summary_frame(alpha=0.05)
    mine = found.predict(kernel=frame["kernel"].values, order=frame["order"].values)
    assert mine.value == pytest.approx(at["mean"].values)
    assert mine.low == pytest.approx(at["obs_ci_lower"].values)
    assert mine.high == pytest.approx(at["obs_ci_upper"].values)


def test_leaving_a_point_out_is_what_it_says():
    ds = noisy()
    (found,) = responses(Cells(root=ds))
    mean = ds["throughput"].mean("replicate").values.ravel()
    places = [basis.places(ds[basis.axis].values) for basis in found.design.bases]
    grid = [axis.ravel() for axis in np.meshgrid(*places, indexing="ij")]
    columns = found.design.matrix(grid)
    errors = []
    for left in range(len(mean)):
        rest = np.arange(len(mean)) != left
        solved = np.linalg.lstsq(columns[rest], mean[rest], rcond=None)[0]
        errors.append(mean[left] - columns[left] @ solved)
    assert found.loo_rmse == pytest.approx(np.sqrt(np.mean(np.square(errors))))


def test_points_count_by_their_runs():
    """A point with one run of four weighs a quarter of one with all."""

    def status(*, order, replicate, **_):
        return 2 if order == 1 and replicate > 0 else 0

    def throughput(*, order, **_):
        return {0: 0.0, 1: 30.0, 2: 0.0}[order]

    (found,) = responses(cells({"order": [0, 1, 2]}, 4, status=status, throughput=throughput))
    # a straight line without slope; the mean of 0, 0 and a quarter of 30 is 30/9
    assert coefficients(found) == pytest.approx({"intercept": 30 / 9, "order": 0})


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"order": 5}, "order: found 5, expected 0 to 4, as was run"),
        ({"order": -0.1}, "order: found -0.1, expected 0 to 4, as was run"),
        ({"order": "many"}, "order: found 'many', expected 0 to 4, as was run"),
        ({"kernel": "v9"}, "kernel: found 'v9', expected one of old, new"),
        ({"kernel": ["old", "v9"]}, "kernel: found 'v9', expected one of old, new"),
        ({"gfp": "atomic"}, "gfp: found 'atomic', expected one of kernel, user"),
        ({"speed": 1}, "axis: found 'speed', expected one of kernel, order, gfp"),
        ({"order": None}, "order: found None, expected a value: 0 to 4, as was run"),
    ],
)
def test_extrapolation_is_refused_in_one_line(asked, line):
    def throughput(*, kernel, order, **_):
        return 1000 + order * (1 if kernel == "old" else 2)

    axes = {"kernel": ["old", "new"], "order": [0, 2, 4], "gfp": ["kernel", "user"]}
    (found,) = responses(cells(axes, throughput=throughput))
    assert found.without_effect == ("gfp",)
    given = {
        name: value
        for name, value in ({"kernel": "old", "order": 1} | asked).items()
        if value is not None
    }
    with pytest.raises(ConfigError) as caught:
        found.predict(**given)
    assert str(caught.value) == line


def test_predictions_take_the_shape_of_what_is_asked():
    (found,) = responses(Cells(root=noisy()))
    one = found.predict(kernel="b", order=2)
    assert isinstance(one.value, float)
    assert one.low < one.value < one.high
    orders = xr.DataArray(np.linspace(0, 3, 7), dims="order")
    kernels = xr.DataArray(["a", "b"], dims="kernel", coords={"kernel": ["a", "b"]})
    many = found.predict(kernel=kernels, order=orders)
    assert many.value.dims == ("kernel", "order")
    assert many.high.sel(kernel="b").values[4] == pytest.approx(one.high, rel=1e-12)
    assert found.predict(kernel=[["a"], ["b"]], order=np.arange(3)).value.shape == (2, 3)


def test_axes_without_effect_leave_no_copies_behind():
    """Copies of a point would predict each other, and the error would look small."""
    found = {(r.machine, r.workload): r for r in responses(Cells(root=lab()))}
    assert found["icx", "hackbench_sockets"].without_effect == ("gfp",)
    assert found["icx", "hackbench_sockets"].n == 2 * 4
    assert found["icx", "hugepages"].without_effect == ("slab_max_order",)
    assert found["icx", "hugepages"].n == 2 * 3
    assert found["graviton2", "hugepages"].missing == 4
    assert len(found) == 6


def test_a_fit_through_every_point_claims_no_quality():
    (found,) = responses(cells({"kernel": ["a", "b"]}, throughput=lambda **k: ord(k["kernel"])))
    assert found.saturated
    assert np.isnan([found.r2, found.r2_adjusted, found.loo_rmse]).all()
    assert found.predict(kernel="b").value == pytest.approx(ord("b"))


def test_a_single_value_and_no_values_are_constants():
    (found,) = responses(cells({"kernel": ["a"]}, throughput=lambda **_: 5.0))
    assert (found.terms, found.n, found.without_effect) == (("intercept",), 1, ("kernel",))
    assert found.predict() == (5.0, 5.0, 5.0)
    (found,) = responses(cells({}, throughput=lambda **_: 5.0))
    assert found.predict().value == 5.0


def test_an_interval_without_degrees_of_freedom_is_the_noise_of_the_runs():
    ds = dataset({"kernel": ["a", "b"]}, throughput=lambda kernel, replicate: 10.0 + replicate)
    ds["throughput"].loc[{"kernel": "b"}] += 100
    (found,) = responses(Cells(root=ds))
    # variance of a run 1, of a mean of 3 runs 1/3; twice, once for the surface; t of 4 degrees
    assert found.predict(kernel="a").high == pytest.approx(11 + 2.7764451 * np.sqrt(2 / 3))


def test_one_run_and_a_saturated_fit_have_no_interval():
    (found,) = responses(cells({"kernel": ["a", "b"]}, 1, throughput=lambda **k: ord(k["kernel"])))
    assert np.isnan(found.noise)
    assert np.isnan(found.predict(kernel="a").low)


def test_machines_without_results_have_no_surface():
    ds = dataset(
        {"machine": ["good", "bad"], "order": [0, 1, 2]},
        status=lambda machine, **_: 2 * (machine == "bad"),
        throughput=lambda order, **_: 5.0 + order,
    )
    found = responses(Cells(root=ds))
    assert [r.machine for r in found] == ["good"]
    with pytest.raises(ConfigError, match="machine: found 'bad', expected one with results: good"):
        chosen(found, machine="bad")
    with pytest.raises(ConfigError, match="status: found '9 of 9 runs failed'"):
        chosen(responses(Cells(root=ds.sel(machine=["bad"]))))


def test_numbers_with_null_among_them_are_categories():
    axes = {"order": ["null", "0", "1", "2"]}
    (found,) = responses(
        cells(axes, throughput=lambda order, **_: len(order) + 1.0 * (order == "1"))
    )
    assert found.categories == {"order": ("null", "0", "1", "2")}
    assert found.ranges == {}
    assert found.predict(order=0).value == pytest.approx(1.0)


def test_sizes_are_numbers():
    axes = {"memory": ["[256MiB]", "[512MiB]", "[1GiB]", "[2GiB]"]}
    pages = {"[256MiB]": 100, "[512MiB]": 200, "[1GiB]": 400, "[2GiB]": 800}
    (found,) = responses(cells(axes, nr_hugepages=lambda memory, **_: pages[memory]))
    assert found.ranges == {"memory": (256 << 20, 2 << 30)}
    assert found.predict(memory=768 << 20).value == pytest.approx(300)
    assert found.predict(memory="[1GiB]").value == pytest.approx(400)


def test_a_combination_that_never_met_is_refused():
    def status(*, kernel, order, **_):
        return 4 if kernel == "new" and order == 3 else 0  # left out of the grid

    def throughput(*, kernel, order, **_):
        return 1000 + {0: 0, 1: 5, 3: 40}[order] * (1 if kernel == "old" else 3)

    axes = {"kernel": ["old", "new"], "order": [0, 1, 3], "seed": [0, 1, 2, 3]}
    ds = dataset(axes, status=status, throughput=throughput)
    ds["throughput"] = ds["throughput"] + ds["seed"] ** 2
    ds = ds.assign_coords(order=["null", "1", "3"])
    (found,) = responses(Cells(root=ds))
    assert found.missing == 0
    assert "kernel[new] x order[3]" in found.unidentified
    assert found.predict(kernel="new", order="1", seed=1).value == pytest.approx(1016)
    with pytest.raises(
        ConfigError, match="kernel, order, seed: found 'new, 3, 1', expected a comb"
    ):
        found.predict(kernel="new", order="3", seed=1)


def test_paired_axes_are_axes_each():
    ds = dataset({"machine__order": [0, 1, 2, 3, 4, 5]}, throughput=lambda **_: 0.0)
    ds = ds.assign_coords(
        machine=("machine__order", ["m1", "m1", "m1", "m2", "m2", "m2"]),
        order=("machine__order", [0, 1, 2, 0, 2, 4]),
    )
    ds["throughput"] = ds["throughput"] + xr.where(ds["machine"] == "m1", 10, 20) * ds["order"]
    one, two = responses(Cells(root=ds))
    assert (one.machine, one.ranges) == ("m1", {"order": (0, 2)})
    assert (two.machine, two.ranges) == ("m2", {"order": (0, 4)})
    assert two.predict(order=3).value == pytest.approx(60)


def test_axes_that_move_together_cannot_be_told_apart():
    ds = dataset({"sample": list(range(6))}, throughput=lambda sample, **_: 3.0 * sample)
    ds = ds.assign_coords(a=("sample", [0, 1, 2, 3, 4, 5]), b=("sample", [0, 2, 4, 6, 8, 10]))
    (found,) = responses(Cells(root=ds))
    assert found.terms == ("intercept", "a")
    assert found.unidentified == ("b",)
    assert found.predict(a=2.5, b=5).value == pytest.approx(7.5)
    with pytest.raises(ConfigError, match="a combination that the run has"):
        found.predict(a=2.5, b=9)


def test_unknown_metrics_are_refused():
    with pytest.raises(ConfigError, match="metric: found 'speed', expected one of throughput"):
        responses(Cells(root=noisy()), "speed")
