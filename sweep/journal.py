"""The journal: one small file per finished chunk, which survives whatever happens to the driver.

A file is written under another name, flushed to disk and renamed, so it is there as a whole or not
at all. Layout: magic, length of the header (8 bytes), header (JSON: names, types and places of the
columns counted from the header's end, error texts), columns, and a BLAKE2 hash of everything
before. Every column is contiguous, so one variable of many chunks can be read without the rest.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from allocator.results import Array, Results

log = logging.getLogger(__name__)

MAGIC = b"slabsweep chunk 1\n"
SUFFIX = ".chunk"
_HASH_BYTES = 16
_ALIGN = 8

Column = tuple[str, str, str]
"""Group of the variable ("" for those of a whole machine), name, label in the group's dim."""


class JournalError(OSError):
    """A chunk that cannot be written; the text says where and why."""


class CorruptChunk(ValueError):  # noqa: N818 - it is the chunk that is named
    """A file of the journal that is torn or was altered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFile:
    """What a file of the journal holds."""

    path: Path
    """The file."""
    keys: NDArray[np.uint64]
    """Content keys of its points, (point, 2)."""
    status: NDArray[np.int8]
    """Status of each point, (point,)."""
    errors: Mapping[int, str]
    """Text by row, for points that are not ok."""
    columns: Mapping[Column, tuple[str, int]]
    """Type and offset in the file of each column."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file's header and check all of it against its hash.

        Raises
        ------
        CorruptChunk
            If the file is not whole, or not as it was written.
        """
        return cls.parsed(path, path.read_bytes())

    @classmethod
    def parsed(cls, path: Path, data: bytes) -> Self:
        """Read the content of a file.

        Raises
        ------
        CorruptChunk
            If it is not whole, or not as it was written.
        """
        start = len(MAGIC) + 8
        if len(data) < start + _HASH_BYTES or not data.startswith(MAGIC):
            raise CorruptChunk(f"{path}: torn, or no chunk")
        if _digest(memoryview(data)[:-_HASH_BYTES]) != data[-_HASH_BYTES:]:
            raise CorruptChunk(f"{path}: its hash does not fit its content")
        length = int.from_bytes(data[len(MAGIC) : start], "little")
        header = json.loads(data[start : start + length])
        start += length
        places = {tuple(name): (kind, start + place) for name, kind, place in header["columns"]}
        points = header["points"]

        def column(name: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
            kind, offset = places.pop(("", name, ""))
            count = int(np.prod(shape))
            return np.frombuffer(data, dtype=kind, count=count, offset=offset).reshape(shape)

        return cls(
            path=path,
            keys=column("#keys", (points, 2)).astype(np.uint64),
            status=column("#status", (points,)).astype(np.int8),
            errors={int(row): text for row, text in header["errors"].items()},
            columns=places,
        )

    def column(self, name: Column) -> Array:
        """Read one column, (point,)."""
        kind, offset = self.columns[name]
        return np.fromfile(self.path, dtype=kind, count=len(self.status), offset=offset)


class Journal:
    """The chunks of one run directory."""

    def __init__(self, folder: Path) -> None:
        """Open the journal in `folder`, which is made if it is not there."""
        self.folder = folder
        folder.mkdir(exist_ok=True)
        for left in folder.glob("*.tmp"):  # a driver was killed while writing
            left.unlink()

    def read(self) -> list[ChunkFile]:
        """Return all whole chunks; others are set aside, with a message."""
        chunks = []
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                chunks.append(ChunkFile.read(path))
            except (CorruptChunk, ValueError, KeyError, TypeError) as error:
                aside = path.with_suffix(".bad")
                log.warning(
                    "%s; set aside as %s, its points are simulated again", error, aside.name
                )
                path.replace(aside)
        return chunks

    def write(self, keys: NDArray[np.uint64], results: Results) -> ChunkFile:
        """Add the results of a chunk; on return they are on disk.

        Parameters
        ----------
        keys
            Content keys, (point, 2), in the order of the results' lanes.
        results
            The results.

        Raises
        ------
        JournalError
            If the file cannot be written (disk full, directory read-only).
        """
        data = encoded(keys, results)
        name = hashlib.blake2b(np.ascontiguousarray(keys).tobytes(), digest_size=10).hexdigest()
        path = self.folder / f"{name}{SUFFIX}"
        write_whole(path, data)
        return ChunkFile.parsed(path, data)


def encoded(keys: NDArray[np.uint64], results: Results) -> bytes:
    """Return the content of a chunk's file."""
    columns: dict[Column, NDArray[np.generic]] = {
        ("", "#keys", ""): keys.reshape(-1),
        ("", "#status", ""): results.status,
    }
    columns |= {("", name, ""): values for name, values in results.scalars.items()}
    for group, table in results.tables.items():
        for name, values in table.values.items():
            for place, label in enumerate(table.labels):
                columns[group, name, label] = values[:, place]
    parts: list[bytes] = []
    listed, offset = [], 0
    for column, array in columns.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        listed.append([list(column), little.dtype.str, offset])
        raw = little.tobytes()
        raw += b"\0" * (-len(raw) % _ALIGN)
        parts.append(raw)
        offset += len(raw)
    texts = {str(row): text for row, text in results.errors.items()}
    header = json.dumps({"points": len(keys), "columns": listed, "errors": texts}).encode()
    header += b" " * (-(len(MAGIC) + 8 + len(header)) % _ALIGN)  # columns start aligned
    body = b"".join([MAGIC, len(header).to_bytes(8, "little"), header, *parts])
    return body + _digest(body)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there as a whole or not at all, whatever happens.

    Raises
    ------
    JournalError
        If it cannot be written.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        flush_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise JournalError(error.errno, f"cannot write {path}: {error.strerror}") from error


def flush_folder(folder: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=_HASH_BYTES).digest()
