"""Every named grid of the configuration can be swept as it is."""

from collections.abc import Iterator

import pytest
from hydra.core.config_loader import ConfigLoader

from sweep.__main__ import CONFIGURATION
from sweep.check import check_points
from sweep.compose import tables_of
from sweep.points import points_of
from tests.sweep.hydra_grids import asked, loader

EXPERIMENTS = sorted(path.stem for path in (CONFIGURATION / "experiment").glob("*.yaml"))


@pytest.fixture(scope="module")
def hydra() -> Iterator[ConfigLoader]:
    with loader() as found:
        yield found


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_a_grid_of_its_own(hydra: ConfigLoader, name: str) -> None:
    composer, request = asked(hydra, [f"+experiment={name}"], more=())
    points = points_of(
        request.grid, tables_of(composer, request.fixed, request.grid), request.seeds
    )
    check_points(points)
    assert len(points.cells) > 1
    file = (CONFIGURATION / "experiment" / f"{name}.yaml").read_text()
    assert all(axis.key in file for axis in request.grid.axes)  # none of the default grid


def test_axes_on_the_command_line_replace_those_of_an_experiment(hydra: ConfigLoader) -> None:
    _, request = asked(hydra, [f"+experiment={EXPERIMENTS[-1]}", "slab.min_order=0,1"], more=())
    assert [axis.key for axis in request.grid.axes] == ["slab.min_order"]
