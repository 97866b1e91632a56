"""The reader of replay scripts."""

import time

import pytest

from allocator.errors import ConfigError
from allocator.workloads.script import Script, parse_script
from allocator.workloads.script_ops import (
    Alloc,
    AllocPages,
    BulkAlloc,
    BulkFree,
    CreateCache,
    Destroy,
    Drain,
    Free,
    FreePages,
    FreeRcu,
    Proc,
    Reset,
    Shrink,
    Sleep,
    Snap,
    Sysfs,
    gfp_text,
)


def read(text: str) -> Script:
    return parse_script(text, source="box.ops", cpus=range(4), nodes=(0, 1))


@pytest.mark.parametrize(
    ("line", "op"),
    [
        (
            "cache d 100 64 RECLAIM_ACCOUNT+CTOR 32",
            CreateCache(
                line=2,
                cache="d",
                size=100,
                align=64,
                flags=("RECLAIM_ACCOUNT", "CTOR"),
                sheaf_capacity=32,
            ),
        ),
        (
            "cache d 8 0 -",
            CreateCache(line=2, cache="d", size=8, align=0, flags=(), sheaf_capacity=0),
        ),
        (
            "alloc c 3 20 100",
            Alloc(line=2, cache="c", cpu=3, count=20, first=100, node=None, gfp=("KERNEL",)),
        ),
        (
            "alloc c 0 1 5 1 NOWAIT+THISNODE",
            Alloc(line=2, cache="c", cpu=0, count=1, first=5, node=1, gfp=("NOWAIT", "THISNODE")),
        ),
        (
            "alloc c 0 1 5 -1",
            Alloc(line=2, cache="c", cpu=0, count=1, first=5, node=None, gfp=("KERNEL",)),
        ),
        ("balloc c 1 30 0 16", BulkAlloc(line=2, cache="c", cpu=1, count=30, first=0, batch=16)),
        ("balloc c 1 30 0 0", BulkAlloc(line=2, cache="c", cpu=1, count=30, first=0, batch=30)),
        ("shrink c", Shrink(line=2, cache="c", cpu=None)),
        ("shrink c 2", Shrink(line=2, cache="c", cpu=2)),
        ("destroy c", Destroy(line=2, cache="c")),
        ("reset", Reset(line=2)),
        (
            "sysfs c min_partial 12",
            Sysfs(line=2, cache="c", attribute="min_partial", value=12),
        ),
        (
            "page 3 1 20 0 NOWAIT+THISNODE 1",
            AllocPages(
                line=2, order=3, cpu=1, count=20, first=0, gfp=("NOWAIT", "THISNODE"), node=1
            ),
        ),
        ("pfree 0 19 20 -1", FreePages(line=2, cpu=0, ids=range(19, -1, -1))),
        (
            "proc vm/watermark_boost_factor 0",
            Proc(line=2, path="vm/watermark_boost_factor", value="0"),
        ),
        ("drain 4", Drain(line=2, times=4)),
        ("sleep 150", Sleep(line=2, duration_ms=150)),
        ("snap 01-filled", Snap(line=2, label="01-filled")),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_each_operation_is_read(line, op):
    assert read(f"cache c 256 0 -\n{line}\n").ops[1] == op


def test_ids_freed_are_ranges_with_a_stride_or_lists_in_order():
    text = "cache c 256 0 -\nalloc c 0 30 0\nfree c 1 0 10 3\nfreel c 0 29,1,2\nbfree c 0 4 3 3 2\n"
    text += "kfree_rcu c 1 5 2 3\n"
    ops = read(text).ops
    assert ops[2] == Free(line=3, cache="c", cpu=1, ids=range(0, 30, 3))
    assert ops[3] == Free(line=4, cache="c", cpu=0, ids=(29, 1, 2))
    assert ops[5] == FreeRcu(line=6, cache="c", cpu=1, ids=range(5, 11, 3))
    assert ops[4] == BulkFree(line=5, cache="c", cpu=0, ids=range(4, 13, 3), batch=2)


def test_comments_blank_lines_and_modes():
    script = read("# note\n\n#mode page\n#mode types\n  snap  one \n")
    assert [op.line for op in script.ops] == [5]
    assert script.modes == {"page", "types"}


def test_sizes_of_the_id_tables_follow_the_highest_ids():
    script = read("cache c 64 0 -\nalloc c 0 3 5000\npage 0 0 1 9 KERNEL\npfree 0 0 40 1\n")
    assert (script.nr_ids, script.nr_page_ids) == (5003, 40)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("proc vm/boost 0", "found 'vm/boost', expected a file below /proc/sys: vm/compaction_"),
        ("proc vm/watermark_boost_factor x", "found 'x', expected vm/watermark_boost_factor, a"),
        ("proc vm/percpu_pagelist_high_fraction 7", "found 7, expected vm/percpu_pagelist_high_"),
        ("fre c 0 0 1 1", "box.ops:1: found 'fre', expected an operation: cache, alloc"),
        ("cache c", "box.ops:1: found 'cache c', expected cache NAME SIZE "),
        ("cache c 64 0 - 8 9", "found 'cache c 64 0 - 8 9', expected cache NAME"),
        ("cache c x 0 -", "found 'x', expected an object size in bytes, a whole number"),
        ("cache c 1_0 0 -", "found '1_0', expected an object size"),
        ("cache c 0 0 -", "found 0, expected an object size in bytes, 1 to"),
        ("cache c 64 48 -", "found 48, expected an alignment in bytes: 0 or a power of two"),
        ("cache c 64 0 HUGE", "found 'HUGE', expected '-' or flags joined"),
        ("cache c 64 0 -\ncache c 64 0 -", "box.ops:2: found 'c', expected a name that no cache"),
        ("alloc d 0 1 0", "found 'd', expected a cache created before: none so far"),
        (
            "cache c 8 0 -\nfree d 0 0 1 1",
            "box.ops:2: found 'd', expected a cache created before: c",
        ),
        ("cache c 8 0 -\ndestroy c\nalloc c 0 1 0", "box.ops:3: found 'c', expected a cache"),
        ("cache c 8 0 -\nalloc c 4 1 0", "box.ops:2: found 4, expected a CPU: 0-3"),
        ("cache c 8 0 -\nalloc c -1 1 0", "found -1, expected a CPU, at least 0"),
        ("cache c 8 0 -\nalloc c 0 1 0 2", "found 2, expected a node that is online: 0-1, or -1"),
        ("cache c 8 0 -\nalloc c 0 1 0 0 KERNAL", "found 'KERNAL', expected GFP words"),
        ("cache c 8 0 -\nalloc c 0 0 0", "found 0, expected a count, 1 to"),
        ("cache c 8 0 -\nalloc c 0 9 99999999999", "found 99999999999, expected an id, 0 to"),
        ("cache c 8 0 -\nalloc c 0 9 4194300", "found 'last id 4194308', expected ids from 0 to"),
        (
            "cache c 8 0 -\nalloc c 0 9 0\nalloc c 1 9 8",
            "box.ops:3: found 'id 8', expected an id that is free: it is held since line 2",
        ),
        (
            "cache c 8 0 -\nalloc c 0 9 0\nfree c 0 0 9 1\nfree c 1 4 1 1",
            "box.ops:4: found 'id 4', expected an id that c holds: it was freed in line 3",
        ),
        (
            "cache c 8 0 -\nalloc c 0 9 0\nfreel c 0 1,2,1",
            "found 'id 1', .* it was freed in line 3",
        ),
        (
            "cache c 8 0 -\nalloc c 0 9 0\nfree c 0 1 3 0",
            "found 'id 1 3 times', expected each id once",
        ),
        ("cache c 8 0 -\nalloc c 0 9 0\nfreel c 0 1,", "found \"''\", expected an id"),
        (
            "cache c 8 0 -\nalloc c 0 9 0\nfree c 0 8 2 1",
            "box.ops:3: found 'id 9', expected an id that c holds: it was never allocated",
        ),
        (
            "cache c 8 0 -\ncache d 8 0 -\nalloc c 0 9 0\nbfree d 0 0 9 1",
            "box.ops:4: found 'id 0', expected an id that d holds: it belongs to c",
        ),
        (
            "cache c 8 0 -\nalloc c 0 9 0\nfree c 0 1 3 -1",
            "found 'last id -1', expected ids from 0",
        ),
        (
            "cache c 8 0 -\nalloc c 0 1 0\ndestroy c\ncache c 8 0 -\nfree c 0 0 1 1",
            "box.ops:5: .* it was freed in line 3",
        ),
        ("cache c 8 0 -\nsysfs c order 1", "found 'order', expected an attribute: min_partial"),
        ("drain 99999999999", "found 99999999999, expected a count, 0 to 1000"),
        ("page 11 0 1 0 KERNEL", "found 11, expected an order, 0 to 10"),
        (
            "page 0 0 9 0 KERNEL\npage 0 0 1 8 KERNEL",
            "box.ops:2: found 'id 8', expected an id that is free: it is held since line 1",
        ),
        ("snap", "found 'snap', expected snap LABEL"),
    ],
)
def test_a_line_that_cannot_be_carried_out_is_told_with_file_and_line(text, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")) as caught:
        read(text + "\n")
    assert "\n" not in str(caught.value)


def test_freed_ids_may_be_used_again():
    create = "cache c 8 0 -\ncache d 8 0 -\n"
    use = "alloc c 0 9 0\nfree c 0 8 9 -1\nalloc d 1 9 0\nfree d 0 0 9 1\n"
    assert len(read(create + use).ops) == 6


def test_pages_freed_may_never_have_been_given():
    text = "pfree 0 0 9 1\npage 0 0 5 0 KERNEL\npfree 0 0 9 2\npfree 0 0 9 1\npage 0 0 9 0 KERNEL\n"
    assert len(read(text).ops) == 5


def test_reset_forgets_caches_ids_and_pages():
    text = "cache c 8 0 -\nalloc c 0 9 0\npage 0 0 2 0 KERNEL\nreset\n"
    assert len(read(text + text).ops) == 8


def test_gfp_words_are_kernel_flags():
    assert gfp_text(("NOWAIT", "THISNODE")) == "GFP_NOWAIT|__GFP_THISNODE|__GFP_NOWARN"


def test_a_hundred_thousand_lines_take_seconds_at_most():
    rounds = (f"alloc c {i % 4} 3 {3 * i}\nfree c {i % 3} {3 * i} 3 1\n" for i in range(50_000))
    start = time.perf_counter()
    script = read("cache c 64 0 -\n" + "".join(rounds))
    assert len(script.ops) == 100_001
    assert time.perf_counter() - start < 20
