"""Marks, reserves and per-CPU list limits: worked values of booted kernels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.kernels import PRESETS
from allocator.pages.zones import (
    MemoryMarks,
    ZoneSize,
    before_init_memory_is_freed,
    pcp_batch_raw,
    stat_threshold,
)

TYPES = ("DMA", "DMA32", "Normal", "Movable")


def zones(*managed: int, node: int = 0) -> list[ZoneSize]:
    pages = (*managed, *(0,) * (len(TYPES) - len(managed)))
    return [
        ZoneSize(node=node, zone=kind, present=count, managed=count)
        for kind, count in zip(TYPES, pages, strict=True)
    ]


def marks(kernel: str, *managed: int, **more: object) -> MemoryMarks:
    options = {"page_size": 4096, "pageblock_order": 9, "online_cpus": [2], "thp": True} | more
    return MemoryMarks(PRESETS[kernel].page, zones(*managed), **options)


def told(memory: MemoryMarks, *names: str) -> dict[str, tuple]:
    return {mark.zone: tuple(getattr(mark, name) for name in names) for mark in memory.read()}


def test_5_10_marks_after_each_sysctl() -> None:
    memory = marks("v5_10", 3977, 246579)
    assert memory.write("min_free_kbytes", "16384")
    assert told(memory, "min", "low", "high")["DMA"] == (65, 81, 97)
    assert told(memory, "min", "low", "high")["DMA32"] == (4030, 5037, 6044)
    assert memory.write("watermark_scale_factor", "100")
    assert told(memory, "low", "high")["DMA32"] == (6495, 8960)
    assert memory.write("watermark_scale_factor", "1000")
    assert told(memory, "low", "high")["DMA32"] == (28687, 53344)


def test_5_10_takes_the_largest_scale_of_its_long_term_updates() -> None:
    memory = marks("v5_10", 3977, 324720)
    assert memory.write("min_free_kbytes", "33333")
    assert memory.write("watermark_scale_factor", "3000")
    assert told(memory, "min", "low", "high")["DMA"] == (100, 1293, 2486)
    assert told(memory, "min", "low", "high")["DMA32"] == (8232, 105648, 203064)


def test_6_1_marks_with_a_large_scale() -> None:
    memory = marks("v6_1", 3840, 245002)
    memory.write("min_free_kbytes", "65536")
    memory.write("watermark_scale_factor", "1000")
    assert told(memory, "min", "low", "high")["DMA"] == (252, 636, 1020)
    assert told(memory, "min", "low", "high")["DMA32"] == (16131, 40631, 65131)


def test_6_12_gives_an_empty_movable_zone_marks_and_6_1_does_not() -> None:
    for kernel, movable in (("v6_12", (32, 32, 32, 32)), ("v6_1", (0, 0, 0, 0))):
        memory = marks(kernel, 3840, 243637)
        memory.write("min_free_kbytes", "65536")
        got = told(memory, "min", "low", "high", "promo")
        assert got["DMA"] == (254, 317, 380, 443)
        assert got["DMA32"] == (16129, 20161, 24193, 28225)
        assert got["Movable"] == movable


def test_the_scale_gap_wins_over_a_small_min() -> None:
    memory = marks("v6_12", 3840, 243637)
    memory.write("min_free_kbytes", "1024")
    assert told(memory, "min", "low", "high", "promo")["DMA32"] == (252, 495, 738, 981)


def test_three_zones_of_a_running_machine() -> None:
    memory = marks("v6_12", 3840, 772918, 1179648)
    memory.write("min_free_kbytes", "67584")
    got = told(memory, "min", "low", "high", "promo", "pcp_high_min", "pcp_high_max")
    assert got["DMA"][:4] == (33, 41, 49, 57)
    assert got["DMA32"] == (6675, 8343, 10011, 11679, 4171, 48307)
    assert got["Normal"][:4] == (10187, 12733, 15279, 17825)
    protection = told(memory, "protection")
    assert protection["DMA"][0] == (0, 3019, 7627, 7627)
    assert protection["DMA32"][0] == (0, 0, 4608, 4608)
    assert protection["Normal"][0] == (0, 0, 0, 0)


@pytest.mark.parametrize(("ratio", "reserve"), [("256", 963), ("64", 3852), ("1", 246579)])
def test_reserves_follow_the_ratio(ratio: str, reserve: int) -> None:
    memory = marks("v5_10", 3977, 246579)
    assert memory.write("lowmem_reserve_ratio", f"{ratio} 256 32 0")
    assert told(memory, "protection")["DMA"][0] == (0, reserve, reserve, reserve)


def test_an_unpopulated_zone_keeps_a_reserve_only_in_5_3() -> None:
    old = MemoryMarks(
        PRESETS["v5_3"].page,
        zones(0, 1000, 6400),
        page_size=4096,
        pageblock_order=9,
        online_cpus=[1],
        thp=False,
        ratios=[1, 64, 32, 0],
    )
    new = marks("v6_1", 0, 1000, 6400, ratios=[1, 64, 32, 0])
    assert told(old, "protection")["DMA"][0] == (0, 1000, 7400, 7400)
    assert told(new, "protection")["DMA"][0] == (0, 0, 0, 0)
    assert told(new, "protection")["DMA32"][0] == (0, 0, 100, 100)


@pytest.mark.parametrize(
    ("managed", "kbytes"),
    [((3840, 245002), 45056), ((3840, 495673, 505743), 67584), ((3840, 116170), 2771)],
)
def test_thp_raises_min_free_kbytes_by_zones(managed: tuple, kbytes: int) -> None:
    assert marks("v6_1", *managed).min_free_kbytes == kbytes


@pytest.mark.parametrize(
    ("kernel", "pages", "kbytes"),
    [
        ("v6_1", 262144, 4096),
        ("v6_1", 1 << 28, 131072),
        ("v5_10", 1 << 28, 131072),
        ("v5_3", 1 << 28, 65536),
        ("v5_10", 100, 128),
    ],
)
def test_base_min_free_kbytes_is_a_square_root_within_bounds(
    kernel: str, pages: int, kbytes: int
) -> None:
    memory = marks(kernel, 0, 0, pages, thp=False)
    if PRESETS[kernel].page.thp_off_recomputes and pages * 4096 >= 512 << 20:
        assert memory.min_free_kbytes < kbytes  # booted with THP off: high marks are taken off
        memory._user_kbytes, memory._marks = -1, [(0, 0, 0, 0)] * len(memory.zones)
        memory._compute_min_free()
    assert memory.min_free_kbytes == kbytes


def test_booting_without_thp_takes_the_high_marks_off_from_6_1_on() -> None:
    managed = (3840, 495673, 505742)  # less what is freed after boot; 7995 kB were seen
    early = before_init_memory_is_freed(zones(*managed), 4096)
    options = {"page_size": 4096, "pageblock_order": 9, "online_cpus": [2], "thp": False}
    assert MemoryMarks(PRESETS["v6_1"].page, early, **options).min_free_kbytes == 7996
    assert MemoryMarks(PRESETS["v5_10"].page, early, **options).min_free_kbytes == 8012


def test_switching_thp_off_drops_the_raise_from_6_1_on() -> None:
    for kernel, after in (("v5_10", 45056), ("v6_1", 3852)):
        memory = marks(kernel, 3840, 245002)
        assert memory.write("transparent_hugepage/enabled", "never")
        assert memory.min_free_kbytes == after
        assert memory.write("transparent_hugepage/enabled", "madvise")
        assert memory.min_free_kbytes == 45056


def test_a_users_value_survives_thp_going_off_if_it_is_larger() -> None:
    memory = marks("v6_1", 3840, 245002)
    memory.write("min_free_kbytes", "9999")
    memory.write("transparent_hugepage/enabled", "never")
    assert memory.min_free_kbytes == 9999


@pytest.mark.parametrize(
    ("kernel", "name", "value"),
    [
        ("v6_1", "watermark_scale_factor", "0"),
        ("v6_1", "watermark_scale_factor", "3001"),
        ("v5_10", "watermark_scale_factor", "3001"),
        ("v5_4", "watermark_scale_factor", "1001"),
        ("v3_13", "watermark_scale_factor", "10"),
        ("v6_1", "watermark_scale_factor", "ten"),
        ("v6_1", "min_free_kbytes", "-1"),
        ("v6_1", "percpu_pagelist_high_fraction", "7"),
        ("v5_10", "percpu_pagelist_high_fraction", "8"),
        ("v6_1", "percpu_pagelist_fraction", "8"),
        ("v6_1", "transparent_hugepage/enabled", "sometimes"),
        ("v6_1", "overcommit_memory", "1"),
    ],
)
def test_what_the_kernel_refuses_changes_nothing(kernel: str, name: str, value: str) -> None:
    memory = marks(kernel, 3840, 245002)
    before = memory.read(), memory.min_free_kbytes
    assert not memory.write(name, value)
    assert (memory.read(), memory.min_free_kbytes) == before


@pytest.mark.parametrize(
    ("managed", "page", "batch"),
    [
        (3840, 4096, 1),
        (8191, 4096, 1),
        (16384, 4096, 3),
        (65536, 4096, 15),
        (131072, 4096, 31),
        (176128, 4096, 63),
        (1 << 28, 4096, 63),
        (1 << 24, 65536, 3),
    ],
)
def test_batch_is_below_a_power_of_two(managed: int, page: int, batch: int) -> None:
    assert max(1, pcp_batch_raw(managed, page)) == batch


def test_5_10_high_is_six_batches_and_nothing_in_a_small_zone() -> None:
    memory = marks("v5_10", 3977, 246579)
    assert told(memory, "pcp_high", "pcp_batch") == {
        "DMA": (0, 1),
        "DMA32": (378, 63),
        "Normal": (0, 1),
        "Movable": (0, 1),
    }
    assert memory.write("percpu_pagelist_fraction", "8")
    assert told(memory, "pcp_high", "pcp_batch")["DMA32"] == (30822, 96)


def test_6_1_high_shares_the_low_mark() -> None:
    memory = marks("v6_1", 3840, 244838)
    assert told(memory, "low", "pcp_high")["DMA32"] == (13862, 6931)
    memory.write("min_free_kbytes", "1024")
    assert told(memory, "pcp_high") == {
        "DMA": (4,),
        "DMA32": (252,),
        "Normal": (0,),
        "Movable": (0,),
    }
    memory = marks("v6_1", 3840, 245002)
    assert memory.write("percpu_pagelist_high_fraction", "8")
    assert told(memory, "pcp_high")["DMA"] == (240,)
    assert told(memory, "pcp_high")["DMA32"] == (15312,)


def test_a_node_without_cpus_shares_by_all_cpus() -> None:
    both = [*zones(0, 0, 262144), *zones(0, 0, 262144, node=1)]
    memory = MemoryMarks(
        PRESETS["v6_1"].page,
        both,
        page_size=4096,
        pageblock_order=9,
        online_cpus=[4, 0],
        thp=True,
    )
    highs = [mark.pcp_high for mark in memory.read() if mark.zone == "Normal"]
    assert highs[0] == highs[1]


def test_marks_wait_for_the_next_event_when_zones_grow() -> None:
    memory = marks("v6_1", 3840, 245002)
    before = told(memory, "min", "low")
    memory.resize({(0, "DMA32"): 300000})
    assert told(memory, "min", "low") == before
    memory.write("watermark_scale_factor", "10")
    assert told(memory, "min", "low") != before


@pytest.mark.parametrize(("managed", "threshold"), [(3977, 4), (246579, 16), (1179648, 28)])
def test_stat_threshold_of_two_cpus(managed: int, threshold: int) -> None:
    assert stat_threshold(managed, 2, 4096) == threshold


@given(
    st.sampled_from(sorted(PRESETS)),
    st.lists(st.integers(0, 1 << 24), min_size=4, max_size=4),
    st.integers(0, 1 << 20),
    st.integers(1, 1000),
)
def test_marks_rise_and_reserves_protect_only_from_above(
    kernel: str, managed: list[int], kbytes: int, scale: int
) -> None:
    memory = marks(kernel, *managed)
    memory.write("min_free_kbytes", str(kbytes))
    memory.write("watermark_scale_factor", str(scale))
    for rank, mark in enumerate(memory.read()):
        assert mark.min <= mark.low <= mark.high <= mark.promo
        assert mark.low - mark.min == mark.high - mark.low == mark.promo - mark.high
        assert mark.protection[: rank + 1] == (0,) * (rank + 1)
        assert list(mark.protection) == sorted(mark.protection)
    assert 0 <= memory.total_reserve() <= sum(managed)
    share = sum(mark.min for mark in memory.read() if mark.zone != "Movable")
    assert share <= kbytes // 4
