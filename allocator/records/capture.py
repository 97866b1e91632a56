"""A record of the running Linux machine, read from /proc and /sys; nothing is changed."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from allocator.errors import PredictError
from allocator.records.capture_caches import read_caches
from allocator.records.capture_kernel import (
    build_config,
    choices_for,
    memory_options,
    preset_for,
)
from allocator.records.capture_memory import read_memory
from allocator.records.files import Files
from allocator.records.machine import ARCH_OF_MACHINE, cpu_list, kernel_of, machine_topology
from allocator.records.proc import Zone, meminfo, zoneinfo
from allocator.records.record import SCHEMA, record_of
from allocator.records.static import memory_marks
from allocator.records.validate import boot_share

_PARAMETERS = ("slub_max_order", "slub_min_order", "slub_min_objects")
_SYSCTLS = (
    "percpu_pagelist_high_fraction",
    "percpu_pagelist_fraction",
    "watermark_boost_factor",
    "watermark_scale_factor",
)


def capture(
    root: str | Path = "/", name: str | None = None, release: str | None = None
) -> tuple[dict[str, object], list[str]]:
    """Read a machine and return a `static` record of it.

    Parameters
    ----------
    root
        "/", or a folder that holds saved `proc/` and `sys/`.
    name
        Name of the record; the release and the number of CPUs by default.
    release
        Kernel release, for a copy that does not tell it; None: as told.

    Returns
    -------
    The record, and notes: which preset was taken, and what could not be read.

    Raises
    ------
    PredictError
        If so little can be read that there is no record.
    """
    if not str(root):
        raise PredictError("--from: found '', expected a folder with saved proc/ and sys/")
    files = Files(Path(root))
    if not (files.root / "proc").is_dir():
        raise PredictError(f"--from: found {str(root)!r}, expected a folder with saved proc/")
    if release is None:
        release = files.text("proc/sys/kernel/osrelease", optional=True) or _version(files)
    if not release:
        expected = "a Linux release; --release gives it"
        raise files.missing("proc/sys/kernel/osrelease", expected)
    env, node_numbers = _environment(files, release)
    kernel = preset_for(release)
    choices = choices_for(release)
    env["choices"] = choices
    names = [name for layer in choices.values() for name in layer]
    but = f", but for {', '.join(names)}" if names else ""
    files.note(f"release {release} is taken as the preset {kernel}{but}")
    memory = read_memory(files, env, node_numbers, kernel)
    caches, attributes = read_caches(files, kernel)
    cpus = env["cpus"]
    assert isinstance(cpus, Mapping)
    record: dict[str, object] = {
        "schema": SCHEMA,
        "kind": "static",
        "name": name or f"{release}-cpus{cpus['present']}",
        "kernel": kernel,
        "env": env,
        "given": {"zones": memory.zones, "caches": caches, "steps": []},
        "measured": {
            "boot": {
                "exact": False,
                "min_free_kbytes": memory.min_free_kbytes,
                "zones": memory.marks,
            },
            "steps": [],
            "caches": attributes,
            "node_order": {},
        },
    }
    _note_own_setting(record, memory.min_free_kbytes, files)
    return record, files.notes


def _note_own_setting(record: dict[str, object], kbytes: int | None, files: Files) -> None:
    """Tell of a min_free_kbytes that the kernel would not choose, and put it into the record."""
    outline = record_of(record)
    marks = memory_marks(outline, kernel_of(outline), machine_topology(outline))
    usual = marks.min_free_kbytes
    managed = sum(zone.managed for zone in marks.zones)
    if kbytes is None or abs(usual - kbytes) <= max(128, boot_share(managed) * kbytes):
        return
    sysctl = outline.env["sysctl"]
    assert isinstance(sysctl, dict)
    sysctl["min_free_kbytes"] = kbytes
    files.note(f"min_free_kbytes is {kbytes}, not the usual {usual}; it is taken as set by hand")


def _version(files: Files) -> str | None:
    match = re.match(r"Linux version (\S+)", files.text("proc/version") or "")
    return match[1] if match else None


def _list(files: Files, path: str, *, optional: bool = False) -> list[int]:
    text = files.text(path, optional) or ""
    try:
        return cpu_list(text)
    except PredictError:
        raise files.missing(path, "a list such as 0-3,8", repr(text[:60])) from None


def _environment(files: Files, release: str) -> tuple[dict[str, object], dict[int, int]]:
    """Return `env`, and the record's node number by the machine's (which may have gaps)."""
    arch = _arch(files)
    cmdline = files.text("proc/cmdline") or ""
    possible = _list(files, "sys/devices/system/cpu/possible")
    present = _list(files, "sys/devices/system/cpu/present") or possible
    online = _list(files, "sys/devices/system/cpu/online") or present
    if not online:
        online = present = _processors(files)
    nodes, distances, numbers = _nodes(files, online)
    params: dict[str, object] = {}
    for parameter in _PARAMETERS:
        found = re.findall(rf"\b{parameter}=(\d+)", cmdline)
        if found:
            params[parameter] = int(found[-1])
    if re.search(r"\bsl[ua]b_nomerge\b", cmdline):
        params["slab_nomerge"] = True
    sysctl: dict[str, object] = {}
    ratios = files.text("proc/sys/vm/lowmem_reserve_ratio")
    if ratios:
        sysctl["lowmem_reserve_ratio"] = [int(ratio) for ratio in ratios.split()]
    for key in _SYSCTLS:
        value = files.text(f"proc/sys/vm/{key}", optional=True)
        if value and value.isdecimal():
            sysctl[key] = int(value)
    thp = re.search(r"\[(\w+)\]", _thp(files))
    env: dict[str, object] = {
        "release": release,
        "arch": arch,
        "page_size": _page_size(files, arch),
        "huge_page_kb": _huge_page_kb(files),
        "mem_total_kb": meminfo(files.text("proc/meminfo") or "").get("MemTotal"),
        "cpus": {
            "possible": max(possible or present) + 1,
            "present": len(present),
            "online": len(online),
        },
        "nodes": nodes,
        "distances": distances,
        "cmdline": memory_options(cmdline),
        "params": params,
        "thp": thp[1] if thp else "never",
        "mglru": files.text("sys/kernel/mm/lru_gen/enabled", optional=True),
        "sysctl": sysctl,
        "config": build_config(files, release),
    }
    return env, numbers


def _arch(files: Files) -> str:
    arch = files.text("proc/sys/kernel/arch", optional=True)
    if arch is None and files.live:
        arch = os.uname().machine
    if arch is None:
        files.note("arch is not told; x86_64 is assumed")
        return "x86_64"
    if arch not in ARCH_OF_MACHINE:
        raise files.missing("proc/sys/kernel/arch", f"one of {', '.join(ARCH_OF_MACHINE)}", arch)
    return arch


def _page_size(files: Files, arch: str) -> int:
    if files.live:
        return os.sysconf("SC_PAGE_SIZE")
    match = re.search(r"KernelPageSize: +(\d+) kB", files.text("proc/self/smaps", True) or "")
    if match:
        return int(match[1]) * 1024
    usual = 65536 if arch.startswith("ppc64") else 4096
    files.note(f"the page size is not told; {usual} is assumed")
    return usual


def _huge_page_kb(files: Files) -> int | None:
    """Return the size of a PMD huge page, which sets the pageblock."""
    pmd = files.text("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", optional=True)
    if pmd and pmd.isdecimal():
        return int(pmd) // 1024
    match = re.search(r"Hugepagesize: +(\d+) kB", files.text("proc/meminfo") or "")
    return int(match[1]) if match else None


def _thp(files: Files) -> str:
    told = files.text("sys/kernel/mm/transparent_hugepage/enabled", optional=True)
    if told is None and "AnonHugePages" in (files.text("proc/meminfo", optional=True) or ""):
        files.note("huge pages are there; that they are always used is assumed")
        return "[always]"
    return told or "[never]"


def _processors(files: Files) -> list[int]:
    """Return CPUs from /proc where /sys does not tell; one at least."""
    text = files.text("proc/cpuinfo", optional=True) or ""
    numbers = {int(number) for number in re.findall(r"^processor\s*: (\d+)", text, re.MULTILINE)}
    if not numbers:
        numbers = {cpu for zone in _zones(files) for cpu in zone["pcp"]}
        files.note("CPUs are those that /proc/zoneinfo lists")
    return sorted(numbers) or [0]


def _zones(files: Files) -> list[Zone]:
    return zoneinfo(files.text("proc/zoneinfo", optional=True) or "")


def _nodes_with_zones(
    files: Files, online: list[int]
) -> tuple[list[dict[str, object]], list[list[int]], dict[int, int]]:
    """Make nodes of those that have zones, where /sys does not tell; CPUs evenly on them."""
    found = sorted({zone["node"] for zone in _zones(files)}) or [0]
    files.note(f"no NUMA nodes in /sys; {len(found)} taken, with CPUs spread evenly")
    share = -(-len(online) // len(found))
    nodes: list[dict[str, object]] = [
        {"id": n, "cpus": online[n * share : (n + 1) * share], "has_memory": True}
        for n in range(len(found))
    ]
    distances = [[10 if a == b else 20 for b in range(len(found))] for a in range(len(found))]
    return nodes, distances, {node: index for index, node in enumerate(found)}


def _nodes(
    files: Files, online: list[int]
) -> tuple[list[dict[str, object]], list[list[int]], dict[int, int]]:
    """Return nodes, distances, and the new number of each node, without gaps."""
    base = "sys/devices/system/node"
    found = _list(files, f"{base}/online", optional=True)
    if not found:
        return _nodes_with_zones(files, online)
    numbers = {node: index for index, node in enumerate(found)}
    if any(node != index for node, index in numbers.items()):
        files.note(f"nodes {found} are numbered from 0 on in the record")
    with_memory = _list(files, f"{base}/has_memory", optional=True) or found
    nodes: list[dict[str, object]] = []
    distances = []
    for node in found:
        cpus = _list(files, f"{base}/node{node}/cpulist")
        nodes.append({"id": numbers[node], "cpus": cpus, "has_memory": node in with_memory})
        distance = f"{base}/node{node}/distance"
        row = (files.text(distance) or "").split()
        if not all(re.fullmatch(r"[0-9]{1,3}", item) for item in row):
            raise files.missing(distance, "distances such as 10 21", repr(" ".join(row)[:60]))
        distances.append([int(item) for item in row[: len(found)]])
    return nodes, distances, numbers
