"""State of the slab allocator after a script, as a running kernel would show it.

    shown = snapshot_script(Path("burst.ops").read_text(), kernel="v6_1")
    print(shown.slabinfo)
    shown.sysfs["c"]["slabs_cpu_partial"]

`python -m allocator snapshot` prints the same.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from allocator.errors import ConfigError
from allocator.kernel import Kernel
from allocator.kernels import kernel_named
from allocator.records.record import Record
from allocator.slabs.geometry import CacheGeometry
from allocator.slabs.parameters import SlabParameters
from allocator.slabs.shown_files import attributes, lock_table
from allocator.slabs.snapshot import (
    SLABINFO_HEADER,
    counts,
    slabinfo,
    slabinfo_activity,
    statistics_text,
    sysfs_text,
)
from allocator.topology import Topology, plain_topology
from allocator.workloads.replay import SlabReplay, bottomless, predict_replay_record
from allocator.workloads.script import parse_script
from allocator.workloads.script_run import Lane, ScriptRun

Look = Callable[[str, ScriptRun], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One machine's caches as its kernel shows them."""

    slabinfo: str
    """/proc/slabinfo, with its two lines of header; the newest cache first."""
    sysfs: dict[str, dict[str, str]]
    """/sys/kernel/slab: files by name, by cache, with the counters of CONFIG_SLUB_STATS."""
    activity: str
    """What `slabinfo -AD` prints: the busiest cache first."""
    locks: str
    """Takes of list_lock, slabs handled under it and slab updates of each cache and node."""

    def sysfs_lines(self) -> str:
        """Return all files as `grep . /sys/kernel/slab/CACHE/*` prints them."""
        return "\n".join(
            f"/sys/kernel/slab/{cache}/{file}:{value}"
            for cache, files in self.sysfs.items()
            for file, value in sorted(files.items())
        )


def snapshot_script(
    text: str,
    *,
    source: str = "script",
    kernel: str | Kernel = "v6_1",
    topology: Topology | None = None,
    parameters: SlabParameters | None = None,
    at: str | None = None,
) -> Shown:
    """Run an op script and tell what the kernel shows then.

    Parameters
    ----------
    text
        The script.
    source
        Its name, for messages.
    kernel
        A preset's name, or a kernel.
    topology
        The machine; None: 4 CPUs and 1 GiB on one node.
    parameters
        SLUB's boot parameters.
    at
        Label of a `snap` line; None: the end of the script.

    Raises
    ------
    ConfigError, LookupError
        If the script, the kernel or the label cannot be used.
    """
    chosen = kernel_named(kernel) if isinstance(kernel, str) else kernel
    machine = plain_topology(cpus=4) if topology is None else topology
    boot = SlabParameters() if parameters is None else parameters
    boot.check(machine)
    script = parse_script(text, source=source, cpus=range(machine.cpus), nodes=range(machine.nodes))
    lane = Lane(topology=machine, parameters=boot)
    picture = _Picture(source, at)
    replay = SlabReplay(
        script, chosen, lane, bottomless([machine], chosen), other=_no_pages(source), look=picture
    )
    replay.run(script.ops)
    return picture.finish(replay.run_)


def snapshot_record(record: Record, *, at: str | None = None) -> Shown:
    """Run the script of a replay record on its machine; parameters as `snapshot_script()`.

    Raises
    ------
    PredictError, ConfigError
        If the record or the label cannot be used.
    """
    picture = _Picture(str(record.path or record.name), at)
    made: list[SlabReplay] = []
    predict_replay_record(record, partial(_remember, made, picture))
    return picture.finish(made[-1].run_)


def _remember(made: list[SlabReplay], look: Look, *parts: Any) -> SlabReplay:
    made.append(SlabReplay(*parts))
    made[-1].look = look
    return made[-1]


def _no_pages(source: str) -> Callable[[object], None]:
    """Return what refuses operations on pages: their state is in records only."""

    def refuse(op: object) -> None:
        name = re.sub(r"(?<!^)(?=[A-Z])", " ", type(op).__name__).lower()
        if name in ("alloc pages", "free pages"):
            line = getattr(op, "line", 0)
            raise ConfigError(f"{source}:{line}", name, "operations on caches; pages need a record")

    return refuse


@dataclass(slots=True)
class _Picture:
    """Looks at a script's run at one label, or at its end."""

    source: str
    at: str | None
    labels: list[str] = field(default_factory=list)
    shown: Shown | None = None

    def __call__(self, label: str, run: ScriptRun) -> None:
        self.labels.append(label)
        if label == self.at and self.shown is None:
            self.shown = _shown(run)

    def finish(self, run: ScriptRun) -> Shown:
        """Return what was seen.

        Raises
        ------
        ConfigError
            If the label was not met, or no cache is there to be shown.
        """
        known = ", ".join(dict.fromkeys(self.labels)) or "none in this script"
        if self.at is not None and self.shown is None:
            raise ConfigError("--at", self.at, f"a label of {self.source}: {known}")
        shown = _shown(run) if self.shown is None else self.shown
        if not shown.sysfs:
            place = "at the end" if self.at is None else f"at {self.at}"
            raise ConfigError(self.source, f"no cache {place}", f"some, e.g. --at LABEL: {known}")
        return shown


def _shown(run: ScriptRun) -> Shown:
    """Return what one machine shows now."""
    names = list(run.names)[::-1]  # slab_caches: the newest first
    if run.slub is None or not names:
        return Shown(slabinfo=SLABINFO_HEADER, sysfs={}, activity="", locks="")
    state = run.slub.state
    rows = [run.names[name] for name in names]
    caches: list[CacheGeometry] = [run.geometries[0][row] for row in rows]
    sysfs = {
        name: attributes(state, row, cache)
        | sysfs_text(counts(state, row))
        | statistics_text(state, row)
        for name, row, cache in zip(names, rows, caches, strict=True)
    }
    return Shown(
        slabinfo=f"{SLABINFO_HEADER}\n{slabinfo(state, rows, caches)}",
        sysfs=dict(sorted(sysfs.items())),
        activity=slabinfo_activity(state, rows, names),
        locks=lock_table(state, rows, names),
    )
