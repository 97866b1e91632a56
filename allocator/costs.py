"""What single events cost on a machine: numbers with their source, or marked as not measured.

Costs in cycles are turned into time with the machine's frequency. A number that nobody measured
says why and carries the range that a sweep may vary it in. `fitted` names the data that a value
was fitted on (`python -m tests.calibration.published`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from allocator.errors import ConfigError

_KEYS = ("value", "unit", "source", "unmeasured", "range", "fitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One number and where it is from."""

    value: float
    """The number; its unit is the suffix of the name it is stored under."""
    source: str = ""
    """Who measured it, on what."""
    unmeasured: str = ""
    """Why there is no measurement; empty if there is one."""
    range: tuple[float, float] | None = None
    """Bounds that a sweep may vary it in; every unmeasured number has them."""
    fitted: str = ""
    """Data that the value was fitted on; empty if it was not fitted."""

    @property
    def measured(self) -> bool:
        """Whether the number was measured on this machine or one of its kind."""
        return not self.unmeasured


def quantity(key: str, config: object) -> Quantity:
    """Read a number: `{value, source}`, `{value, range, unmeasured}`, or a bare number.

    A bare number is one that the user set, e.g. by an override on the command line.

    Raises
    ------
    ConfigError
        If a key is unknown, a value is no number, or an unmeasured one has no range.
    """
    if _is_number(config):
        return Quantity(value=_positive(key, config), source="set in the configuration")
    if not isinstance(config, Mapping):
        raise ConfigError(key, config, "a number, or a mapping with value and source")
    for name in config:
        if name not in _KEYS:
            raise ConfigError(f"{key}.{name}", config[name], f"one of the keys {', '.join(_KEYS)}")
    texts = {name: config.get(name) or "" for name in ("source", "unmeasured", "fitted")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ConfigError(f"{key}.{name}", text, "text")
    bounds = _range(f"{key}.range", config.get("range"))
    if texts["unmeasured"] and bounds is None:
        raise ConfigError(f"{key}.range", None, "[low, high], since the value is not measured")
    if not texts["unmeasured"] and not texts["source"]:
        raise ConfigError(f"{key}.source", None, "where the number is from, or unmeasured: why")
    value = _positive(f"{key}.value", config.get("value"))
    return Quantity(value=value, range=bounds, **{n: str(t) for n, t in texts.items()})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _positive(key: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ConfigError(key, value, "a number")
    if not math.isfinite(value) or value < 0:
        raise ConfigError(key, value, "a finite number, 0 or more")
    return float(value)


def _range(key: str, value: object) -> tuple[float, float] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ConfigError(key, value, "[low, high]")
    low, high = (_positive(key, bound) for bound in value)
    if low > high:
        raise ConfigError(key, value, "low not above high")
    return low, high


_BROUER = "Jesper Brouer, SLUB preempt-avoid measurements, linux-mm 2014-12, x86 2.5 GHz, 3.18"
_GORMAN = "Mel Gorman, 'Optimise page alloc/free fast paths v2', linux-mm 2016-04-12"
_READING = "not measured on its own; from reading the code and instruction costs of this class"

COSTS: dict[str, Quantity] = {
    "alloc_fast_cycles": Quantity(value=23, source=f"half of a 46-cycle pair: {_BROUER}"),
    "free_fast_cycles": Quantity(value=23, source=f"half of a 46-cycle pair: {_BROUER}"),
    "alloc_slow_cycles": Quantity(value=120, unmeasured=_READING, range=(50, 300)),
    "free_slow_cycles": Quantity(value=60, unmeasured=_READING, range=(30, 200)),
    "slab_update_cycles": Quantity(value=30, unmeasured=_READING, range=(18, 80)),
    "list_lock_cycles": Quantity(value=80, unmeasured=_READING, range=(40, 200)),
    "list_slab_cycles": Quantity(value=30, unmeasured=_READING, range=(10, 100)),
    "list_slab_lines": Quantity(
        value=1.5,
        unmeasured=_READING,
        range=(0.5, 3),
        fitted="published throughput and lock shares (tests/calibration/published.yaml)",
    ),
    "freeze_lines": Quantity(
        value=0.5,
        unmeasured="how often a racing free takes the line away between list and update; commit "
        "8ff60eb052, which retried under the lock, halved rawpkt",
        range=(0, 1.5),
        fitted="chosen with rawpkt under delayed freezing (-11 % time) in view, so that is no "
        "independent check of it",
    ),
    "handover_lines": Quantity(value=1.5, unmeasured=_READING, range=(1, 3)),
    "object_lines": Quantity(value=1.0, unmeasured=_READING, range=(0, 4)),
    "slab_object_cycles": Quantity(value=6, unmeasured=_READING, range=(2, 30)),
    "page_order0_cycles": Quantity(
        value=116,
        source="half of alloc_page + __free_page, 228 to 238 cycles: page-pool discussion, "
        "linux-mm 2016-04-11",
    ),
    "page_order_factor": Quantity(
        value=1.24,
        source=f"order 3 costs 1.9 times order 0 at batch 128, 1.24 an order: {_GORMAN}",
    ),
    "zone_lock_ns": Quantity(
        value=55,
        unmeasured="estimate of the hold time of zone->lock without pages",
        range=(30, 80),
    ),
    "zone_lock_page_ns": Quantity(
        value=27, unmeasured="estimate per page removed or merged under zone->lock", range=(15, 40)
    ),
    "page_zero_ns": Quantity(
        value=198,
        source="2 MiB demand faults at 20.66 GB/s: Raghavendra K T on an AMD EPYC, lkml 2025-09",
    ),
    "reclaim_page_ns": Quantity(
        value=500, unmeasured="no published figure per clean page", range=(100, 2000)
    ),
    "migrate_page_ns": Quantity(
        value=2000, unmeasured="no published figure per migrated page", range=(500, 10000)
    ),
}
"""Defaults of every machine; a profile's `costs` replaces single ones.

alloc_fast_cycles, free_fast_cycles: an object from or to the cpu slab.
alloc_slow_cycles: ___slab_alloc() without locks, slab updates and transfers.
free_slow_cycles: __slab_free() likewise.
slab_update_cycles: one 16-byte compare-exchange on a slab's line that is already here.
list_lock_cycles: holding list_lock without slabs.
list_slab_cycles, list_slab_lines: per slab handled under list_lock: work, and lines fetched from
the CPU that touched them last.
freeze_lines: further line transfers per slab that is frozen or unfrozen under list_lock (to 6.7),
as frees on other CPUs race for its word.
handover_lines: line transfers between two holders of a contended lock.
object_lines: line transfers when an object changes CPU through the allocator.
slab_object_cycles: building a new slab's freelist, per object.
page_order0_cycles, page_order_factor: one page allocation or free; each order multiplies it.
zone_lock_ns, zone_lock_page_ns: holding zone->lock, and per page under it.
page_zero_ns, reclaim_page_ns, migrate_page_ns: per 4 KiB page.
"""


def costs_from_config(config: object) -> dict[str, Quantity]:
    """Return all costs: the defaults, with those of `machine.costs` in their place.

    Raises
    ------
    ConfigError
        If a name or a value cannot be used.
    """
    if config is None:
        return dict(COSTS)
    if not isinstance(config, Mapping):
        raise ConfigError("machine.costs", config, "a mapping of costs")
    for name in config:
        if name not in COSTS:
            known = ", ".join(COSTS)
            raise ConfigError(f"machine.costs.{name}", config[name], f"one of {known}")
    given = {name: quantity(f"machine.costs.{name}", value) for name, value in config.items()}
    return {**COSTS, **given}
