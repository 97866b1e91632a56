import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from allocator.errors import ConfigError
from allocator.results import Status
from sweep.journal import Journal
from sweep.store import (
    StoreError,
    drop_reports,
    failed,
    located,
    locked,
    new_folder,
    read_run,
    why_unwritten,
    write_run,
)
from tests.sweep.test_journal import keys, results


def test_two_runs_in_one_second_get_two_directories(tmp_path: Path) -> None:
    wanted = tmp_path / "2026-01-01" / "12-00-00"
    made = [new_folder(wanted, chosen=False) for _ in range(3)]
    assert [path.name for path in made] == ["12-00-00", "12-00-00-2", "12-00-00-3"]


def test_a_directory_that_was_chosen_is_not_shared(tmp_path: Path) -> None:
    wanted = tmp_path / "mine"
    assert new_folder(wanted, chosen=True) == wanted
    assert new_folder(wanted, chosen=True) == wanted  # empty still
    (wanted / "dataset.nc").touch()
    with pytest.raises(StoreError, match=r"exists already; resume=.*mine goes on"):
        new_folder(wanted, chosen=True)


def test_a_directory_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        new_folder(tmp_path / "file" / "run", chosen=True)


def test_a_second_run_in_the_directory_is_refused(tmp_path: Path) -> None:
    message = r"another run is using it \(process"
    with locked(tmp_path), pytest.raises(StoreError, match=message), locked(tmp_path):
        pass
    with locked(tmp_path):  # free again
        pass


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from sweep.store import locked\n"
        "with locked(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    with locked(tmp_path):
        pass


def test_points_are_found_by_content_wherever_they_are(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    known = keys(6)
    journal.write(known[[4, 2, 0]], results())  # its third one failed
    journal.write(known[[5, 1, 3]], failed(3, "no"))
    found = located(known, journal.read())
    assert found.status().tolist() == [3, 3, 0, 3, 0, 3]  # failed ones are tried again
    values = [chunk.column(("", "throughput", ""))[row] for chunk, _, row in found.by_file()]
    assert [value.tolist() for value in values] == [[0.5, 0.0]]


def test_new_chunks_are_added(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    known = keys(4)
    found = located(known, [])
    found.add(np.array([3, 1]), journal.write(known[[3, 1]], failed(2, "no")))
    assert found.status().tolist() == [Status.PENDING, 2, Status.PENDING, 2]
    assert found.errors() == {1: "no", 3: "no"}


def test_what_a_resume_needs_is_read_back(tmp_path: Path) -> None:
    write_run(tmp_path, {"overrides": ["a=1"]})
    assert read_run(tmp_path)["overrides"] == ["a=1"]


@pytest.mark.parametrize("text", [None, "{", "[]", json.dumps({"overrides": 3})])
def test_a_directory_that_is_no_run_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(ConfigError, match="resume"):
        read_run(tmp_path)


def test_why_a_file_could_not_be_written_is_found_where_the_library_is_silent(
    tmp_path: Path,
) -> None:
    silent = RuntimeError("NetCDF: HDF error")
    assert why_unwritten(tmp_path, silent) == "NetCDF: HDF error"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        assert why_unwritten(tmp_path, silent) == os.strerror(errno.EFBIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_reports_of_a_dataset_go_with_it(tmp_path: Path) -> None:
    for name in ("compare.txt", "surface-a.png", "surface.png", "dataset.nc", "compare-mine.txt"):
        (tmp_path / name).touch()
    drop_reports(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compare-mine.txt", "dataset.nc"]
