"""kmalloc classes, names and kinds per architecture and release."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.kernels import PRESETS
from allocator.slabs.kmalloc import (
    kmalloc_align,
    kmalloc_caches,
    kmalloc_class,
    kmalloc_kind,
    kmalloc_name,
    kmalloc_sizes,
)
from allocator.topology import Topology

USUAL = (8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192)


@pytest.mark.parametrize(
    ("kernel", "arch", "page", "sizes"),
    [
        ("v6_1", "x86_64", 4096, USUAL),
        ("v6_1", "arm64", 4096, (128, 256, 512, 1024, 2048, 4096, 8192)),
        ("v3_13", "arm64", 4096, (64, 128, 192, 256, 512, 1024, 2048, 4096, 8192)),
        ("v6_12", "arm64", 4096, USUAL),
        ("v6_12", "arm64", 16384, (*USUAL, 16384, 32768)),
        ("v6_1", "ppc64", 65536, (*USUAL, 16384, 32768, 65536, 131072)),
    ],
)
def test_classes_end_at_two_pages(kernel: str, arch: str, page: int, sizes: tuple) -> None:
    assert kmalloc_sizes(PRESETS[kernel].slab, arch=arch, page_size=page) == sizes


def test_without_a_bounce_buffer_classes_collapse_to_the_cache_line() -> None:
    sizes = kmalloc_sizes(PRESETS["v6_12"].slab, arch="arm64", page_size=4096, dma_align=64)
    assert sizes == (64, 128, 192, 256, 512, 1024, 2048, 4096, 8192)


def test_requests_take_the_next_class() -> None:
    requests = [0, 1, 8, 9, 65, 96, 97, 128, 129, 192, 193, 8192, 8193]
    expected = [0, 8, 8, 16, 96, 96, 128, 128, 192, 192, 256, 8192, 0]
    assert kmalloc_class(requests, USUAL).tolist() == expected


@given(st.integers(1, 8192))
def test_a_class_is_the_smallest_that_is_large_enough(size: int) -> None:
    assert int(kmalloc_class(size, USUAL)) == min(item for item in USUAL if item >= size)


def test_names_change_at_4_20() -> None:
    assert kmalloc_name(PRESETS["v3_13"].slab, "kmalloc", 2048) == "kmalloc-2048"
    assert kmalloc_name(PRESETS["v6_1"].slab, "kmalloc-rcl", 2048) == "kmalloc-rcl-2k"


def test_dma_comes_before_reclaimable_and_that_before_account() -> None:
    new, old = PRESETS["v6_1"].slab, PRESETS["v5_10"].slab
    assert kmalloc_kind(new, dma=True, reclaimable=True, account=True) == "dma-kmalloc"
    assert kmalloc_kind(new, dma=False, reclaimable=True, account=True) == "kmalloc-rcl"
    assert kmalloc_kind(new, dma=False, reclaimable=False, account=True) == "kmalloc-cg"
    assert kmalloc_kind(old, dma=False, reclaimable=False, account=True) == "kmalloc"


@pytest.mark.parametrize(
    ("kernel", "aligns"),
    [("v5_3", [8, 8, 8]), ("v6_1", [8, 128, 8]), ("v6_12", [32, 128, 64])],
)
def test_alignment_of_classes_differs_by_release(kernel: str, aligns: list) -> None:
    policy = PRESETS[kernel].slab
    assert [kmalloc_align(policy, size, 8) for size in (96, 128, 192)] == aligns


def test_ppc64_has_no_dma_caches() -> None:
    topology = Topology.from_config({"arch": "ppc64", "cpus": [1], "memory_bytes": ["1GiB"]})
    assert topology is not None
    kinds = {
        cache.name.rsplit("-", 1)[0] for cache in kmalloc_caches(PRESETS["v6_1"].slab, topology)
    }
    assert kinds == {"kmalloc", "kmalloc-rcl", "kmalloc-cg"}
