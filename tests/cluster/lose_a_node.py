"""Sweep on a cluster of two nodes, kill one in mid-run, and compare with a run in this process.

python tests/cluster/lose_a_node.py FOLDER
"""

import os
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
os.environ["PYTHONPATH"] = str(ROOT)  # workers find the tests' workload; the code itself is sent

import xarray as xr  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

from sweep.__main__ import main  # noqa: E402
from sweep.executors import worker  # noqa: E402
from sweep.journal import SUFFIX  # noqa: E402
from tests.system import counted  # noqa: E402 - registers itself

worker.work = counted.work

GRID = [
    *("--config-dir", str(ROOT / "tests/system/conf"), "workload=counted", "report=false"),
    *("slab.max_order=0,1,2,3", "slab.min_partial=range(5,9)", "workload.lane_ms=100"),
    "executor.chunk=2",
]


def run(folder: Path) -> int:
    """Return the exit status: 0 if both runs end with the same bits."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    killed: list[int] = []

    def kill() -> None:
        journal = folder / "cluster" / "journal"
        while len(list(journal.glob(f"*{SUFFIX}"))) < 4:
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)
        killed.append(len(list(journal.glob(f"*{SUFFIX}"))))

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    address = f"executor.address={cluster.address}"
    status = main([*GRID, "executor=ray", address, f"hydra.sweep.dir={folder}/cluster"])
    killer.join(10)
    cluster.shutdown()
    print(f"2 nodes, 1 killed after {killed} chunks, status {status}")
    status |= main([*GRID, "executor=inline", f"hydra.sweep.dir={folder}/inline"])
    with (
        xr.open_datatree(folder / "cluster" / "dataset.nc", engine="netcdf4") as one,
        xr.open_datatree(folder / "inline" / "dataset.nc", engine="netcdf4") as other,
    ):
        one.attrs = other.attrs = {}
        xr.testing.assert_identical(one, other)
    print("identical")
    return status if killed else 1


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
