"""Why a cache has its order: each step of the rule, for one size."""

from collections.abc import Iterator, Mapping

from allocator.errors import ConfigError
from allocator.kernels import PRESETS
from allocator.slabs.cache import LARGEST_OBJECT
from allocator.slabs.geometry import (
    NO_ORDER,
    CacheGeometry,
    OrderLimits,
    cache_geometry,
    calculate_order,
    get_order,
)
from allocator.slabs.order import COSTLY_ORDER, MAX_OBJECTS
from allocator.slabs.parameters import SlabParameters
from allocator.slabs.policy import SlabPolicy
from allocator.topology import MAX_CPUS, Topology

_FRACTIONS = {"fractions_min_objects": (16, 8, 4), "fractions": (16, 8, 4, 2)}


def explain(
    *,
    kernel: str,
    size: int,
    cpus: int,
    possible: int | None = None,
    arch: str = "x86_64",
    page_size: int | None = None,
    align: int = 0,
    flags: frozenset[str] = frozenset(),
    max_order: int | None = None,
    min_order: int | None = None,
    min_objects: int | None = None,
    debug: str | None = None,
) -> dict[str, object]:
    """Return a cache's geometry and the steps that lead to it.

    Parameters
    ----------
    kernel
        Preset.
    size, align, flags
        Object size and alignment in bytes, and flags, as the creator asks for them.
    cpus, possible
        Present and possible CPUs.
    arch, page_size
        Architecture, and its page in bytes.
    max_order, min_order, min_objects, debug
        SLUB's boot parameters.

    Raises
    ------
    ConfigError
        If a value cannot be used.
    """
    if kernel not in PRESETS:
        raise ConfigError("--kernel", kernel, f"one of {', '.join(PRESETS)}")
    policy = PRESETS[kernel].slab
    if not 0 < size <= LARGEST_OBJECT:
        raise ConfigError("--size", size, f"1 to {LARGEST_OBJECT} bytes")
    if not 1 <= cpus <= MAX_CPUS:
        raise ConfigError("--cpus", cpus, f"1 to {MAX_CPUS}")
    usual = 65536 if arch == "ppc64" else 4096
    page = usual if page_size is None else page_size
    topology = Topology(
        arch=arch,
        page_size=page,
        nr_cpu_ids=cpus if possible is None else possible,
        node_of_cpu=(0,) * cpus,
        memory_bytes=(1 << 30,),
        distances=((10,),),
        memoryless_nodes=False,
    )
    parameters = SlabParameters(
        max_order=max_order, min_order=min_order, min_objects=min_objects, debug=debug
    )
    parameters.check(topology)
    geometry = cache_geometry(
        policy,
        topology,
        parameters,
        name="kmalloc" if "KMALLOC" in flags else "cache",
        object_size=size,
        align=align,
        flags=flags,
    )
    limits = OrderLimits.of(policy, topology, parameters)
    return {
        "kernel": kernel,
        "arch": arch,
        "page_size": page,
        "cpus": {"present": cpus, "possible": topology.nr_cpu_ids},
        **_summary(geometry, page),
        "steps": [
            *_layout_steps(geometry),
            *_min_objects_steps(policy, topology, parameters, limits),
            *_order_steps(geometry.slab_size, policy, limits),
            *_partial_steps(geometry, policy),
        ],
    }


def lines(report: Mapping[str, object]) -> Iterator[str]:
    """Yield a report as lines of text."""
    for key, value in report.items():
        if isinstance(value, Mapping):  # of CPUs
            yield f"{key:<22} " + ", ".join(f"{number} {what}" for what, number in value.items())
        elif key != "steps":
            yield f"{key:<22} {'-' if value is None else value}"
    steps = report["steps"]
    assert isinstance(steps, list)
    yield from (f"{number}. {step}" for number, step in enumerate(steps, 1))


def _summary(geometry: CacheGeometry, page: int) -> dict[str, object]:
    """Return the numbers of a report; there is no slab if no order holds an object."""
    fits = geometry.order != NO_ORDER
    waste = geometry.waste_bytes(page) if fits else None
    return {
        "object_size": geometry.object_size,
        "align": geometry.align,
        "slab_size": geometry.slab_size,
        "order": geometry.order if fits else None,
        "objs_per_slab": geometry.objs_per_slab if fits else None,
        "waste_bytes": waste,
        "waste_percent": None
        if waste is None
        else round(100 * waste / (page << geometry.order), 2),
        "smallest_order": geometry.min_order_,
        "smallest_objs_per_slab": geometry.min_objects,
        "min_partial": geometry.min_partial,
        "cpu_partial": geometry.cpu_partial,
        "cpu_partial_slabs": geometry.cpu_partial_slabs,
        "sheaf_capacity": geometry.sheaf_capacity,
    }


def _layout_steps(geometry: CacheGeometry) -> Iterator[str]:
    extra = geometry.slab_size - geometry.object_size
    yield (
        f"an object of {geometry.object_size} bytes, aligned to {geometry.align}, takes "
        f"slab_size {geometry.slab_size} ({extra} bytes for metadata and padding)"
    )


def _min_objects_steps(
    policy: SlabPolicy, topology: Topology, parameters: SlabParameters, limits: OrderLimits
) -> Iterator[str]:
    if parameters.min_objects:
        yield f"min_objects {limits.min_objects}: slub_min_objects"
    else:
        present = policy.order_cpus == "present" and topology.cpus > 1
        count = topology.cpus if present else topology.nr_cpu_ids
        what = f"{'present' if present else 'possible'} CPU{'s' * (count != 1)}"
        what += "" if present else " (nr_cpu_ids)"
        yield f"min_objects {limits.min_objects}: 4 * (fls({count}) + 1) with {count} {what}"
    yield f"slub_min_order {limits.min_order}, slub_max_order {limits.max_order}"


def _order_steps(size: int, policy: SlabPolicy, limits: OrderLimits) -> Iterator[str]:
    """Tell the rule's tests in their order (slabs/order.py does the work)."""
    page, top = int(limits.page_size), int(limits.max_order)
    wanted = min(int(limits.min_objects), (page << top) // size)
    chosen = int(calculate_order(size, policy, limits))
    if (page << int(limits.min_order)) // size > MAX_OBJECTS:
        yield f"more than {MAX_OBJECTS} objects would fit: the order is capped by that"
    elif policy.order_rule == "least_waste":
        yield from _least_waste_steps(size, wanted, limits)
    else:
        if policy.order_rule == "fractions":
            wanted = max(wanted, 1)
        some = "1 object is" if wanted == 1 else f"{wanted} objects are"
        yield f"{some} wanted; a slab of order {top} holds {(page << top) // size}"
        found = False
        while wanted >= (1 if policy.order_rule == "fractions" else 2) and not found:
            for fraction in _FRACTIONS[policy.order_rule]:
                text, found = _fraction_step(size, wanted, fraction, limits)
                yield text
                if found:
                    break
            if policy.order_rule == "fractions":
                break
            wanted -= 1
        if not found:
            yield "nothing is wasted little enough: the smallest order that holds an object"
    yield "no order holds an object" if chosen == NO_ORDER else f"order {chosen}"


def _fraction_step(size: int, wanted: int, fraction: int, limits: OrderLimits) -> tuple[str, bool]:
    """Try one fraction: the text, and whether an order passed."""
    page, top = int(limits.page_size), int(limits.max_order)
    low = max(int(limits.min_order), int(get_order(wanted * size, page)))
    tried = []
    for order in range(low, top + 1):
        waste, allowed = (page << order) % size, (page << order) // fraction
        tried.append(f"order {order} wastes {waste} (allowed {allowed})")
        if waste <= allowed:
            return f"{wanted} objects, 1/{fraction}: {'; '.join(tried)}: taken", True
    shown = "; ".join(tried) or f"order {low} is above slub_max_order"
    return f"{wanted} objects, 1/{fraction}: {shown}: none", False


def _least_waste_steps(size: int, wanted: int, limits: OrderLimits) -> Iterator[str]:
    page, objects = int(limits.page_size), int(limits.min_objects)
    if objects * size > page << COSTLY_ORDER:
        yield f"{objects} objects need more than order {COSTLY_ORDER}: that order is taken"
        return
    if objects * size <= page:
        yield f"{objects} objects fit into one page: slub_min_order is taken"
        return
    low = max(int(limits.min_order), int(get_order(max(wanted, 1) * size, page)))
    tails = [
        f"order {order} wastes {(page << order) % size}"
        for order in range(low, int(limits.max_order) + 1)
    ]
    yield f"{wanted} objects: {'; '.join(tails) or 'no order is large enough'}: the first least"


def _partial_steps(geometry: CacheGeometry, policy: SlabPolicy) -> Iterator[str]:
    yield f"min_partial {geometry.min_partial}: half of log2({geometry.slab_size}), 5 to 10"
    if policy.generation == "sheaves":
        yield f"sheaf_capacity {geometry.sheaf_capacity}: by slab_size, filling a kmalloc class"
    elif policy.cpu_partial_counts == "objects":
        yield f"cpu_partial {geometry.cpu_partial} objects: by slab_size"
    else:
        yield (
            f"cpu_partial {geometry.cpu_partial} objects by slab_size, so "
            f"{geometry.cpu_partial_slabs} slab{'s' * (geometry.cpu_partial_slabs != 1)}, "
            "taken as half full"
        )
