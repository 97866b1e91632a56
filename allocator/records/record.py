"""One record: a JSON file, and checked access to its fields."""

import json
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from allocator.errors import PredictError

KINDS = ("static", "replay", "hugetlb", "workload")
"""Kinds of records."""
SCHEMA = 1
"""Version of the layout that is read here."""

MAX_BYTES = 1 << 26
"""Most bytes of a record file; real ones hold less than a tenth of it."""

T = TypeVar("T")

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxdict, _SHORT.maxlist, _SHORT.maxlevel = 3, 4, 2


class Section:
    """A mapping of a record; whatever is missing or of the wrong type is one clear line."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self.values = values
        self.where = where

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def fail(self, key: str, expected: str) -> PredictError:
        """Return the error that says what stands at a key and what should."""
        found = _SHORT.repr(self.values[key]) if key in self.values else "nothing"
        return PredictError(f"{self.where}.{key}: found {found}, expected {expected}")

    def integer(
        self, key: str, default: int | None = None, *, least: int = 0, most: int = 1 << 62
    ) -> int:
        """Return a whole number from `least` to `most`."""
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            bounds = f"from {least} on" if most == 1 << 62 else f"from {least} to {most}"
            raise self.fail(key, f"a whole number {bounds}")
        return value

    def optional_integer(self, key: str) -> int | None:
        """Return a whole number, or None where it is null or missing."""
        return self.integer(key) if key in self else None

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text."""
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.fail(key, "a text")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Return true or false; what is missing is the default."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def integers(self, key: str) -> list[int]:
        """Return a list of whole numbers."""
        value = self.values.get(key)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise self.fail(key, "a list of whole numbers")
        return value

    def section(self, key: str, *, optional: bool = False) -> "Section":
        """Return a mapping; an optional one may be missing."""
        value = self.values.get(key)
        if value is None and optional:
            value = {}
        if not isinstance(value, Mapping):
            raise self.fail(key, "a mapping")
        return Section(value, f"{self.where}.{key}")

    def sections(self, key: str, *, optional: bool = False) -> list["Section"]:
        """Return a list of mappings; an optional one may be missing."""
        value = self.values.get(key)
        if value is None and optional:
            value = []
        if not isinstance(value, list):
            raise self.fail(key, "a list")
        for index, item in enumerate(value):
            if not isinstance(item, Mapping):
                found = _SHORT.repr(item)
                text = f"{self.where}.{key}[{index}]: found {found}, expected a mapping"
                raise PredictError(text)
        return [Section(item, f"{self.where}.{key}[{n}]") for n, item in enumerate(value)]

    def named_sections(self, key: str) -> Iterator[tuple[str, "Section"]]:
        """Yield the mappings inside a mapping, by name."""
        outer = self.section(key)
        for name in outer.values:
            yield name, outer.section(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One real kernel, measured; or a machine whose measurement is to be predicted."""

    name: str
    """Name as in the file."""
    kind: str
    """One of `KINDS`."""
    kernel: str
    """Name of the kernel preset."""
    env: Mapping[str, object]
    """What machine and kernel were."""
    given: Mapping[str, object]
    """What a model cannot know."""
    measured: Mapping[str, object] | None
    """What it must reproduce; None if unknown."""
    path: Path | None = None
    """File it came from."""
    agree: Mapping[str, bool] = field(default_factory=dict)
    """Replay: parts in which the repeats of the measurement agree, and those in which not."""

    def section(self, part: str) -> Section:
        """Return `env` or `given` for checked access; errors name file and field."""
        values = {"env": self.env, "given": self.given}[part]
        source = f"{self.path}: " if self.path else ""
        return Section(values, f"{source}{part}")

    def blind(self) -> "Record":
        """Return the record without what was measured."""
        return replace(self, measured=None)


def load(path: str | Path) -> Record:
    """Read a record file.

    Raises
    ------
    PredictError
        If it cannot be read or is no record; the text names file, field, found and expected.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise PredictError(f"{file}: found more than {MAX_BYTES} bytes, expected a record")
        content = json.loads(raw)
    except OSError as error:
        raise PredictError(f"{file}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise PredictError(f"{file}: not JSON: {str(error).splitlines()[0]}") from None
    if not isinstance(content, Mapping):
        found = _SHORT.repr(content)
        raise PredictError(f"{file}: found {found}, expected a mapping with kind, env and given")
    return record_of(content, file)


def record_of(content: Mapping[str, object], path: Path | None = None) -> Record:
    """Check the outline of a record.

    Raises
    ------
    PredictError
        If a part is missing or of the wrong type.
    """
    top = Section(content, f"{path}: record" if path else "record")
    schema = top.integer("schema", SCHEMA)
    if schema != SCHEMA:
        raise top.fail("schema", str(SCHEMA))
    kind = top.text("kind")
    if kind not in KINDS:
        raise top.fail("kind", f"one of {', '.join(KINDS)}")
    agree = top.section("agree", optional=True)
    return Record(
        name=top.text("name", path.stem if path else None),
        kind=kind,
        kernel=top.text("kernel"),
        env=top.section("env").values,
        given=top.section("given").values,
        measured=top.section("measured").values if "measured" in top else None,
        path=path,
        agree={name: agrees is True for name, agrees in agree.values.items()},
    )
