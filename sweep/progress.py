"""How a run is going: a bar on a terminal, a line now and then elsewhere, everything in the log."""

import logging
import sys
import time
from pathlib import Path
from typing import Any

EVERY = 30.0
"""Seconds between lines where there is no terminal."""

log = logging.getLogger(__name__)


class Progress:
    """Counts the points of a run."""

    def __init__(self, total: int, *, known: int = 0) -> None:
        """Start to count.

        Parameters
        ----------
        total
            Points to simulate in this session and before.
        known
            Those that are in the journal already.
        """
        self._start = self._said = time.monotonic()
        self._total, self._known = total, known
        self.done = known
        """Points that are finished."""
        self.failed = 0
        """Points of this session that failed."""
        self._bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm  # loads slowly, and a batch job needs none

            self._bar = tqdm(
                total=total, initial=known, unit="point", dynamic_ncols=True, smoothing=0.1
            )

    def add(self, points: int, failed: int) -> None:
        """Count a finished chunk."""
        self.done += points
        self.failed += failed
        if self._bar is not None:
            self._bar.set_postfix_str(f"{self.failed} failed" if self.failed else "", refresh=False)
            self._bar.update(points)
        elif time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            log.info("%s", self.line())

    def line(self) -> str:
        """Return points, points per second, the time that is left, and failures."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        rate = (self.done - self._known) / seconds
        left = f"{(self._total - self.done) / rate:.0f} s" if rate > 0 else "unknown"
        share = 100 * self.done / max(self._total, 1)
        return (
            f"{self.done} of {self._total} points ({share:.0f} %), {rate:.3g} points/s, "
            f"{left} left, {self.failed} failed"
        )

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


def log_to(path: Path | None, *, level: int = logging.INFO) -> list[logging.Handler]:
    """Send messages to standard error, and all of them with their time to a file.

    Returns
    -------
    list
        The handlers; `log_no_more` takes them away.
    """
    root = logging.getLogger("sweep")
    root.setLevel(logging.DEBUG)
    root.propagate = False
    handlers: list[logging.Handler] = []
    if path is None:
        screen = _Screen()
        screen.setLevel(level)
        screen.setFormatter(logging.Formatter("%(message)s"))
        handlers.append(screen)
    else:
        file = logging.FileHandler(path)
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        handlers.append(file)
    for handler in handlers:
        root.addHandler(handler)
    return handlers


def log_no_more(handlers: list[logging.Handler]) -> None:
    """Take handlers away again."""
    root = logging.getLogger("sweep")
    for handler in handlers:
        root.removeHandler(handler)
        handler.close()
    root.propagate = not root.handlers


class _Screen(logging.Handler):
    """Writes above the bar, if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr.isatty():
            from tqdm import tqdm  # as above

            tqdm.write(self.format(record), file=sys.stderr)
        else:
            print(self.format(record), file=sys.stderr, flush=True)
