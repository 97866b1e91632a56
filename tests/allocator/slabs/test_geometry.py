"""Geometry of caches: worked values, debug options, sysfs values, sheaves."""

import pytest

from allocator.kernels import PRESETS
from allocator.slabs.geometry import CacheGeometry, cache_geometry, sheaf_capacity
from allocator.slabs.kmalloc import kmalloc_sizes
from allocator.slabs.parameters import SlabParameters
from allocator.topology import Topology


def machine(cpus: int = 8, *, arch: str = "x86_64", page: int = 4096) -> Topology:
    topology = Topology.from_config(
        {"arch": arch, "page_size": page, "cpus": [cpus], "memory_bytes": ["1GiB"]}
    )
    assert topology is not None
    return topology


def geometry(kernel: str, size: int, cpus: int = 8, **more: object) -> CacheGeometry:
    parameters = more.pop("parameters", SlabParameters())
    topology = more.pop("topology", machine(cpus))
    name = more.pop("name", "cache")
    return cache_geometry(
        PRESETS[kernel].slab, topology, parameters, name=name, object_size=size, **more
    )


@pytest.mark.parametrize(
    ("size", "flags", "slab_size", "objects"),
    [
        (96, {"CTOR", "TYPESAFE_BY_RCU"}, 104, 39),  # anon_vma
        (1552, {"HWCACHE_ALIGN", "CTOR"}, 1600, 20),  # bdev_cache
        (632, {"CTOR"}, 640, 25),  # inode_cache
        (176, {"HWCACHE_ALIGN"}, 192, 21),
        (184, {"HWCACHE_ALIGN"}, 192, 21),
        (20, {"HWCACHE_ALIGN"}, 32, 128),  # a part of a line is enough
        (8384, set(), 8384, 3),  # task_struct
    ],
)
def test_objects_are_laid_out_as_6_1_does(
    size: int, flags: set, slab_size: int, objects: int
) -> None:
    got = geometry("v6_1", size, flags=flags)
    assert (got.slab_size, got.objs_per_slab) == (slab_size, objects)


@pytest.mark.parametrize(
    ("kernel", "size", "cpu_partial", "slabs"),
    [
        ("v6_1", 64, 120, 4),
        ("v6_1", 192, 120, 12),
        ("v6_1", 256, 52, 4),
        ("v6_1", 1024, 24, 2),
        ("v6_1", 2048, 24, 3),
        ("v6_1", 4096, 6, 2),
        ("v6_1", 8384, 6, 4),
        ("v5_10", 192, 30, 0),
        ("v5_10", 4096, 2, 0),
        ("v7_3", 192, 0, 0),
    ],
)
def test_cpu_partial_goes_by_size_and_is_counted_in_slabs_from_5_16(
    kernel: str, size: int, cpu_partial: int, slabs: int
) -> None:
    got = geometry(kernel, size)
    assert (got.cpu_partial, got.cpu_partial_slabs) == (cpu_partial, slabs)


@pytest.mark.parametrize(
    ("size", "keep"), [(64, 5), (2048, 5), (4096, 6), (8192, 6), (16384, 7), (65536, 8)]
)
def test_min_partial_grows_with_the_size(size: int, keep: int) -> None:
    assert geometry("v6_1", size).min_partial == keep


def test_the_first_row_of_cpu_partial_starts_at_the_real_page_size() -> None:
    topology = machine(4, arch="arm64", page=16384)
    sizes = (2048, 4096, 8192, 16384, 32768)
    got = [geometry("v6_12", size, topology=topology) for size in sizes]
    assert [(item.order, item.objs_per_slab) for item in got] == [
        (1, 16),
        (2, 16),
        (3, 16),
        (3, 8),
        (3, 4),
    ]
    assert [item.cpu_partial for item in got] == [24, 24, 24, 6, 6]


def test_the_smallest_slab_holds_at_least_one_object() -> None:
    got = geometry("v6_1", 704)
    assert (got.order, got.objs_per_slab, got.min_order_, got.min_objects) == (2, 23, 0, 5)
    assert got.waste_bytes(4096) == 192


def test_sysfs_values_replace_the_kernels_own() -> None:
    parameters = SlabParameters(cpu_partial=100, min_partial=12)
    new, old = (geometry(k, 256, parameters=parameters) for k in ("v6_1", "v5_10"))
    assert (new.cpu_partial, new.cpu_partial_slabs, new.min_partial) == (100, 7, 12)
    assert (old.cpu_partial, old.min_partial) == (100, 10)  # 5.10 clamps to 5..10
    assert geometry("v7_3", 256, parameters=parameters).cpu_partial == 0


def test_without_cpu_partial_configured_there_is_no_list() -> None:
    kernel = PRESETS["v6_6"].vary("n", "n", slab={"config_cpu_partial": False})
    got = cache_geometry(
        kernel.slab, machine(), SlabParameters(cpu_partial=9), name="c", object_size=64
    )
    assert (got.cpu_partial, got.cpu_partial_slabs) == (0, 0)


@pytest.mark.parametrize(
    ("size", "capacity"),
    [(64, 60), (192, 60), (256, 28), (512, 28), (1024, 12), (2048, 12), (4096, 4), (8192, 4)],
)
def test_a_sheaf_fills_a_kmalloc_class(size: int, capacity: int) -> None:
    assert geometry("v7_3", size).sheaf_capacity == capacity


def test_sheaves_may_be_asked_for_or_forbidden() -> None:
    assert geometry("v7_3", 256, name="maple_node").sheaf_capacity == 32
    assert geometry("v7_3", 184, name="vm_area_struct").sheaf_capacity == 60
    assert geometry("v7_3", 256, sheaf_capacity=16).sheaf_capacity == 28
    assert geometry("v7_3", 256, sheaf_capacity=1000).sheaf_capacity == 1000
    assert geometry("v7_3", 64, name="kmem_cache_node").sheaf_capacity == 0
    assert geometry("v7_3", 64, flags={"NOLEAKTRACE"}).sheaf_capacity == 0
    debugged = SlabParameters(debug="F")
    assert geometry("v7_3", 64, parameters=debugged).sheaf_capacity == 0
    assert geometry("v6_12", 64).sheaf_capacity == 0


def test_a_large_smallest_kmalloc_class_gives_more_room() -> None:
    sizes = kmalloc_sizes(PRESETS["v6_1"].slab, arch="arm64", page_size=4096)
    assert sheaf_capacity([64, 8192], 4096, sizes).tolist() == [60, 12]


@pytest.mark.parametrize(
    ("kernel", "size", "flags", "debug", "slab_size"),
    [
        ("v6_1", 120, {"CTOR"}, "FZPU", 216),  # iint_cache
        ("v6_1", 576, {"CTOR"}, "FZPU", 672),  # radix_tree_node
        ("v6_1", 8, {"KMALLOC"}, "FZPU", 112),
        ("v6_12", 8, {"KMALLOC"}, "U", 80),
        ("v6_1", 64, {"KMALLOC"}, "ZU", 160),
        ("v6_12", 64, {"KMALLOC"}, "ZU", 168),  # the free pointer leaves the object
        ("v6_12", 64, set(), "F", 64),
        ("v5_10", 64, set(), "U", 64 + 2 * 152),  # the stack itself is kept
    ],
)
def test_debug_options_add_their_bytes_and_stop_per_cpu_lists(
    kernel: str, size: int, flags: set, debug: str, slab_size: int
) -> None:
    got = geometry(kernel, size, flags=flags, parameters=SlabParameters(debug=debug))
    assert (got.slab_size, got.cpu_partial) == (slab_size, 0)


def test_debug_options_may_name_caches() -> None:
    parameters = SlabParameters(debug="U,kmalloc-*;Z,dentry")
    sizes = {
        name: geometry("v6_1", 192, name=name, parameters=parameters).slab_size
        for name in ("kmalloc-192", "dma-kmalloc-192", "dentry")
    }
    assert sizes == {"kmalloc-192": 256, "dma-kmalloc-192": 192, "dentry": 216}


def test_debugging_spares_caches_whose_order_it_would_raise() -> None:
    parameters = SlabParameters(debug="OZ")
    assert geometry("v6_1", 4096, parameters=parameters).slab_size == 4096
    assert geometry("v6_1", 64, parameters=parameters).slab_size == 88
