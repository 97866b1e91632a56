import numpy as np

from allocator import gfp as flags
from allocator.pages.source_zones import ZonedPages
from tests.allocator.pages.zones_of_tests import machine, zone

KERNEL = flags.DIRECT_RECLAIM | flags.KSWAPD_RECLAIM | flags.IO | flags.FS
NOWAIT = flags.KSWAPD_RECLAIM


def two_lanes():
    return [
        machine(
            zone(node=0, start=0, end=2048),
            zone(node=1, start=2048, end=4096),
            node_of_cpu={0: 0, 1: 1},
        )
        for _ in range(2)
    ]


def column(*values):
    return np.array(values, dtype=np.int64)


def test_lanes_do_not_share_pages():
    source = ZonedPages(two_lanes())
    page, node = source.alloc(
        column(0, 1, 0, 1),
        column(0, 0, 1, 1),
        column(0, 0, 1, 1),
        column(3, 3, 3, 0),
        column(*[KERNEL] * 4),
        thisnode=np.zeros(4, dtype=np.bool_),
    )
    assert page.tolist() == [0, 0, 2048, 2048]
    assert node.tolist() == [0, 0, 1, 1]


def test_a_request_that_fails_does_not_stop_the_next():
    lanes = two_lanes()
    source = ZonedPages(lanes)
    count = 2048
    ones = np.ones(count, dtype=np.int64)
    page, node = source.alloc(
        0 * ones, 0 * ones, 0 * ones, 0 * ones, NOWAIT * ones, thisnode=np.ones(count, dtype=bool)
    )
    served = page >= 0
    assert 1900 < served.sum() < 2000
    assert (node[served] == 0).all()
    assert (node[~served] == -1).all()
    lanes[0].free(1, int(page[0]), 0)
    assert lanes[0].zones[0].pcps[1].count == 1


def test_blocks_go_back_to_their_lanes_and_cpus():
    lanes = two_lanes()
    source = ZonedPages(lanes)
    taken = [lane.alloc_many(0, 0, KERNEL, 10) for lane in lanes]
    before = [lane.zones[0].pcps[1].count for lane in lanes]
    source.free(
        column(*[0] * 10, *[1] * 10),
        column(*[1] * 10, *[1] * 10),
        np.concatenate(taken),
        column(*[0] * 20),
    )
    assert [lane.zones[0].pcps[1].count - old for lane, old in zip(lanes, before, strict=True)] == [
        10,
        10,
    ]
