"""What a worker does with a task. Workers import this module and `allocator`, nothing heavier."""

import time
import traceback

from allocator.results import Results
from allocator.simulate import Tasks, simulate

Answer = tuple[Results | None, float, str]
"""Results (None if the model raised), seconds of wall time, and the traceback if it raised."""


def work(tasks: Tasks) -> Answer:
    """Simulate a task; an error comes back as text: not every exception survives transport."""
    start = time.perf_counter()
    try:
        return simulate(tasks), time.perf_counter() - start, ""
    except Exception as error:  # whatever it is, the driver must hear of it
        text = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        return None, time.perf_counter() - start, text
