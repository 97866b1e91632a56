"""A run's directory: made for one run, locked while in use, with what is needed to go on."""

import errno
import fcntl
import json
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allocator.errors import ConfigError
from allocator.results import Results, Status
from sweep.journal import ChunkFile, write_whole

JOURNAL = "journal"
RUN_FILE = "run.json"
LOCK_FILE = ".lock"
DATASET = "dataset.nc"
LOG_FILE = "run.log"
CONFIG_FILE = "config.yaml"
REPORTS = ("compare.txt", "summary.txt", "report.html", "surface*.png", "curve-*", "cpu_time*.png")
"""What a run writes about its dataset."""

_PROBE_BYTES = 4 << 20  # more than HDF5 writes at once


class StoreError(RuntimeError):
    """The run directory cannot be used; the text says why and what to do."""


def new_folder(wanted: Path, *, chosen: bool) -> Path:
    """Make the directory of a new run, and never share one.

    Parameters
    ----------
    wanted
        Where it should be.
    chosen
        Whether the user named it; a name made from the time gets a number when it is taken.

    Raises
    ------
    StoreError
        If it cannot be made, or exists and is not empty.
    """
    folder, number = wanted, 1
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError as error:
            if chosen:
                if folder.is_dir() and not any(folder.iterdir()):
                    return folder
                text = (
                    f"hydra.sweep.dir={wanted}: exists already; resume={wanted} goes on with a run"
                )
                raise StoreError(text) from error
            number += 1
            folder = wanted.with_name(f"{wanted.name}-{number}")
        except OSError as error:
            text = f"hydra.sweep.dir={folder}: cannot be made ({error.strerror})"
            raise StoreError(text) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a directory; a lock dies with its process, however that ends.

    Raises
    ------
    StoreError
        If another run is in it, or it cannot be written.
    """
    path = folder / LOCK_FILE
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror})") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise StoreError(f"{path}: cannot be locked ({error.strerror})") from error
            holder = os.read(handle, 200).decode(errors="replace").strip() or "unknown"
            raise StoreError(f"{folder}: another run is using it ({holder})") from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(handle)


@dataclass(slots=True, kw_only=True)
class Located:
    """Where the results of a run's points are."""

    chunks: list[ChunkFile]
    """Files of the journal."""
    file: NDArray[np.int64]
    """File of each point; -1: not simulated, (point,)."""
    row: NDArray[np.int64]
    """Row in that file, (point,)."""

    def add(self, points: NDArray[np.int64], chunk: ChunkFile) -> None:
        """Note that a file has the results of points, in this order."""
        self.file[points] = len(self.chunks)
        self.row[points] = np.arange(points.size)
        self.chunks.append(chunk)

    def by_file(self) -> Iterator[tuple[ChunkFile, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield each file that has results of the run, with the points and their rows in it."""
        order = np.argsort(self.file, kind="stable")
        numbers, starts = np.unique(self.file[order], return_index=True)
        ends = np.append(starts[1:], order.size)
        for number, start, end in zip(numbers, starts, ends, strict=True):
            if number >= 0:
                points = order[start:end]
                yield self.chunks[number], points, self.row[points]

    def status(self) -> NDArray[np.int8]:
        """Return the status of each point, (point,)."""
        status = np.full(self.file.shape, Status.PENDING, dtype=np.int8)
        for chunk, points, rows in self.by_file():
            status[points] = chunk.status[rows]
        return status

    def errors(self) -> dict[int, str]:
        """Return the error text by point."""
        texts = {}
        for chunk, points, rows in self.by_file():
            if chunk.errors:
                for point, row in zip(points.tolist(), rows.tolist(), strict=True):
                    if row in chunk.errors:
                        texts[point] = chunk.errors[row]
        return texts


def located(keys: NDArray[np.uint64], chunks: Sequence[ChunkFile]) -> Located:
    """Find points in the journal by content.

    Failed points are not taken from the journal: a run that goes on tries them again.

    Parameters
    ----------
    keys
        Keys of the run's distinct points, (point, 2).
    chunks
        Files of the journal.
    """
    found = Located(
        chunks=list(chunks),
        file=np.full(len(keys), -1, dtype=np.int64),
        row=np.full(len(keys), -1, dtype=np.int64),
    )
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ranked = keys[order]
    for number, chunk in enumerate(chunks):
        first = np.searchsorted(ranked[:, 0], chunk.keys[:, 0])
        usable = (first < len(ranked)) & (chunk.status != Status.FAILED)
        rows = np.flatnonzero(usable)
        rows = rows[(ranked[first[rows]] == chunk.keys[rows]).all(axis=1)]
        found.file[order[first[rows]]] = number
        found.row[order[first[rows]]] = rows
    return found


def failed(points: int, text: str) -> Results:
    """Return the results of points that could not be simulated."""
    status = np.full(points, Status.FAILED, dtype=np.int8)
    return Results(scalars={}, status=status, errors=dict.fromkeys(range(points), text))


def write_run(folder: Path, run: Mapping[str, object]) -> None:
    """Write what is needed to go on with a run."""
    write_whole(folder / RUN_FILE, (json.dumps(run, indent=1) + "\n").encode())


def drop_reports(folder: Path) -> None:
    """Remove what was written about the dataset that another one is going to replace."""
    for pattern in REPORTS:
        for path in folder.glob(pattern):
            path.unlink()


def why_unwritten(folder: Path, error: Exception) -> str:
    """Return why a file could not be written, also where HDF5 says no more than "HDF error".

    Parameters
    ----------
    folder
        Where it was written; what there is of the file is still there.
    error
        What the writer raised.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE_BYTES))
    except OSError as plain:
        return plain.strerror or str(plain)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def read_run(folder: Path) -> dict[str, object]:
    """Return what `write_run` wrote.

    Raises
    ------
    ConfigError
        If the folder is not that of a run.
    """
    try:
        run = json.loads((folder / RUN_FILE).read_text())
    except FileNotFoundError:
        raise ConfigError("resume", str(folder), f"a run's directory, with a {RUN_FILE}") from None
    except (OSError, ValueError) as error:
        raise ConfigError("resume", str(folder), f"a readable {RUN_FILE} ({error})") from None
    if not isinstance(run, dict) or not isinstance(run.get("overrides"), list):
        raise ConfigError("resume", str(folder), f"a {RUN_FILE} with the run's overrides")
    return run
