import errno
import os
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.results import Results, Status, Table
from sweep.journal import ChunkFile, CorruptChunk, Journal, JournalError, encoded


def results(points: int = 3) -> Results:
    return Results(
        scalars={
            "throughput": np.linspace(0.0, 1.0, points),
            "alloc_slowpath": np.arange(points) + 2**53 + 1,
        },
        tables={
            "nodes": Table(
                labels=("node0", "node1"), values={"pages": np.arange(2 * points).reshape(-1, 2)}
            )
        },
        status=np.array([Status.OK] * (points - 1) + [Status.FAILED], dtype=np.int8),
        errors={points - 1: "ValueError: broken"},
    )


def keys(points: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, (points, 2), dtype=np.uint64)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.write(keys(), results())
    (chunk,) = Journal(tmp_path / "journal").read()
    np.testing.assert_array_equal(chunk.keys, keys())
    np.testing.assert_array_equal(chunk.status, results().status)
    assert chunk.errors == {2: "ValueError: broken"}
    np.testing.assert_array_equal(chunk.column(("", "throughput", "")), [0.0, 0.5, 1.0])
    slow = chunk.column(("", "alloc_slowpath", ""))
    assert slow.tolist() == [2**53 + 1, 2**53 + 2, 2**53 + 3]
    assert chunk.column(("nodes", "pages", "node1")).tolist() == [1, 3, 5]


def test_a_torn_file_is_set_aside_and_the_others_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path)
    torn = journal.write(keys(seed=1), results()).path
    journal.write(keys(seed=2), results())
    torn.write_bytes(torn.read_bytes()[:-20])
    (chunk,) = Journal(tmp_path).read()
    np.testing.assert_array_equal(chunk.keys, keys(seed=2))
    assert "simulated again" in caplog.text
    assert not torn.exists()
    assert torn.with_suffix(".bad").exists()


@given(st.data())
def test_any_change_of_a_file_is_noticed(data: st.DataObject) -> None:
    whole = encoded(keys(), results())
    place = data.draw(st.integers(0, len(whole) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    changed = bytearray(whole)
    changed[place] ^= bit
    with pytest.raises(CorruptChunk):
        ChunkFile.parsed(Path("x"), bytes(changed))
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptChunk):
        ChunkFile.parsed(Path("x"), whole[:length])


def test_what_a_killed_driver_left_half_written_goes_away(tmp_path: Path) -> None:
    (tmp_path / "abc.chunk.tmp").write_bytes(b"half")
    assert Journal(tmp_path).read() == []
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_and_nothing_half_is_left(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(keys(seed=1), results())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(JournalError, match="cannot write"):
            journal.write(keys(1000, seed=2), results(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert len(Journal(tmp_path).read()) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_an_error_says_where_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    journal = Journal(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(JournalError, match=r"cannot write .*chunk: No space left on device"):
        journal.write(keys(), results())
