from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException

from allocator.errors import ConfigError
from allocator.point import GROUPS
from sweep.__main__ import CONFIGURATION
from sweep.compose import tables_of, verified
from sweep.messages import hydra_message
from tests.sweep.hydra_grids import MORE, asked, loader

COUNTED = "workload=counted"


@pytest.fixture(scope="module")
def hydra() -> Iterator[ConfigLoader]:
    with loader() as found:
        yield found


def test_without_axes_the_default_grid_is_swept(hydra: ConfigLoader) -> None:
    _, request = asked(hydra, [COUNTED])
    assert request.grid.names == ("machine", "kernel", "slab_max_order", "gfp", "replicate")
    assert request.grid.shape == (3, 2, 4, 3, 3)
    machines = request.grid.axes[0].labels
    assert machines == ("epyc_rome_2x7742", "icx_2xGold6338", "graviton2")


def test_axes_on_the_command_line_replace_the_default_grid(hydra: ConfigLoader) -> None:
    arguments = ["machine=epyc_rome_2x7742,graviton2", "slab.max_order=null,3", COUNTED]
    _, request = asked(hydra, arguments)
    assert request.grid.names == ("machine", "slab_max_order", "replicate")
    assert request.grid.axes[1].coordinate().tolist() == ["null", "3"]
    assert request.config["workload"]["name"] == "counted"  # type: ignore[index]


def test_one_value_on_the_command_line_fixes_an_axis_of_the_default_grid(
    hydra: ConfigLoader,
) -> None:
    _, request = asked(hydra, [COUNTED, "slab.max_order=1", "gfp=atomic"])
    assert request.grid.names == ("machine", "kernel", "replicate")
    assert request.config["slab"]["max_order"] == 1  # type: ignore[index]


def test_glob_takes_options_of_a_group(hydra: ConfigLoader) -> None:
    _, request = asked(hydra, [COUNTED, "kernel=glob(v6_1*)"])
    assert request.grid.axes[0].labels == ("v6_1", "v6_12", "v6_1_bailout", "v6_1_order_v2")


def test_axes_of_an_experiment_that_others_replace_are_known(hydra: ConfigLoader) -> None:
    _, request = asked(hydra, ["+experiment=remote_node_slabs", "slab.max_order=0,1"])
    assert request.grid.names == ("slab_max_order", "replicate")
    assert request.dropped == {
        "machine": "epyc_rome_2x7742,icx_2xGold6338",
        "kernel": "v6_1,v6_1_order_v2",
        "workload.fragmented_node": "-1,0",
    }
    _, request = asked(hydra, ["+experiment=remote_node_slabs", "slab.max_order=0"])
    assert request.dropped == {}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["compare.metric=SUnreclam"], "compare.metric: found 'SUnreclam', expected one of SUnre"),
        (
            ['compare.baseline="kernel=v61"'],
            "compare.baseline: found 'kernel=v61', expected kernel=VALUE, VALUE one of v6_1, ",
        ),
        (
            ['compare.baseline="machine=altra_q80"'],
            "found 'machine=altra_q80', expected machine one of epyc_rome_2x7742, icx_2xGold6338",
        ),
        (
            ['compare.baseline="workload.groups=7"'],
            "expected an axis of this grid: machine, kernel, slab.max_order, gfp",
        ),
    ],
)
def test_a_comparison_that_cannot_be_is_refused_before_the_run(
    hydra: ConfigLoader, arguments: list[str], line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        asked(hydra, [COUNTED, *arguments])
    assert line in str(caught.value)


def test_a_baseline_that_a_narrowed_grid_lacks_is_not_the_users_fault(hydra: ConfigLoader) -> None:
    asked(hydra, [COUNTED, "kernel=v6_12,v7_3"])  # the configuration compares with v6_1
    asked(hydra, [COUNTED, "slab.max_order=2.0,3", 'compare.baseline="slab.max_order=2"'])


def test_seed_may_be_an_axis(hydra: ConfigLoader) -> None:
    _, request = asked(hydra, [COUNTED, "seed=0,7", "slab.max_order=0,1"])
    assert request.seeds == (0, 7)
    assert request.grid.names == ("slab_max_order", "seed", "replicate")


def test_pairs_and_exclusions_hold_for_typed_axes_only_where_typed(hydra: ConfigLoader) -> None:
    axes = [COUNTED, "machine=graviton2,epyc_rome_2x7742", "slab.max_order=0,1"]
    _, request = asked(hydra, [*axes, "sweep.zip=[[machine,slab.max_order]]"])
    assert request.grid.names == ("machine__slab_max_order", "replicate")
    _, request = asked(hydra, [*axes, 'sweep.exclude=["machine=graviton2 & slab.max_order=1"]'])
    assert request.grid.allowed is not None
    assert request.grid.allowed.tolist() == [[True, False], [True, True]]


def test_named_grids_are_united(hydra: ConfigLoader) -> None:
    grids = (
        "sweep.grids={coarse:{slab.max_order:'0,1,2'},"
        "fine:{slab.max_order:3,slab.min_order:'range(0,3)'}}"
    )
    _, request = asked(hydra, [COUNTED, grids])
    assert request.grid.names == ("slab_max_order", "slab_min_order", "replicate")
    assert request.grid.axes[0].coordinate().tolist() == [0, 1, 2, 3]
    assert request.grid.axes[1].labels == ("0", "1", "2", "null")
    assert request.grid.allowed is not None
    np.testing.assert_array_equal(
        request.grid.allowed,
        [[False, False, False, True]] * 3 + [[True, True, True, False]],
    )


def test_intervals_are_sampled_together(hydra: ConfigLoader) -> None:
    intervals = ["slab.min_partial=int(interval(5,100))", "slab.cpu_partial=int(interval(0,60))"]
    _, request = asked(hydra, [COUNTED, *intervals, "sweep.samples=8", "sweep.sampler=sobol"])
    assert request.grid.names == ("sample", "replicate")
    assert request.grid.shape == (8, 3)


def test_the_shortcut_composes_what_hydra_composes(hydra: ConfigLoader) -> None:
    arguments = [
        COUNTED,
        "machine=graviton2,epyc_rome_2x7742",
        "kernel=v6_1,v6_12",
        "+kernel.slab.order_rule=fractions,least_waste",
        "slab.max_order=null,2",
        "gfp.flags=GFP_KERNEL,'GFP_ATOMIC|__GFP_NOWARN'",
        "workload.lane_ms=0,0.5",
    ]
    composer, request = asked(hydra, arguments)
    tables = tables_of(composer, request.fixed, request.grid)
    few = composer.count
    every = np.arange(request.grid.size // request.grid.replicates)
    again = verified(composer, request.fixed, request.grid, tables, every[::11])
    assert again == tables
    assert few <= 7
    assert composer.count > few + 4


@pytest.fixture
def interacting(tmp_path: Path) -> Path:
    """Return a configuration whose workload takes values from the machine and the gfp group."""
    for group, options in {
        "machine": {"a": "size: 1", "b": "size: 2"},
        "gfp": {
            "x": "flags: X",
            "y": "# @package _global_\ngfp:\n  flags: Y\nkernel:\n  preset: y",
        },
        "workload": {"w": "size: ${machine.size}\nrate: 0", "v": "size: 3\nrate: 1"},
        "kernel": {"k": "preset: k"},
        "slab": {"default": "max_order: 3"},
        "topology": {"machine": "{}"},
    }.items():
        (tmp_path / group).mkdir()
        for option, text in options.items():
            (tmp_path / group / f"{option}.yaml").write_text(text + "\n")
    defaults = "machine: a", "kernel: k", "gfp: x", "slab: default", "topology: machine"
    listed = "".join(f"  - {line}\n" for line in (*defaults, "workload: w", "_self_"))
    rest = "seed: 0\nreplicates: 1\non_error: continue\nexecutor: {name: inline}\n"
    hydra = "hydra: {sweeper: {params: {}}}\n"
    override = "  - override hydra/sweeper: slabsweep\n"
    (tmp_path / "config.yaml").write_text(f"defaults:\n{listed}{override}{rest}{hydra}")
    return tmp_path


def test_interpolation_across_axes_is_composed_in_full(interacting: Path) -> None:
    with loader(interacting) as found:
        arguments = ["machine=a,b", "workload=w,v", "machine.size=1,5"]
        composer, request = asked(found, arguments, more=())
        tables = tables_of(composer, request.fixed, request.grid)
        every = np.arange(request.grid.size)
        assert verified(composer, request.fixed, request.grid, tables, every) == tables
        sizes = [entry["size"] for entry in tables["workload"].bases]
        assert sorted(set(sizes)) == [1, 3, 5]


def test_an_option_that_changes_another_group_is_seen(interacting: Path) -> None:
    with loader(interacting) as found:
        composer, request = asked(found, ["gfp=x,y", "slab.max_order=1,2"], more=())
        tables = tables_of(composer, request.fixed, request.grid)
        assert verified(composer, request.fixed, request.grid, tables, np.arange(4)) == tables
        assert [base["preset"] for base in tables["kernel"].bases] == ["k", "y"]
        assert tables["slab"].composed_dims == ()


def test_a_shortcut_that_is_wrong_is_found_and_composed_in_full(
    interacting: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hidden = interacting / "workload" / "v.yaml"
    hidden.write_text("size: 3\nrate: ${oc.select:machine.size}\n")  # only seen in the second one
    (interacting / "workload" / "w.yaml").write_text("size: 3\nrate: 0\n")
    with loader(interacting) as found:
        composer, request = asked(found, ["machine=a,b", "workload=w,v"], more=())
        right = tables_of(composer, request.fixed, request.grid)
        wrong = {**right, "workload": _without_machine(right["workload"])}
        mended = verified(composer, request.fixed, request.grid, wrong, np.arange(4))
        assert "composing each combination in full" in caplog.text
        entries = [mended["workload"].entry(number) for number in range(4)]
        assert [entry["rate"] for entry in entries] == [0, 1, 0, 2]


def _without_machine(table):
    from dataclasses import replace

    return replace(table, dims=(1,), sizes=(2,), composed_dims=(1,), bases=table.bases[:2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["machine=nosuch"], "machine: found 'nosuch', expected one of altra_q80, "),
        (["machine=graviton2,nosuch"], "machine: found 'nosuch', expected one of altra_q80, "),
        (["slab.nosuch=3"], "slab.nosuch: no such key; keys of slab: max_order, "),
        (["slab.nosuch=1,2"], "slab.nosuch: no such key; keys of slab: max_order, "),
        (["nosuch=3"], "nosuch: no such key; keys and groups: machine, "),
        (["slab.max_order=1,,2"], "slab.max_order=1,,2: cannot be read as an override"),
        (["+experiment=nosuch"], "experiment: found 'nosuch', expected one of "),
        (["on_error=maybe"], "on_error: found 'maybe', expected continue or stop"),
        (["executor=inline", "executor.chunk=0"], "executor.chunk: found 0, expected a whole"),
        (["sweep.exclude=3"], "sweep.exclude: found 3, expected a list"),
        (["sweep.sampler=x", "slab.min_partial=interval(1,2)"], "sweep.sampler: found 'x'"),
        (["seed=1.5,2"], "seed: found 1.5, expected a whole number"),
    ],
)
def test_errors_are_one_line_that_names_the_key(
    hydra: ConfigLoader, arguments: list[str], message: str
) -> None:
    def compose() -> None:
        composer, request = asked(hydra, [COUNTED, *arguments])
        tables_of(composer, request.fixed, request.grid)

    with pytest.raises((ConfigError, HydraException)) as caught:
        compose()
    text = hydra_message(caught.value)
    assert text.startswith(message)
    assert "\n" not in text


def test_groups_of_a_point_are_groups_of_the_configuration() -> None:
    groups = {path.name for path in CONFIGURATION.iterdir() if path.is_dir()}
    assert set(GROUPS) <= groups
    assert (MORE / "workload" / "counted.yaml").exists()
