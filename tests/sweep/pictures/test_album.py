"""The pictures of a run: which there are, and what is said of them."""

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.answer.groups import rank
from sweep.pictures.album import album_of
from tests.sweep.synthetic import dataset, lab

MINUS = "\N{MINUS SIGN}"


def drawn(ds, baseline):
    comparison = compare(cells_of(ds), baseline)
    return album_of(comparison, rank(comparison))


def test_a_comparison_has_heat_maps_and_curves_that_say_what_is_seen():
    album = drawn(lab(), "kernel=v6_1")
    assert [picture.stem for picture in album] == [
        "surface",
        "surface-epyc",
        "surface-icx",
        "surface-graviton2",
        "curve-slab_max_order",
    ]
    every, _, icx, graviton2, curve = album
    assert every.title == "All machines: change of throughput, nr_hugepages"
    assert icx.alt.startswith(
        f"icx: change of throughput, nr_hugepages from {MINUS}12.5 to +1.6 %;"
    )
    assert icx.alt in every.alt
    assert graviton2.alt.endswith(", 4 without a result.")
    assert (every.apart, icx.apart) == (False, True)
    assert "Curves of throughput along slab_max_order" in curve.alt
    for picture in album:
        assert picture.png[:8] == b"\x89PNG\r\n\x1a\n"
        assert 400 < picture.width < 2600
        assert 250 < picture.height < 2600


def test_the_same_picture_has_the_same_bytes():
    one, other = (drawn(lab().isel(machine=[1]), "kernel=v6_1") for _ in range(2))
    assert [picture.png for picture in one] == [picture.png for picture in other]


def test_where_nothing_changed_the_metric_itself_is_drawn():
    ds = dataset(
        {"machine": ["m", "n"], "kernel": ["a", "b"], "x": [1, 2, 4]},
        throughput=lambda machine, x, **_: x * (1.0 + (machine == "n")),
    )
    curve, every = drawn(ds, "kernel=a")
    assert (curve.stem, every.stem) == ("curve-x", "surface")
    assert (
        every.alt == "m: throughput from 1 to 4 in 3 cells. n: throughput from 2 to 8 in 3 cells."
    )
    assert "From x 1 to 4 it goes from" in curve.alt
