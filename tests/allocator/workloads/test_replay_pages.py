"""Page scripts against records of booted kernels, and what is made of a record's start."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from allocator.errors import PredictError
from allocator.pages import migratetype as mt
from allocator.records.machine import kernel_of
from allocator.records.predict import predict
from allocator.records.record import record_of
from allocator.workloads.page_start import build_start
from allocator.workloads.replay_pages import id_runs
from allocator.workloads.script import parse_script
from tests.allocator.pages.zones_of_tests import zone

GOLDEN = Path(__file__).parents[2] / "golden" / "replay_pages"
RECORDS = sorted(GOLDEN.rglob("*.json"))


def content_of(name):
    return json.loads(next(GOLDEN.rglob(f"{name}.json")).read_text())


def start_of(content):
    record = record_of(content)
    cpus, nodes = range(content["env"]["cpus"]), (0, 1)
    script = parse_script(content["given"]["ops"], cpus=cpus, nodes=nodes)
    return build_start(record, kernel_of(record), script)


def quiet(lines):
    return [" ".join(line.split()) for line in lines.splitlines() if line.startswith("Node 1,")]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_pages_lists_and_slabs_equal_the_booted_kernel(path):
    content = json.loads(path.read_text())
    told = predict(record_of(content))["snapshots"]
    assert [one["label"] for one in told] == [
        one["label"] for one in content["measured"]["snapshots"]
    ]
    for mine, measured in zip(told, content["measured"]["snapshots"], strict=True):
        for result, expected in zip(mine["results"], measured["results"], strict=True):
            assert result == {key: expected[key] for key in result}
        assert quiet(mine["buddyinfo"]) == quiet(measured["buddyinfo"])
        for name, expected in measured["zones"].items():
            counts = {cpu: numbers[0] for cpu, numbers in mine["zones"][name]["pcp"].items()}
            assert counts == {cpu: numbers[0] for cpu, numbers in expected["pcp"].items()}
        for cache, expected in measured["caches"].items():
            assert mine["caches"][cache]["counts"] == expected["counts"]
        assert mine["place"] == measured["place"]


def test_the_start_holds_what_the_script_took():
    start = start_of(content_of("page-pcp-lifo"))
    assert len(start.held.pfns) > 9000
    blocks = [start.held.pfns[number] for number in range(262000, 262020)]
    assert all(pfn % 1024 == 0 for pfn in blocks)
    assert start.allocator.zone_at(blocks[0]).node == 1
    assert start.allocator.zones[-1].buddyinfo() == [0] * 11


def test_blocks_taken_for_the_kernel_have_its_type():
    start = start_of(content_of("page-split-order3"))
    buddy = start.allocator.zones[-1].buddy
    assert buddy.type_of(start.held.pfns[262000]) == mt.UNMOVABLE


def test_free_blocks_of_other_nodes_are_put_somewhere():
    content = content_of("page-pcp-drain")
    start = start_of(content)
    lines = content["given"]["start"]["buddyinfo"].splitlines()
    for told, made in zip(lines, start.allocator.zones, strict=True):
        assert [int(n) for n in told.split()[4:]] == made.buddyinfo()


def test_refills_before_the_start_left_their_doublings():
    """The preamble's requests of order 0 failed five times and more on CPU 0."""
    for name, doublings in (("page-reserves-node1-order0", 5), ("page-pcp-drain", 0)):
        start = start_of(content_of(name))
        assert start.allocator.zones[-1].pcps[0].alloc_factor == doublings


def test_a_fraction_fixes_the_limit_of_the_lists():
    start = start_of(content_of("page-reserves-node1-order0"))
    pcp = start.allocator.zones[-1].pcps[0]
    assert (pcp.high_min, pcp.high_max, pcp.batch) == (135, 135, 7)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda start: start.pop("zones"), "given.start.zones: found nothing, expected a mapping"),
        (lambda start: start.pop("label"), "given.start.label: found nothing, expected a text"),
        (
            lambda start: start["zones"]["N1.DMA32"].pop("low"),
            "N1.DMA32.low: found nothing, expected a whole number",
        ),
        (
            lambda start: start["zones"].update({"N7.DMA32": start["zones"]["N1.DMA32"]}),
            "expected names such as N0.DMA32 of nodes that exist",
        ),
        (
            lambda start: start["results"][0].update(runs=[[1, 2]]),
            r"runs: found \[\[1, 2\]\], expected a list of \[id, node, page, count, step\]",
        ),
        (
            lambda start: start["zones"]["N1.DMA32"].update(managed=0),
            "managed: found 0, expected a whole number from 1 on",
        ),
    ],
)
def test_a_start_that_cannot_be_used_is_told_in_one_line(change, text):
    content = copy.deepcopy(content_of("page-pcp-lifo"))
    change(content["given"]["start"])
    with pytest.raises(PredictError, match=text):
        predict(record_of(content))


def test_runs_of_ids_are_told_as_the_module_tells_them():
    zones = [zone(start=0, end=4096), zone(node=1, start=4096, end=8192)]
    pfns = np.array([10, 11, 12, 14, 16, 100, 4096, 5120, 3, 2, 1, 7])
    assert id_runs(50, pfns, zones) == [
        [50, 0, 10, 3, 1],
        [53, 0, 14, 2, 2],
        [55, 0, 100, 1, 0],
        [56, 1, 4096, 2, 1024],
        [58, 0, 3, 3, -1],
        [61, 0, 7, 1, 0],
    ]
    assert id_runs(0, np.empty(0, dtype=np.int64), zones) == []
