"""Reader of replay scripts: every line is checked before anything is simulated.

One static pass knows which ids a script holds at each line, so freeing an id twice, an unknown
cache or a CPU that does not exist is told with its line. What memory decides is not checked here:
an allocation that fails is a result, as in the kernel.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NoReturn

from allocator.errors import ConfigError
from allocator.workloads.script_ids import MAX_IDS, Ids
from allocator.workloads.script_ops import (
    CACHE_FLAGS,
    GFP_NAMES,
    PROC_PATHS,
    SYSFS_ATTRIBUTES,
    USAGE,
    Alloc,
    AllocFromSheaf,
    AllocPages,
    BulkAlloc,
    BulkFree,
    CreateCache,
    Destroy,
    Drain,
    Free,
    FreePages,
    FreeRcu,
    Op,
    PrefillSheaf,
    Proc,
    RefillSheaf,
    Reset,
    ReturnSheaf,
    Shrink,
    Sleep,
    Snap,
    Sysfs,
)

MAX_DRAINS = 1000
"""Most rounds of one `drain`; per-CPU lists are empty or at rest long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A checked script."""

    source: str
    """Name of the file, for messages."""
    ops: tuple[Op, ...]
    """Operations in order."""
    modes: frozenset[str]
    """Words of its `#mode` lines: `page` (zones are told too), `types` (pagetypeinfo)."""
    nr_ids: int
    """One more than the highest object id."""
    nr_page_ids: int
    """One more than the highest page id."""


def parse_script(
    text: str,
    *,
    source: str = "script",
    cpus: Collection[int],
    nodes: Collection[int],
    max_page_order: int = 10,
) -> Script:
    """Read and check a script.

    Parameters
    ----------
    text
        The script, one operation a line; `#` begins a comment line.
    source
        Name of the file, for messages.
    cpus, nodes
        CPUs and nodes that are online.
    max_page_order
        Highest order of the page allocator.

    Raises
    ------
    ConfigError
        If a line cannot be carried out whatever the memory: key `source:line`, what was found and
        what was expected there.
    """
    reader = _Reader(source, frozenset(cpus), frozenset(nodes), max_page_order)
    ops: list[Op] = []
    modes = set()
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.split()
        if not words:
            continue
        if words[0][0] == "#":
            if words[0] == "#mode" and len(words) == 2:
                modes.add(words[1])
            continue
        ops.append(reader.read(number, words))
    return Script(
        source=source,
        ops=tuple(ops),
        modes=frozenset(modes),
        nr_ids=reader.objects.used,
        nr_page_ids=reader.pages.used,
    )


class _Reader:
    """Reads lines in order and keeps what is known after each."""

    def __init__(
        self, source: str, cpus: frozenset[int], nodes: frozenset[int], max_page_order: int
    ) -> None:
        self.source = source
        self.cpus = cpus
        self.nodes = nodes
        self.max_page_order = max_page_order
        self.caches: dict[str, None] = {}
        self.objects = Ids(self.fail)
        self.pages = Ids(self.fail)
        self.sheaves = Ids(self.fail, "sheaf")
        self.line = 0
        self.gfps: dict[str, tuple[str, ...]] = {}

    def read(self, line: int, words: list[str]) -> Op:
        """Read one line."""
        self.line = line
        usage = USAGE.get(words[0])
        if usage is None:
            self.fail(words[0], f"an operation: {', '.join(USAGE)}")
        most = usage.count(" ") + 1
        least = most - usage.count("[")
        if not least <= len(words) <= most:
            self.fail(" ".join(words)[:80], usage)
        return _READERS[words[0]](self, words)

    def fail(self, found: object, expected: str) -> NoReturn:
        """Refuse the line."""
        raise ConfigError(f"{self.source}:{self.line}", found, expected)

    # Words

    def number(self, word: str, what: str, least: int = 0, most: int | None = None) -> int:
        """Read a decimal number within bounds."""
        digits = word[1:] if word[0] == "-" else word
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
            self.fail(word, f"{what}, a whole number")
        value = int(word)
        if value < least or (most is not None and value > most):
            bounds = f"at least {least}" if most is None else f"{least} to {most}"
            self.fail(value, f"{what}, {bounds}")
        return value

    def cpu(self, word: str) -> int:
        """Read a CPU that exists."""
        cpu = self.number(word, "a CPU")
        if cpu not in self.cpus:
            self.fail(cpu, f"a CPU: {_ranges(self.cpus)}")
        return cpu

    def node(self, word: str) -> int | None:
        """Read a node that is online, or -1."""
        node = self.number(word, "a node or -1", -1)
        if node != -1 and node not in self.nodes:
            self.fail(node, f"a node that is online: {_ranges(self.nodes)}, or -1")
        return None if node == -1 else node

    def gfp(self, word: str) -> tuple[str, ...]:
        """Read GFP words joined with `+`."""
        if word not in self.gfps:
            words = tuple(word.split("+"))
            for part in words:
                if part not in GFP_NAMES:
                    self.fail(part, f"GFP words joined with '+': {', '.join(GFP_NAMES)}")
            self.gfps[word] = words
        return self.gfps[word]

    def cache(self, word: str) -> str:
        """Read a cache that exists now."""
        if word not in self.caches:
            known = ", ".join(self.caches) or "none so far"
            self.fail(word, f"a cache created before: {known}")
        return word

    def id_range(self, first: str, count: str, stride: str = "1") -> range:
        """Read ids FIRST, FIRST+STRIDE, ..., COUNT of them."""
        start = self.number(first, "an id", 0, MAX_IDS - 1)
        number = self.number(count, "a count", 1, MAX_IDS)
        step = self.number(stride, "a stride", -MAX_IDS, MAX_IDS)
        last = start + (number - 1) * step
        if not 0 <= last < MAX_IDS:
            self.fail(f"last id {last}", f"ids from 0 to {MAX_IDS - 1}")
        if number == 1:
            return range(start, start + 1)
        if step == 0:
            self.fail(f"id {start} {number} times", "each id once: a stride that is not 0")
        return range(start, start + number * step, step)

    def batch(self, words: list[str], at: int, count: int) -> int:
        """Read objects per bulk call; 0 and none mean all in one."""
        return (self.number(words[at], "a batch") if len(words) > at else 0) or count

    # Operations

    def read_cache(self, words: list[str]) -> Op:
        name = words[1]
        if name in self.caches:
            self.fail(name, "a name that no cache has")
        words = [*words, *("0", "-", "0")[len(words) - 3 :]]
        flags = tuple(
            word for word in words[4].replace(",", "+").split("+") if word not in ("", "-")
        )
        for flag in flags:
            if flag not in CACHE_FLAGS:
                self.fail(flag, f"'-' or flags joined with '+': {', '.join(CACHE_FLAGS)}")
        align = self.number(words[3], "an alignment in bytes")
        if align & (align - 1):
            self.fail(align, "an alignment in bytes: 0 or a power of two")
        size = self.number(words[2], "an object size in bytes", 1, 1 << 30)
        capacity = self.number(words[5], "a sheaf capacity", 0, 1 << 20)
        self.caches[name] = None
        return CreateCache(
            line=self.line,
            cache=name,
            size=size,
            align=align,
            flags=flags,
            sheaf_capacity=capacity,
        )

    def read_alloc(self, words: list[str]) -> Op:
        cache, cpu = self.cache(words[1]), self.cpu(words[2])
        ids = self.id_range(words[4], words[3])
        node = self.node(words[5]) if len(words) > 5 else None
        gfp = self.gfp(words[6] if len(words) > 6 else "KERNEL")
        self.objects.take(self.line, ids, cache)
        return Alloc(
            line=self.line,
            cache=cache,
            cpu=cpu,
            count=len(ids),
            first=ids.start,
            node=node,
            gfp=gfp,
        )

    def read_free(self, words: list[str]) -> Op:
        cache, cpu = self.cache(words[1]), self.cpu(words[2])
        ids = self.id_range(*words[3:6])
        self.objects.give(self.line, ids, cache)
        return Free(line=self.line, cache=cache, cpu=cpu, ids=ids)

    def read_freel(self, words: list[str]) -> Op:
        cache, cpu = self.cache(words[1]), self.cpu(words[2])
        parts = words[3].split(",")
        ids = tuple(self.number(part or "''", "an id", 0, MAX_IDS - 1) for part in parts)
        self.objects.give(self.line, ids, cache)
        return Free(line=self.line, cache=cache, cpu=cpu, ids=ids)

    def read_balloc(self, words: list[str]) -> Op:
        cache, cpu = self.cache(words[1]), self.cpu(words[2])
        ids = self.id_range(words[4], words[3])
        batch = self.batch(words, 5, len(ids))
        self.objects.take(self.line, ids, cache)
        return BulkAlloc(
            line=self.line, cache=cache, cpu=cpu, count=len(ids), first=ids.start, batch=batch
        )

    def read_bfree(self, words: list[str]) -> Op:
        cache, cpu = self.cache(words[1]), self.cpu(words[2])
        ids = self.id_range(*words[3:6])
        batch = self.batch(words, 6, len(ids))
        self.objects.give(self.line, ids, cache)
        return BulkFree(line=self.line, cache=cache, cpu=cpu, ids=ids, batch=batch)

    def read_kfree_rcu(self, words: list[str]) -> Op:
        cache, cpu = self.cache(words[1]), self.cpu(words[2])
        ids = self.id_range(*words[3:6])
        self.objects.give(self.line, ids, cache)
        return FreeRcu(line=self.line, cache=cache, cpu=cpu, ids=ids)

    def sheaf(self, words: list[str]) -> tuple[str, int, int]:
        """Read cache, CPU and the number of a sheaf."""
        number = self.number(words[3], "a sheaf", 0, MAX_IDS - 1)
        return self.cache(words[1]), self.cpu(words[2]), number

    def read_prefill_sheaf(self, words: list[str]) -> Op:
        cache, cpu, sheaf = self.sheaf(words)
        size = self.number(words[4], "objects", 1, MAX_IDS)
        self.sheaves.take(self.line, range(sheaf, sheaf + 1), cache)
        return PrefillSheaf(line=self.line, cache=cache, cpu=cpu, sheaf=sheaf, size=size)

    def read_alloc_from_sheaf(self, words: list[str]) -> Op:
        cache, cpu, sheaf = self.sheaf(words)
        self.sheaves.held(sheaf, cache)
        ids = self.id_range(words[5], words[4])
        self.objects.take(self.line, ids, cache)
        return AllocFromSheaf(
            line=self.line, cache=cache, cpu=cpu, sheaf=sheaf, count=len(ids), first=ids.start
        )

    def read_refill_sheaf(self, words: list[str]) -> Op:
        cache, cpu, sheaf = self.sheaf(words)
        self.sheaves.held(sheaf, cache)
        size = self.number(words[4], "objects", 1, MAX_IDS)
        return RefillSheaf(line=self.line, cache=cache, cpu=cpu, sheaf=sheaf, size=size)

    def read_return_sheaf(self, words: list[str]) -> Op:
        cache, cpu, sheaf = self.sheaf(words)
        self.sheaves.give(self.line, (sheaf,), cache)
        return ReturnSheaf(line=self.line, cache=cache, cpu=cpu, sheaf=sheaf)

    def read_shrink(self, words: list[str]) -> Op:
        cpu = self.cpu(words[2]) if len(words) > 2 else None
        return Shrink(line=self.line, cache=self.cache(words[1]), cpu=cpu)

    def read_destroy(self, words: list[str]) -> Op:
        cache = self.cache(words[1])
        del self.caches[cache]
        self.objects.give_all(self.line, cache)
        self.sheaves.give_all(self.line, cache)
        return Destroy(line=self.line, cache=cache)

    def read_reset(self, words: list[str]) -> Op:
        self.caches.clear()
        self.objects.clear()
        self.sheaves.clear()
        self.pages.clear()
        return Reset(line=self.line)

    def read_sysfs(self, words: list[str]) -> Op:
        cache = self.cache(words[1])
        if words[2] not in SYSFS_ATTRIBUTES:
            self.fail(words[2], f"an attribute: {', '.join(SYSFS_ATTRIBUTES)}")
        value = self.number(words[3], words[2])
        return Sysfs(line=self.line, cache=cache, attribute=words[2], value=value)

    def read_page(self, words: list[str]) -> Op:
        order = self.number(words[1], "an order", 0, self.max_page_order)
        cpu = self.cpu(words[2])
        ids = self.id_range(words[4], words[3])
        gfp = self.gfp(words[5])
        node = self.node(words[6]) if len(words) > 6 else None
        self.pages.take(self.line, ids)
        return AllocPages(
            line=self.line,
            order=order,
            cpu=cpu,
            count=len(ids),
            first=ids.start,
            gfp=gfp,
            node=node,
        )

    def read_pfree(self, words: list[str]) -> Op:
        cpu = self.cpu(words[1])
        ids = self.id_range(*words[2:5])
        self.pages.give_if_held(ids)
        return FreePages(line=self.line, cpu=cpu, ids=ids)

    def read_proc(self, words: list[str]) -> Op:
        if words[1] not in PROC_PATHS:
            self.fail(words[1], f"a file below /proc/sys: {', '.join(PROC_PATHS)}")
        least, most = PROC_PATHS[words[1]]
        value = self.number(words[2], words[1])
        if value and not least <= value <= most:
            self.fail(value, f"{words[1]}, 0 or {least} to {most}")
        return Proc(line=self.line, path=words[1], value=str(value))

    def read_drain(self, words: list[str]) -> Op:
        return Drain(line=self.line, times=self.number(words[1], "a count", 0, MAX_DRAINS))

    def read_sleep(self, words: list[str]) -> Op:
        return Sleep(line=self.line, duration_ms=self.number(words[1], "milliseconds"))

    def read_snap(self, words: list[str]) -> Op:
        return Snap(line=self.line, label=words[1])


_READERS: dict[str, Callable[[_Reader, list[str]], Op]] = {
    word: getattr(_Reader, f"read_{word}") for word in USAGE
}


def _ranges(numbers: Collection[int]) -> str:
    """Return numbers as `0-3,8`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts) or "none"
