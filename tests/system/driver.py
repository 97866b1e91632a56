"""The sweep's command line with the workload of the tests: `python driver.py ARGUMENTS`."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATHS = [str(HERE), str(HERE.parents[1])]
sys.path[:0] = PATHS
os.environ["PYTHONPATH"] = os.pathsep.join(PATHS)  # for Ray's workers

import counted  # noqa: E402 - registers itself

from sweep.__main__ import main  # noqa: E402
from sweep.executors import worker  # noqa: E402

worker.work = counted.work  # what a Ray worker imports, and so registers the workload there

if __name__ == "__main__":
    sys.exit(main(["--config-dir", str(HERE / "conf"), *sys.argv[1:]]))
