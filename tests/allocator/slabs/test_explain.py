"""The explanation of an order ends in the order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.errors import ConfigError
from allocator.kernels import PRESETS
from allocator.slabs.explain import explain, lines


def test_each_step_of_6_1_is_told() -> None:
    report = explain(kernel="v6_1", size=256, cpus=128)
    assert (report["order"], report["objs_per_slab"], report["waste_percent"]) == (2, 64, 0.0)
    assert report["steps"] == [
        "an object of 256 bytes, aligned to 8, takes slab_size 256 (0 bytes for metadata and "
        "padding)",
        "min_objects 36: 4 * (fls(128) + 1) with 128 present CPUs",
        "slub_min_order 0, slub_max_order 3",
        "36 objects are wanted; a slab of order 3 holds 128",
        "36 objects, 1/16: order 2 wastes 0 (allowed 1024): taken",
        "order 2",
        "min_partial 5: half of log2(256), 5 to 10",
        "cpu_partial 52 objects by slab_size, so 2 slabs, taken as half full",
    ]


def test_lines_hold_every_number_and_step() -> None:
    text = "\n".join(lines(explain(kernel="v7_3", size=11264, cpus=2)))
    assert "order                  3" in text
    assert "2 objects, 1/2: order 3 wastes 10240 (allowed 16384): taken" in text


@given(
    st.sampled_from(sorted(PRESETS)),
    st.integers(1, 1 << 16),
    st.integers(1, 64),
    st.one_of(st.none(), st.integers(0, 6)),
)
def test_the_last_order_told_is_the_order(
    kernel: str, size: int, cpus: int, max_order: int | None
) -> None:
    report = explain(kernel=kernel, size=size, cpus=cpus, max_order=max_order)
    told = [step for step in report["steps"] if step.startswith(("order ", "no order"))]
    expected = "no order holds an object" if report["order"] is None else f"order {report['order']}"
    assert told == [expected]
    taken = [step for step in report["steps"] if step.endswith(": taken")]
    assert len(taken) <= 1
    for step in taken:
        assert f"order {report['order']} wastes" in step


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kernel": "v9"}, r"--kernel: found 'v9', expected one of v3_13"),
        ({"size": 0}, r"--size: found 0"),
        ({"cpus": 0}, r"--cpus: found 0, expected 1 to 8192"),
        ({"cpus": 10**9}, r"--cpus: found 1000000000, expected 1 to 8192"),
        ({"page_size": 0}, r"page_size: found 0, expected a page size of x86_64: 4096"),
        ({"max_order": 12}, r"slab\.max_order: found 12, expected at most 10"),
        ({"flags": frozenset({"FOO"})}, r"flags: found 'FOO', expected one of ACCOUNT"),
    ],
)
def test_bad_options_are_one_line(options: dict, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        explain(**({"kernel": "v6_1", "size": 64, "cpus": 2} | options))
