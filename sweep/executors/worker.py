"""What a worker does with a task. Workers import this module and `allocator`, nothing heavier."""

import time
import traceback

import numpy as np

from allocator.results import Results, Status, stack
from allocator.simulate import Tasks, simulate

Answer = tuple[Results, float, str]
"""Results, seconds of wall time, and the traceback if the model raised."""


def work(tasks: Tasks) -> Answer:
    """Simulate a task; what the model raises becomes the status of the lanes it is about.

    Nothing is raised: not every exception survives the way back to the driver.
    """
    start = time.perf_counter()
    text = ""
    try:
        results = simulate(tasks)
    except Exception:  # whatever it is, the driver must hear of it
        text = traceback.format_exc()
        lanes = [np.array([lane]) for lane in range(len(tasks.replicate))]
        results = stack([(lane, _alone(tasks, lane)) for lane in lanes], len(lanes))
    return results, time.perf_counter() - start, text


def _alone(tasks: Tasks, lane: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Results:
    """Simulate one lane of a task that could not be simulated as a whole."""
    part = Tasks(
        tables=tasks.tables,
        index=tasks.index[lane],
        replicate=tasks.replicate[lane],
        seed=tasks.seed,
    )
    try:
        return simulate(part)
    except Exception as error:  # this lane is the one, or one of those, to blame
        status = np.array([Status.FAILED], dtype=np.int8)
        return Results(scalars={}, status=status, errors={0: f"{type(error).__name__}: {error}"})
