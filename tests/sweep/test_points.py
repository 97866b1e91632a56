import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.point import GROUPS
from allocator.simulate import effective
from allocator.streams import content_key
from sweep.grid import grid_of
from sweep.points import content_keys, distinct
from tests.sweep.grids import axis, plain_points, plain_tables

AXES = [
    "slab.max_order=null,0,1,2",
    "slab.min_order=0,1",  # the tests' workload ignores it, and gfp
    "gfp.flags=GFP_KERNEL,GFP_ATOMIC",
    "workload.scalars=2,3",
]


def test_keys_are_equal_where_effective_configurations_are() -> None:
    grid = grid_of([axis(text) for text in AXES], replicates=2)
    points = plain_points(grid)
    keys = content_keys(grid, points.tables, (0,))
    by_key: dict[tuple[int, int], set[int]] = {}
    by_content: dict[int, set[int]] = {}
    for cell in range(grid.size):
        content = content_key([effective(points.config(cell)), cell % grid.replicates])
        by_key.setdefault(tuple(keys[cell].tolist()), set()).add(cell)
        by_content.setdefault(content, set()).add(cell)
    assert sorted(map(sorted, by_key.values())) == sorted(map(sorted, by_content.values()))
    assert len(points.cells) == len(by_content) == 4 * 2 * 2


def test_a_key_does_not_depend_on_how_the_point_was_asked_for() -> None:
    swept = grid_of([axis("slab.max_order=1,2"), axis("workload.scalars=choice(3)")], replicates=1)
    fixed = grid_of([axis("slab.max_order=choice(2)")], replicates=1)
    a = content_keys(swept, plain_tables(swept), (0,))
    b = content_keys(
        fixed,
        plain_tables(fixed, {**plain_bases(), "workload": {"name": "counted", "scalars": 3}}),
        (0,),
    )
    assert a[1].tolist() == b[0].tolist()
    none = grid_of([], replicates=1)
    slab = {**plain_bases()["slab"], "max_order": 2}
    bases = {**plain_bases(), "slab": slab, "workload": {"scalars": 3, "name": "counted"}}
    assert content_keys(none, plain_tables(none, bases), (0,))[0].tolist() == a[1].tolist()


def plain_bases() -> dict[str, dict[str, object]]:
    from tests.sweep.grids import BASES

    return {group: dict(config) for group, config in BASES.items()}


@pytest.mark.parametrize("seeds", [(1,), (0, 1)])
def test_seed_and_replicate_are_in_the_key(seeds: tuple[int, ...]) -> None:
    axes = [axis("seed=0,1")] if len(seeds) > 1 else []
    grid = grid_of(axes, replicates=3)
    keys = content_keys(grid, plain_tables(grid), seeds)
    others = content_keys(grid_of([], replicates=3), plain_tables(grid_of([], replicates=3)), (0,))
    assert len({tuple(key) for key in keys.tolist()}) == 3 * len(seeds)
    shared = {tuple(k) for k in keys.tolist()} & {tuple(k) for k in others.tolist()}
    assert len(shared) == (3 if 0 in seeds else 0)


def test_excluded_cells_are_no_points() -> None:
    grid = grid_of([axis("slab.max_order=0,1,2")], replicates=2, exclude=["slab.max_order=1"])
    points = plain_points(grid)
    assert points.point_of_cell.tolist() == [0, 1, -1, -1, 2, 3]
    assert points.cells.tolist() == [0, 1, 4, 5]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=60))
def test_distinct_keys_come_in_the_order_of_their_first_row(rows: list[int]) -> None:
    table = np.random.default_rng(0).integers(0, 2**63, (9, 2), dtype=np.uint64)
    table[3, 0] = table[4, 0]  # words may collide one at a time
    keys = table[rows]
    first, inverse = distinct(keys)
    assert first.tolist() == sorted({rows.index(row) for row in rows})
    np.testing.assert_array_equal(keys[first][inverse], keys)


def test_a_task_holds_what_its_cells_need_and_no_more() -> None:
    grid = grid_of([axis(text) for text in AXES], replicates=2)
    points = plain_points(grid)
    cells = np.array([0, 5, 17, 63])
    tasks = points.tasks(cells)
    for lane, cell in enumerate(cells.tolist()):
        config = {g: tasks.tables[g][tasks.index[lane, i]] for i, g in enumerate(GROUPS)}
        assert config == points.config(cell)
        assert tasks.replicate[lane] == cell % 2
    for column, group in enumerate(GROUPS):
        used = set(tasks.index[:, column].tolist())
        assert used == set(range(len(tasks.tables[group])))
        pairs = itertools.combinations(tasks.tables[group], 2)
        assert all(one != other for one, other in pairs)
