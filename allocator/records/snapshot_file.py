"""Files that `snapshot` can be asked about: replay records, and op scripts with a machine."""

from pathlib import Path

from allocator.errors import ConfigError, PredictError
from allocator.kernels import PRESETS
from allocator.records.machine import machine_topology
from allocator.records.record import load
from allocator.records.script_file import script_text
from allocator.slabs.parameters import SlabParameters
from allocator.topology import plain_topology
from allocator.workloads.snapshot import Shown, snapshot_record, snapshot_script


def snapshot_file(
    path: str,
    *,
    at: str | None = None,
    kernel: str | None = None,
    cpus: int | None = None,
    nodes: int | None = None,
    machine: str | None = None,
    max_order: int | None = None,
    min_order: int | None = None,
    min_objects: int | None = None,
) -> Shown:
    """Tell what the kernel shows after a file's script.

    Parameters
    ----------
    path
        A replay record (JSON), or an op script.
    at
        Label of a `snap` line; None: the end.
    kernel, cpus, nodes, machine
        For a script: preset; an x86-64 machine of that many CPUs and nodes, or a record's machine.
    max_order, min_order, min_objects
        For a script: SLUB's boot parameters.

    Raises
    ------
    ConfigError, PredictError
        If something cannot be used.
    """
    given = {
        "--kernel": kernel,
        "--cpus": cpus,
        "--nodes": nodes,
        "--machine": machine,
        "--max-order": max_order,
        "--min-order": min_order,
        "--min-objects": min_objects,
    }
    named = [option for option, value in given.items() if value is not None]
    text = script_text(path, "snapshot")
    if text.lstrip()[:1] == "{":
        if named:
            expected = "a script with it: a record names kernel and machine itself"
            raise ConfigError(named[0], path, expected)
        record = load(path)
        if record.kind != "replay":
            raise PredictError(f"{path}: kind: found {record.kind!r}, expected replay, or a script")
        return snapshot_record(record.blind(), at=at)
    if kernel is not None and kernel not in PRESETS:
        raise ConfigError("--kernel", kernel, f"one of {', '.join(PRESETS)}")
    if machine is not None and (cpus, nodes) != (None, None):
        raise ConfigError("--machine", machine, "either it or --cpus and --nodes")
    topology = (
        plain_topology(cpus=4 if cpus is None else cpus, nodes=1 if nodes is None else nodes)
        if machine is None
        else machine_topology(load(Path(machine)))
    )
    parameters = SlabParameters(max_order=max_order, min_order=min_order, min_objects=min_objects)
    return snapshot_script(
        text,
        source=path,
        kernel=kernel or "v6_1",
        topology=topology,
        parameters=parameters,
        at=at,
    )
