"""Where a dataset comes from: code, versions, command, configuration, host."""

import json
import os
import platform
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from allocator.simulate import MODEL_VERSION
from sweep.dataset import SCHEMA_VERSION

PACKAGES = ("slabsweep", "numpy", "hydra-core", "ray", "xarray", "netCDF4", "scipy")
MOST_GROUPS = 1 << 20
"""Bytes that the configurations of groups may take in a dataset."""


def provenance(
    *,
    config: Mapping[str, object],
    axes: Mapping[str, object],
    seeds: object,
    started: datetime,
    overrides: Sequence[str] = (),
    flags: Sequence[str] = (),
    groups: object = None,
) -> dict[str, object]:
    """Return the provenance record, as global attributes will hold it.

    Parameters
    ----------
    config
        The resolved configuration, without the axes.
    axes
        Values of each axis, by key.
    seeds
        Root seeds.
    started
        When the run began.
    overrides, flags
        Command line that asks for the same grid in a new run.
    groups
        Configurations of each group by choice (`sweep.resume.remembered`), from which that of any
        point is put together; left out where they take more than `MOST_GROUPS`.
    """
    now = datetime.now(UTC)
    command = shlex.join(["slabsweep", *sys.argv[1:]])
    return {
        "Conventions": "CF-1.11",
        "title": "Simulated behaviour of the Linux slab and page allocators over a grid",
        "source": f"slabsweep {versions()['slabsweep']}, model version {MODEL_VERSION}",
        "history": f"{started.isoformat(timespec='seconds')} {command}",
        "schema_version": SCHEMA_VERSION,
        "model_version": MODEL_VERSION,
        "command": command,
        "config": dict(config),
        "axes": dict(axes),
        "overrides": list(overrides),
        "flags": list(flags),
        **({"groups": groups} if groups and len(json.dumps(groups)) <= MOST_GROUPS else {}),
        "seed": seeds,
        "versions": versions(),
        "git": revision(Path(__file__).resolve().parents[1]),
        "host": {
            "name": socket.gethostname(),
            "cpus": os.cpu_count(),
            "platform": platform.platform(),
        },
        "started": started.isoformat(timespec="seconds"),
        "finished": now.isoformat(timespec="seconds"),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of what results and files depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def revision(folder: Path) -> dict[str, object]:
    """Return the git commit of the code and whether it was changed since; empty outside git."""
    try:
        if Path(_git(folder, "rev-parse", "--show-toplevel")) != folder:
            return {}  # installed below somebody else's repository
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": commit, "dirty": bool(changed)}


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=5, check=True
    )
    return done.stdout.strip()
