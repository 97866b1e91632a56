"""The sweep's command line with the workload of the tests: `python driver.py ARGUMENTS`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import counted  # noqa: E402, F401 - registers itself

from sweep.__main__ import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["--config-dir", str(HERE / "conf"), *sys.argv[1:]]))
