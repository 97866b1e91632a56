"""Requests of the tests, read by Hydra from the real configuration or from another."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig

from sweep.__main__ import CONFIGURATION, PLUGINS
from sweep.compose import Composer
from sweep.request import Request, request_of

MORE = Path(__file__).resolve().parents[1] / "system" / "conf"


@contextmanager
def loader(config: Path = CONFIGURATION) -> Iterator[ConfigLoader]:
    """Yield Hydra's loader for a configuration directory."""
    if str(PLUGINS) not in sys.path:
        sys.path.append(str(PLUGINS))
    held = GlobalHydra.instance().hydra  # of a fixture that is still open
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config), version_base="1.3"):
        yield GlobalHydra.instance().config_loader()
    GlobalHydra.instance().hydra = held


def hydra_overrides(more: Sequence[Path]) -> list[str]:
    return [f"hydra.searchpath=[{','.join(f'file://{path}' for path in more)}]"] if more else []


def master_of(
    loader: ConfigLoader, arguments: Sequence[str], more: Sequence[Path] = (MORE,)
) -> DictConfig:
    """Return what Hydra composes to find the sweeper."""
    return loader.load_configuration(
        "config", [*hydra_overrides(more), *arguments], RunMode.MULTIRUN
    )


def asked(
    loader: ConfigLoader, arguments: Sequence[str], more: Sequence[Path] = (MORE,)
) -> tuple[Composer, Request]:
    """Return what a command line asks for."""
    composer = Composer(loader, "config", hydra_overrides(more))
    return composer, request_of(loader, composer, master_of(loader, arguments, more), arguments)
