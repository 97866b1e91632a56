"""The executor that runs tasks on Ray: on this machine, or on a cluster.

A cluster, step by step (all nodes need this Python and the dependencies; the code itself is sent)::

    head$    RAY_AUTH_MODE=disabled ray start --head --port 6379 --disable-usage-stats
    others$  RAY_AUTH_MODE=disabled ray start --address HEAD:6379 --disable-usage-stats
    head$    RAY_AUTH_MODE=disabled python -m sweep executor.address=auto
    head$    ray stop                                     # on every node, afterwards

With `RAY_AUTH_MODE=token` the same token file is needed on all nodes. From a machine outside the
cluster: `executor.address=ray://HEAD:10001`. As a job: `ray job submit --address http://HEAD:8265
--working-dir . -- python -m sweep executor.address=auto` (needs `ray[default]`).

Ray's own retries are off: which chunk is tried again, split or given up is decided in `sweep.plan`.
"""

import logging
import os
import site
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from allocator.simulate import Tasks
from sweep.executors import Done, ExecutorError, Fault, worker
from sweep.executors.worker import Answer
from sweep.settings import ExecutorSettings

log = logging.getLogger(__name__)

OBJECT_STORE_BYTES = 512 << 20
"""Object store of a local Ray: a few chunks' results at a time."""

THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Workers' environment: one CPU per task."""

ROOT = Path(__file__).resolve().parents[2]
"""Folder of the packages `sweep` and `allocator`."""

PATIENCE = 2.0
"""Seconds that closing waits for a Ray that is still starting."""

LOOK_AGAIN = 5.0
"""Seconds between looks at the size of a cluster."""


class RayExecutor:
    """Runs tasks on Ray; starting it does not wait for Ray."""

    def __init__(
        self, settings: ExecutorSettings, *, work: Callable[[Tasks], Answer] = worker.work
    ) -> None:
        """Start Ray in the background.

        Parameters
        ----------
        settings
            Which Ray, and how much of it.
        work
            What a worker does with a task.
        """
        self._settings = settings
        self._work = work
        self._local = settings.address == "local"
        self._pending: dict[Any, int] = {}
        self._failure: Exception | None = None
        self._ray: Any = None
        self._remote: Any = None
        self._workers = 1
        self._looked = 0.0
        self.start_seconds = 0.0
        """How long Ray took to start."""
        self._started, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._start, name="ray", daemon=True)
        self._thread.start()

    def workers(self) -> int:
        """Return the number of CPUs that Ray has for us."""
        self._wait()
        if not self._local and time.monotonic() - self._looked > LOOK_AGAIN:
            self._looked = time.monotonic()
            self._workers = self._cpus()
        return self._workers

    def _cpus(self) -> int:
        found = int(self._ray.cluster_resources().get("CPU", 1))
        return max(1, min(found, self._settings.cpus or found))

    def submit(self, number: int, tasks: Tasks) -> None:
        """Hand a task to Ray."""
        self._wait()
        self._pending[self._remote.remote(tasks)] = number

    def next_done(self, timeout: float) -> list[Done]:
        """Return tasks that ended."""
        self._wait()
        if not self._pending:
            return []
        done, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=timeout)
        if done:
            many = len(self._pending)
            done, _ = self._ray.wait(list(self._pending), num_returns=many, timeout=0)
        return [self._done(ref) for ref in done]

    def close(self) -> bool:
        """Drop running tasks; shut down a Ray of our own, leave a cluster alone."""
        if not self._started.wait(PATIENCE):
            return False  # interrupted while Ray starts: its processes end with ours
        if self._ray is not None and self._ray.is_initialized():
            if not self._local:
                for ref in self._pending:
                    self._ray.cancel(ref, force=True)
            self._pending.clear()
            self._ray.shutdown()
        self._closing.set()
        self._thread.join()
        return True

    def _done(self, ref: Any) -> Done:
        number = self._pending.pop(ref)
        errors = self._ray.exceptions
        try:
            results, seconds, text = self._ray.get(ref)
        except errors.RayTaskError as error:  # raised before `work` could answer
            raise ExecutorError(f"Ray's workers cannot run a task: {_last_line(error)}") from error
        except (errors.NodeDiedError, errors.ObjectLostError, errors.RaySystemError) as error:
            return Done(number=number, fault=Fault.LOST, text=type(error).__name__)
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            return Done(number=number, fault=Fault.DIED, text=type(error).__name__)
        except errors.RayError as error:
            return Done(number=number, fault=Fault.ERROR, text=_first_line(error))
        return Done(number=number, results=results, seconds=seconds, text=text)

    def _wait(self) -> None:
        self._started.wait()
        if self._failure is not None:
            raise ExecutorError(
                f"executor.address={self._settings.address}: Ray did not start or answer "
                f"({_first_line(self._failure)}); executor=inline needs no Ray"
            ) from self._failure

    def _start(self) -> None:
        """Start Ray, and live as long as it does: the kernel ends its processes with this thread.

        (Ray asks for that with PR_SET_PDEATHSIG, and the parent that counts is the thread.)
        """
        start = time.perf_counter()
        try:
            self._connect()
        except Exception as error:  # raised again in the thread that asks for workers
            self._failure = error
        self.start_seconds = time.perf_counter() - start
        self._started.set()
        self._closing.wait()

    def _connect(self) -> None:
        settings = self._settings
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ["RAY_AUTH_MODE"] = _auth_mode(settings)
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        for name, value in THREADS.items():
            os.environ.setdefault(name, value)  # a local Ray's workers inherit this
        if self._local:
            _show_this_code()
        import ray  # takes a second, and only this executor needs it

        logging.getLogger("ray").setLevel(logging.ERROR)

        options: dict[str, Any] = {
            "address": settings.address,
            "log_to_driver": False,
            "logging_level": logging.ERROR,
            "configure_logging": False,
        }
        if self._local:
            options |= {
                "num_cpus": settings.cpus,
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE_BYTES,
            }
        else:
            options["runtime_env"] = _runtime_env(settings)
        ray.init(**options)
        self._remote = ray.remote(num_cpus=1, max_retries=0)(self._work)
        self._ray = ray
        self._workers = self._cpus()


def _auth_mode(settings: ExecutorSettings) -> str:
    """Return how Ray's processes prove who they are; Ray aborts if it wants a token and has none.

    A Ray of our own listens on this machine only and needs none. On a cluster the environment
    decides, as it did on the nodes; else whether there is a token.
    """
    if settings.auth is not None or settings.address == "local":
        return settings.auth or "disabled"
    named = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    has_token = named or (Path.home() / ".ray" / "auth_token").exists()
    return os.environ.get("RAY_AUTH_MODE") or ("token" if has_token else "disabled")


def _show_this_code() -> None:
    """Let a local Ray's workers import this code, where it is not installed but run from a tree."""
    root = str(ROOT)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in (*site.getsitepackages(), site.getusersitepackages(), *paths):
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, paths)])


def _runtime_env(settings: ExecutorSettings) -> dict[str, Any]:
    """Return what a cluster's workers need: this code, and one thread each."""
    env: dict[str, Any] = {"env_vars": dict(THREADS)}
    if settings.ship:
        env["py_modules"] = [str(ROOT / "sweep"), str(ROOT / "allocator")]
    return env


def _last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
