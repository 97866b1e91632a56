"""Replay scripts as files."""

from pathlib import Path

from allocator.errors import ConfigError


def script_text(path: str) -> str:
    """Return the text of a replay script.

    Raises
    ------
    ConfigError
        If the file cannot be read; the key is `workload.script`.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text"
        raise ConfigError(
            "workload.script", path, f"a script that can be read ({reason})"
        ) from None
