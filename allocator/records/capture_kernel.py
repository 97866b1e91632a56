"""Which preset stands for a running kernel, and how it was built."""

import gzip
import re

from allocator.errors import PredictError
from allocator.records.files import Files

_FIRST_RELEASES = (
    ((0, 0), "v3_13"),
    ((4, 0), "v5_3"),
    ((5, 4), "v5_4"),
    ((5, 8), "v5_10"),
    ((5, 14), "v6_1"),
    ((6, 5), "v6_6"),
    ((6, 7), "v6_8"),
    ((6, 10), "v6_12"),
    ((7, 0), "v7_2"),
    ((7, 3), "v7_3"),
)
"""First release that behaves more like this preset than like the one before."""

_BETWEEN: tuple[tuple[tuple[int, int], tuple[int, int], str, str, object], ...] = (
    ((5, 12), (5, 14), "slab", "order_cpus", "present"),
    ((5, 14), (5, 16), "slab", "cpu_partial_counts", "objects"),
    ((5, 14), (5, 16), "slab", "partial_refill", "half_objects"),
    ((5, 14), (5, 16), "slab", "cpu_partial_zero_drains", True),
    ((5, 14), (5, 18), "slab", "track_bytes", 152),
    ((5, 8), (5, 10), "page", "max_watermark_scale", 1000),
    ((5, 11), (5, 18), "page", "max_watermark_scale", 1000),
    ((5, 14), (5, 18), "page", "has_promo", False),
    ((5, 14), (6, 1), "slab", "kmalloc_tracks_size", "no"),
    ((6, 15), (7, 0), "slab", "own_free_pointer", ["filp", "vm_area_struct"]),
)
"""Releases (first, and first again without) that differ from their preset in a choice."""

CONFIG_KEYS = (
    "ARCH_FORCE_MAX_ORDER",
    "CMA",
    "COMPACTION",
    "DEFERRED_STRUCT_PAGE_INIT",
    "HARDENED_USERCOPY",
    "HAVE_MEMORYLESS_NODES",
    "LRU_GEN",
    "LRU_GEN_ENABLED",
    "MEMCG",
    "NODES_SHIFT",
    "NR_CPUS",
    "NUMA",
    "PAGE_BLOCK_MAX_ORDER",
    "PCP_BATCH_SCALE_MAX",
    "SLAB",
    "SLAB_FREELIST_RANDOM",
    "SLAB_MERGE_DEFAULT",
    "SLUB",
    "SLUB_CPU_PARTIAL",
    "SLUB_DEBUG",
    "SLUB_DEBUG_ON",
    "SLUB_STATS",
    "SLUB_TINY",
    "TRANSPARENT_HUGEPAGE",
    "ZONE_DMA",
    "ZONE_DMA32",
    "ZONE_DEVICE",
)
"""Build options that a record keeps."""

_MEMORY_OPTION = re.compile(
    r"""(?:sl[au]b_.*|numa.*|possible_cpus|nr_cpus|maxcpus|mem|memmap|movable_node|kernelcore
    |movablecore|hugepages.*|default_hugepagesz|hugetlb_.*|transparent_hugepage|thp_.*
    |init_on_alloc|init_on_free|page_poison|page_owner|page_alloc\.shuffle|debug_pagealloc
    |debug_guardpage_minorder|cma|crashkernel|swiotlb|kfence\..*|kasan.*|cgroup\.memory
    |hardened_usercopy)(?:=.*)?""".replace("\n    ", ""),
)


def memory_options(cmdline: str) -> str:
    """Return those words of a kernel's command line that matter to its allocators.

    All others - names of disks, hosts, keys - are nobody's business in a record.
    """
    words = cmdline.split(" -- ")[0].split()
    return " ".join(word for word in words if _MEMORY_OPTION.fullmatch(word))


def preset_for(release: str) -> str:
    """Return the preset that a release is nearest to in behaviour.

    Raises
    ------
    PredictError
        If the text is no release.
    """
    version = _version(release)
    return next(name for first, name in reversed(_FIRST_RELEASES) if first <= version)


def choices_for(release: str) -> dict[str, dict[str, object]]:
    """Return what a release does otherwise than its preset, as `env.choices` of a record."""
    version = _version(release)
    choices: dict[str, dict[str, object]] = {}
    for first, last, layer, name, value in _BETWEEN:
        if first <= version < last:
            choices.setdefault(layer, {})[name] = value
    return choices


def _version(release: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", release)
    if match is None:
        raise PredictError(f"release: found {release!r}, expected one such as 6.1.0")
    return int(match[1]), int(match[2])


def build_config(files: Files, release: str) -> dict[str, str]:
    """Return the build options that count, as in `.config` without CONFIG_; none if not told."""
    text = _config_gz(files) or files.text(f"boot/config-{release}", optional=True)
    if not text:
        files.note("the kernel's build options are not told; a distribution's usual are assumed")
        return {}
    found = dict(re.findall(r'^CONFIG_(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))
    return {key: found[key] for key in CONFIG_KEYS if key in found}


def _config_gz(files: Files) -> str | None:
    try:
        return gzip.decompress((files.root / "proc/config.gz").read_bytes()).decode()
    except (OSError, EOFError, ValueError):
        return None
