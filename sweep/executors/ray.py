"""The executor that runs tasks on Ray: on this machine, or on a cluster.

A cluster, step by step (all nodes need this Python and the dependencies; the code itself is sent)::

    head$    RAY_AUTH_MODE=disabled ray start --head --port 6379 --disable-usage-stats
    others$  RAY_AUTH_MODE=disabled ray start --address HEAD:6379 --disable-usage-stats
    head$    RAY_AUTH_MODE=disabled python -m sweep executor.address=auto
    head$    ray stop                                     # on every node, afterwards

With `RAY_AUTH_MODE=token` the same token file is needed on all nodes. From a machine outside the
cluster: `executor.address=ray://HEAD:10001` (needs `ray[client]`). As a job (`ray job submit`,
needs `ray[default]`) name the Python and an absolute `hydra.sweep.dir`, as a job runs in a copy of
its folder.

Ray's own retries are off: which chunk is tried again, split or given up is decided in `sweep.plan`.
"""

import time
from collections.abc import Callable
from typing import Any

from allocator.simulate import Tasks
from sweep.executors import Done, ExecutorError, Fault, worker
from sweep.executors.worker import Answer
from sweep.ray_start import ROOT, THREADS, RayStart, Wanted, taken
from sweep.settings import ExecutorSettings

PATIENCE = 2.0
"""Seconds that closing waits for a Ray that is still starting."""

LOOK_AGAIN = 5.0
"""Seconds between looks at the size of a cluster."""


class RayExecutor:
    """Runs tasks on Ray; making one does not wait for Ray."""

    def __init__(
        self, settings: ExecutorSettings, *, work: Callable[[Tasks], Answer] = worker.work
    ) -> None:
        """Start Ray in the background, unless that was begun already.

        Parameters
        ----------
        settings
            Which Ray, and how much of it.
        work
            What a worker does with a task.
        """
        self._settings = settings
        self._work = work
        self._pending: dict[Any, int] = {}
        self._remote: Any = None
        self._workers = 1
        self._looked = 0.0
        self._start: RayStart = taken(_wanted(settings))

    @property
    def start_seconds(self) -> float:
        """How long Ray took to start."""
        return self._start.seconds

    def workers(self) -> int:
        """Return the number of CPUs that Ray has for us."""
        ray = self._ray()
        local = self._settings.address == "local"
        if not self._looked or (not local and time.monotonic() - self._looked > LOOK_AGAIN):
            self._looked = time.monotonic()
            found = int(ray.cluster_resources().get("CPU", 1))
            self._workers = max(1, min(found, self._settings.cpus or found))
        return self._workers

    def submit(self, number: int, tasks: Tasks) -> None:
        """Hand a task to Ray."""
        ray = self._ray()
        if self._remote is None:
            self._remote = ray.remote(num_cpus=1, max_retries=0)(self._work)
        self._pending[self._remote.remote(tasks)] = number

    def next_done(self, timeout: float) -> list[Done]:
        """Return tasks that ended."""
        if not self._pending:
            return []
        ray = self._ray()
        done, _ = ray.wait(list(self._pending), num_returns=1, timeout=timeout)
        if done:
            many = len(self._pending)
            done, _ = ray.wait(list(self._pending), num_returns=many, timeout=0)
        return [self._done(ref) for ref in done]

    def close(self) -> bool:
        """Drop running tasks; shut down a Ray of our own, leave a cluster alone."""
        if self._pending and self._settings.address != "local":
            for ref in self._pending:
                self._ray().cancel(ref, force=True)
        self._pending.clear()
        return self._start.close(PATIENCE)

    def _done(self, ref: Any) -> Done:
        number = self._pending.pop(ref)
        ray = self._ray()
        errors = ray.exceptions
        try:
            results, seconds, text = ray.get(ref)
        except errors.RayTaskError as error:  # raised before `work` could answer
            raise ExecutorError(f"Ray's workers cannot run a task: {_last_line(error)}") from error
        except (errors.NodeDiedError, errors.ObjectLostError, errors.RaySystemError) as error:
            return Done(number=number, fault=Fault.LOST, text=type(error).__name__)
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            return Done(number=number, fault=Fault.DIED, text=type(error).__name__)
        except errors.RayError as error:
            return Done(number=number, fault=Fault.ERROR, text=_first_line(error))
        return Done(number=number, results=results, seconds=seconds, text=text)

    def _ray(self) -> Any:
        ray = self._start.ready()
        if self._start.failure is not None:
            raise ExecutorError(
                f"executor.address={self._settings.address}: Ray did not start or answer "
                f"({_first_line(self._start.failure)}); executor=inline needs no Ray"
            ) from self._start.failure
        return ray


def _wanted(settings: ExecutorSettings) -> Wanted:
    """Return which Ray the settings ask for."""
    if settings.address == "local":
        return Wanted(cpus=settings.cpus, auth=settings.auth)
    env: dict[str, Any] = {"env_vars": dict(THREADS)}
    if settings.ship:
        env["py_modules"] = [str(ROOT / "sweep"), str(ROOT / "allocator")]
    return Wanted(address=settings.address, auth=settings.auth, runtime_env=env)


def _last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
