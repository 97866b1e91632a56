"""`python -m sweep`, and the command `slabsweep`: Hydra's command line, with errors in one line."""

import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from allocator.errors import ConfigError
from sweep.ray_start import Wanted, start_early

HERE = Path(__file__).resolve().parent
CONFIGURATION = HERE.parent / "conf"
PLUGINS = HERE / "_plugin_root"

USER_ERROR = 2
"""Exit status where the command line or the configuration is wrong."""

INTERRUPTED = 130  # as `sweep.app` has it, which is slow to load
"""Exit status after Ctrl-C."""

_NOT_SWEEPS = ("--help", "-h", "--hydra-help", "--version", "--cfg", "-c", "--info", "-i")
_MODES = ("--multirun", "-m", "--shell-completion", "-sc")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments
        The command line; None: the process's own.

    Returns
    -------
    int
        0; 1 if points failed; 2 if the command line is wrong; 130 after Ctrl-C.
    """
    given = _quoted(sys.argv[1:] if arguments is None else arguments)
    if str(PLUGINS) not in sys.path:
        sys.path.append(str(PLUGINS))  # Hydra takes sweepers from hydra_plugins.* only
    from hydra.errors import HydraException  # below the path, so that Hydra finds the sweeper
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    from sweep.messages import hydra_message, is_from_hydra, yaml_message
    from sweep.resume import taken_up

    full = os.environ.get("HYDRA_FULL_ERROR") == "1"
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, and we say it in one line
    before = sys.argv
    try:
        given = _in_order(given)
        sys.argv = [before[0], *_multirun(taken_up(given))]
        _hydra()
    except (ConfigError, HydraException, OmegaConfBaseException) as error:
        if full:
            raise
        print(f"slabsweep: {hydra_message(error)}", file=sys.stderr)
        return USER_ERROR
    except YAMLError as error:
        if full:
            raise
        print(f"slabsweep: {yaml_message(error)}", file=sys.stderr)
        return USER_ERROR
    except ValueError as error:  # Hydra has these for some wrong overrides
        if full or not is_from_hydra(error):
            raise
        print(f"slabsweep: {hydra_message(error)}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:  # where `console` has not set what Ctrl-C does
        print("slabsweep: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of --help has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = before
        if not full:
            os.environ.pop("HYDRA_FULL_ERROR", None)
    return 0


def console() -> NoReturn:
    """Run the process's own command line, and end the process.

    A local Ray is begun at once: it is what takes longest. The process ends without taking Python,
    Ray and HDF5 apart, which takes the better part of a second.
    """
    signal.signal(signal.SIGINT, _leave)
    wanted = _ray_to_expect(sys.argv[1:])
    if wanted is not None:
        # Ray's start is many short steps, and each waits for one of our long ones
        sys.setswitchinterval(0.0005)
        start_early(wanted)
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """End the process after Ctrl-C while there is no run yet that could be kept.

    No exception: raised within an import it may be lost there, and leave a lock held for which the
    thread that starts Ray waits for ever.
    """
    os.write(2, b"slabsweep: interrupted\n")
    os._exit(INTERRUPTED)


def _ray_to_expect(arguments: Sequence[str]) -> Wanted | None:
    """Return the Ray that a command line will most likely ask for, if it asks for one of its own.

    A wrong guess costs time and nothing else: `sweep.ray_start.taken` compares.
    """
    if any(text.split("=", 1)[0] in (*_NOT_SWEEPS, "--shell-completion") for text in arguments):
        return None
    given = dict(text.split("=", 1) for text in arguments if "=" in text)
    others = ("resume", "executor.address", "executor.auth", "hydra.mode")
    if given.get("executor", "ray") != "ray" or any(key in given for key in others):
        return None
    cpus = given.get("executor.cpus", "null")
    if cpus == "null":
        return Wanted()
    return Wanted(cpus=int(cpus)) if cpus.isdecimal() and int(cpus) > 0 else None


def _in_order(arguments: list[str]) -> list[str]:
    """Return overrides first and options after them, as Hydra wants them.

    Raises
    ------
    ConfigError
        If there is an option that Hydra does not know: it would print its whole usage.
    """
    from hydra._internal.utils import get_args_parser  # below the path, as in `main`

    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise ConfigError("command line", message, "options that --hydra-help lists")

    parser.error = refuse  # type: ignore[method-assign]
    known, rest = parser.parse_known_args(arguments)
    for text in rest:
        if text.startswith("-"):
            raise ConfigError(
                "command line", text, "an option that --hydra-help lists, or KEY=VALUE"
            )
    folder = known.config_dir
    if folder is not None and not Path(folder).is_dir():
        raise ConfigError("--config-dir", folder, "a directory")
    options = list(arguments)
    for text in (overrides := [*known.overrides, *rest]):
        options.remove(text)
    return [*overrides, *options]


def _multirun(arguments: list[str]) -> list[str]:
    """Say that this is a sweep, which it always is, so that Hydra's errors are about the sweep."""
    flags = [text.split("=", 1)[0] for text in arguments if text.startswith("-")]
    if "hydra.mode=RUN" in arguments or {"--run", "-r"} & set(flags):
        raise ConfigError("hydra.mode", "RUN", "MULTIRUN: a run is always a sweep")
    if any(flag in (*_NOT_SWEEPS, *_MODES) for flag in flags):
        return arguments
    return (
        arguments
        if any(text.startswith("hydra.mode=") for text in arguments)
        else ["--multirun", *arguments]
    )


def _quoted(arguments: Sequence[str]) -> list[str]:
    """Quote the one value that bears a `=`, for Hydra: `compare.baseline=kernel=v6_1`."""
    return [
        re.sub(r"^(compare\.baseline=)([^'\"=]+=[^'\"]+)$", r'\1"\2"', text) for text in arguments
    ]


def _always(*_: object, **__: object) -> object:
    from hydra.types import RunMode  # as in `_hydra`

    return RunMode.MULTIRUN


def _hydra() -> None:
    import hydra  # after the path of the plugin is there
    from hydra._internal.hydra import Hydra
    from omegaconf import DictConfig

    Hydra.get_mode = _always  # type: ignore[method-assign] # Hydra would compose to find out

    @hydra.main(version_base="1.3", config_path=str(CONFIGURATION), config_name="config")
    def task(config: DictConfig) -> None:
        raise AssertionError("the sweeper runs points, not Hydra")

    task()


if __name__ == "__main__":
    console()
