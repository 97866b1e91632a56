"""The tests' workload is known wherever the sweep is tested."""

import tests.system.counted  # noqa: F401 - registers itself
