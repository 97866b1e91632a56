"""The machine and the kernel that a record describes."""

import re
from pathlib import Path

from allocator.errors import ConfigError, PredictError
from allocator.kernel import Kernel
from allocator.kernels import PRESETS, kernel_from_config
from allocator.pages.zones import ZONE_TYPES, ZoneSize
from allocator.records.record import Record, Section, load
from allocator.slabs.cache import CacheSpec
from allocator.slabs.parameters import SlabParameters
from allocator.topology import LOCAL_DISTANCE, MAX_CPUS, REMOTE_DISTANCE, Topology

ARCH_OF_MACHINE = {
    "x86_64": "x86_64",
    "aarch64": "arm64",
    "arm64": "arm64",
    "ppc64le": "ppc64",
    "ppc64": "ppc64",
}
"""Architecture by what `uname -m` prints."""

_FLAG_OF_FIELD = {
    "hwcache_align": "HWCACHE_ALIGN",
    "reclaim_account": "RECLAIM_ACCOUNT",
    "destroy_by_rcu": "TYPESAFE_BY_RCU",
    "cache_dma": "CACHE_DMA",
    "ctor": "CTOR",
}


def kernel_of(record: Record) -> Kernel:
    """Return the kernel preset that a record names, with the options it was built with.

    `env.choices` may name choices in which the kernel differs from the preset, as in the `kernel`
    group of a configuration.

    Raises
    ------
    PredictError
        If no preset has that name, or a choice is unknown.
    """
    if record.kernel not in PRESETS:
        source = f"{record.path}: " if record.path else ""
        known = ", ".join(PRESETS)
        raise PredictError(f"{source}kernel: found {record.kernel!r}, expected one of {known}")
    env = record.section("env")
    try:
        choices = env.section("choices", optional=True).values
        kernel = kernel_from_config({"preset": record.kernel, **choices})
    except ConfigError as error:
        raise PredictError(f"{env.where}.choices: {error}") from None
    config = env.section("config", optional=True)
    if "SLUB" in config and "SLUB_CPU_PARTIAL" not in config:
        return kernel.vary(kernel.name, kernel.follows, slab={"config_cpu_partial": False})
    return kernel


def arch_of(record: Record) -> str:
    """Return the architecture, in the model's words."""
    env = record.section("env")
    key = "arch" if "arch" in env else "machine"
    machine = env.text(key)
    if machine not in ARCH_OF_MACHINE:
        raise env.fail(key, f"one of {', '.join(ARCH_OF_MACHINE)}")
    return ARCH_OF_MACHINE[machine]


def nodes_of(record: Record) -> list[tuple[int, list[int], bool]]:
    """Return number, online CPUs and whether it has memory, of each node, ascending."""
    env = record.section("env")
    if "nodes" in env:
        nodes = [
            (node.integer("id"), node.integers("cpus"), node.flag("has_memory", True))
            for node in env.sections("nodes")
        ]
    else:
        with_memory = set(_list_at(env, "nodes_normal_memory", "0"))
        cpus = env.section("node_cpus", optional=True)
        nodes = [
            (node, _list_at(cpus, str(node), ""), node in with_memory)
            for node in _list_at(env, "nodes_online", "0")
        ]
    nodes.sort()
    if [node for node, _, _ in nodes] != list(range(len(nodes))) or not nodes:
        raise env.fail("nodes", "nodes 0, 1, ... without a gap")
    return nodes


def cpu_list(text: str) -> list[int]:
    """Read a list of numbers as the kernel prints it ("0-3,8").

    Raises
    ------
    PredictError
        If the text is none.
    """
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise PredictError(f"found {text!r}, expected a list such as 0-3,8")
        numbers += range(int(match[1]), int(match[2] or match[1]) + 1)
    return numbers


def _list_at(section: Section, key: str, default: str) -> list[int]:
    try:
        return cpu_list(section.text(key, default))
    except PredictError:
        raise section.fail(key, "a list such as 0-3,8") from None


def zones_of(record: Record) -> tuple[ZoneSize, ...]:
    """Return the zones at boot, each node's in rising order."""
    zones = []
    for zone in record.section("given").sections("zones", optional=True):
        kind = zone.text("zone")
        if kind not in ZONE_TYPES:
            raise zone.fail("zone", f"one of {', '.join(ZONE_TYPES)}")
        zones.append(
            ZoneSize(
                node=zone.integer("node"),
                zone=kind,
                present=zone.integer("present"),
                managed=zone.integer("managed"),
                start_pfn=zone.integer("start_pfn", 0),
            )
        )
    return tuple(zones)


def machine_topology(record: Record) -> Topology:
    """Return CPUs, nodes, memory and distances of a recorded machine.

    CPUs that are present but not online, and so on no node's list, are put on the first node.

    Raises
    ------
    PredictError
        If the record does not say, or says what cannot be.
    """
    env = record.section("env")
    arch = arch_of(record)
    nodes = nodes_of(record)
    online = {cpu: node for node, cpus, _ in nodes for cpu in cpus}
    if "cpus" in env and isinstance(env.values["cpus"], int):
        present = possible = env.integer("cpus", least=1, most=MAX_CPUS)
    else:
        cpus = env.section("cpus")
        present = cpus.integer("present", least=1, most=MAX_CPUS)
        possible = cpus.integer("possible", present, least=1, most=MAX_CPUS)
    numbers = sorted(online)[:present]
    home = min(online.values(), default=0)
    node_of_cpu = [online[cpu] for cpu in numbers] + [home] * (present - len(numbers))
    config = env.section("config", optional=True)
    try:
        return Topology(
            arch=arch,
            page_size=env.integer("page_size", 65536 if arch == "ppc64" else 4096),
            nr_cpu_ids=max(possible, present),
            node_of_cpu=tuple(node_of_cpu),
            memory_bytes=_memory(record, nodes),
            distances=_distances(env, len(nodes)),
            memoryless_nodes="HAVE_MEMORYLESS_NODES" in config or arch == "ppc64",
        )
    except ConfigError as error:
        source = f"{record.path}: " if record.path else ""
        raise PredictError(f"{source}env: {error}") from None


def load_topology(path: str) -> Topology:
    """Return the topology of a record file, for a sweep whose machine is a record.

    Raises
    ------
    ConfigError
        If the file cannot be used; the key is `machine.record`.
    """
    try:
        return machine_topology(load(Path(path)))
    except PredictError as error:
        raise ConfigError("machine.record", path, f"a record file ({error})") from None


def parameters_of(record: Record, kernel: Kernel) -> SlabParameters:
    """Return SLUB's boot parameters: `env.params`, and what only the command line tells."""
    env = record.section("env")
    params = env.section("params", optional=True)
    words = env.text("cmdline", "").split()
    values: dict[str, int | None] = {}
    prefixes = ("slub_", "slab_") if kernel.slab.slab_prefix else ("slub_",)
    for name in ("max_order", "min_order", "min_objects"):
        values[name] = params.optional_integer(f"slub_{name}")
        for prefix in prefixes:
            if values[name] is None:
                values[name] = params.optional_integer(f"{prefix}{name}")
            if values[name] is None:
                values[name] = _last_number(words, f"{prefix}{name}")
    places = {
        name: max((n for n, word in enumerate(words) if _names(word, name)), default=-1)
        for name in ("max_order", "min_order")
    }
    try:
        return SlabParameters(
            max_order=values["max_order"],
            min_order=values["min_order"],
            min_objects=values["min_objects"],
            min_order_last=places["min_order"] >= places["max_order"],
            debug=_debug(words, prefixes),
            merge=not (params.flag("slab_nomerge") or params.flag("slub_nomerge")),
        )
    except ConfigError as error:
        raise PredictError(f"{env.where}.params: {error}") from None


def caches_of(record: Record) -> list[CacheSpec]:
    """Return the caches as their creators asked for them; `align` is the final one."""
    specs = []
    for name, cache in record.section("given").named_sections("caches"):
        flags = {word for field, word in _FLAG_OF_FIELD.items() if cache.flag(field)}
        if re.match(r"(dma-)?kmalloc-", name):
            flags.add("KMALLOC")
        try:
            specs.append(
                CacheSpec(
                    name=name,
                    object_size=cache.integer("object_size", least=1),
                    align=cache.integer("align", 0),
                    flags=frozenset(flags),
                )
            )
        except ConfigError as error:
            raise PredictError(f"{cache.where}: {error}") from None
    return specs


def _memory(record: Record, nodes: list[tuple[int, list[int], bool]]) -> tuple[int, ...]:
    """Return bytes per node: present pages of its zones, or an equal share of the total."""
    env = record.section("env")
    page_size = env.integer("page_size", 65536 if arch_of(record) == "ppc64" else 4096)
    zones = zones_of(record)
    if zones:
        pages = [0] * len(nodes)
        for zone in zones:
            if zone.node < len(nodes):
                pages[zone.node] += zone.present
        return tuple(count * page_size for count in pages)
    total = env.integer("mem_total_kb", 0) * 1024
    populated = sum(has_memory for _, _, has_memory in nodes)
    share = total // max(populated, 1) // page_size * page_size
    return tuple(share if has_memory else 0 for _, _, has_memory in nodes)


def _distances(env: Section, nodes: int) -> tuple[tuple[int, ...], ...]:
    rows = env.values.get("distances")
    if rows is None:
        return tuple(
            tuple(LOCAL_DISTANCE if a == b else REMOTE_DISTANCE for b in range(nodes))
            for a in range(nodes)
        )
    if not isinstance(rows, list) or not all(
        isinstance(row, list) and all(type(item) is int for item in row) for row in rows
    ):
        raise env.fail("distances", f"{nodes} rows of {nodes} whole numbers")
    return tuple(tuple(row) for row in rows)


def _names(word: str, parameter: str) -> bool:
    """Tell whether a word of the command line sets a parameter of SLUB."""
    return word.split("=", 1)[0].removeprefix("slub_").removeprefix("slab_") == parameter


def _last_number(words: list[str], parameter: str) -> int | None:
    found = [word.partition("=")[2] for word in words if word.split("=", 1)[0] == parameter]
    return int(found[-1]) if found and found[-1].isdecimal() else None


def _debug(words: list[str], prefixes: tuple[str, ...]) -> str | None:
    """Return slub_debug as given; `slub_debug` alone is the empty text."""
    for word in reversed(words):
        name, _, value = word.partition("=")
        if name in {f"{prefix}debug" for prefix in prefixes}:
            letters = re.compile(r"[^FZPUTAO,-]*", re.IGNORECASE)
            blocks = [block.split(",", 1) for block in value.split(";")]
            return ";".join(",".join([letters.sub("", b[0]), *b[1:]]) for b in blocks)
    return None
