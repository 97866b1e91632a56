"""Surfaces: which axis goes where, what is merged, what is missing, what is sure."""

import numpy as np
import pytest
import xarray as xr

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.answer.effects import effects
from sweep.answer.groups import rank
from sweep.pictures.panels import column_axis, metric_surfaces, sure_of, surfaces
from tests.sweep.synthetic import dataset, lab


@pytest.fixture(scope="module")
def patch():
    return surfaces(compare(cells_of(lab()), "kernel=v6_1"))


def test_each_machine_has_a_surface_with_a_panel_per_workload(patch):
    assert [surface.machine for surface in patch] == ["epyc", "icx", "graviton2"]
    assert [panel.workload for panel in patch[0].panels] == ["hackbench_sockets", "hugepages"]
    assert [panel.metric for panel in patch[0].panels] == ["throughput", "nr_hugepages"]


def test_numbers_go_along_and_the_rest_down(patch):
    assert (patch[0].column_axis, patch[0].columns) == ("slab_max_order", ("0", "1", "2", "3"))
    assert (patch[0].row_axis, patch[0].rows) == (
        "gfp",
        ("kernel", "kernel_retry_mayfail", "atomic"),
    )


def test_cells_hold_the_change(patch):
    hackbench = patch[1].panels[0]
    assert hackbench.cells[0] == pytest.approx([0, -12.5 / 3, -25 / 3, -12.5])
    assert hackbench.sure[0].tolist() == [False, True, True, True]


def test_cells_without_effect_are_one_simulation(patch):
    hackbench, hugepages = patch[1].panels
    assert len(np.unique(hackbench.copy_of)) == 4  # one for each order
    assert (hackbench.copy_of == hackbench.copy_of[0]).all()
    assert (hugepages.copy_of == hugepages.copy_of[:, [0]]).all()


def test_missing_cells_say_why(patch):
    assert set(patch[2].panels[1].missing[2].tolist()) == {"oom"}
    assert np.isnan(patch[2].panels[1].cells[2]).all()
    assert set(patch[1].panels[1].missing.flat) == {""}


def test_cells_that_the_grid_leaves_out_are_excluded():
    ds = dataset(
        {"kernel": ["a", "b"], "x": [0, 1]},
        status=lambda x, **_: 4 * x,
        throughput=lambda **_: 5.0,
    )
    comparison = compare(cells_of(ds), "kernel=a")
    assert surfaces(comparison)[0].panels[0].missing.tolist() == [["", "excluded"]]
    assert len(rank(comparison).cells) == 0


def test_two_free_axes_share_the_rows():
    ds = dataset(
        {"kernel": ["a", "b"], "cpus": [1, 2, 4], "gfp": ["x", "y"], "thp": ["on", "off"]},
        throughput=lambda cpus, gfp, thp, **_: cpus + 10.0 * (gfp == "y") + (thp == "off"),
    )
    surface = surfaces(compare(cells_of(ds), "kernel=a"))[0]
    assert (surface.row_axis, surface.rows) == ("gfp/thp", ("x/on", "x/off", "y/on", "y/off"))
    assert surface.machine == ""


def test_machines_go_along_where_there_is_nothing_else():
    ds = dataset(
        {"machine": ["m", "n"], "kernel": ["a", "b"]},
        throughput=lambda machine, **_: 1.0 + (machine == "n"),
    )
    assert column_axis(cells_of(ds), ("machine",)) == "machine"
    assert len(surfaces(compare(cells_of(ds), "kernel=a"))) == 1


def test_values_are_rows_where_nothing_else_is():
    ds = dataset(
        {"kernel": ["a", "b", "c"], "cpus": [1, 2]},
        throughput=lambda kernel, cpus, **_: {"a": 100, "b": 90, "c": 80}[kernel] + cpus - 1.0,
    )
    surface = surfaces(compare(cells_of(ds), "kernel=a"))[0]
    assert (surface.row_axis, surface.rows, surface.values) == ("kernel", ("b", "c"), ("b", "c"))
    assert len(surface.panels) == 1
    assert surface.panels[0].cells == pytest.approx(
        np.array([[-10, -1000 / 101], [-20, -2000 / 101]])
    )
    assert len(np.unique(surface.panels[0].copy_of)) == 4


def test_without_baseline_the_metric_is_the_surface():
    surface = metric_surfaces(cells_of(lab().sel(kernel="v6_1", drop=True)))[1]
    assert surface.panels[0].cells[0] == pytest.approx([1.4e6] * 4)
    assert surface.baseline == ""


def test_effects_are_mean_changes_along_one_axis():
    found = effects(compare(cells_of(lab()), "kernel=v6_1"))
    by_order = found["slab_max_order"].sel(workload="hackbench_sockets")
    assert by_order.values.ravel() == pytest.approx(np.array([0, 1, 2, 3]) * -15.1 / 9)


def test_what_is_sure_is_what_the_test_says_or_lkps_rule_without_replicates():
    data = xr.Dataset(
        {
            "changed": ("x", [True, True, False]),
            "significant": ("x", [True, False, False]),
            "p_adjusted": ("x", [0.01, 0.2, np.nan]),
        }
    )
    sure, tested = sure_of(data)
    assert (sure.tolist(), tested) == ([True, False, False], True)
    sure, tested = sure_of(data.assign(p_adjusted=("x", [np.nan] * 3)))
    assert (sure.tolist(), tested) == ([True, True, False], False)


def test_a_surface_is_quiet_if_it_would_show_nothing_but_zeros():
    def near(kernel, x, **_):
        return 1000.0 + (0.4 * x if kernel == "b" else 0)

    axes = {"kernel": ["a", "b"], "x": [0, 1]}
    assert surfaces(compare(cells_of(dataset(axes, throughput=near)), "kernel=a"))[0].quiet
    oom = dataset(axes, throughput=near, status=lambda x, **_: x)
    assert not surfaces(compare(cells_of(oom), "kernel=a"))[0].quiet
    loud = dataset(axes, throughput=lambda kernel, x, **_: 1000 + (kernel == "b") * x)
    assert not surfaces(compare(cells_of(loud), "kernel=a"))[0].quiet
    assert not metric_surfaces(cells_of(oom))[0].quiet
