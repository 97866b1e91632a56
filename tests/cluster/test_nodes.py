"""A cluster of two nodes, one of which is killed in mid-run."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def test_all_points_and_the_same_bits_though_a_node_is_killed(tmp_path: Path) -> None:
    """Run the script in a process of its own: this one has a Ray already."""
    script = Path(__file__).with_name("lose_a_node.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "2 nodes, 1 killed after" in done.stdout
    assert "identical" in done.stdout
