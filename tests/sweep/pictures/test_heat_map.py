"""Heat maps: hatches, crosses, signs, and one scale of colours for all machines."""

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.patches import Rectangle

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.pictures.heat_cells import MISSING, UNSURE
from sweep.pictures.heat_map import figure_of, overview_of
from sweep.pictures.panels import metric_surfaces, surfaces
from sweep.pictures.shades import CHANGES, ENDS, colour_limit, percent, short
from tests.sweep.synthetic import dataset, lab

MINUS = "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def patch():
    return surfaces(compare(cells_of(lab()), "kernel=v6_1"))


def boxes(spot, hatch):
    """Return (column, row, width, height) of the rectangles with a hatch."""
    found = [p for p in spot.patches if isinstance(p, Rectangle) and p.get_hatch() == hatch]
    return [(p.get_x() + 0.5, p.get_y() + 0.5, p.get_width(), p.get_height()) for p in found]


def test_the_picture_says_what_it_shows(patch):
    figure = figure_of(patch[2], colour_limit(patch))
    assert figure.get_suptitle() == "graviton2   kernel: v6_1_order_v2 against v6_1"
    hackbench, hugepages = figure.axes[:2]
    assert hackbench.get_title() == "hackbench_sockets: throughput [1/s]"
    assert (hackbench.get_xlabel(), hackbench.get_ylabel()) == ("slab_max_order", "gfp")
    assert [text.get_text() for text in hugepages.texts] == [
        "+1.6\n(any slab_max_order)",
        "0.0\n(any slab_max_order)",
        "oom",
    ]
    assert [text.get_text() for text in hackbench.texts] == [
        "0.0\n(any gfp)",
        "+0.1\n(any gfp)",
        "+0.3\n(any gfp)",
        "+0.4\n(any gfp)",
    ]


def test_hatched_are_exactly_the_cells_that_are_not_sure(patch):
    figure = figure_of(patch[2], colour_limit(patch))
    for spot, panel in zip(figure.axes[:2], patch[2].panels, strict=True):
        hatched = np.zeros(panel.cells.shape, dtype=bool)
        for column, row, width, height in boxes(spot, UNSURE):
            hatched[int(row) : int(row + height), int(column) : int(column + width)] = True
        assert (hatched == (~panel.sure & (panel.missing == ""))).all()
        assert hatched.any()
    assert not hatched.all()
    crossed = boxes(figure.axes[1], MISSING)
    assert crossed == [(0, 2, 4, 1)]  # atomic, at every order
    assert "crossed: no result" in figure.get_supxlabel()


def test_a_sign_is_read_without_colour(patch):
    texts = [t.get_text() for t in figure_of(patch[1], 12.5).axes[0].texts]
    assert [text.partition("\n")[0] for text in texts] == [
        "0.0",
        f"{MINUS}4.2",
        f"{MINUS}8.3",
        f"{MINUS}12.5",
    ]


def test_all_machines_share_one_scale(patch):
    limit = colour_limit(patch)
    assert limit == pytest.approx(12.5)
    spots = overview_of(patch, limit).axes[:3]
    assert [spot.get_title().strip() for spot in spots] == ["epyc", "icx", "graviton2"]
    for spot, change in zip(spots, (-3.0, -12.5, 0.4), strict=True):
        (last,) = (p for p in spot.patches if p.get_x() == 2.5 and p.get_fill())
        wanted = colormaps[CHANGES](0.5 + ENDS * change / 12.5)
        assert last.get_facecolor() == pytest.approx(wanted, abs=0.01)


def test_panels_of_zeros_are_named_and_not_drawn():
    ds = dataset(
        {"kernel": ["a", "b"], "x": [0, 1], "workload": ["still", "moved"]},
        throughput=lambda kernel, workload, **_: 9 + (kernel == "b") * (workload == "moved"),
    )
    figure = figure_of(surfaces(compare(cells_of(ds), "kernel=a"))[0], 20.0)
    assert figure.axes[0].get_title() == "moved: throughput [1/s]"
    assert len(figure.axes) == 2  # the other one is the colour bar
    assert "not drawn, 0.0 in all cells: still" in figure.get_supxlabel().replace("\n", " ")


def test_the_number_of_machines_and_rows_is_bounded():
    ds = dataset(
        {
            "machine": [f"m{k}" for k in range(9)],
            "kernel": ["a", *(f"b{k}" for k in range(8))],
            "x": [0, 1],
            "y": [0, 1],
        },
        throughput=lambda machine, kernel, **_: (
            100 if kernel == "a" else 101 + int(machine[1]) + int(kernel[1])
        ),
    )
    figure = overview_of(surfaces(compare(cells_of(ds), "kernel=a")), 20.0)
    assert len(figure.axes) == 6 * 6 + 1
    assert [s.get_title().strip() for s in figure.axes[:6]] == [f"m{k}" for k in range(3, 9)]
    text = figure.get_supxlabel().replace("\n", " ")
    assert "the 6 of 9 machines with the largest numbers" in text
    assert "the 6 of 8 rows with the largest numbers" in text


def test_narrow_cells_have_upright_numbers():
    ds = dataset({"x": list(range(60)), "y": [0, 1]}, throughput=lambda x, **_: 1000.0 + x)
    texts = figure_of(metric_surfaces(cells_of(ds))[0], 1.0).axes[0].texts
    assert {text.get_rotation() for text in texts} == {90.0}


def test_missing_cells_can_be_read_where_the_metric_is_shown():
    ds = dataset(
        {"x": [0, 1, 2]}, status=lambda x, **_: 4 * (x == 1), throughput=lambda x, **_: x + 5
    )
    panel = figure_of(metric_surfaces(cells_of(ds))[0], 1.0).axes[0]
    assert [text.get_text() for text in panel.texts] == ["5", "excluded", "7"]
    assert panel.texts[1].get_color() == "#444444"
    dark, _, _, bright = (patch.get_facecolor() for patch in panel.patches)
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


def test_large_panels_are_hatched_without_numbers():
    ds = dataset(
        {"kernel": ["a", "b"], "x": list(range(40)), "y": list(range(20))},
        replicates=1,
        throughput=lambda kernel, x, y, **_: 1000.0 + (x * y if kernel == "b" else 0),
    )
    (surface,) = surfaces(compare(cells_of(ds), "kernel=a"))
    spot = figure_of(surface, 50.0).axes[0]
    assert len(spot.texts) == 0
    assert spot.images[0].get_array().shape == (20, 40, 4)
    hatched = sum(path.get_extents().width for path in spot.collections[0].get_paths())
    assert hatched == (~surface.panels[0].sure).sum()


@pytest.mark.parametrize(
    ("change", "text"),
    [(-12.53, f"{MINUS}12.5"), (0.01, "0.0"), (np.inf, "from 0"), (4e4, "+4e+04")],
)
def test_changes_are_short(change, text):
    assert percent(change) == text


@pytest.mark.parametrize(("value", "text"), [(0.25, "0.25"), (1.4e6, "1.4M"), (98765, "98.8k")])
def test_metrics_are_short(value, text):
    assert short(value) == text
