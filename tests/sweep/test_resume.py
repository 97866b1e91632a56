from pathlib import Path

import pytest

from allocator.errors import ConfigError
from sweep.grid import grid_of
from sweep.resume import check_unchanged, flags_of, remembered, taken_up
from sweep.store import write_run
from tests.sweep.grids import BASES, axis, plain_tables


def test_a_resumed_run_takes_its_own_command_line_up(tmp_path: Path) -> None:
    write_run(tmp_path, {"overrides": ["machine=a,b", "slab.max_order=0,1"], "flags": []})
    folder = tmp_path.resolve()
    place = [f"resume='{folder}'", f"hydra.sweep.dir='{folder}'"]
    arguments = [f"resume={tmp_path}"]
    assert taken_up(arguments) == ["machine=a,b", "slab.max_order=0,1", *place]
    more = [*arguments, "slab.max_order=0,1,2", "gfp=x,y", "-m"]
    expected = ["-m", "machine=a,b", "slab.max_order=0,1,2", "gfp=x,y", *place]
    assert taken_up(more) == expected


@pytest.mark.parametrize("arguments", [[], ["slab.max_order=0,1"], ["resume=null"]])
def test_other_command_lines_are_left_alone(arguments: list[str]) -> None:
    assert taken_up(arguments) == arguments


def test_flags_that_choose_the_configuration_are_kept() -> None:
    kept = flags_of(["-m", "--config-dir", "/conf", "a=1", "--config-dir=/more"])
    assert kept == ["--config-dir", "/conf", "--config-dir", "/more"]


def remembered_of(texts: list[str], slab: dict[str, object] | None = None, seeds=(0,)):
    grid = grid_of([axis(text) for text in texts], replicates=1)
    bases = {**BASES, "slab": slab or BASES["slab"]}
    return remembered(plain_tables(grid, bases), grid, seeds)


def test_more_values_axes_and_seeds_are_no_change() -> None:
    old = remembered_of(["slab.max_order=0,1"])
    check_unchanged(old, old)
    check_unchanged(old, remembered_of(["slab.max_order=2,3"]))
    check_unchanged(old, remembered_of(["slab.max_order=0,1", "workload.scalars=2,3"]))
    check_unchanged(old, remembered_of(["slab.max_order=0,1"], seeds=(0, 1)))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (remembered_of(["slab.max_order=0,1"], seeds=(5,)), r"seed: found \[5\], expected \[0\]"),
        (
            remembered_of(["slab.max_order=0,1"], {**BASES["slab"], "min_order": 2}),
            "slab.min_order: found 2, expected None as in the run",
        ),
        (
            {**remembered_of(["slab.max_order=0,1"]), "model_version": -1},
            "model_version: found -1, expected no change",
        ),
    ],
)
def test_a_change_that_would_make_old_points_wrong_is_refused(new, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_unchanged(remembered_of(["slab.max_order=0,1"]), new)
