"""Hydra's door to the grid sweeper.

Hydra imports this module whenever it looks for plugins, so it imports nothing heavy. A sweeper's
class must lie below the namespace package `hydra_plugins`; `sweep.__main__` puts the folder above
it on the path.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class SlabsweepConf:
    """Fields of `hydra.sweeper`."""

    _target_: str = "hydra_plugins.slabsweep.sweeper.GridSweeper"
    params: dict[str, Any] = field(default_factory=dict)


ConfigStore.instance().store(
    group="hydra/sweeper", name="slabsweep", node=SlabsweepConf, provider="slabsweep"
)


class GridSweeper(Sweeper):
    """Sweeps a whole grid as arrays, rather than one Hydra job after another."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = dict(params)
        self.config: DictConfig | None = None
        self.hydra_context: HydraContext | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep what Hydra hands over; the task function is not used."""
        self.hydra_context = hydra_context
        self.config = config

    def sweep(self, arguments: Sequence[str]) -> int:
        """Run the grid that the overrides and `hydra.sweeper.params` describe."""
        from sweep.app import run  # heavy, and this module is imported by every Hydra program

        if self.config is None or self.hydra_context is None:
            raise RuntimeError("setup() comes before sweep()")
        return run(self.hydra_context.config_loader, self.config, list(arguments))
