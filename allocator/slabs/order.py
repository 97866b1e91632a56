"""The order of a cache's slabs: the rules of calculate_order(), over arrays of sizes.

Each rule looks for the smallest order whose unused tail is small enough. The orders that pass a
test are bits of one integer per size, so that "first order from `low` on" is the lowest set bit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allocator.slabs.parameters import SlabParameters
from allocator.slabs.policy import SlabPolicy
from allocator.topology import Topology

Ints = NDArray[np.int64]

MAX_OBJECTS = 32767
"""Objects that a slab can count (MAX_OBJS_PER_PAGE; 15 bits)."""
COSTLY_ORDER = 3
"""PAGE_ALLOC_COSTLY_ORDER."""
NO_ORDER = -1
"""What the rules return when no order can hold an object; the kernel refuses such a cache."""

_FAR = 40  # above every order, and small enough to shift by


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLimits:
    """What bounds the order of slabs; numbers, or arrays that broadcast against the sizes."""

    page_size: int | Ints
    """Base page, bytes."""
    max_buddy_order: int | Ints
    """Largest order of the buddy lists."""
    min_order: int | Ints
    """slub_min_order."""
    max_order: int | Ints
    """slub_max_order."""
    min_objects: int | Ints
    """Objects wanted in a slab, already computed from the CPUs where the user gave none."""

    @classmethod
    def of(
        cls, policy: SlabPolicy, topology: Topology, parameters: SlabParameters
    ) -> "OrderLimits":
        """Return the limits of one machine, kernel and set of boot parameters."""
        min_order, max_order = parameters.orders(policy, topology)
        wanted = parameters.min_objects or default_min_objects(
            policy, present=topology.cpus, nr_cpu_ids=topology.nr_cpu_ids
        )
        return cls(
            page_size=topology.page_size,
            max_buddy_order=topology.max_buddy_order,
            min_order=min_order,
            max_order=max_order,
            min_objects=wanted,
        )


def default_min_objects(policy: SlabPolicy, *, present: int, nr_cpu_ids: int) -> int:
    """Return the objects wanted in a slab for a number of CPUs, 4 * (fls(n) + 1).

    mm/slub.c calculate_order(); n is nr_cpu_ids until 5.11, the present CPUs from 5.12 unless
    there is but one.
    """
    cpus = present if policy.order_cpus == "present" and present > 1 else nr_cpu_ids
    return 4 * (cpus.bit_length() + 1)


def get_order(size_bytes: ArrayLike, page_size: int | Ints) -> Ints:
    """Return the smallest order whose pages hold so many bytes (get_order())."""
    pages = (np.asarray(size_bytes, dtype=np.int64) - 1) // page_size
    return np.frexp(pages.astype(np.float64))[1].astype(np.int64)


def calculate_order(size: ArrayLike, policy: SlabPolicy, limits: OrderLimits) -> Ints:
    """Return the order of the slabs of caches (mm/slub.c calculate_order()).

    Parameters
    ----------
    size
        slab_size of each cache, bytes (object, metadata and padding).
    policy
        Its `order_rule` says which release's rule holds.
    limits
        Page size, bounds of the order and objects wanted.

    Returns
    -------
    int64 array of the sizes' and limits' common shape; `NO_ORDER` where no order will do.
    """
    rows = _Rows(size, limits)
    rule = {
        "fractions_min_objects": _fractions_min_objects,
        "fractions": _fractions,
        "least_waste": _least_waste,
    }[policy.order_rule]
    order = rule(rows)
    possible = (order <= rows.top) & (rows.objects(np.minimum(order, _FAR)) > 0)
    return np.where(possible, order, NO_ORDER).reshape(rows.shape)


class _Rows:
    """Sizes and limits, one row each, flat."""

    size: Ints
    page: Ints
    top: Ints
    low: Ints
    high: Ints
    wanted: Ints

    def __init__(self, size: ArrayLike, limits: OrderLimits) -> None:
        columns = np.broadcast_arrays(
            np.asarray(size, dtype=np.int64),
            *(
                np.asarray(value, dtype=np.int64)
                for value in (
                    limits.page_size,
                    limits.max_buddy_order,
                    limits.min_order,
                    limits.max_order,
                    limits.min_objects,
                )
            ),
        )
        self.shape = columns[0].shape
        flat = [np.ascontiguousarray(column).reshape(-1) for column in columns]
        self.size, self.page, self.top, self.low, self.high, self.wanted = flat

    def take(self, rows: NDArray[np.int64]) -> "_Rows":
        """Return some of the rows."""
        part = object.__new__(_Rows)
        part.shape = rows.shape
        for name in ("size", "page", "top", "low", "high", "wanted"):
            setattr(part, name, getattr(self, name)[rows])
        return part

    def objects(self, order: Ints) -> Ints:
        """Objects in a slab of an order (order_objects())."""
        return (self.page << order) // self.size

    def get_order(self, objects: Ints) -> Ints:
        """Order that holds so many objects."""
        return np.minimum(get_order(objects * self.size, self.page), _FAR)

    def waste(self, order: int) -> Ints:
        """Bytes that objects leave unused in a slab of an order."""
        return (self.page << order) % self.size

    def last_order(self) -> int:
        """Largest order that any row may have."""
        return int(max(self.top.max(initial=0), self.high.max(initial=0))) + 1

    def overfull(self, order: Ints) -> NDArray[np.bool_]:
        """Tell where a slab of an order would hold more objects than it can count."""
        return self.objects(order) > MAX_OBJECTS

    def overfull_order(self) -> Ints:
        """Order used for such sizes."""
        return get_order(self.size * MAX_OBJECTS, self.page) - 1


def _fitting(rows: _Rows, fractions: tuple[int, ...]) -> list[Ints]:
    """Return, for each fraction, the orders (as bits) whose waste is at most slab/fraction."""
    bits = [np.zeros_like(rows.size) for _ in fractions]
    for order in range(int(rows.high.max(initial=0)) + 1):
        waste, slab = rows.waste(order), rows.page << order
        for found, fraction in zip(bits, fractions, strict=True):
            found |= (waste <= slab // fraction).astype(np.int64) << order
    return bits


def _first(bits: Ints, low: Ints, high: Ints) -> Ints:
    """Return the lowest set bit from `low` to `high`, -1 if there is none."""
    window = np.where(high >= low, (2 << np.maximum(high, 0)) - (1 << low), 0)
    chosen = bits & window
    return np.frexp((chosen & -chosen).astype(np.float64))[1].astype(np.int64) - 1


def _first_of_fractions(fitting: list[Ints], low: Ints, high: Ints) -> Ints:
    """Return the first order of the strictest fraction that has one, -1 if none has."""
    order = np.full_like(low, -1)
    for bits in fitting:
        order = np.where(order < 0, _first(bits, low, high), order)
    return order


def _fractions_min_objects(rows: _Rows) -> Ints:
    """Lower min_objects until a fraction of 1/16, 1/8 or 1/4 is met (mm/slub.c v6.1)."""
    low = np.maximum(rows.low, rows.get_order(np.ones_like(rows.size)))
    order = np.where(rows.overfull(rows.low), rows.overfull_order(), low)
    wanted = np.minimum(rows.wanted, rows.objects(rows.high))
    left = np.flatnonzero((wanted > 1) & ~rows.overfull(rows.low))
    part, wanted = rows.take(left), wanted[left]
    fitting = _fitting(part, (16, 8, 4)) if left.size else []
    while left.size:
        start = np.maximum(part.low, part.get_order(wanted))
        found = _first_of_fractions(fitting, start, part.high)
        order[left[found >= 0]] = found[found >= 0]
        wanted = wanted - 1
        stay = np.flatnonzero((found < 0) & (wanted > 1))
        left, wanted, part = left[stay], wanted[stay], part.take(stay)
        fitting = [bits[stay] for bits in fitting]
    return order


def _fractions(rows: _Rows) -> Ints:
    """Try 1/16 to 1/2 from the order that min_objects needs (mm/slub.c v6.7)."""
    wanted = np.minimum(rows.wanted, np.maximum(rows.objects(rows.high), 1))
    low = np.maximum(rows.low, rows.get_order(wanted))
    found = _first_of_fractions(_fitting(rows, (16, 8, 4, 2)), low, rows.high)
    smallest = rows.get_order(np.ones_like(rows.size))
    order = np.where(found >= 0, found, smallest)
    return np.where(rows.overfull(low), rows.overfull_order(), order)


def _least_waste(rows: _Rows) -> Ints:
    """Take the order with the smallest tail ("Optimize slub memory usage" RFC v2, 2023-06-28).

    Only that slub_max_order becomes 2 is known from the thread; the search is from memory.
    """
    needed = rows.wanted * rows.size
    wanted = np.minimum(rows.wanted, rows.objects(rows.high))
    low = np.maximum(rows.low, rows.get_order(np.maximum(wanted, 1)))
    within = (wanted > 0) & (low <= rows.high)
    start = np.where(within, low, np.maximum(rows.low, rows.get_order(np.ones_like(low))))
    stop = np.where(within, rows.high, rows.top)
    order = np.full_like(rows.size, _FAR)
    least = np.full_like(rows.size, np.iinfo(np.int64).max)
    for candidate in range(rows.last_order() + 1):
        waste = rows.waste(candidate)
        better = (start <= candidate) & (candidate <= stop) & (waste < np.minimum(least, rows.size))
        order, least = np.where(better, candidate, order), np.where(better, waste, least)
    order = np.where(rows.overfull(rows.low), rows.overfull_order(), order)
    order = np.where(needed <= rows.page, rows.low, order)
    return np.where(needed > rows.page << COSTLY_ORDER, COSTLY_ORDER, order)
