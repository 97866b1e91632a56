import numpy as np
import pytest

from allocator.errors import ConfigError
from sweep.axes import Axis
from sweep.grid import excluded, grid_of, narrowed
from sweep.sampling import sampled
from tests.sweep.grids import axis, interval_or_axis

AXES = ["slab.max_order=0,1,2,null", "machine=a,b", "kernel=v6_1,v6_1_order_v2"]


def test_dims_are_in_the_order_of_groups_whatever_was_given_first() -> None:
    for texts in (AXES, AXES[::-1]):
        grid = grid_of([axis(text) for text in texts], replicates=3)
        assert grid.names == ("machine", "kernel", "slab_max_order", "replicate")
        assert grid.shape == (2, 2, 4, 3)


def test_a_cell_is_described_as_overrides() -> None:
    grid = grid_of([axis(text) for text in AXES], replicates=3)
    cell = int(np.ravel_multi_index((1, 0, 3, 2), grid.shape))
    assert grid.describe(cell) == "machine=b kernel=v6_1 slab.max_order=null replicate=2"


def test_paired_axes_share_a_dim() -> None:
    axes = [axis(text) for text in AXES]
    grid = grid_of(axes, replicates=1, paired=[["machine", "kernel"]])
    assert grid.names == ("machine__kernel", "slab_max_order", "replicate")
    assert grid.shape == (2, 4, 1)
    assert [a.key for a in grid.dims[0].axes] == ["machine", "kernel"]


@pytest.mark.parametrize(
    ("paired", "message"),
    [
        ([["machine", "slab.max_order"]], "equally many"),
        ([["machine", "nosuch"]], "nosuch"),
        ([["machine"]], "at least two"),
        ([["machine", "machine"]], "one pair only"),
        ([["machine", "kernel"], ["kernel", "machine"]], "one pair only"),
    ],
)
def test_axes_that_cannot_be_paired(paired: list[list[str]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        grid_of([axis(text) for text in AXES], replicates=1, paired=paired)


@pytest.mark.parametrize(
    ("clause", "cells"),
    [
        ("machine=b & slab.max_order=2", [(1, 2)]),
        ("machine=b & slab.max_order=0|null", [(1, 0), (1, 3)]),
        ("machine!=a & slab.max_order>=1", [(1, 1), (1, 2)]),
        ("machine = a & slab.max_order < 1", [(0, 0)]),
    ],
)
def test_a_clause_names_cells(clause: str, cells: list[tuple[int, int]]) -> None:
    grid = grid_of([axis(text) for text in AXES[:2]], replicates=1)
    assert list(zip(*np.nonzero(excluded(clause, grid.dims)), strict=True)) == cells


def test_a_value_with_a_bar_in_it_can_be_named() -> None:
    flags = axis("gfp.flags='GFP_ATOMIC','GFP_KERNEL|__GFP_NORETRY'")
    grid = grid_of([flags], replicates=1, exclude=["gfp.flags=GFP_KERNEL|__GFP_NORETRY"])
    assert grid.allowed is not None
    assert grid.allowed.tolist() == [True, False]


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("machine", "key=value"),
        ("nosuch=1", "conditions on axes"),
        ("machine=z", "values of machine: a, b"),
        ("slab.max_order<x", "a number after <"),
        ("machine=a|b", "at least one point"),
    ],
)
def test_clauses_that_cannot_be_meant(clause: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        grid_of([axis(text) for text in AXES], replicates=1, exclude=[clause])


def test_grids_and_names_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="at most 10,000,000 points"):
        grid_of(
            [axis("slab.max_order=range(0,10000)"), axis("slab.min_order=range(0,10000)")],
            replicates=1,
        )
    with pytest.raises(ConfigError, match="slab_min_order"):
        grid_of([axis("slab.min.order=1,2"), axis("slab.min_order=1,2")], replicates=1)
    with pytest.raises(ConfigError, match="each axis once"):
        grid_of([axis("slab.min_order=1,2"), axis("slab.min_order=3,4")], replicates=1)
    with pytest.raises(ConfigError, match="at least 1"):
        grid_of([], replicates=0)


@pytest.mark.parametrize("sampler", ["latin_hypercube", "sobol"])
def test_samples_fill_the_interval_and_are_seeded(sampler: str) -> None:
    low = interval_or_axis("workload.rate=interval(1,3)")
    log = interval_or_axis("workload.size=tag(log,int(interval(1,1000)))")
    first = sampled([low, log], samples=16, sampler=sampler, seed=1)
    again = sampled([low, log], samples=16, sampler=sampler, seed=1)
    other = sampled([low, log], samples=16, sampler=sampler, seed=2)
    assert first == again
    assert first != other
    rate, size = (np.array(axis.values) for axis in first)
    assert np.histogram(rate, 8, (1, 3))[0].tolist() == [2] * 8
    assert size.dtype.kind == "i"
    assert size.min() >= 1
    assert size.max() <= 1000
    assert 0.3 < np.mean(size < 32) < 0.7  # even in the logarithm


def test_one_interval_is_an_axis_of_its_own_in_order() -> None:
    interval = interval_or_axis("workload.size=int(interval(0,3))")
    (found,) = sampled([interval], samples=16, sampler="latin_hypercube", seed=0)
    assert found.values == (0, 1, 2, 3)


def test_sampled_axes_share_the_dim_sample() -> None:
    intervals = [interval_or_axis(f"workload.{name}=interval(0,1)") for name in ("rate", "share")]
    axes = sampled(intervals, samples=4, sampler="sobol", seed=0)
    grid = grid_of([axis("machine=a,b"), *axes], replicates=2, samples=[axis.key for axis in axes])
    assert grid.names == ("machine", "sample", "replicate")
    assert grid.shape == (2, 4, 2)


def test_samplers_that_cannot_be() -> None:
    interval = interval_or_axis("workload.rate=interval(0,1)")
    with pytest.raises(ConfigError, match="power of two"):
        sampled([interval], samples=10, sampler="sobol", seed=0)
    with pytest.raises(ConfigError, match="latin_hypercube, sobol"):
        sampled([interval], samples=10, sampler="random", seed=0)


@pytest.mark.parametrize(
    ("key", "value", "left"),
    [
        ("machine", "b", [" slab.max_order=2"]),
        ("machine", "a", []),
        ("slab.max_order", 2, ["machine=b "]),
        ("slab.max_order", 1, []),
        ("kernel", "v6_1", ["machine=b & slab.max_order=2"]),
    ],
)
def test_a_clause_fits_what_is_pinned(key: str, value: str | int, left: list[str]) -> None:
    assert list(narrowed(["machine=b & slab.max_order=2"], {key: pinned(key, value)})) == left


def test_a_clause_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one point left"):
        narrowed(["machine=b|c"], {"machine": pinned("machine", "b")})


def pinned(key: str, value: str | int) -> Axis:
    return Axis(key=key, element=key, is_group=False, values=(value,), texts=(str(value),))
