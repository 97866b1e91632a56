"""Caches as a running kernel shows them: /sys/kernel/slab, or /proc/slabinfo at least."""

import re

from allocator.kernels import PRESETS
from allocator.records.files import Files
from allocator.records.proc import slabinfo

_GIVEN_FLAGS = ("hwcache_align", "reclaim_account", "cache_dma", "destroy_by_rcu")
_MEASURED = ("slab_size", "objs_per_slab", "order", "min_partial", "cpu_partial")

Rows = dict[str, dict[str, object]]


def read_caches(files: Files, kernel: str) -> tuple[Rows, Rows]:
    """Return `given.caches` and `measured.caches`; both empty if nothing can be read."""
    given, measured = _from_sysfs(files, kernel)
    return (given, measured) if given else _from_slabinfo(files)


def _from_sysfs(files: Files, kernel: str) -> tuple[Rows, Rows]:
    names = files.names("sys/kernel/slab")
    aliases: dict[str, list[str]] = {}
    for name in names:
        path = files.root / "sys/kernel/slab" / name
        aliases.setdefault(path.resolve().name if path.is_symlink() else name, []).append(name)
    sheaves = PRESETS[kernel].slab.generation == "sheaves"
    keys = (*_MEASURED, "sheaf_capacity") if sheaves else _MEASURED
    given: Rows = {}
    measured: Rows = {}
    for directory, known in sorted(aliases.items()):
        merged = sorted(name for name in known if not name.startswith(":")) or known
        base = f"sys/kernel/slab/{directory}"
        object_size = _number(files.text(f"{base}/object_size"))
        if object_size is None:
            break  # one refusal tells for all
        row: dict[str, object] = {
            "object_size": object_size,
            "align": _number(files.text(f"{base}/align")) or 8,
            "ctor": bool(files.text(f"{base}/ctor", optional=True)),
        }
        for key in _GIVEN_FLAGS:
            row[key] = files.text(f"{base}/{key}", optional=True) == "1"
        row["usersize"] = _number(files.text(f"{base}/usersize", optional=True))
        given[merged[0]] = {**row, "names": merged}
        measured[merged[0]] = {
            key: _number(files.text(f"{base}/{key}", optional=True)) for key in keys
        }
    return given, measured


def _from_slabinfo(files: Files) -> tuple[Rows, Rows]:
    """Take what slabinfo tells: slab_size stands for the size of an object."""
    rows = slabinfo(files.text("proc/slabinfo") or "")
    if any(row["limit"] for row in rows.values()):
        files.note("/proc/slabinfo is SLAB's, not SLUB's; caches are left out")
        return {}, {}
    if rows:
        files.note("caches come from /proc/slabinfo alone: slab sizes are taken as object sizes")
    given: Rows = {}
    measured: Rows = {}
    for name, row in rows.items():
        given[name] = {
            "object_size": row["objsize"],
            "align": 8,
            "ctor": False,
            **dict.fromkeys(_GIVEN_FLAGS, False),
            "usersize": None,
            "names": [name],
        }
        measured[name] = {
            "slab_size": row["objsize"],
            "objs_per_slab": row["objperslab"],
            "order": row["pagesperslab"].bit_length() - 1,
        }
    return given, measured


def _number(text: str | None) -> int | None:
    """Return the number that a sysfs file begins with ("12 N0=12")."""
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match else None
