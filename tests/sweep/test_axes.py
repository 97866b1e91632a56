import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from allocator.errors import ConfigError
from sweep.axes import Interval, axis_of, number_hint
from tests.sweep.grids import axis, interval_or_axis


@pytest.mark.parametrize(
    ("text", "name", "coordinate"),
    [
        ("slab.max_order=0,1,2,3", "slab_max_order", [0, 1, 2, 3]),
        ("slab.max_order=range(0,8,2)", "slab_max_order", [0, 2, 4, 6]),
        ("slab.max_order=choice(3)", "slab_max_order", [3]),
        ("kernel=v6_1,v6_1_order_v2", "kernel", ["v6_1", "v6_1_order_v2"]),
        ("workload.rate=1,2.5", "workload_rate", [1.0, 2.5]),
        ("slab.max_order=null,3", "slab_max_order", ["null", "3"]),
        ("workload.thp=true,false", "workload_thp", ["true", "false"]),
        ("workload.text='a b','c,d'", "workload_text", ["a b", "c,d"]),
        ("workload.sizes=[8,16],[32]", "workload_sizes", ["[8,16]", "[32]"]),
        ("+kernel.slab.order_rule=fractions,x", "kernel_slab_order_rule", ["fractions", "x"]),
        ("seed=1,2", "seed", [1, 2]),
    ],
)
def test_coordinate_of_an_axis(text: str, name: str, coordinate: list[object]) -> None:
    found = axis(text)
    assert found.name == name
    assert found.coordinate().tolist() == coordinate
    assert found.coordinate().dtype.kind in "ifU"


def test_float_range_ends_where_it_says() -> None:
    found = axis("workload.rate=range(1.0,2.0,0.1)")
    assert found.values[-1] == 1.9
    assert found.coordinate().tolist() == [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9]
    assert found.texts[-1] == "1.9"


def test_overrides_of_an_axis_are_read_back_as_its_values() -> None:
    for text in ("a=null,3,x", "a='a b','c,d',\"e'f\"", "a=[1,2],[3]", "a=true,1.5", "a={k: 1},{}"):
        found = axis(f"workload.{text}")
        parser = OverridesParser.create()
        read = [parser.parse_override(override).value() for override in found.overrides()]
        assert read == list(found.values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slab.max_order=choice(64,128),256", "one flat list of values"),
        ("slab.max_order=shuffle(range(4))", "shuffle"),
        ("slab.max_order=1,2,1", "1 comes twice"),
        ("slab.max_order=1,1.0", "comes twice"),
        ("slab.max_order='null',null", "comes twice"),
        ("workload.rate=1.0000000000000001,1.0", "comes twice"),
        ("slab.max_order=range(4,4)", "at least one value"),
        ("slab.max_order=range(0,100000000)", "at most 10,000,000"),
        ("workload.rate=nan,1.0", "finite"),
        ("executor.cpus=1,2", "an axis lies in machine, topology"),
        ("replicates=1,2", "an axis lies in machine"),
        ("machine=a,nosuch", "machine: found 'nosuch', expected one of a, b, c"),
        ("machine=1,2", "machine: found 1, expected one of a, b, c"),
        ("workload.rate=interval(2,1)", "low < high"),
        ("workload.rate=tag(log,interval(0,1))", "positive"),
    ],
)
def test_axes_that_make_no_sense_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        interval_or_axis(text)


def test_interval_is_kept_for_sampling() -> None:
    found = interval_or_axis("workload.rate=tag(log,int(interval(1,100)))")
    assert isinstance(found, Interval)
    assert (found.low, found.high, found.whole, found.log) == (1.0, 100.0, True, True)


def test_text_that_looks_like_a_number_gets_a_hint() -> None:
    assert "decimal" in number_hint("0x40")
    assert "decimal" in number_hint("64K")
    assert number_hint("kernel") == ""
    assert number_hint(64) == ""


def test_options_are_listed_in_the_order_of_the_group() -> None:
    override = OverridesParser.create().parse_override("gfp=b,a")
    found = axis_of(override, ["a", "b"])
    assert found.is_group
    np.testing.assert_array_equal(found.coordinate(), ["b", "a"])
