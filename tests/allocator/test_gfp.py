"""GFP flags: names, composites and rights per kernel, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import gfp
from allocator.errors import ConfigError
from allocator.gfp import Gfp
from allocator.kernels import PRESETS

V6_1, V7_3, V5_10, V3_13 = (PRESETS[name] for name in ("v6_1", "v7_3", "v5_10", "v3_13"))
LAYOUT = {
    "__GFP_DMA": 0x1,
    "__GFP_HIGHMEM": 0x2,
    "__GFP_DMA32": 0x4,
    "__GFP_MOVABLE": 0x8,
    "__GFP_RECLAIMABLE": 0x10,
    "__GFP_HIGH": 0x20,
    "__GFP_IO": 0x40,
    "__GFP_FS": 0x80,
    "__GFP_DIRECT_RECLAIM": 0x400,
    "__GFP_KSWAPD_RECLAIM": 0x800,
    "__GFP_NOWARN": 0x2000,
    "__GFP_RETRY_MAYFAIL": 0x4000,
    "__GFP_NOFAIL": 0x8000,
    "__GFP_NORETRY": 0x10000,
    "__GFP_MEMALLOC": 0x20000,
    "__GFP_NOMEMALLOC": 0x80000,
    "__GFP_THISNODE": 0x200000,
    "__GFP_ACCOUNT": 0x400000,
}


@pytest.mark.parametrize(("name", "value"), LAYOUT.items())
def test_a_flag_has_its_bit(name: str, value: int) -> None:
    assert gfp.bits(name, V6_1.page) == value


@pytest.mark.parametrize(
    ("text", "kernel", "value"),
    [
        ("GFP_KERNEL", V6_1, 0xCC0),
        ("GFP_NOIO", V6_1, 0xC00),
        ("GFP_NOFS", V6_1, 0xC40),
        ("GFP_USER", V6_1, 0x100CC0),
        ("GFP_HIGHUSER_MOVABLE", V6_1, 0x100CCA),
        ("GFP_KERNEL_ACCOUNT", V6_1, 0x400CC0),
        ("GFP_ATOMIC", V5_10, 0xA20),  # HIGH, KSWAPD and the ATOMIC bit
        ("GFP_ATOMIC", V6_1, 0xA20),  # 6.1 stable keeps the bit
        ("GFP_ATOMIC", V7_3, 0x820),
        ("GFP_NOWAIT", V6_1, 0x800),
        ("GFP_NOWAIT", V7_3, 0x2800),  # with NOWARN
        ("GFP_TRANSHUGE_LIGHT", V6_1, 0x1C20CA),
        ("GFP_TRANSHUGE", V6_1, 0x1C24CA),
        ("GFP_KERNEL", V3_13, 0xCC0),
        ("GFP_ATOMIC", V3_13, 0xA20),  # may not wait, so it tries harder
        ("GFP_THISNODE", V3_13, 0x212A00),
        ("GFP_KERNEL|__GFP_NO_KSWAPD", V3_13, 0x4C0),
    ],
)
def test_a_composite_stands_for_what_the_kernel_means(text: str, kernel, value: int) -> None:
    assert gfp.bits(text, kernel.page) == value


def test_names_may_be_short_and_joined_with_plus() -> None:
    assert gfp.flag_names("KERNEL+RETRY_MAYFAIL") == ("GFP_KERNEL", "__GFP_RETRY_MAYFAIL")
    assert gfp.bits("KERNEL+HIGH", V6_1.page) == gfp.bits("GFP_KERNEL | __GFP_HIGH", V6_1.page)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("GFP_KERNEL", "Normal"),
        ("GFP_KERNEL|__GFP_DMA", "DMA"),
        ("GFP_KERNEL|__GFP_DMA32", "DMA32"),
        ("GFP_HIGHUSER", "Normal"),
        ("GFP_KERNEL|__GFP_MOVABLE", "Normal"),
        ("GFP_HIGHUSER_MOVABLE", "Movable"),
    ],
)
def test_the_highest_zone_follows_the_zone_flags(text: str, zone: str) -> None:
    assert gfp.ZONES[gfp.highest_zone(gfp.bits(text, V6_1.page))] == zone


def test_the_migratetype_follows_movable_and_reclaimable() -> None:
    types = [
        gfp.migratetype(gfp.bits(text, V6_1.page))
        for text in ("KERNEL", "KERNEL|MOVABLE", "KERNEL|RECLAIMABLE")
    ]
    assert types == [0, 1, 2]


def rights(text: str, kernel, order: int = 0, **more: bool) -> int:
    return gfp.slow_rights(gfp.bits(text, kernel.page), order, kernel.page, **more)


def test_atomic_requests_try_harder_and_leave_the_cpuset_in_5_10() -> None:
    expected = gfp.RIGHT_KSWAPD | gfp.RIGHT_MIN_RESERVE | gfp.RIGHT_HARDER
    assert rights("ATOMIC", V5_10, 3) == expected
    assert not rights("ATOMIC|NOMEMALLOC", V5_10) & gfp.RIGHT_HARDER


def test_atomic_requests_have_split_rights_in_6_1() -> None:
    expected = gfp.RIGHT_KSWAPD | gfp.RIGHT_MIN_RESERVE | gfp.RIGHT_NON_BLOCK
    assert rights("ATOMIC", V6_1, 0) == expected
    assert rights("ATOMIC", V6_1, 1) == expected | gfp.RIGHT_HIGHATOMIC
    nowait = gfp.RIGHT_KSWAPD | gfp.RIGHT_NON_BLOCK | gfp.RIGHT_CPUSET
    assert rights("NOWAIT", V6_1, 1) == nowait


def test_a_realtime_task_has_another_right_in_each_kernel() -> None:
    assert rights("KERNEL", V5_10, realtime=True) & gfp.RIGHT_HARDER
    assert rights("KERNEL", V6_1, realtime=True) & gfp.RIGHT_MIN_RESERVE


def test_only_7_3_grants_highatomic_on_the_fast_path() -> None:
    value = gfp.bits("ATOMIC", V7_3.page)
    assert gfp.fast_rights(value, 2, V7_3.page) & gfp.RIGHT_HIGHATOMIC
    assert not gfp.fast_rights(value, 2, V6_1.page) & gfp.RIGHT_HIGHATOMIC


def test_nomemalloc_wins_over_memalloc() -> None:
    memalloc, both = (
        gfp.bits(text, V6_1.page) for text in ("KERNEL|MEMALLOC", "KERNEL|MEMALLOC|NOMEMALLOC")
    )
    assert gfp.reserve_rights(memalloc) == gfp.RIGHT_NO_WATERMARKS
    assert gfp.reserve_rights(both, memalloc_task=True) == 0
    assert gfp.reserve_rights(gfp.bits("KERNEL", V6_1.page), oom_victim=True) == gfp.RIGHT_OOM


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("GFP_KERNEL|__GFP_FOO", "unknown GFP flag '__GFP_FOO'"),
        ("", "expected names such as"),
        (None, "expected names such as"),
        ("KERNEL|NORETRY|NOFAIL", "__GFP_NORETRY excludes __GFP_NOFAIL"),
        ("KERNEL|NORETRY|RETRY_MAYFAIL", "__GFP_NORETRY excludes __GFP_RETRY_MAYFAIL"),
        ("KERNEL|MEMALLOC|NOMEMALLOC", "__GFP_MEMALLOC excludes __GFP_NOMEMALLOC"),
        ("KERNEL|DMA|DMA32", "__GFP_DMA excludes __GFP_DMA32"),
        ("HIGHUSER|DMA", "__GFP_DMA excludes __GFP_HIGHMEM"),
        ("KERNEL|MOVABLE|RECLAIMABLE", "__GFP_MOVABLE excludes __GFP_RECLAIMABLE"),
        ("ATOMIC|NOFAIL", "__GFP_NOFAIL needs __GFP_DIRECT_RECLAIM"),
    ],
)
def test_a_contradiction_is_one_line_that_names_the_key(flags: object, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^gfp.flags: found .*{text}") as caught:
        Gfp.from_config({"flags": flags})
    assert "\n" not in str(caught.value)


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^gfp\.zone: found 'DMA'"):
        Gfp.from_config({"flags": "GFP_KERNEL", "zone": "DMA"})


@pytest.mark.parametrize(
    ("flags", "kernel", "lacks"),
    [
        ("KERNEL|RETRY_MAYFAIL", V3_13, "__GFP_RETRY_MAYFAIL"),
        ("KERNEL|__GFP_WAIT", V6_1, "__GFP_WAIT"),
        ("KERNEL|__GFP_ATOMIC", V7_3, "__GFP_ATOMIC"),
    ],
)
def test_a_flag_that_the_kernel_lacks_is_refused(flags: str, kernel, lacks: str) -> None:
    with pytest.raises(ConfigError, match=f"it has no {lacks}"):
        Gfp.parse(flags).check(kernel)


@given(st.lists(st.sampled_from(sorted(LAYOUT)), min_size=1, max_size=6))
def test_joining_names_is_the_union_of_their_bits(names: list[str]) -> None:
    union = 0
    for name in names:
        union |= LAYOUT[name]
    assert gfp.bits("|".join(names), V6_1.page) == union
