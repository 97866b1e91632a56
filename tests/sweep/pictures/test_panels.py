"""Surfaces: which axis goes where, what is merged, what is missing; and their pictures."""

import numpy as np
import pytest
from matplotlib.image import imread

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.answer.effects import effects
from sweep.answer.groups import rank
from sweep.pictures.heat_map import colour_limit, draw, figure_of, percent, short
from sweep.pictures.panels import column_axis, metric_surfaces, surfaces
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
    assert hackbench.changed[0].tolist() == [False, True, True, True]


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


def test_a_png_per_machine_is_drawn(tmp_path, patch):
    paths = draw(patch, tmp_path)
    assert [path.name for path in paths] == [
        "surface-epyc.png",
        "surface-icx.png",
        "surface-graviton2.png",
    ]
    for path in paths:
        height, width, _ = imread(path).shape
        assert 300 < height < 700 < width


def test_the_picture_says_what_it_shows(patch):
    figure = figure_of(patch[2], colour_limit(patch))
    assert figure.get_suptitle() == "graviton2   kernel: v6_1_order_v2 against v6_1"
    hackbench, hugepages = figure.axes[:2]
    assert hackbench.get_title() == "hackbench_sockets: throughput [1/s]"
    assert [text.get_text() for text in hugepages.texts] == [
        "+1.6\n(any slab_max_order)",
        "0.0\n(any slab_max_order)",
        "oom",
    ]
    hatched = [patch.get_hatch() for patch in hugepages.patches]
    assert hatched == [None, None, "////"]
    assert [text.get_text() for text in hackbench.texts] == [
        "0.0\n(any gfp)",
        "+0.1\n(any gfp)",
        "+0.3\n(any gfp)",
        "+0.4\n(any gfp)",
    ]


def test_missing_cells_can_be_read_where_the_metric_is_shown():
    ds = dataset(
        {"x": [0, 1, 2]}, status=lambda x, **_: 4 * (x == 1), throughput=lambda x, **_: x + 5
    )
    panel = figure_of(metric_surfaces(cells_of(ds))[0], 1.0).axes[0]
    assert [text.get_text() for text in panel.texts] == ["5", "excluded", "7"]
    assert panel.texts[1].get_color() == "#555555"
    dark, _, bright = (patch.get_facecolor() for patch in panel.patches)
    assert sum(dark[:3]) < sum(bright[:3])


def test_better_is_blue_whatever_the_sign():
    for metric, better in (("throughput", 120.0), ("SUnreclaim", 80.0)):
        ds = dataset(
            {"kernel": ["a", "b"], "x": [1, 2]},
            **{metric: lambda kernel, better=better, **_: 100.0 if kernel == "a" else better},
        )
        figure = figure_of(surfaces(compare(cells_of(ds), "kernel=a", metric=metric))[0], 20.0)
        red, _, blue, _ = figure.axes[0].patches[0].get_facecolor()
        assert blue > 2 * red


def test_large_panels_have_no_numbers():
    ds = dataset(
        {"kernel": ["a", "b"], "x": list(range(40)), "y": list(range(20))},
        replicates=1,
        throughput=lambda kernel, x, y, **_: 1000.0 + (x * y if kernel == "b" else 0),
    )
    figure = figure_of(surfaces(compare(cells_of(ds), "kernel=a"))[0], 50.0)
    assert len(figure.axes[0].texts) == 0
    assert figure.axes[0].images[0].get_array().shape == (20, 40, 4)


@pytest.mark.parametrize(
    ("change", "text"), [(-12.53, "-12.5"), (0.01, "0.0"), (np.inf, "from 0"), (4e4, "+4e+04")]
)
def test_changes_are_short(change, text):
    assert percent(change) == text


@pytest.mark.parametrize(("value", "text"), [(0.25, "0.25"), (1.4e6, "1.4M"), (98765, "98.8k")])
def test_metrics_are_short(value, text):
    assert short(value) == text
