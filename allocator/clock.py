"""Per-CPU time of a batch: whose turn it is, and where the time went."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Clocks:
    """Clock of every CPU of every lane, in ns."""

    def __init__(self, lanes: int, cpus: int) -> None:
        """Start all clocks at zero."""
        self.now: Floats = np.zeros((lanes, cpus))
        self.busy_ns: Floats = np.zeros((lanes, cpus))

    def window(self, ready: Bools, width_ns: Floats) -> Bools:
        """Return which CPUs move next.

        A window opens at the earliest clock among the ready CPUs of a lane and is `width_ns` wide;
        the ready CPUs whose clock lies in it make one move each. So no CPU acts more than a
        window ahead of another, and the earliest one always acts.

        Parameters
        ----------
        ready
            (lane, cpu) who has something to do.
        width_ns
            (lane,) width of the window.
        """
        clock = np.where(ready, self.now, np.inf)
        opens = clock.min(axis=1, keepdims=True)
        result: Bools = ready & (self.now <= opens + width_ns[:, None])
        return result

    def spend(self, lane: NDArray[np.int64], cpu: NDArray[np.int64], ns: Floats) -> None:
        """Advance the clocks of the given CPUs, each named once, by busy time."""
        self.now[lane, cpu] += ns
        self.busy_ns[lane, cpu] += ns

    def idle(self, ready: Bools) -> None:
        """Let CPUs without work sleep until the earliest ready one of their lane."""
        clock = np.where(ready, self.now, np.inf)
        opens = clock.min(axis=1, keepdims=True)
        waking = ~ready & np.isfinite(opens)
        self.now = np.where(waking, np.maximum(self.now, opens), self.now)

    def elapsed_ns(self) -> Floats:
        """Return the time of each lane's last CPU, (lane,)."""
        latest: Floats = self.now.max(axis=1)
        return latest
