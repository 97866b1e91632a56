"""What a user sets in SLUB: boot parameters, and the sysfs files of caches."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from allocator.errors import ConfigError
from allocator.slabs.policy import SlabPolicy
from allocator.topology import Topology

_LIMITS = {
    "max_order": (0, 20),
    "min_order": (0, 20),
    "min_objects": (0, 32767),
    "cpu_partial": (0, 1 << 20),
    "min_partial": (0, 1 << 20),
    "remote_node_defrag_ratio": (0, 100),
}
"""Smallest and largest value of each parameter, whatever the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlabParameters:
    """SLUB parameters; None where the kernel's own default holds."""

    max_order: int | None = None
    """`slub_max_order`: largest order that is tried to lessen waste."""
    min_order: int | None = None
    """`slub_min_order`: smallest order."""
    min_objects: int | None = None
    """`slub_min_objects`: objects wanted in a slab; 0: from the number of CPUs."""
    cpu_partial: int | None = None
    """sysfs `cpu_partial` of every cache, objects; 7.x has none and ignores it."""
    min_partial: int | None = None
    """sysfs `min_partial` of every cache, slabs."""
    remote_node_defrag_ratio: int | None = None
    """sysfs `remote_node_defrag_ratio` of every cache, percent."""
    min_order_last: bool = True
    """`slub_min_order` follows `slub_max_order` on the command line (6.12 lets the later win)."""
    debug: frozenset[str] = frozenset()
    """Letters of `slub_debug`: F checks, Z red zones, P poison, U owners, T trace, A fail."""
    debug_caches: tuple[str, ...] = ()
    """Cache names (`kmalloc-*`) that `debug` is limited to; none: all."""
    merge: bool = True
    """Caches may be merged; false: `slab_nomerge`."""

    def __post_init__(self) -> None:
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is None:
                continue
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(f"slab.{name}", value, f"null or a number from {low} to {high}")
        letters = "".join(sorted(self.debug - set("FZPUTA")))
        if letters:
            raise ConfigError("slab.debug", letters, "letters out of FZPUTA")

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Build from the `slab` group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value has the wrong type or size.
        """
        known = [field.name for field in fields(cls)]
        values = dict(config)
        for key, value in values.items():
            if key not in known:
                expected = f"no such key; known are {', '.join(known)}"
                raise ConfigError(f"slab.{key}", value, expected)
            if key in ("min_order_last", "merge") and not isinstance(value, bool):
                raise ConfigError(f"slab.{key}", value, "true or false")
        debug = values.get("debug") or ""
        if not isinstance(debug, str):
            raise ConfigError("slab.debug", debug, "letters such as FZPU")
        values["debug"] = frozenset(debug)
        caches = values.get("debug_caches") or ()
        if not isinstance(caches, list | tuple) or not all(isinstance(c, str) for c in caches):
            raise ConfigError("slab.debug_caches", caches, "a list of cache names")
        values["debug_caches"] = tuple(caches)
        return cls(**values)  # type: ignore[arg-type]

    def check(self, topology: Topology) -> None:
        """Refuse orders that a machine does not have.

        Raises
        ------
        ConfigError
            If `max_order` or `min_order` is above the largest order of the buddy lists.
        """
        for name in ("max_order", "min_order"):
            value = getattr(self, name)
            if value is not None and value > topology.max_buddy_order:
                expected = (
                    f"at most {topology.max_buddy_order}, the largest order of {topology.arch} "
                    f"with pages of {topology.page_size} bytes"
                )
                raise ConfigError(f"slab.{name}", value, expected)

    def orders(self, policy: SlabPolicy, topology: Topology) -> tuple[int, int]:
        """Return slub_min_order and slub_max_order as the kernel holds them after boot.

        mm/slub.c setup_slub_min_order() and setup_slub_max_order(): the largest order caps
        max_order; 6.12 keeps the two consistent, older kernels do not.
        """
        low, high = 0, policy.max_order
        steps = [("max", self.max_order), ("min", self.min_order)]
        for which, value in steps if self.min_order_last else reversed(steps):
            if value is None:
                continue
            if which == "min":
                low = value
                high = max(high, low) if policy.couples_orders else high
            else:
                high = min(value, topology.max_buddy_order)
                low = min(low, high) if policy.couples_orders else low
        return low, high
