"""The page's structure: self-contained, bounded, escaped, and fit for any browser."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray as xr

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.answer.tables import report_of
from sweep.page.build import MOST_DETAILS, MOST_ROWS, comparison_page, metric_page
from sweep.pictures.album import Picture, album_of
from tests.sweep.synthetic import dataset, lab

MINUS = "\N{MINUS SIGN}"
VOID = {"meta", "link", "img", "br"}


class Structure(HTMLParser):
    """What tests ask of a page."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.images, self.links, self.open = [], [], [], []
        self.texts = {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.images += [found] if tag == "img" else []
        self.links += [v for k, v in attrs if k in ("src", "href", "action", "srcset", "poster")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def page_of(ds, baseline="kernel=v6_1"):
    report = report_of(compare(cells_of(ds), baseline))
    album = album_of(report.comparison, report.ranking)
    return comparison_page(report, album, table="compare.txt")


@pytest.fixture(scope="module")
def page():
    return page_of(lab())


def test_nothing_comes_from_anywhere_else(page):
    found = Structure(page)
    assert found.links
    assert all(link.startswith("data:") for link in found.links)
    assert not re.search(r"url\(|@import|https?://", "".join(found.texts["style"]))
    assert not re.search(r"fetch|XMLHttp|import|https?://", "".join(found.texts["script"]))


def test_elements_are_closed_ids_are_unique_and_pictures_say_what_is_seen(page):
    found = Structure(page)
    assert found.open == []
    assert len(found.ids) == len(set(found.ids)) > 5
    assert len(found.images) == 5
    for image in found.images:
        assert image["src"].startswith("data:image/png;base64,iVBOR")
        assert len(image["alt"]) > 30
    assert f"from {MINUS}12.5 to +1.6 %" in "".join(image["alt"] for image in found.images)


def test_the_table_has_a_row_for_each_change_and_marks_what_is_sure(page):
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    oom, first, *_ = body.split("</tr>")
    assert 'class="worse"' not in oom
    assert "oom: 3 of 3 runs, 0 before" in oom
    assert 'class="worse"' in first
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", first)
    assert cells[:4] == ["icx", "3", "*", "hackbench_sockets"]
    assert f"{MINUS}12.5 %" in cells
    assert 'data-value="-12.5' in first
    assert ">0.0 %" not in body


def test_what_the_dataset_says_cannot_become_markup():
    name = '<script>alert("x")</script>'
    ds = dataset(
        {"kernel": ["a", name], "machine": ["m&m", "n"]},
        throughput=lambda kernel, machine, **_: 90.0 + 10 * (kernel == "a") + (machine == "n"),
    )
    ds.attrs["command"] = f"slabsweep {name}"
    page = page_of(ds, "kernel=a")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "m&amp;m" in page


def test_a_large_grid_has_a_bounded_page_that_says_how_many_more_there_are():
    kernels, x, y = ["a", "b"], np.arange(60), np.arange(50)
    shape = (2, 60, 50, 2)
    rng = np.random.default_rng(1)
    data = 1000 + rng.normal(0, 1, shape)
    data[1] -= 100 + 10 * x[:, None, None]
    dims = ("kernel", "x", "y", "replicate")
    ds = xr.Dataset(
        {"throughput": (dims, data), "status": (dims, np.zeros(shape, dtype=np.int8))},
        coords={"kernel": kernels, "x": x, "y": y},
    )
    page = page_of(ds, "kernel=a")
    assert len(page) < 5e6
    assert page.count("<tr") == MOST_ROWS + 1
    assert f"and {3000 - MOST_ROWS} more; compare.txt has the first 1000." in page
    assert f"and {3000 - MOST_DETAILS} more; compare.txt has the first 1000." in page


def test_a_run_without_comparison_tells_the_range_of_each_metric():
    ds = dataset(
        {"machine": ["m", "n"], "x": [1, 2]},
        throughput=lambda machine, x, **_: 1000.0 * x + (machine == "n"),
        status=lambda machine, x, **_: 4 * (machine == "n" and x == 2),
    )
    ds.attrs["overrides"] = '["machine=m,n", "x=1,2"]'
    command = "python -m sweep.report RUN --baseline machine=m"
    page = metric_page(cells_of(ds), None, [], table="summary.txt", command=command)
    assert "3 runs each; nothing is compared." in page
    assert "From 1000 [1/s] at machine=m, x=1 to 2000 [1/s] at machine=m, x=2." in page
    assert "3 of 12 runs: left out of the grid." in page
    assert f"<dd>{command}</dd>" in page
    assert "python -m sweep machine=m,n x=1,2" in page
    assert Structure(page).open == []


def test_pictures_of_one_machine_are_folded_away():
    picture = Picture(stem="a", title="t", alt="seen", png=b"\x89PNG\r\n\x1a\n" + bytes(16))
    parts = {"stem": "b", "title": "one machine", "alt": "seen", "png": picture.png}
    one = Picture(**parts, apart=True)
    report = report_of(compare(cells_of(lab()), "kernel=v6_1"))
    page = comparison_page(report, [picture, one], table="compare.txt")
    folded = page[page.index("Each machine by itself") :]
    assert "one machine" in folded
    assert "<figcaption>t<" not in folded
