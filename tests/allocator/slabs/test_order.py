"""Order rules: worked values, and the vectorised rules against the loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.kernels import PRESETS
from allocator.slabs.order import (
    NO_ORDER,
    OrderLimits,
    calculate_order,
    default_min_objects,
    get_order,
)
from tests.reference import order as reference

RULES = {
    "v6_1": reference.fractions_min_objects,
    "v6_12": reference.fractions,
    "v6_1_order_v2": reference.least_waste,
}
# Orders at 4 KiB pages for 1, 2, 8 and 128 CPUs.
BASELINE = {
    8: (0, 0, 0, 0),
    128: (0, 0, 0, 1),
    192: (0, 0, 0, 1),
    256: (0, 0, 1, 2),
    320: (0, 0, 1, 2),
    512: (0, 1, 2, 3),
    640: (1, 1, 2, 3),
    704: (1, 2, 2, 3),
    1024: (1, 2, 3, 3),
    1472: (2, 3, 3, 3),
    2048: (2, 3, 3, 3),
    4096: (3, 3, 3, 3),
    8192: (3, 3, 3, 3),
}
PATCHED = BASELINE | {
    192: (0, 0, 0, 2),
    320: (0, 0, 2, 2),
    512: (0, 1, 2, 2),
    640: (2, 2, 2, 2),
    704: (2, 2, 2, 2),
    1024: (1, 2, 2, 3),
    1472: (2, 2, 2, 3),
    2048: (2, 2, 3, 3),
    4096: (2, 3, 3, 3),
}


def limits(kernel: str, cpus: int, *, page: int = 4096, top: int = 10, **more: int) -> OrderLimits:
    policy = PRESETS[kernel].slab
    values = {
        "page_size": page,
        "max_buddy_order": top,
        "min_order": 0,
        "max_order": policy.max_order,
        "min_objects": default_min_objects(policy, present=cpus, nr_cpu_ids=cpus),
    }
    return OrderLimits(**(values | more))


@pytest.mark.parametrize("kernel", ["v3_13", "v5_10", "v6_1", "v6_6", "v6_12", "v7_3"])
def test_released_kernels_agree_on_the_worked_table(kernel: str) -> None:
    sizes = np.array(list(BASELINE))
    for column, cpus in enumerate((1, 2, 8, 128)):
        got = calculate_order(sizes, PRESETS[kernel].slab, limits(kernel, cpus))
        assert got.tolist() == [orders[column] for orders in BASELINE.values()]


def test_the_order_patch_prefers_the_least_tail() -> None:
    sizes = np.array(list(PATCHED))
    for column, cpus in enumerate((1, 2, 8, 128)):
        got = calculate_order(sizes, PRESETS["v6_1_order_v2"].slab, limits("v6_1_order_v2", cpus))
        assert got.tolist() == [orders[column] for orders in PATCHED.values()]


@pytest.mark.parametrize(
    ("page", "cpus", "orders"),
    [
        (16384, 1, (0, 0, 0, 1, 2, 3, 3)),
        (16384, 128, (1, 2, 3, 3, 3, 3, 3)),
        (65536, 4, (0, 0, 0, 0, 1, 2, 3)),
        (65536, 128, (0, 0, 1, 2, 3, 3, 3)),
    ],
)
@pytest.mark.parametrize("kernel", ["v6_1", "v6_12"])
def test_large_pages_have_their_own_orders(
    kernel: str, page: int, cpus: int, orders: tuple
) -> None:
    sizes = np.array([512, 1024, 2048, 4096, 8192, 16384, 32768])
    top = {16384: 11, 65536: 8}[page]
    got = calculate_order(sizes, PRESETS[kernel].slab, limits(kernel, cpus, page=page, top=top))
    assert tuple(got.tolist()) == orders


def test_6_7_takes_two_large_objects_where_6_6_takes_one() -> None:
    orders = {
        kernel: int(calculate_order(11264, PRESETS[kernel].slab, limits(kernel, 8)))
        for kernel in ("v6_1", "v6_6", "v6_8", "v6_12")
    }
    assert orders == {"v6_1": 2, "v6_6": 2, "v6_8": 3, "v6_12": 3}
    small = {k: limits(k, 8, max_order=1) for k in ("v6_1", "v6_12")}
    got = {k: int(calculate_order(3000, PRESETS[k].slab, small[k])) for k in small}
    assert got == {"v6_1": 0, "v6_12": 1}


@pytest.mark.parametrize(
    ("cpus", "wanted"), [(1, 8), (2, 12), (3, 12), (4, 16), (8, 20), (16, 24), (128, 36), (400, 40)]
)
def test_min_objects_grows_with_the_logarithm_of_the_cpus(cpus: int, wanted: int) -> None:
    policy = PRESETS["v6_1"].slab
    assert default_min_objects(policy, present=cpus, nr_cpu_ids=cpus) == wanted


def test_possible_cpus_count_until_5_11_and_present_ones_later() -> None:
    old, new = PRESETS["v5_10"].slab, PRESETS["v6_1"].slab
    assert default_min_objects(old, present=2, nr_cpu_ids=64) == 32
    assert default_min_objects(new, present=2, nr_cpu_ids=64) == 12
    assert default_min_objects(new, present=1, nr_cpu_ids=128) == 36


def test_a_size_that_no_order_holds_has_none() -> None:
    got = calculate_order([1 << 23, 1 << 22], PRESETS["v6_1"].slab, limits("v6_1", 2))
    assert got.tolist() == [NO_ORDER, 10]


def test_get_order_rounds_up() -> None:
    assert get_order([1, 4096, 4097, 8192, 8193, 1 << 22], 4096).tolist() == [0, 0, 1, 1, 2, 10]


@given(
    size=st.integers(1, 1 << 15).map(lambda words: 8 * words),
    kernel=st.sampled_from(sorted(RULES)),
    page_and_top=st.sampled_from([(4096, 10), (16384, 11), (65536, 8)]),
    low=st.integers(0, 8),
    high=st.integers(0, 8),
    wanted=st.one_of(st.sampled_from([1, 4, 8, 12, 36, 40]), st.integers(1, 32767)),
)
def test_the_vectorised_rule_equals_the_loop(
    size: int, kernel: str, page_and_top: tuple, low: int, high: int, wanted: int
) -> None:
    page, top = page_and_top
    expected = RULES[kernel](size, page, top, low, high, wanted)
    got = calculate_order(
        size,
        PRESETS[kernel].slab,
        OrderLimits(
            page_size=page, max_buddy_order=top, min_order=low, max_order=high, min_objects=wanted
        ),
    )
    assert int(got) == (NO_ORDER if expected is None else expected)


@given(st.lists(st.integers(1, 4096).map(lambda n: 8 * n), min_size=1, max_size=30))
def test_a_size_has_the_same_order_alone_and_in_company(sizes: list[int]) -> None:
    policy, bounds = PRESETS["v6_1"].slab, limits("v6_1", 8)
    together = calculate_order(sizes, policy, bounds).tolist()
    assert together == [int(calculate_order(size, policy, bounds)) for size in sizes]
