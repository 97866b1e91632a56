"""Small zones for tests."""

from allocator.kernels import kernel_named
from allocator.pages.alloc import PageAllocator
from allocator.pages.zone import Zone
from allocator.pages.zones import ZoneMarks


def zone(
    kernel: str = "v6_1",
    *,
    node: int = 0,
    name: str = "Normal",
    start: int = 0,
    end: int = 8192,
    marks: tuple[int, int, int] = (100, 125, 150),
    protection: tuple[int, ...] = (0, 0, 0, 0),
    batch: int = 7,
    high: int = 60,
    high_max: int | None = None,
    threshold: int = 4,
    released: bool = True,
    cpus: tuple[int, ...] = (0, 1),
) -> Zone:
    """Return a zone, by default with all its memory free."""
    made = Zone(
        kernel_named(kernel).page,
        ZoneMarks(
            node=node,
            zone=name,
            min=marks[0],
            low=marks[1],
            high=marks[2],
            promo=2 * marks[2] - marks[1],
            protection=protection,
            pcp_batch=batch,
            pcp_high=high,
            pcp_high_min=high,
            pcp_high_max=high if high_max is None else high_max,
            stat_threshold=threshold,
        ),
        managed=end - start,
        start=start,
        end=end,
        cpus=cpus,
    )
    if released:
        made.buddy.release(start, end)
    return made


def machine(*zones: Zone, node_of_cpu: dict[int, int] | None = None) -> PageAllocator:
    """Return the allocator of zones; nodes fall back in the order of their numbers."""
    nodes = sorted({one.node for one in zones} | set((node_of_cpu or {}).values()))
    return PageAllocator(
        zones[0].policy,
        zones,
        node_of_cpu=node_of_cpu or dict.fromkeys(zones[0].cpus, 0),
        fallback={node: [node, *(n for n in nodes if n != node)] for node in nodes},
    )
