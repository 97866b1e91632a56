"""Where chunks of points run: in this process, or on Ray."""

import threading
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from allocator.results import Results
from allocator.simulate import Tasks
from sweep.ray_start import forgotten
from sweep.settings import ExecutorSettings


class Fault(Enum):
    """Why a task gave no results."""

    ERROR = "error"
    """The task could not be sent, or its results not be brought back."""
    DIED = "died"
    """The worker process died (killed, out of memory, a crash in native code)."""
    LOST = "lost"
    """The node went away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A task that ended."""

    number: int
    """Number under which it was submitted."""
    results: Results | None = None
    """Its results, if it has any."""
    seconds: float = 0.0
    """Wall time in the worker."""
    fault: Fault | None = None
    """Why there are no results."""
    text: str = ""
    """What the fault said, or the traceback of what the model raised on the way to the results."""


class Executor(Protocol):
    """Runs tasks somewhere, and hands back what ended."""

    def workers(self) -> int:
        """Return how many tasks run at once; may change while a cluster grows or shrinks."""
        ...

    def submit(self, number: int, tasks: Tasks) -> None:
        """Start a task, or queue it."""
        ...

    def next_done(self, timeout: float) -> list[Done]:
        """Return tasks that ended, waiting up to `timeout` seconds for the first."""
        ...

    def close(self) -> bool:
        """Drop what is still running and release everything.

        Returns
        -------
        bool
            False if it cannot be released in time: only the end of this process does it.
        """
        ...


class ExecutorError(RuntimeError):
    """The executor cannot be started or is gone; the text says what to do."""


def executor_of(settings: ExecutorSettings) -> Executor:
    """Return the executor that the configuration names.

    Ray is started in the background: submitting the first task waits for it.
    """
    if settings.name == "inline":
        if (unwanted := forgotten()) is not None:
            threading.Thread(target=unwanted.close, args=(60.0,), daemon=True).start()
        from sweep.executors.inline import InlineExecutor  # as lazy as its neighbour

        return InlineExecutor()
    from sweep.executors.ray import RayExecutor  # only where Ray is wanted

    return RayExecutor(settings)
