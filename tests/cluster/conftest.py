"""One local Ray per test run: starting it takes longer than all that is tested on it."""

from collections.abc import Iterator

import pytest

from sweep.executors.ray import RayExecutor
from sweep.settings import ExecutorSettings
from tests.system import counted

pytest.importorskip("ray")


@pytest.fixture(scope="session")
def local_ray() -> Iterator[RayExecutor]:
    """Yield an executor on a Ray of two CPUs of its own."""
    executor = RayExecutor(ExecutorSettings(name="ray", cpus=2), work=counted.work)
    executor.workers()
    yield executor
    executor.close()
