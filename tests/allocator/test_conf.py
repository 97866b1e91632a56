"""Configuration groups that the model owns: every file is accepted as it is."""

from pathlib import Path

import pytest
import yaml

import conf
from allocator.gfp import Gfp
from allocator.kernels import PRESETS, kernel_from_config
from allocator.slabs.parameters import SlabParameters
from allocator.topology import Topology
from allocator.workloads.registry import workload_from_config

ROOT = Path(conf.__file__).parent


def files(group: str) -> list:
    return [pytest.param(path, id=path.stem) for path in sorted((ROOT / group).glob("*.yaml"))]


def content(path: Path) -> dict:
    return yaml.safe_load(path.read_text())


def test_every_preset_has_its_file() -> None:
    assert {path.stem for path in (ROOT / "kernel").glob("*.yaml")} >= PRESETS.keys()


@pytest.mark.parametrize("path", files("kernel"))
def test_a_kernel_file_is_its_preset_or_differs_in_choices_that_exist(path: Path) -> None:
    kernel = kernel_from_config(content(path))
    assert kernel == PRESETS[path.stem] if path.stem in PRESETS else kernel.name in PRESETS


@pytest.mark.parametrize("path", files("gfp"))
def test_a_gfp_file_names_flags_of_today(path: Path) -> None:
    Gfp.from_config(content(path)).check(PRESETS["v6_1"])


@pytest.mark.parametrize("path", files("slab"))
def test_a_slab_file_is_accepted(path: Path) -> None:
    assert isinstance(SlabParameters.from_config(content(path)), SlabParameters)


@pytest.mark.parametrize("path", files("topology"))
def test_a_topology_file_is_accepted(path: Path) -> None:
    topology = Topology.from_config(content(path))
    assert (topology is None) == (path.stem == "machine")


def test_the_geometry_workload_is_accepted() -> None:
    assert workload_from_config(content(ROOT / "workload" / "geometry.yaml")).name == "geometry"
