"""Reading a machine's /proc and /sys, or a saved copy, and remembering what could not be read."""

from pathlib import Path

from allocator.errors import PredictError


class Files:
    """Text files below a root.

    Parameters
    ----------
    root
        "/" for the running machine.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.live = root == Path("/")
        self.notes: list[str] = []

    def text(self, path: str, optional: bool = False) -> str | None:
        """Return a file's text without surrounding space, None if it cannot be read.

        A file that need not exist is missed silently; a right that is lacking is always noted.
        """
        try:
            return (self.root / path).read_bytes().decode(errors="replace").strip("\0 \n\t")
        except OSError as error:
            if not optional or isinstance(error, PermissionError):
                self.note(f"/{path}: cannot be read ({error.strerror or error})")
            return None

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none if it cannot be read."""
        try:
            return sorted(entry.name for entry in (self.root / path).iterdir())
        except OSError as error:
            self.note(f"/{path}: cannot be read ({error.strerror or error})")
            return []

    def note(self, text: str) -> None:
        """Remember a note; the same one only once."""
        if text not in self.notes:
            self.notes.append(text)

    def missing(self, path: str, expected: str, found: str = "nothing") -> PredictError:
        """Return the error for something that a record cannot do without."""
        return PredictError(f"{self.root / path}: found {found}, expected {expected}")
