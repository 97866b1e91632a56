"""The sweep's command line with the workload of the tests: `python driver.py ARGUMENTS`."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = str(ROOT)  # for Ray's workers

from sweep.__main__ import main  # noqa: E402
from sweep.executors import worker  # noqa: E402
from tests.system import counted  # noqa: E402 - registers itself

worker.work = counted.work  # what a Ray worker imports, and so registers the workload there

if __name__ == "__main__":
    sys.exit(main(["--config-dir", str(ROOT / "tests/system/conf"), *sys.argv[1:]]))
