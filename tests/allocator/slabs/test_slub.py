"""The vectorised engine on hand-worked cases (slub.md 12), and its parts."""

import numpy as np
import pytest

from allocator.kernels import kernel_named
from allocator.pages.source import Bottomless
from allocator.slabs.draws import defrag_draw
from allocator.slabs.keep_empty import ADD, EMPTY, REMOVE_EMPTY, decide
from allocator.slabs.places import Places
from allocator.slabs.rows import Rows
from allocator.slabs.slub import Slub
from allocator.slabs.snapshot import counts, slabinfo, slabinfo_activity, sysfs_text
from allocator.slabs.statistics import Stat
from tests.reference.slub_build import machine, shape


def engine(name, *, lanes=1, record=False, pages=1 << 30, **geometry):
    topology = machine((4,))
    places = Places.of([topology] * lanes, kernel_named(name).page)
    source = Bottomless(np.full((lanes, 1), pages), places.zonelist)
    rows = Rows.of([[shape(**geometry)]] * lanes)
    return Slub(kernel_named(name).slab, rows, places, source, record=record)


def one(*values):
    return [np.array([value]) for value in values]


def stats(slub, row=0):
    return {s.name: int(v) for s, v in zip(Stat, slub.statistics.stats[:, row], strict=True) if v}


@pytest.mark.parametrize("name", ["v6_1", "v6_12"])
def test_65_allocations_take_three_new_slabs(name):
    """Vectors 18 to 20."""
    slub = engine(name, objects=32, cpu_partial=52, cpu_partial_slabs=4)
    runs = slub.alloc(*one(0, 0, 65))
    assert runs.count.tolist() == [32, 32, 1]
    told = stats(slub)
    assert (told["ALLOC_SLAB"], told["ALLOC_SLOWPATH"], told["ALLOC_FASTPATH"]) == (3, 3, 62)
    assert told["DEACTIVATE_BYPASS"] == 2
    assert slub.statistics.list_locks[0] == 0
    zeros = np.zeros(3, dtype=np.int64)
    slub.free(zeros, zeros, runs.slab, runs.count)
    told = stats(slub)
    assert (told["FREE_SLOWPATH"], told["FREE_FASTPATH"], told["CPU_PARTIAL_FREE"]) == (64, 1, 2)
    assert told.get("FREE_FROZEN", 0) == (62 if name == "v6_1" else 0)
    assert slub.statistics.list_locks[0] == (0 if name == "v6_1" else 2)
    assert slub.state.nr_slabs[0] == 3


@pytest.mark.parametrize(("name", "drains", "listed"), [("v5_10", 1, 14), ("v6_1", 4, 16)])
def test_one_free_to_each_of_20_full_slabs_drains_the_cpu_list(name, drains, listed):
    """Vector 21."""
    slub = engine(name, objects=32, cpu_partial=13, cpu_partial_slabs=4)
    runs = slub.alloc(*one(0, 0, 640))
    slub.alloc(*one(0, 0, 1))
    zeros = np.zeros(20, dtype=np.int64)
    slub.free(zeros, zeros + 1, runs.slab, np.ones(20, dtype=np.int32))
    assert stats(slub)["CPU_PARTIAL_DRAIN"] == drains
    assert slub.state.lists.nr_partial[0] == listed
    assert slub.state.cpu.nr[1] == 20 - listed


def test_a_sheaf_cycle_takes_three_slabs():
    """Vector 22."""
    slub = engine("v7_3", objects=32, sheaf_capacity=28)
    before = stats(slub)["SHEAF_ALLOC"]
    slub.alloc(*one(0, 0, 65))
    told = stats(slub)
    assert (told["ALLOC_FASTPATH"], told["BARN_GET_FAIL"], told["SHEAF_REFILL"]) == (65, 3, 84)
    assert (told["ALLOC_SLAB"], told["SHEAF_ALLOC"] - before) == (3, 1)
    assert slub.statistics.list_locks[0] == 5
    assert slub.state.lists.nr_partial[0] == 1
    assert slub.state.sheaves.nr_main[0] == 19


def test_the_end_of_memory_is_an_answer():
    slub = engine("v6_1", objects=8, pages=3)
    runs = slub.alloc(*one(0, 0, 40))
    assert runs.count.sum() == 24
    assert slub.bulk_alloc(*one(0, 1, 9)).count.sum() == 0


def test_lanes_and_cpus_at_one_list_take_different_slabs():
    slub = engine("v6_1", lanes=2, objects=4, cpu_partial_slabs=0, min_partial=9)
    rows = np.repeat([0, 1], 4)
    cpus = np.tile(np.arange(4), 2)
    runs = slub.alloc(rows, cpus, np.full(8, 12))
    slub.free(rows[runs.request], cpus[runs.request], runs.slab, runs.count)
    slub.flush(np.array([0, 1]))
    again = slub.alloc(rows, cpus, np.full(8, 8))
    assert len(np.unique(again.slab)) == len(again.slab) == 16


def test_clock_decides_who_is_served_first():
    early, late = engine("v6_1", objects=8, pages=1), engine("v6_1", objects=8, pages=1)
    rows, cpus, count = np.zeros(2, dtype=np.int64), np.array([0, 1]), np.array([5, 5])
    assert early.alloc(rows, cpus, count, clock=np.array([1, 2])).request.tolist() == [0]
    assert late.alloc(rows, cpus, count, clock=np.array([2, 1])).request.tolist() == [1]


def test_events_name_lock_slabs_and_requests():
    slub = engine("v6_1", record=True, objects=8, cpu_partial=8, cpu_partial_slabs=2)
    runs = slub.alloc(*one(0, 0, 32))
    assert slub.events.page_moves[:, 3].tolist() == [1, 1, 1, 1]
    zeros = np.zeros(3, dtype=np.int64)
    slub.free(zeros, zeros + 1, runs.slab[:3], np.ones(3, dtype=np.int32))
    assert slub.events.locks.tolist() == [[2, 0, 2]]
    assert slub.events.updates[:3, :2].tolist() == [[n, runs.slab[n]] for n in range(3)]


def test_an_empty_slab_is_kept_while_the_list_is_short():
    ask = np.array([EMPTY, ADD, REMOVE_EMPTY, REMOVE_EMPTY, EMPTY], dtype=np.int8)
    start, limit = np.array([0]), np.array([2])
    decided = decide(ask, start, np.array([0]), limit)
    assert decided.tolist() == [True, True, True, False, True]


def test_draws_depend_on_key_and_number_only():
    keys = np.array([7, 7, 9], dtype=np.uint64)
    draws = defrag_draw(keys, np.array([0, 1, 0]))
    assert defrag_draw(keys[1:2], np.array([1]))[0] == draws[1]
    many = defrag_draw(np.full(20000, 5, dtype=np.uint64), np.arange(20000))
    assert 0 <= many.min() <= many.max() <= 1023
    assert abs((many > 1000).mean() - 23 / 1024) < 0.005


def test_snapshot_reads_as_the_kernel_shows_it():
    slub = engine("v6_1", objects=16, cpu_partial=52, cpu_partial_slabs=7)
    runs = slub.alloc(*one(0, 0, 64))
    zeros = np.zeros(2, dtype=np.int64)
    slub.free(zeros, zeros + 1, runs.slab[:2], np.ones(2, dtype=np.int32))
    text = sysfs_text(counts(slub.state, 0))
    assert text["slabs"] == "4 N0=4"
    assert text["slabs_cpu_partial"] == "16(2) C1=16(2)"
    assert text["cpu_slabs"] == "1 N0=1"
    geometry = shape(objects=16)
    assert slabinfo(slub.state, [0], [geometry]).split()[:3] == ["c", "64", "64"]
    assert slabinfo_activity(slub.state, [0], ["c"]).splitlines()[1].split()[:4] == [
        "c",
        "64",
        "64",
        "2",
    ]


def test_many_frees_of_one_cpu_flush_the_older_sheaf_each_time():
    """20000 objects: 2 + 10 sheaves of 28 stay, each later one is flushed in its turn."""
    slub = engine("v7_3", objects=16, sheaf_capacity=28)
    runs = slub.alloc(*one(0, 0, 20000))
    held = len(runs.slab)
    slub.free(np.zeros(held, dtype=np.int64), np.ones(held, dtype=np.int64), runs.slab, runs.count)
    told = stats(slub)
    flushes = -(-(20000 - 12 * 28) // 28)
    assert told["SHEAF_FLUSH"] == 28 * flushes
    assert (told["BARN_PUT"], told["BARN_PUT_FAIL"]) == (10, flushes)
    assert told["FREE_FASTPATH"] == 20000
    assert slub.state.sheaves.nr_spare[1] == 28
    assert slub.state.sheaves.nr_main[1] == 20000 - 12 * 28 - 28 * (flushes - 1)
