"""The command line as a user runs it: exit status, files, resume, kills, faults of storage."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
import xarray as xr

from sweep.__main__ import main
from sweep.journal import SUFFIX

DRIVER = Path(__file__).with_name("driver.py")
SMALL = ["executor=inline", "workload=counted", "report=false", "slab.max_order=0,1,2,3"]
TWO = [*SMALL, "machine=graviton2,epyc_rome_2x7742", "hydra.sweep.dir=run"]


@dataclass(frozen=True)
class Ended:
    returncode: int
    stderr: str


def sweep(folder: Path, *arguments: str) -> Ended:
    """Run the command line in this process, which saves the time that imports take."""
    errors = StringIO()
    config = str(Path(__file__).with_name("conf"))
    with chdir(folder), redirect_stderr(errors), redirect_stdout(StringIO()):
        status = main(["--config-dir", config, *arguments])
    return Ended(status, errors.getvalue())


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command line in a process of its own, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), *arguments], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_chunks(process: subprocess.Popen[str], folder: Path, count: int) -> None:
    while process.poll() is None and len(list(folder.glob(f"run/journal/*{SUFFIX}"))) < count:
        time.sleep(0.002)


def tree(folder: Path) -> xr.DataTree:
    with xr.open_datatree(folder / "dataset.nc", engine="netcdf4") as found:
        return found.load()


def same(one: xr.DataTree, other: xr.DataTree) -> None:
    """Compare variables and coords; provenance may differ."""
    one, other = one.copy(), other.copy()
    one.attrs = other.attrs = {}
    xr.testing.assert_identical(one, other)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    """Return the dataset of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    done = sweep(folder, *TWO)
    assert done.returncode == 0, done.stderr
    return tree(folder / "run")


def test_a_run_leaves_what_it_says(tmp_path: Path) -> None:
    done = sweep(tmp_path, *SMALL, "-m")
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "outputs").glob("*/*")
    names = {path.name for path in run.iterdir()}
    assert {"dataset.nc", "config.yaml", "run.json", "run.log", "journal"} <= names
    found = tree(run)
    assert dict(found.sizes) == {"slab_max_order": 4, "replicate": 3}
    provenance = json.loads(found.attrs["config"])
    assert provenance["workload"]["name"] == "counted"
    assert json.loads(found.attrs["axes"]) == {"slab.max_order": [0, 1, 2, 3]}
    assert "dataset.nc: 12 ok" in done.stderr
    assert "chunk 0: " in (run / "run.log").read_text()


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_run_is_resumed_to_the_same_bits(
    tmp_path: Path, whole: xr.DataTree, seed: int
) -> None:
    with started(tmp_path, *TWO, "executor.chunk=1") as process:
        wait_for_chunks(process, tmp_path, random.Random(seed).randrange(1, 24))
    done = sweep(tmp_path, "resume=run", "executor.chunk=5")
    assert done.returncode == 0, done.stderr
    same(tree(tmp_path / "run"), whole)


def test_a_run_is_extended(tmp_path: Path, whole: xr.DataTree) -> None:
    first = [*SMALL[:3], "slab.max_order=1,3", "machine=graviton2", "replicates=2"]
    assert sweep(tmp_path, *first, "hydra.sweep.dir=run").returncode == 0
    more = ["slab.max_order=0,1,2,3", "machine=graviton2,epyc_rome_2x7742", "replicates=3"]
    done = sweep(tmp_path, "resume=run", *more)
    assert done.returncode == 0, done.stderr
    assert "4 of 24 points are in the journal already" in done.stderr
    assert "20 points in" in done.stderr
    same(tree(tmp_path / "run"), whole)
    refused = sweep(tmp_path, "resume=run", "workload.scalars=5")
    assert refused.returncode == 2
    expected = "workload.scalars: found 5, expected 3 as in the run"
    assert refused.stderr.startswith(f"slabsweep: {expected}")


def test_failed_points_are_listed_and_the_status_is_1(tmp_path: Path, whole: xr.DataTree) -> None:
    done = sweep(tmp_path, *SMALL, "workload.fails_at=2", "hydra.sweep.dir=run")
    assert done.returncode == 1
    assert "failed: 3 distinct points, the first at slab.max_order=2 replicate=0" in done.stderr
    assert "ArithmeticError: order 2 is too much" in done.stderr
    assert "resume=run" in done.stderr
    assert "Traceback" not in done.stderr
    found = tree(tmp_path / "run")
    assert (found.status.sel(slab_max_order=2) == 2).all()
    assert (found.error.sel(slab_max_order=2) == "ArithmeticError: order 2 is too much").all()
    assert (found.status.sel(slab_max_order=[0, 1, 3]) == 0).all()


def test_a_run_that_stops_on_error_leaves_points_pending(tmp_path: Path) -> None:
    arguments = [*SMALL, "workload.fails_at=0", "on_error=stop", "executor.chunk=1"]
    done = sweep(tmp_path, *arguments, "hydra.sweep.dir=run")
    assert done.returncode == 1
    assert (tree(tmp_path / "run").status == 3).any()


def test_ctrl_c_keeps_points_and_prints_the_command(tmp_path: Path) -> None:
    with started(tmp_path, *TWO, "workload.lane_ms=500", "executor.chunk=1") as process:
        wait_for_chunks(process, tmp_path, 2)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
        assert time.monotonic() - start < 10
    assert process.returncode == 130
    assert error.rstrip().endswith("python -m sweep resume=run")
    assert "Traceback" not in error


def test_a_second_run_in_the_directory_is_refused(tmp_path: Path) -> None:
    with started(tmp_path, *TWO, "workload.lane_ms=5000", "executor.chunk=1") as process:
        while not (tmp_path / "run" / "run.json").exists():
            assert process.poll() is None
            time.sleep(0.01)
        taken = sweep(tmp_path, *TWO)
        assert taken.returncode == 2
        assert "exists already" in taken.stderr
        both = sweep(tmp_path, "resume=run")
        assert both.returncode == 1
        assert "another run is using it (process" in both.stderr


def test_a_full_disk_loses_nothing(tmp_path: Path, whole: xr.DataTree) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, before[1]))
    try:
        done = sweep(tmp_path, *TWO)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert "dataset.nc" in done.stderr  # chunks are smaller than the limit, the dataset is not
    assert "resume=run" in done.stderr
    assert not (tmp_path / "run" / "dataset.nc").exists()
    done = sweep(tmp_path, "resume=run")
    assert done.returncode == 0, done.stderr
    assert "24 of 24 points are in the journal already" in done.stderr
    same(tree(tmp_path / "run"), whole)


def test_a_torn_journal_is_mended(tmp_path: Path, whole: xr.DataTree) -> None:
    assert sweep(tmp_path, *TWO, "executor.chunk=6").returncode == 0
    first, second, *_ = sorted((tmp_path / "run" / "journal").glob(f"*{SUFFIX}"))
    first.write_bytes(first.read_bytes()[:100])
    data = bytearray(second.read_bytes())
    data[len(data) // 2] ^= 1
    second.write_bytes(bytes(data))
    done = sweep(tmp_path, "resume=run")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("simulated again") == 2
    assert "12 points in" in done.stderr
    same(tree(tmp_path / "run"), whole)


@pytest.mark.skipif(os.getuid() == 0, reason="root writes anywhere")
def test_a_read_only_directory_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = sweep(tmp_path, *SMALL)
    assert done.returncode == 2
    assert "cannot be made (Permission denied)" in done.stderr


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("machine=nosuch", "machine: found 'nosuch', expected one of altra_q80, "),
        ("slab.max_order=1,99", "slab.max_order: found 99, expected null or a number from 0"),
        ("slab.min_order=0x2", "slab.min_order: found '0x2', expected null or a number"),
        ("gfp.flags=GFP_KERNEL|GFP_NOSUCH", "gfp.flags: found 'GFP_KERNEL|GFP_NOSUCH'"),
        ("hydra.mode=RUN", "hydra.mode: found 'RUN', expected MULTIRUN"),
        ("slab=1,2", "slab: found 1, expected one of default"),
        ("resume=nowhere", "resume: found "),
        ("--foo", "command line: found '--foo', expected an option that --hydra-help lists"),
        ("machine=", "machine: found '', expected one of altra_q80, "),
        ("--config-dir=nowhere", "--config-dir: found 'nowhere', expected a directory"),
        (
            "kernel.slab.max_ordr=1",
            "kernel.slab.max_ordr: no such key yet: +kernel.slab.KEY=... se",
        ),
        ("workload.cpus=4", "workload.cpus: no such key in all workloads of this grid (it is one "),
        ("compare.baseline=kernel=v61", "compare.baseline: found 'kernel=v61', expected kernel="),
        ("--cfg=x", "command line: found "),
        ("machine=record", "machine.record: found None, expected the path of a record: python"),
    ],
)
def test_errors_are_one_line_and_status_2(tmp_path: Path, argument: str, line: str) -> None:
    done = sweep(tmp_path, *SMALL[:3], argument)
    assert done.returncode == 2
    (only,) = done.stderr.splitlines()
    assert only.startswith(f"slabsweep: {line}")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "outputs").exists()


@pytest.mark.ray
def test_a_wrong_command_line_leaves_no_ray_behind(tmp_path: Path) -> None:
    """Ray is begun before the command line is looked at."""
    mark = f"SLABSWEEP_TEST={tmp_path.name}-{os.getpid()}"
    name, value = mark.split("=")
    done = subprocess.run(
        [sys.executable, "-m", "sweep", "slab.max_order=1,99"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, name: value, "PYTHONPATH": str(DRIVER.parents[2])},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("slabsweep: slab.max_order: found 99, expected null or a number")
    assert done.stderr.count("\n") == 1
    end = time.monotonic() + 120  # Ray's agents see that it is gone only when they have started
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == []


def marked(mark: str) -> list[str]:
    """Return the names of processes with a mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "comm").read_text())
        except OSError:
            continue  # gone, or somebody else's
    return found
