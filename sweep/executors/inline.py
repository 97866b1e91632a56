"""The executor that needs nothing: tasks run in this process when their results are asked for."""

from collections import deque

from allocator.simulate import Tasks
from sweep.executors import Done
from sweep.executors.worker import work


class InlineExecutor:
    """Runs one task at a time, in order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Tasks]] = deque()

    def workers(self) -> int:
        """Return 1."""
        return 1

    def submit(self, number: int, tasks: Tasks) -> None:
        """Queue a task."""
        self._waiting.append((number, tasks))

    def next_done(self, timeout: float) -> list[Done]:
        """Run the oldest task and return it; nothing can have ended already without waiting."""
        if not self._waiting or timeout <= 0:
            return []
        number, tasks = self._waiting.popleft()
        results, seconds, text = work(tasks)
        return [Done(number=number, results=results, seconds=seconds, text=text)]

    def close(self) -> bool:
        """Forget queued tasks."""
        self._waiting.clear()
        return True
