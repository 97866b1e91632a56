"""Replay scripts as files."""

from pathlib import Path

from allocator.errors import ConfigError

MAX_BYTES = 1 << 26
"""Most bytes of a script."""


def script_text(path: str, key: str = "workload.script") -> str:
    """Return the text of a replay script; `key` names the setting that gives its path.

    Raises
    ------
    ConfigError
        If the file cannot be read; the key is the given one.
    """
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ConfigError(key, path, f"a script of at most {MAX_BYTES} bytes")
        return raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text"
        raise ConfigError(key, path, f"a script that can be read ({reason})") from None
