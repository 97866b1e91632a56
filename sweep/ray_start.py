"""Ray's start, in the background.

Starting Ray takes longer than everything else before the first point, so `sweep.__main__` begins it
before Hydra, the model and the command line are looked at. For that this module imports nothing.
"""

import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OBJECT_STORE_BYTES = 512 << 20
"""Object store of a local Ray: a few chunks' results at a time."""

THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Workers' environment: one CPU per task."""

ROOT = Path(__file__).resolve().parents[1]
"""Folder of the packages `sweep` and `allocator`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which Ray to start or to connect to."""

    address: str = "local"
    """`local`: a new one on this machine; else as `ray.init` has it."""
    cpus: int | None = None
    """CPUs of a local one; None: all."""
    auth: str | None = None
    """`RAY_AUTH_MODE`; None: as `auth_mode` finds."""
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    """What workers of a cluster need."""


class RayStart:
    """A Ray that is starting, or has started."""

    def __init__(self, wanted: Wanted) -> None:
        """Begin to start it."""
        self.wanted = wanted
        self.failure: Exception | None = None
        """Why it did not start."""
        self.seconds = 0.0
        """How long it took to start."""
        self._ray: Any = None
        self._started, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._live, name="ray", daemon=True)
        self._thread.start()

    def ready(self) -> Any:
        """Wait for it, and return the module `ray`; None if it did not start."""
        self._started.wait()
        return self._ray

    def close(self, patience: float) -> bool:
        """Shut it down.

        Returns
        -------
        bool
            False if it is starting still after `patience` seconds: its processes end with ours.
        """
        if not self._started.wait(patience):
            return False
        if self._ray is not None and self._ray.is_initialized():
            self._ray.shutdown()
        self._closing.set()
        self._thread.join()
        return True

    def _live(self) -> None:
        """Start Ray, and live as long as it does: the kernel ends its processes with this thread.

        (Ray asks for that with PR_SET_PDEATHSIG, and the parent that counts is the thread.)
        """
        start = time.perf_counter()
        try:
            self._connect()
        except Exception as error:  # told to whoever waits
            self.failure = error
        self.seconds = time.perf_counter() - start
        self._started.set()
        self._closing.wait()

    def _connect(self) -> None:
        wanted = self.wanted
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ["RAY_AUTH_MODE"] = auth_mode(wanted)
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        options: dict[str, Any] = {
            "address": wanted.address,
            "log_to_driver": False,
            "logging_level": logging.ERROR,
            "configure_logging": False,
        }
        if wanted.address == "local":
            for name, value in THREADS.items():
                os.environ.setdefault(name, value)  # a local Ray's workers inherit this
            _show_this_code()
            options |= {
                "num_cpus": wanted.cpus,
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE_BYTES,
            }
        else:
            options["runtime_env"] = dict(wanted.runtime_env)
        import ray  # takes a second, and only this thread waits for it

        logging.getLogger("ray").setLevel(logging.ERROR)
        ray.init(**options)
        self._ray = ray


def auth_mode(wanted: Wanted) -> str:
    """Return how Ray's processes prove who they are; Ray aborts if it wants a token and has none.

    A Ray of our own listens on this machine only and needs none. On a cluster the environment
    decides, as it did on the nodes; else whether there is a token.
    """
    if wanted.auth is not None or wanted.address == "local":
        return wanted.auth or "disabled"
    named = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    has_token = named or (Path.home() / ".ray" / "auth_token").exists()
    return os.environ.get("RAY_AUTH_MODE") or ("token" if has_token else "disabled")


def _show_this_code() -> None:
    """Let a local Ray's workers import this code, where it is not installed but run from a tree."""
    import site  # as late as the rest

    root = str(ROOT)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in (*site.getsitepackages(), site.getusersitepackages(), *paths):
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, paths)])


_early: RayStart | None = None


def start_early(wanted: Wanted) -> None:
    """Begin to start the Ray that will most likely be asked for."""
    global _early
    _early = RayStart(wanted)


def taken(wanted: Wanted) -> RayStart:
    """Return the Ray that was begun early if it is the one wanted, else begin to start it."""
    found = forgotten()
    if found is not None and found.wanted == wanted:
        return found
    if found is not None:
        found.close(60.0)
    return RayStart(wanted)


def forgotten() -> RayStart | None:
    """Return the Ray that was begun early and that nobody took, once."""
    global _early
    found, _early = _early, None
    return found
