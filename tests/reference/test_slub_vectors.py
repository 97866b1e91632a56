"""Test vectors of the SLUB specification, on the scalar reference.

Vectors that are about sizes and orders are in tests/allocator/slabs/test_geometry.py.
"""

from itertools import count

import pytest

from tests.reference.slub_build import (
    cache,
    kernel,
    list_locks,
    machine,
    nr_slabs,
    on_lists,
    partial_slabs,
    shape,
    sized,
    told,
)
from tests.reference.slub_cpu import CpuSlabs
from tests.reference.slub_pages import Pages
from tests.reference.slub_sheaves import Sheaves
from tests.reference.slub_snapshot import counts
from tests.reference.slub_types import Places

EIGHT = machine((8,))
FOUR = machine((4,))
DRY = machine((1, 1), (False, True))
DRY_KNOWN = machine((1, 1), (False, True), memoryless_nodes=True)


def kmalloc_256(name, topology=EIGHT, **slab):
    chosen = kernel(name, **slab)
    return cache(chosen, topology, sized(chosen, topology, 256))


def tuned(name, attribute=None, value=0):
    """A 256-byte cache of 16 objects per slab, as in the replayed scripts."""
    one = kmalloc_256(name, FOUR)
    if attribute:
        assert one.write_sysfs(attribute, value) == 0
    return one


def free_rounds(one, objects, rounds, cpu=0):
    """Free one object of each slab per round, as the replayed scripts do."""
    for number in rounds:
        one.free(cpu, objects[number::16])


@pytest.mark.parametrize(("slabs", "text"), [(3, "4(3) C0=4(3)"), (4, "6(4) C0=6(4)")])
def test_13_objects_of_a_cpu_partial_list_are_an_estimate(slabs, text):
    one = cache(kernel("v6_1"), EIGHT, sized(kernel("v6_1"), EIGHT, 8384))
    objects = one.alloc(1, 3 * slabs)
    one.shrink()
    one.free(0, objects[::3])
    assert counts(one)["slabs_cpu_partial"] == text


def test_16_from_node_takes_one_slab_and_half_the_limit_plus_one():
    one = kmalloc_256("v6_1")
    partial_slabs(one, 10, 31)
    one.alloc(0)
    assert (on_lists(one), one.stats["CPU_PARTIAL_NODE"], list_locks(one)) == (6, 3, 1)


def test_17_until_5_15_from_node_stops_by_free_objects():
    one = kmalloc_256("v5_10")
    partial_slabs(one, 10, 30)
    one.alloc(0)
    assert (on_lists(one), one.stats["CPU_PARTIAL_NODE"]) == (6, 3)


@pytest.mark.parametrize("name", ["v6_1", "v6_12"])
def test_18_allocation_from_an_empty_cache(name):
    one = kmalloc_256(name)
    one.alloc(0, 65)
    assert one.stats == {
        "ALLOC_SLAB": 3,
        "ALLOC_SLOWPATH": 3,
        "ALLOC_FASTPATH": 62,
        "DEACTIVATE_BYPASS": 2,
    }
    assert list_locks(one) == 0


@pytest.mark.parametrize(
    ("name", "frozen", "locks"), [("v6_1", 62, 0), ("v6_12", 0, 2)], ids=["19-v6_1", "20-v6_12"]
)
def test_19_20_freeing_in_allocation_order(name, frozen, locks):
    one = kmalloc_256(name)
    one.free(0, one.alloc(0, 65))
    assert told(one, "FREE_SLOWPATH", "FREE_FASTPATH", "CPU_PARTIAL_FREE", "FREE_FROZEN") == {
        "FREE_SLOWPATH": 64,
        "FREE_FASTPATH": 1,
        "CPU_PARTIAL_FREE": 2,
        "FREE_FROZEN": frozen,
    }
    assert (list_locks(one), nr_slabs(one)) == (locks, 3)


@pytest.mark.parametrize(
    ("name", "drains", "listed", "held"), [("v5_10", 1, 14, 6), ("v6_1", 4, 16, 4)]
)
def test_21_a_first_free_from_each_of_twenty_full_slabs(name, drains, listed, held):
    one = kmalloc_256(name)
    objects = one.alloc(0, 20 * 32)
    one.shrink()
    one.free(0, objects[::32])
    assert isinstance(one, CpuSlabs)
    assert one.stats["CPU_PARTIAL_DRAIN"] == drains
    assert (on_lists(one), len(one.cpus[0].partial)) == (listed, held)


def test_22_first_sheaves_of_a_cpu():
    one = kmalloc_256("v7_3")
    made = one.stats["SHEAF_ALLOC"]
    one.alloc(0, 65)
    assert made == 8
    assert one.stats == {
        "ALLOC_FASTPATH": 65,
        "BARN_GET_FAIL": 3,
        "SHEAF_REFILL": 84,
        "ALLOC_SLAB": 3,
        "SHEAF_ALLOC": made + 1,
    }
    assert isinstance(one, Sheaves)
    assert (list_locks(one), on_lists(one), one.nodes[0].partial[0].free) == (5, 1, 12)
    assert len(one.cpus[0].main) == 19


@pytest.mark.parametrize(
    ("name", "listed", "lost", "taken"),
    [
        ("v6_6_delay_rfc", 3, 1, 1),
        ("v6_6_delay_rfc_fixed", 4, 0, 0),
        ("v6_6", 4, 0, 0),
        ("v6_8", 4, 0, 0),
    ],
)
def test_23_the_rfc_without_cpu_partial_lists_loses_the_second_slab(name, listed, lost, taken):
    one = kmalloc_256(name, config_cpu_partial=False)
    kept = partial_slabs(one, 5, 31)
    one.alloc(0)
    assert (on_lists(one), one.stats["CPU_PARTIAL_NODE"]) == (listed, taken)
    gone = [slab for slab in one.slabs if slab.freelist and not slab.in_list]
    assert len(gone) == lost
    for slab in gone:
        one.free(0, [obj for obj in kept if obj.slab is slab])
        assert slab.inuse == 0
        assert slab.alive
        assert not slab.in_list


@pytest.mark.parametrize("name", ["v6_6_delay_rfc", "v6_6_delay_rfc_fixed", "v6_6"])
def test_23_with_cpu_partial_lists_the_rfc_takes_as_many_slabs(name):
    one = kmalloc_256(name)
    partial_slabs(one, 10, 31)
    one.alloc(0)
    assert (on_lists(one), one.stats["CPU_PARTIAL_NODE"]) == (6, 3)


@pytest.mark.parametrize(
    ("name", "known", "slabs", "expected"),
    [
        *[
            (name, known, 100, {"ALLOC_NODE_MISMATCH": 99, "DEACTIVATE_TO_HEAD": 99, "list": 99})
            for name, known in (
                ("v3_13", False),
                ("v3_13", True),
                ("v3_13_rientjes", False),
                ("v3_13_joonsoo", False),
            )
        ],
        *[
            (name, known, 4, {"ALLOC_NODE_MISMATCH": 99, "ALLOC_SLOWPATH": 3, "list": 0})
            for name, known in (
                ("v3_13_blanchard", False),
                ("v3_13_blanchard", True),
                ("v3_13_rientjes", True),
                ("v3_13_joonsoo", True),
            )
        ],
        ("v5_10", False, 4, {"ALLOC_NODE_MISMATCH": 0, "ALLOC_SLOWPATH": 100, "list": 0}),
        ("v5_10", True, 4, {"ALLOC_NODE_MISMATCH": 0, "ALLOC_SLOWPATH": 100, "list": 0}),
    ],
)
def test_24_a_hundred_objects_of_a_memoryless_node(name, known, slabs, expected):
    topology = DRY_KNOWN if known else DRY
    one = cache(kernel(name), topology, shape(objects=32, cpu_partial=13, cpu_partial_slabs=1))
    for _ in range(100):
        one.alloc(0, 1, node=0)
    assert nr_slabs(one) == slabs
    assert one.stats["ALLOC_FASTPATH"] == 0
    assert told(one, *expected.keys() - {"list"}) == {
        name: value for name, value in expected.items() if name != "list"
    }
    assert on_lists(one) == list_locks(one) == expected["list"]


@pytest.mark.parametrize(("name", "fair"), [("v6_8", False), ("v6_12", True)])
def test_25_a_full_node_is_asked_again_and_again(name, fair):
    topology = machine((1, 1, 1, 1), (True,) * 4)
    chosen = kernel(name)
    limit = 850  # pages of the wanted node
    pages = Pages(Places.of(chosen, topology), [limit, None, None, None])
    one = cache(chosen, topology, sized(chosen, topology, 256), pages=pages)
    calls = 16 * 1000
    for _ in range(calls):
        one.alloc(0, 1, node=0)
    total = sum(node.total_objects for node in one.nodes)
    late = calls - 16 * limit
    assert total == 16 * limit + 16 * late if not fair else total <= 1.02 * calls


@pytest.mark.parametrize(
    ("name", "objects", "partial", "cpu_slabs", "text"),
    [
        ("v6_1", 602, 38, 2, "8(1) C0=8(1)"),
        ("v6_12", 602, 38, 2, "8(1) C0=8(1)"),
        ("v5_10", 601, 39, 1, "0(0)"),
    ],
)
def test_26_cpu_partial_0_is_not_no_list(name, objects, partial, cpu_slabs, text):
    one = tuned(name, "cpu_partial", 0)
    free_rounds(one, one.alloc(0, 640), [0])
    seen = counts(one)
    assert [seen[key]["total"] for key in ("objects", "partial", "cpu_slabs")] == [
        objects,
        partial,
        cpu_slabs,
    ]
    assert seen["slabs_cpu_partial"] == text


@pytest.mark.parametrize(
    ("name", "value", "listed", "left"),
    [("v5_10", 0, 4, 16), ("v5_10", 1, 4, 16), ("v5_10", 12, 9, 21), ("v6_1", 0, 0, 5)],
)
def test_27_min_partial_and_the_slab_that_counts_itself(name, value, listed, left):
    one = tuned(name, "min_partial", value)
    free_rounds(one, one.alloc(0, 640), range(16))
    assert (on_lists(one), nr_slabs(one)) == (listed, left)
    assert all(slab.inuse == 0 for slab in one.nodes[0].partial)


@pytest.mark.parametrize(
    ("name", "slabs", "partial", "cpu_slabs", "text"),
    [
        ("v5_10", 15, 0, 15, "14(14) C0=14(14)"),
        ("v6_1", 15, 7, 8, "56(7) C0=56(7)"),
        ("v6_12", 15, 7, 8, "56(7) C0=56(7)"),
        ("v7_3", 16, 1, 0, "0(0)"),
    ],
)
def test_28_every_third_object_freed(name, slabs, partial, cpu_slabs, text):
    one = tuned(name)
    one.free(0, one.alloc(0, 229)[::3])
    seen = counts(one)
    assert [seen[key]["total"] for key in ("slabs", "partial", "cpu_slabs")] == [
        slabs,
        partial,
        cpu_slabs,
    ]
    assert seen["slabs_cpu_partial"] == text
    if name == "v7_3":
        assert seen["objects"]["total"] == 252


def test_30_a_requested_sheaf_capacity_is_filled_at_once():
    chosen = kernel("v7_3")
    one = cache(chosen, FOUR, sized(chosen, FOUR, 256, sheaf_capacity=1000))
    one.alloc(0)
    seen = counts(one)
    assert [seen[key]["total"] for key in ("slabs", "objects", "total_objects")] == [
        63,
        1000,
        1008,
    ]
    assert (on_lists(one), one.nodes[0].partial[0].inuse) == (1, 8)


def test_31_without_sheaves_slabs_come_and_go_at_once():
    chosen = kernel("v7_3")
    one = cache(chosen, FOUR, sized(chosen, FOUR, 256, flags=("NOLEAKTRACE",)))
    objects = one.alloc(0, 640)
    assert (nr_slabs(one), on_lists(one)) == (40, 0)
    one.free(0, objects[:320])
    assert (nr_slabs(one), on_lists(one)) == (24, 4)
    assert all(slab.inuse == 0 for slab in one.nodes[0].partial)
    one.free(1, objects[320:])
    assert nr_slabs(one) == 4


@pytest.mark.parametrize("value", [0, 5, 12])
def test_32_freed_objects_park_in_twelve_sheaves(value):
    one = tuned("v7_3", "min_partial", value)
    objects = one.alloc(0, 640)
    seen = counts(one)
    assert (seen["slabs"]["total"], seen["objects"]["total"]) == (41, 644)
    free_rounds(one, objects, range(16))
    seen = counts(one)
    assert [seen[key]["total"] for key in ("slabs", "objects", "partial")] == [40, 336, 40]


def test_35_slabs_of_the_smallest_order_while_memory_is_fragmented():
    chosen = kernel("v6_1")
    pages = Pages(Places.of(chosen, FOUR), largest_order=[0])
    one = cache(chosen, FOUR, sized(chosen, FOUR, 704), pages=pages)
    one.alloc(0, 200)
    assert [slab.objects for slab in one.slabs] == [5] * 40
    assert one.stats["ORDER_FALLBACK"] == 40
    pages.largest_order = [None]
    one.alloc(0, 200)
    assert [slab.objects for slab in one.slabs[40:]] == [23] * 9


# Memoryless and exhausted nodes of 7.x (9.7): 16 objects per slab, sheaves of 28


def dry_sheaves(ratio, draw=lambda: 0):
    one = cache(
        kernel("v7_3"),
        machine((1, 1), (False, True)),
        shape(objects=16, sheaf_capacity=28),
        draw=draw,
    )
    assert one.write_sysfs("remote_node_defrag_ratio", ratio) == 0
    return one


def test_first_request_for_a_memoryless_node_fills_a_sheaf_and_does_not_use_it():
    one = dry_sheaves(100)
    one.alloc(0, 1, node=0)
    assert isinstance(one, Sheaves)
    assert (nr_slabs(one), one.nodes[1].nr_partial, len(one.cpus[0].main)) == (3, 2, 28)
    assert told(one, "ALLOC_NODE_MISMATCH", "ALLOC_SLOWPATH", "ALLOC_FASTPATH") == {
        "ALLOC_NODE_MISMATCH": 1,
        "ALLOC_SLOWPATH": 1,
        "ALLOC_FASTPATH": 0,
    }


@pytest.mark.parametrize(
    ("ratio", "failing", "slabs"), [(0, (), 102), (100, (), 12), (100, (85, 90, 95), 14)]
)
def test_a_hundred_requests_for_a_memoryless_node(ratio, failing, slabs):
    """Without a failing draw there are 12 slabs; three late ones add two."""
    draws = count()
    one = dry_sheaves(ratio, draw=lambda: 1023 if next(draws) in failing else 0)
    for number in range(100):
        one.alloc(number % 2, 1, node=0)
    assert nr_slabs(one) == slabs
    if ratio == 0:
        assert on_lists(one) == 101


@pytest.mark.parametrize(("ratio", "slabs"), [(0, 100), (100, 11)])
def test_a_hundred_requests_for_a_node_whose_memory_is_used_up(ratio, slabs):
    topology = machine((1, 0), (True, True))
    chosen = kernel("v7_3")
    pages = Pages(Places.of(chosen, topology), [None, 0])
    one = cache(chosen, topology, shape(objects=16, sheaf_capacity=28), pages=pages)
    one.write_sysfs("remote_node_defrag_ratio", ratio)
    for _ in range(100):
        one.alloc(0, 1, node=1)
    assert nr_slabs(one) == slabs


@pytest.mark.parametrize("name", ["v5_10", "v6_1", "v6_12"])
@pytest.mark.parametrize("ratio", [0, 100])
def test_a_full_node_with_cpu_slabs(name, ratio):
    topology = machine((1, 0), (True, True))
    chosen = kernel(name)
    pages = Pages(Places.of(chosen, topology), [None, 0])
    one = cache(chosen, topology, sized(chosen, FOUR, 256), pages=pages)
    one.write_sysfs("remote_node_defrag_ratio", ratio)
    for _ in range(100):
        one.alloc(0, 1, node=1)
    if name == "v6_12" and ratio == 100:
        assert nr_slabs(one) <= 13
    else:
        assert (nr_slabs(one), on_lists(one)) == (100, 99)


def test_producer_and_consumer_exchange_sheaves_through_the_barn():
    one = tuned("v7_3")
    for _ in range(8):
        one.free(1, one.alloc(0, 100))
    assert nr_slabs(one) == 11
