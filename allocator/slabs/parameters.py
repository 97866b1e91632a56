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
    debug: str | None = None
    """`slub_debug` as on the command line: letters out of FZPUTAO, `U,kmalloc-*` for some caches,
    `;` between several; an empty text means FZPU."""
    merge: bool = True
    """Caches may be merged; false: `slab_nomerge`."""

    def __post_init__(self) -> None:
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is None:
                continue
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(f"slab.{name}", value, f"null or a number from {low} to {high}")
        if self.debug is not None and not isinstance(self.debug, str):
            raise ConfigError("slab.debug", self.debug, "null or letters such as FZPU")
        letters = {letter for given, _ in self._debug_blocks() for letter in given}
        if letters - set("FZPUTAO-"):
            raise ConfigError("slab.debug", self.debug, "letters out of FZPUTAO")

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

    @property
    def debugs_low_orders_only(self) -> bool:
        """Tell whether slub_debug=O spares caches whose order debugging would raise."""
        return any("O" in letters for letters, _ in self._debug_blocks())

    def debug_letters(self, cache: str) -> frozenset[str]:
        """Return the debug options of a cache (mm/slub.c kmem_cache_flags(), v5.10).

        The first block that names the cache wins; a block without names holds for all others.
        """
        everywhere: frozenset[str] = frozenset()
        for letters, names in self._debug_blocks():
            if not names:
                everywhere = letters
            elif any(_names(pattern, cache) for pattern in names):
                return letters
        return everywhere

    def _debug_blocks(self) -> list[tuple[frozenset[str], tuple[str, ...]]]:
        """Split `debug` into blocks of letters and the caches that they are for."""
        if self.debug is None:
            return []
        blocks = []
        for block in self.debug.split(";"):
            letters, *names = block.split(",")
            blocks.append((frozenset(letters.upper() or "FZPU"), tuple(filter(None, names))))
        return blocks


def _names(pattern: str, cache: str) -> bool:
    """Match a cache name; only a `*` at the end is special."""
    if pattern.endswith("*"):
        return cache.startswith(pattern[:-1])
    return pattern == cache
