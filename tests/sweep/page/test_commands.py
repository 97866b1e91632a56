"""Commands of a page: the run again, and its points on real hardware."""

import json
import shlex

import numpy as np
import pytest
import xarray as xr

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.compose import tables_of
from sweep.dataset import provenance_attributes
from sweep.page.commands import on_hardware, point_of, reproducing
from sweep.resume import remembered
from tests.sweep.hydra_grids import asked, loader

GRIDS = {
    "default": [],
    "typed": ["machine=graviton2,altra_q80", "slab.max_order=null,0", "workload=unixbench"],
    "experiment": ["+experiment=scaling"],
    "narrowed": ["+experiment=scaling", "machine=graviton2", "replicates=2"],
    "paired": [
        "sweep.zip=[[machine,slab.max_order]]",
        "machine=graviton2,altra_q80",
        "slab.max_order=1,2",
        "seed=3,4",
    ],
    "sampled": ["slab.min_objects=int(interval(4,64))", "sweep.samples=4", "kernel=v6_1,v6_12"],
}


@pytest.fixture(scope="module")
def hydra():
    with loader() as found:
        yield found


def same(one, other):
    return (
        [(axis.key, axis.values) for axis in one.axes]
        == [(axis.key, axis.values) for axis in other.axes]
        and one.names == other.names
        and one.shape == other.shape
        and np.array_equal(one.allowed, other.allowed)
    )


@pytest.mark.parametrize("arguments", GRIDS.values(), ids=GRIDS)
def test_the_command_asks_for_the_same_grid(hydra, arguments):
    _, request = asked(hydra, arguments, ())
    command = reproducing({"overrides": list(request.repeated), "flags": []})
    program, *words = shlex.split(command)[2:]
    assert command.startswith("python -m sweep")
    assert program == "sweep"
    _, again = asked(hydra, words, ())
    assert same(again.grid, request.grid)
    assert again.seeds == request.seeds


def test_a_resumed_run_can_be_made_anew_with_its_exclusions(hydra):
    _, first = asked(hydra, GRIDS["experiment"], ())
    resumed = [*first.spelled, "resume=/somewhere"]
    _, request = asked(hydra, resumed, ())
    assert same(request.grid, first.grid)
    words = shlex.split(reproducing({"overrides": list(request.repeated)}))[3:]
    assert not any(word.startswith("resume=") for word in words)
    _, again = asked(hydra, words, ())
    assert same(again.grid, first.grid)


def test_runs_made_before_have_only_what_was_typed():
    command = "slabsweep --multirun +experiment=slab_order hydra.sweep.dir=/somewhere"
    assert reproducing({"command": command}) == "python -m sweep +experiment=slab_order"
    assert reproducing({"command": "slabsweep --multirun resume=/somewhere"}) == ""
    assert reproducing({}) == ""


def made(hydra, arguments):
    """Return a dataset of a grid, with its provenance and a metric of ones."""
    composer, request = asked(hydra, arguments, ())
    tables = tables_of(composer, request.fixed, request.grid)
    grid = request.grid
    data = {name: (grid.names, np.ones(grid.shape)) for name in ("throughput",)}
    data["status"] = (grid.names, np.zeros(grid.shape, dtype=np.int8))
    coords = {axis.name: axis.coordinate() for axis in grid.axes}
    ds = xr.Dataset(data, coords=coords)
    record = {
        "axes": {axis.key: list(axis.values) for axis in grid.axes},
        "groups": remembered(tables, grid, request.seeds)["groups"],
    }
    ds.attrs = provenance_attributes(json.loads(json.dumps(record)))
    return cells_of(ds)


@pytest.fixture(scope="module")
def cells(hydra):
    arguments = ["machine=graviton2,icx_2xGold6338", "kernel=v6_1,v6_1_order_v2"]
    return made(hydra, [*arguments, "slab.max_order=null,2", "workload=hackbench_sockets_loaded"])


def test_a_point_of_the_grid_is_put_together_from_the_dataset(cells):
    place = {"machine": "icx_2xGold6338", "kernel": "v6_1_order_v2", "slab_max_order": "2"}
    point = point_of(cells.provenance(), place)
    assert (point.machine.name, point.kernel.name) == ("icx_2xGold6338", "v6_1_order_v2")
    assert (point.slab.max_order, point.workload.groups) == (2, 128)
    point = point_of(cells.provenance(), {**place, "slab_max_order": "null"})
    assert point.slab.max_order is None


def test_hardware_lines_say_what_to_boot_and_what_to_run(cells):
    comparison = compare(cells, "kernel=v6_1")
    last = int(np.prod(comparison.shape)) - 1
    (found,) = on_hardware(comparison, [last])
    assert found.where == "machine=icx_2xGold6338, slab_max_order=2"
    ((name, lines),) = found.runs
    assert name == "kernel=v6_1, kernel=v6_1_order_v2"
    assert lines.count("# kernel   v6_1") == 2
    assert "# boot     slub_max_order=2" in lines
    assert "# machine  icx_2xGold6338: 2x Intel Xeon Gold 6338" in lines
    assert lines.endswith("\nhackbench -g 128 -f 20 -l 12 -s 100")


def test_values_of_which_the_commands_are_the_same_share_them(cells):
    (found,) = on_hardware(compare(cells, "machine=graviton2"), [0])
    assert [name for name, _ in found.runs] == ["machine=graviton2", "machine=icx_2xGold6338"]
    assert all("# boot" not in lines for _, lines in found.runs)


def test_without_the_configurations_there_are_no_lines(cells):
    bare = cells.root.assign_attrs(groups="")
    assert on_hardware(compare(cells_of(bare), "kernel=v6_1"), [0]) == []
