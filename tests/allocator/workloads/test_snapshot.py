"""`snapshot`: what the kernel shows after a script."""

import json
from pathlib import Path

import pytest

from allocator.__main__ import main
from allocator.records.record import load
from allocator.slabs.snapshot import sysfs_text
from allocator.workloads.snapshot import snapshot_record, snapshot_script

GOLDEN = Path(__file__).parents[2] / "golden" / "replay"
RECORDS = sorted(GOLDEN.glob("*/*.json"))
SCRIPT = """\
cache c 256 0 -
cache d 700 0 RECLAIM_ACCOUNT
alloc c 0 65 0
snap taken
free c 0 0 65 1
snap freed
"""
COMMON = {
    "alloc_fastpath",
    "alloc_slowpath",
    "free_fastpath",
    "free_slowpath",
    "free_add_partial",
    "free_remove_partial",
    "alloc_slab",
    "alloc_node_mismatch",
    "free_slab",
    "order_fallback",
    "cmpxchg_double_fail",
}
CPU_SLABS = {
    "free_frozen",
    "alloc_from_partial",
    "alloc_refill",
    "cpuslab_flush",
    "deactivate_full",
    "deactivate_empty",
    "deactivate_to_head",
    "deactivate_to_tail",
    "deactivate_remote_frees",
    "deactivate_bypass",
    "cmpxchg_double_cpu_fail",
    "cpu_partial_alloc",
    "cpu_partial_free",
    "cpu_partial_node",
    "cpu_partial_drain",
}
SHEAVES = {
    "free_rcu_sheaf",
    "free_rcu_sheaf_fail",
    "sheaf_flush",
    "sheaf_refill",
    "sheaf_alloc",
    "sheaf_free",
    "barn_get",
    "barn_get_fail",
    "barn_put",
    "barn_put_fail",
    "sheaf_prefill_fast",
    "sheaf_prefill_slow",
    "sheaf_prefill_oversize",
    "sheaf_return_fast",
    "sheaf_return_slow",
}
NOT_COUNTERS = {
    "slabs",
    "total_objects",
    "objects",
    "objects_partial",
    "partial",
    "cpu_slabs",
    "slabs_cpu_partial",
    "aliases",
    "object_size",
    "slab_size",
    "align",
    "objs_per_slab",
    "order",
    "cpu_partial",
    "min_partial",
    "remote_node_defrag_ratio",
    "hwcache_align",
    "reclaim_account",
    "destroy_by_rcu",
}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_read_as_on_the_booted_kernel(path: Path) -> None:
    """All attributes of the first snapshot, all counters of the first that names its label."""
    first = json.loads(path.read_text())["measured"]["snapshots"][0]
    shown = snapshot_record(load(path).blind(), at=first["label"])
    assert set(shown.sysfs) == set(first["caches"])
    for name, cache in first["caches"].items():
        for file, text in (cache["attrs"] | sysfs_text(cache["counts"])).items():
            assert shown.sysfs[name][file] == text, (name, file)


@pytest.mark.parametrize("name", ["rcu-sheaf-256", "prefill-mixed"])
def test_counters_read_as_on_the_booted_kernel_by_cpu(name: str) -> None:
    """Each CPU's part: allocations, frees, what RCU does later, and flushes."""
    path = GOLDEN.with_name("replay_stats") / "sheaves" / f"{name}.json"
    for measured in json.loads(path.read_text())["measured"]["snapshots"]:
        shown = snapshot_record(load(path).blind(), at=measured["label"]).sysfs["c"]
        for file, text in measured["caches"]["c"]["stat_files"].items():
            assert shown[file] == text, (measured["label"], file)


def test_slabinfo_lists_the_newest_cache_first_as_proc_does() -> None:
    shown = snapshot_script(SCRIPT, kernel="v6_1")
    lines = shown.slabinfo.splitlines()
    assert lines[0] == "slabinfo - version: 2.1"
    assert lines[2:] == [
        "d                      0      0    704   23    4 : tunables    0    0    0"
        " : slabdata      0      0      0",
        "c                     80     80    256   16    1 : tunables    0    0    0"
        " : slabdata      5      5      0",
    ]


@pytest.mark.parametrize(
    ("kernel", "taken", "freed"),
    [
        ("v6_1", "c 80 65 0 92 0 0 0 0 0", "c 80 65 65 92 1 0 0 0 0"),
        ("v7_3", "c 84 65 0 100 0 0 0 0 0", "c 84 65 65 100 100 0 0 0 0"),
    ],
)
def test_activity_is_the_line_of_slabinfo_with_a_and_d(kernel: str, taken: str, freed: str) -> None:
    """6.1: 5 slabs of 16 make 5 slow paths; one object is freed to the CPU's own slab.

    7.3: three sheaves of 28 were filled, whose objects count as in use.
    """
    for at, line in (("taken", taken), ("freed", freed)):
        head, *told = snapshot_script(SCRIPT, kernel=kernel, at=at).activity.splitlines()
        assert (
            head == "Name                   Objects      Alloc       Free   %Fast Fallb O CmpX   UL"
        )
        assert [" ".join(one.split()) for one in told] == [line]  # d has no slab and no line


@pytest.mark.parametrize(
    ("kernel", "counters", "more"),
    [
        ("v3_13", COMMON | CPU_SLABS, set()),
        ("v5_10", COMMON | CPU_SLABS, set()),
        ("v6_12", COMMON | CPU_SLABS, set()),
        ("v7_2", COMMON | SHEAVES, {"sheaf_capacity"}),
        ("v7_3", COMMON | SHEAVES, {"sheaf_capacity"}),
    ],
)
def test_every_counter_of_a_kernel_is_there_and_no_other(
    kernel: str, counters: set[str], more: set[str]
) -> None:
    files = snapshot_script(SCRIPT, kernel=kernel).sysfs["c"]
    assert set(files) - NOT_COUNTERS == counters | more


def test_locks_are_told_by_cache_and_node() -> None:
    """6.12: each of two slabs on the CPU's list takes list_lock when it becomes empty."""
    script = "cache c 256 0 -\nalloc c 0 48 0\nfree c 0 0 48 1\n"
    lines = snapshot_script(script, kernel="v6_12").locks.splitlines()
    assert lines[0].split()[2:] == ["node", "list_lock", "slabs_under_lock", "slab_updates"]
    assert lines[1].split() == ["c", "N0", "2", "2", "34"]


def test_the_command_prints_what_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "s.ops"
    script.write_text(SCRIPT)
    assert main(["snapshot", str(script), "--show", "locks,slabinfo", "--cpus", "16"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# cache ")
    assert "slabinfo - version: 2.1" in out
    assert main(["snapshot", str(script), "--json", "--at", "taken", "--max-order", "0"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["slabinfo", "sysfs", "activity", "locks"]
    assert (told["sysfs"]["c"]["order"], told["sysfs"]["c"]["slabs"]) == ("0", "5 N0=5")
    assert main(["snapshot", str(RECORDS[0]), "--show", "sysfs"]) == 0
    assert "/sys/kernel/slab/c/slabs:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["/nowhere"], "snapshot: found '/nowhere', expected a script that can be read"),
        (["s.ops", "--at", "x"], "--at: found 'x', expected a label of s.ops: taken, freed"),
        (["s.ops", "--kernel", "v9"], "--kernel: found 'v9', expected one of v3_13"),
        (["s.ops", "--cpus", "0"], "--cpus: found 0, expected 1 to 8192"),
        (["s.ops", "--nodes", "5"], "--nodes: found 5, expected 1 to 4 with 4 CPUs"),
        (["s.ops", "--show", "all"], "--show: found 'all', expected some of slabinfo,sysfs"),
        (["s.ops", "--min-order", "30"], "--min-order: found 30, expected a number from 0 to 20"),
        ([str(RECORDS[0]), "--kernel", "v6_1"], "--kernel: found"),
        (["bad.ops"], "bad.ops:1: found 'fly', expected an operation"),
        (["gone.ops"], "gone.ops: found 'no cache at the end', expected some, e.g. --at LABEL"),
        (["page.ops"], "page.ops:2: found 'alloc pages', expected operations on caches"),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_status_2(
    arguments: list[str],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.ops").write_text(SCRIPT)
    Path("bad.ops").write_text("fly me\n")
    Path("gone.ops").write_text("cache c 8 0 -\nsnap a\ndestroy c\n")
    Path("page.ops").write_text("cache c 8 0 -\npage 0 0 1 0 KERNEL\n")
    assert main(["snapshot", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert captured.err.count("\n") == 1
