"""How to run a point on real hardware: what to boot, what to set, what to start."""

from dataclasses import dataclass

from allocator.point import Point
from allocator.slabs.parameters import SlabParameters
from allocator.topology import Topology

_BOOT = {
    "max_order": "slub_max_order",
    "min_order": "slub_min_order",
    "min_objects": "slub_min_objects",
}
"""Boot parameters of SLUB; 6.9 renamed them to `slab_*` and still takes these."""
_SYSFS = ("cpu_partial", "min_partial", "remote_node_defrag_ratio")
"""Files of every cache in /sys/kernel/slab."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRun:
    """One point, as a person would run it."""

    machine: str
    """Profile and title of the machine."""
    kernel: str
    """Kernel and what it follows."""
    boot: tuple[str, ...]
    """Parameters on the kernel's command line."""
    qemu: tuple[str, ...]
    """Options that make this topology, where it is not the machine's own."""
    setup: tuple[str, ...]
    """Shell lines after boot."""
    command: str
    """What to run."""
    flags: str
    """GFP flags of the allocations; they are in the kernel's code, not on a command line."""


def real_run(point: Point) -> RealRun:
    """Return how to run a point on real hardware.

    Parameters
    ----------
    point
        A checked point of a grid.
    """
    own = point.topology == point.machine.topology
    ignores = type(point.workload).ignores
    return RealRun(
        machine=f"{point.machine.name}: {point.machine.title}",
        kernel=f"{point.kernel.name}: {point.kernel.follows}",
        boot=boot_parameters(point.slab),
        qemu=() if own else qemu_options(point.topology),
        setup=tuple(
            f"for f in /sys/kernel/slab/*/{name}; do echo {value} > $f; done"
            for name in _SYSFS
            if (value := getattr(point.slab, name)) is not None
        ),
        command=point.workload.command_line(point),
        flags="" if "gfp" in ignores else point.gfp.flags,
    )


def boot_parameters(slab: SlabParameters) -> tuple[str, ...]:
    """Return what to put on the kernel's command line, in an order that means the same."""
    names = list(_BOOT)
    if not slab.min_order_last:
        names = ["min_order", "max_order", "min_objects"]
    given = [(_BOOT[name], getattr(slab, name)) for name in names]
    words = [f"{name}={value}" for name, value in given if value is not None]
    if slab.debug is not None:
        words.append(f"slub_debug={slab.debug}" if slab.debug else "slub_debug")
    return (*words, *(() if slab.merge else ("slab_nomerge",)))


def qemu_options(place: Topology) -> tuple[str, ...]:
    """Return options of qemu-system that give these CPUs, nodes, memory and distances."""
    total = sum(place.memory_bytes) >> 20
    options = [f"-smp cpus={place.cpus},maxcpus={max(place.nr_cpu_ids, place.cpus)}"]
    options.append(f"-m {total}M")
    if place.nodes == 1:
        return tuple(options)
    for node, size in enumerate(place.memory_bytes):
        words = f"-numa node,nodeid={node}"
        words += "".join(f",cpus={span}" for span in _spans(place.cpus_of(node)))
        if size:
            options.append(f"-object memory-backend-ram,id=m{node},size={size >> 20}M")
            words += f",memdev=m{node}"
        options.append(words)
    options += [
        f"-numa dist,src={a},dst={b},val={place.distances[a][b]}"
        for a in range(place.nodes)
        for b in range(place.nodes)
        if a != b
    ]
    return tuple(options)


def _spans(cpus: tuple[int, ...]) -> list[str]:
    """Write CPU numbers as ranges.

    >>> _spans((0, 1, 2, 8))
    ['0-2', '8']
    """
    found: list[list[int]] = []
    for cpu in cpus:
        if found and found[-1][1] == cpu - 1:
            found[-1][1] = cpu
        else:
            found.append([cpu, cpu])
    return [str(a) if a == b else f"{a}-{b}" for a, b in found]
