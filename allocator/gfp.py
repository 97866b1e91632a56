"""GFP flags: the real names, what they stand for in each kernel, and what they allow.

The model keeps one layout of bits, that of 5.3 to 6.2 (include/linux/gfp.h). Kernels give some
flags other numbers (3.13) or none (`__GFP_ATOMIC` in 6.3); `bits()` translates what such a kernel
means into this layout, so that everybody else reads bits without asking which kernel it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from allocator.errors import ConfigError
from allocator.pages.policy import PagePolicy

if TYPE_CHECKING:  # only named in annotations
    from allocator.kernel import Kernel

DMA = 0x1
HIGHMEM = 0x2
DMA32 = 0x4
MOVABLE = 0x8
RECLAIMABLE = 0x10
HIGH = 0x20
IO = 0x40
FS = 0x80
ZERO = 0x100
ATOMIC = 0x200
DIRECT_RECLAIM = 0x400
KSWAPD_RECLAIM = 0x800
WRITE = 0x1000
NOWARN = 0x2000
RETRY_MAYFAIL = 0x4000
NOFAIL = 0x8000
NORETRY = 0x10000
MEMALLOC = 0x20000
COMP = 0x40000
NOMEMALLOC = 0x80000
HARDWALL = 0x100000
THISNODE = 0x200000
ACCOUNT = 0x400000
NOLOCKDEP = 0x800000
NO_KSWAPD = 0x1000000
"""`__GFP_NO_KSWAPD` of 3.13; never part of what `bits()` returns."""

ZONES = ("DMA", "DMA32", "Normal", "Movable")
"""Zone types of a 64-bit kernel, by the number that `highest_zone()` returns."""

RIGHT_NO_WATERMARKS = 0x1
"""The free pages are not tested at all."""
RIGHT_MIN_RESERVE = 0x2
"""Half of the min mark may be used (ALLOC_HIGH until 6.2)."""
RIGHT_HARDER = 0x4
"""A quarter of what is left of the min mark may be used (ALLOC_HARDER, until 6.2)."""
RIGHT_NON_BLOCK = 0x8
"""The caller cannot wait (6.3): with MIN_RESERVE, a further quarter."""
RIGHT_HIGHATOMIC = 0x10
"""Blocks of type Highatomic may be used (6.3)."""
RIGHT_OOM = 0x20
"""The caller is being killed for lack of memory."""
RIGHT_CMA = 0x40
"""Free pages of CMA areas count (movable requests)."""
RIGHT_KSWAPD = 0x80
"""kswapd may be woken."""
RIGHT_CPUSET = 0x100
"""Nodes outside the task's cpuset are skipped."""

_RECLAIM = DIRECT_RECLAIM | KSWAPD_RECLAIM
_KERNEL = _RECLAIM | IO | FS
_TRANSHUGE_LIGHT = _KERNEL & ~_RECLAIM | HARDWALL | HIGHMEM | MOVABLE | COMP | NOMEMALLOC | NOWARN

_COMMON = {
    "__GFP_DMA": DMA,
    "__GFP_HIGHMEM": HIGHMEM,
    "__GFP_DMA32": DMA32,
    "__GFP_MOVABLE": MOVABLE,
    "__GFP_RECLAIMABLE": RECLAIMABLE,
    "__GFP_HIGH": HIGH,
    "__GFP_IO": IO,
    "__GFP_FS": FS,
    "__GFP_ZERO": ZERO,
    "__GFP_WRITE": WRITE,
    "__GFP_NOWARN": NOWARN,
    "__GFP_NOFAIL": NOFAIL,
    "__GFP_NORETRY": NORETRY,
    "__GFP_MEMALLOC": MEMALLOC,
    "__GFP_COMP": COMP,
    "__GFP_NOMEMALLOC": NOMEMALLOC,
    "__GFP_HARDWALL": HARDWALL,
    "__GFP_THISNODE": THISNODE,
    "GFP_DMA": DMA,
    "GFP_DMA32": DMA32,
    "GFP_NOIO": _RECLAIM,
    "GFP_NOFS": _RECLAIM | IO,
    "GFP_KERNEL": _KERNEL,
    "GFP_USER": _KERNEL | HARDWALL,
    "GFP_HIGHUSER": _KERNEL | HARDWALL | HIGHMEM,
    "GFP_HIGHUSER_MOVABLE": _KERNEL | HARDWALL | HIGHMEM | MOVABLE,
}
"""Names that every kernel here has, with the same meaning."""

_WAIT = _COMMON | {
    "__GFP_WAIT": _RECLAIM,
    "__GFP_REPEAT": RETRY_MAYFAIL,
    "__GFP_NO_KSWAPD": NO_KSWAPD,
    "GFP_ATOMIC": HIGH | KSWAPD_RECLAIM,
    "GFP_NOWAIT": KSWAPD_RECLAIM,
    "GFP_TEMPORARY": _KERNEL | RECLAIMABLE,
    "GFP_THISNODE": THISNODE | NORETRY | NOWARN,
    "GFP_TRANSHUGE": _TRANSHUGE_LIGHT | _RECLAIM | NORETRY | NO_KSWAPD,
}
"""3.13: one flag allows to sleep, kswapd is woken unless a flag forbids it."""

_SPLIT = _COMMON | {
    "__GFP_DIRECT_RECLAIM": DIRECT_RECLAIM,
    "__GFP_KSWAPD_RECLAIM": KSWAPD_RECLAIM,
    "__GFP_RECLAIM": _RECLAIM,
    "__GFP_RETRY_MAYFAIL": RETRY_MAYFAIL,
    "__GFP_ACCOUNT": ACCOUNT,
    "__GFP_NOLOCKDEP": NOLOCKDEP,
    "GFP_ATOMIC": HIGH | KSWAPD_RECLAIM,
    "GFP_NOWAIT": KSWAPD_RECLAIM,
    "GFP_KERNEL_ACCOUNT": _KERNEL | ACCOUNT,
    "GFP_TRANSHUGE_LIGHT": _TRANSHUGE_LIGHT,
    "GFP_TRANSHUGE": _TRANSHUGE_LIGHT | DIRECT_RECLAIM,
}
"""4.4 and later: direct reclaim and kswapd are flags of their own."""

_NAMES = {
    "wait": _WAIT,
    "atomic": _SPLIT | {"__GFP_ATOMIC": ATOMIC, "GFP_ATOMIC": HIGH | ATOMIC | KSWAPD_RECLAIM},
    "no_atomic": _SPLIT,
}
"""Names by `PagePolicy.gfp_names`."""

_ALL = _NAMES["wait"] | _NAMES["atomic"]

_EXCLUSIVE = (
    (NORETRY, RETRY_MAYFAIL, "__GFP_NORETRY", "__GFP_RETRY_MAYFAIL"),
    (NORETRY, NOFAIL, "__GFP_NORETRY", "__GFP_NOFAIL"),
    (RETRY_MAYFAIL, NOFAIL, "__GFP_RETRY_MAYFAIL", "__GFP_NOFAIL"),
    (MEMALLOC, NOMEMALLOC, "__GFP_MEMALLOC", "__GFP_NOMEMALLOC"),
    (DMA, DMA32, "__GFP_DMA", "__GFP_DMA32"),
    (DMA, HIGHMEM, "__GFP_DMA", "__GFP_HIGHMEM"),
    (DMA32, HIGHMEM, "__GFP_DMA32", "__GFP_HIGHMEM"),
    (MOVABLE, RECLAIMABLE, "__GFP_MOVABLE", "__GFP_RECLAIMABLE"),
    (NOFAIL, THISNODE, "__GFP_NOFAIL", "__GFP_THISNODE"),
)
"""Pairs that contradict each other (gfp.h: GFP_ZONE_BAD, and the three ways to retry)."""


def flag_names(text: str) -> tuple[str, ...]:
    """Split names joined with `|` or `+` and write each in full (`KERNEL`: `GFP_KERNEL`).

    Raises
    ------
    ValueError
        If a name is known to no kernel; the text names it.
    """
    names = tuple(part.strip() for part in text.replace("+", "|").split("|"))
    return tuple(_full_name(name) for name in names)


def bits(text: str, policy: PagePolicy) -> int:
    """Return what the names mean to a kernel, in this module's layout.

    Nothing is refused but names that the kernel lacks: scripts may ask for contradictions, and the
    kernel answers them (`__GFP_NOMEMALLOC` wins over `__GFP_MEMALLOC`).

    Raises
    ------
    ValueError
        If a name is unknown, or unknown to this kernel.
    """
    table = _NAMES[policy.gfp_names]
    value = 0
    for name in flag_names(text):
        if name not in table:
            raise ValueError(f"{name} does not exist in this kernel")
        value |= table[name]
        if name == "GFP_NOWAIT" and policy.nowait_nowarn:
            value |= NOWARN
    if policy.gfp_names == "wait":
        value = _translate_wait(value)
    return value


def _translate_wait(value: int) -> int:
    """Add what 3.13 concludes from missing flags (mm/page_alloc.c gfp_to_alloc_flags())."""
    kswapd = 0 if value & NO_KSWAPD else KSWAPD_RECLAIM
    atomic = ATOMIC if kswapd and not value & DIRECT_RECLAIM else 0
    return value & ~(NO_KSWAPD | KSWAPD_RECLAIM) | kswapd | atomic


def _full_name(name: str) -> str:
    for candidate in (name, f"GFP_{name}", f"__GFP_{name}"):
        if candidate in _ALL:
            return candidate
    raise ValueError(f"unknown GFP flag {name!r}")


def contradictions(value: int) -> Iterator[str]:
    """Yield the contradictions among flags, each as a phrase."""
    for one, other, one_name, other_name in _EXCLUSIVE:
        if value & one and value & other:
            yield f"{one_name} excludes {other_name}"
    if value & NOFAIL and not value & DIRECT_RECLAIM:
        yield "__GFP_NOFAIL needs __GFP_DIRECT_RECLAIM"


def highest_zone(value: int) -> int:
    """Return the index into `ZONES` of the highest zone a request may use (gfp_zone())."""
    if value & DMA:
        return 0
    if value & DMA32:
        return 1
    return 3 if value & MOVABLE and value & HIGHMEM else 2


def migratetype(value: int) -> int:
    """Return 0 Unmovable, 1 Movable or 2 Reclaimable (gfp_migratetype())."""
    return (value & (MOVABLE | RECLAIMABLE)) >> 3


def fast_rights(value: int, order: int, policy: PagePolicy) -> int:
    """Return the rights of the first attempt, at the low mark (prepare_alloc_pages())."""
    rights = RIGHT_CPUSET | _kswapd_and_cma(value)
    if policy.alloc_flags == "reserve_rights_v7":
        rights |= slow_rights(value, order, policy) & RIGHT_HIGHATOMIC
    return rights


def slow_rights(value: int, order: int, policy: PagePolicy, *, realtime: bool = False) -> int:
    """Return the rights at the min mark (mm/page_alloc.c gfp_to_alloc_flags()).

    Parameters
    ----------
    value
        Flags, as `bits()` returns them.
    order
        Order of the request.
    policy
        Its `alloc_flags` says which kernel's rules hold.
    realtime
        The caller is a realtime task.
    """
    rights = _kswapd_and_cma(value)
    if value & HIGH:
        rights |= RIGHT_MIN_RESERVE
    if policy.alloc_flags == "harder":
        if not value & ATOMIC:
            return rights | RIGHT_CPUSET | (RIGHT_HARDER if realtime else 0)
        return rights if value & NOMEMALLOC else rights | RIGHT_HARDER
    if value & DIRECT_RECLAIM:
        return rights | RIGHT_CPUSET | (RIGHT_MIN_RESERVE if realtime else 0)
    if not value & NOMEMALLOC:
        rights |= RIGHT_NON_BLOCK
        if value & HIGH and order > 0:
            rights |= RIGHT_HIGHATOMIC
    return rights if value & HIGH else rights | RIGHT_CPUSET


def reserve_rights(value: int, *, memalloc_task: bool = False, oom_victim: bool = False) -> int:
    """Return the rights to the reserves, 0 for none (__gfp_pfmemalloc_flags()).

    When there are any they replace those of `slow_rights()`; kswapd and CMA rights stay.
    """
    if value & NOMEMALLOC:
        return 0
    if value & MEMALLOC or memalloc_task:
        return RIGHT_NO_WATERMARKS
    return RIGHT_OOM if oom_victim else 0


def _kswapd_and_cma(value: int) -> int:
    rights = RIGHT_KSWAPD if value & KSWAPD_RECLAIM else 0
    return rights | RIGHT_CMA if migratetype(value) == 1 else rights


@dataclass(frozen=True, slots=True, kw_only=True)
class Gfp:
    """GFP flags as configured; what they mean depends on the kernel."""

    flags: str
    """Names as given, joined with `|`."""
    names: tuple[str, ...]
    """The names in full."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse names joined with `|` or `+` (`GFP_KERNEL|__GFP_RETRY_MAYFAIL`).

        Raises
        ------
        ConfigError
            If a name is unknown or two of them contradict each other; the key is `gfp.flags`.
        """
        try:
            names = flag_names(text)
        except ValueError as error:
            known = "names such as GFP_KERNEL|__GFP_RETRY_MAYFAIL"
            raise ConfigError("gfp.flags", text, f"{known} ({error})") from None
        value = 0
        for name in names:
            value |= _ALL[name]
        for phrase in contradictions(value):
            raise ConfigError("gfp.flags", text, f"flags that go together ({phrase})")
        return cls(flags=text, names=names)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Build from the `gfp` group, `{flags: NAMES}`.

        Raises
        ------
        ConfigError
            If a key is unknown, `flags` is no text, or `parse()` refuses it.
        """
        for key in config:
            if key != "flags":
                raise ConfigError(f"gfp.{key}", config[key], "no such key; the group has flags")
        text = config.get("flags")
        if not isinstance(text, str) or not text.strip():
            raise ConfigError("gfp.flags", text, "names such as GFP_KERNEL|__GFP_RETRY_MAYFAIL")
        return cls.parse(text)

    def check(self, kernel: "Kernel") -> None:
        """Refuse flags that a kernel does not have.

        Raises
        ------
        ConfigError
            The text names the flag and the kernel.
        """
        table = _NAMES[kernel.page.gfp_names]
        for name in self.names:
            if name not in table:
                text = f"flags that {kernel.name} has (it has no {name})"
                raise ConfigError("gfp.flags", self.flags, text)

    def bits(self, policy: PagePolicy) -> int:
        """Return the flags as a kernel reads them, in this module's layout."""
        return bits(self.flags, policy)
