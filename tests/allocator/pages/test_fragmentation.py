"""Test vector 17, and the texts of /proc."""

import pytest

from allocator.pages import migratetype as mt
from allocator.pages.fragmentation import extfrag_index, extfrag_percent, unusable_index
from allocator.pages.proc import (
    buddyinfo,
    nr_free_pages_blocks,
    numastat,
    pageblocks,
    pagetypeinfo,
)
from tests.allocator.pages.zones_of_tests import zone

HOST = [3400, 2214, 1400, 878, 358, 196, 65, 129, 138, 100, 817]


@pytest.mark.parametrize(
    ("counts", "extfrag", "unusable"),
    [
        (HOST, -1000, 90),
        ([*HOST[:9], 0, 0], 981, 1000),
        ([0] * 8 + [60, 0, 0], 484, 1000),
        ([0] * 11, 0, 1000),
    ],
)
def test_indices_of_huge_pages(counts, extfrag, unusable):
    assert extfrag_index(counts, 9) == extfrag
    assert unusable_index(counts, 9) == unusable
    assert extfrag_percent(counts, 9) == (unusable // 10 if any(counts) else 0)


def words(line):
    return " ".join(line.split())


def test_proc_texts_of_a_zone():
    made = zone(end=4096)
    made.alloc_block(0, mt.UNMOVABLE)
    assert words(buddyinfo([made])) == "Node 0, zone Normal 1 1 1 1 1 1 1 1 1 1 3"
    lines = [words(line) for line in pagetypeinfo([made]).splitlines() if line]
    assert lines[1] == "Node 0, zone Normal, type Unmovable 1 1 1 1 1 1 1 1 1 1 0"
    assert lines[2] == "Node 0, zone Normal, type Movable 0 0 0 0 0 0 0 0 0 0 3"
    assert lines[-1] == "Node 0, zone Normal 2 6 0 0 0"
    assert pageblocks(made) == [2, 6, 0, 0, 0]
    assert nr_free_pages_blocks(made) == 512 + 3 * 1024


def test_numastat_lines():
    events = {("numa_hit", 0): 5, ("numa_local", 0): 4, ("numa_other", 0): 1}
    assert numastat(events, 0) == {
        "numa_hit": 5,
        "numa_miss": 0,
        "numa_foreign": 0,
        "interleave_hit": 0,
        "local_node": 4,
        "other_node": 1,
    }
