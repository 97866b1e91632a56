"""Settings that name a file become what the file says.

A worker on another node cannot read the driver's files, and a file may change between a run and its
resume. So a captured machine and a replay script are read once, here, and are content from then on:
they go to workers, into keys of points and into the run's provenance.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from allocator.point import parse_group

if TYPE_CHECKING:
    from allocator.machine import Machine

FILE_KEYS = ("machine.record", "workload.script")
"""Keys whose values are paths, relative to where the sweep is started."""


def with_files_read(group: str, config: Mapping[str, object]) -> dict[str, object]:
    """Return a configuration group without paths.

    Raises
    ------
    ConfigError
        If a file cannot be read, or what it says cannot be used.
    """
    found = dict(config)
    if group == "machine" and isinstance(found.get("record"), str):
        return _recorded(found)
    if group == "workload" and isinstance(found.get("script"), str):
        parse_group(group, found)  # says what is wrong with the file, by its name
        return {**found, "script": None, "ops": Path(str(found["script"])).read_text()}
    return found


def _recorded(config: dict[str, object]) -> dict[str, object]:
    """Return a machine whose topology is written out, as its record has it."""
    machine: Machine = parse_group("machine", config)  # type: ignore[assignment]
    place = machine.topology
    del config["record"]
    config["topology"] = {
        "arch": place.arch,
        "page_size": place.page_size,
        "cpus_possible": place.nr_cpu_ids,
        "cpus": [
            [cpu for cpu, home in enumerate(place.node_of_cpu) if home == node]
            for node in range(len(place.memory_bytes))
        ],
        "memory_bytes": list(place.memory_bytes),
        "distances": [list(row) for row in place.distances],
        "memoryless_nodes": place.memoryless_nodes,
    }
    return config
