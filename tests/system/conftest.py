"""The tests' workload is known wherever the command line is tested."""

import tests.system.counted  # noqa: F401 - registers itself
