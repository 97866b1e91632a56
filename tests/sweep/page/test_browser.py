"""The page in a real browser: no error, no request, no sideways scroll of the page."""

import html
import json
import re
import shutil
import subprocess

import pytest

from tests.sweep.page.test_page import page_of
from tests.sweep.synthetic import lab

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed here"),
]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
WATCH = """<script>
const told = {errors: []};
const inner = frame.contentWindow;
inner.addEventListener("error", (e) => told.errors.push(String(e.message || e.target.src)), true);
inner.console.error = inner.console.warn = (text) => told.errors.push(String(text));
inner.document.open(); inner.document.write(source.textContent); inner.document.close();
setTimeout(() => {
  const top = inner.document.documentElement;
  told.page = [top.scrollWidth, top.clientWidth];
  told.images = [...inner.document.images].map((image) => image.naturalWidth);
  told.requests = inner.performance.getEntriesByType("resource")
    .map((entry) => entry.name).filter((name) => !name.startsWith("data:"));
  const box = inner.document.querySelector(".box table").parentNode;
  told.box = [box.scrollWidth, box.clientWidth];
  const change = [...inner.document.querySelectorAll("th button")]
    .find((button) => button.textContent === "change");
  const first = () => inner.document.querySelector("tbody td.change").textContent;
  told.first = [first()];
  change.click(); told.first.push(first());
  change.click(); told.first.push(first());
  answer.textContent = JSON.stringify(told);
}, 500);
</script>"""


@pytest.fixture(scope="module")
def page():
    return page_of(lab())


def seen(page, width, folder):
    """Return what a browser tells of the page in a window of some width."""
    file = folder / "frame.html"
    file.write_text(
        '<!doctype html><meta charset="utf-8"><pre id="answer"></pre>'
        f'<template id="t"></template><pre id="source" hidden>{html.escape(page)}</pre>'
        f'<iframe id="frame" style="border:0;width:{width}px;height:800px"></iframe>{WATCH}'
    )
    done = subprocess.run(
        [
            *(CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}"),
            *("--virtual-time-budget=4000", "--dump-dom", file.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    answer = re.search(r'<pre id="answer">(.+?)</pre>', done.stdout)
    assert answer, done.stderr[-500:]
    return json.loads(html.unescape(answer.group(1)))


@pytest.mark.parametrize("width", [360, 1600])
def test_the_page_works_at_any_width_without_error_or_request(page, width, tmp_path):
    told = seen(page, width, tmp_path)
    assert told["errors"] == []
    assert told["requests"] == []
    assert told["page"] == [width, width]
    assert len(told["images"]) == 5
    assert min(told["images"]) > 400
    if width == 360:
        assert told["box"][0] > told["box"][1]  # the table scrolls in its own box
    worst = "\N{MINUS SIGN}12.5 %"
    assert told["first"] == ["no result", "+1.6 %", worst]  # as it comes, falling, rising
