"""Capture of a machine: from saved files, without rights, and of the machine the tests run on."""

import json
from pathlib import Path

import pytest

from allocator.errors import PredictError
from allocator.records.capture import capture
from allocator.records.capture_kernel import choices_for, memory_options, preset_for
from allocator.records.predict import predict
from allocator.records.record import record_of
from allocator.records.validate import compare_static

ZONEINFO = """\
Node 0, zone      DMA
  pages free     3808
        boost    0
        min      175
        low      218
        high     261
        spanned  4095
        present  3998
        managed  3840
        protection: (0, 956, 956, 956, 956)
  pagesets
    cpu: 0
              count: 0
              high:  109
              batch: 1
    cpu: 1
              count: 0
              high:  109
              batch: 1
  start_pfn:           1
Node 0, zone    DMA32
  pages free     200000
        boost    512
        min      11600
        low      14374
        high     17148
        spanned  258016
        present  258016
        managed  245002
        protection: (0, 0, 0, 0, 0)
  pagesets
    cpu: 0
              count: 5
              high:  6931
              batch: 63
    cpu: 1
              count: 7
              high:  6931
              batch: 63
  start_pfn:           4096
"""
CACHE = {
    "object_size": "176",
    "align": "64",
    "ctor": "",
    "hwcache_align": "1",
    "reclaim_account": "0",
    "cache_dma": "0",
    "destroy_by_rcu": "0",
    "usersize": "0",
    "slab_size": "192",
    "objs_per_slab": "21",
    "order": "0",
    "min_partial": "5",
    "cpu_partial": "120",
}


def tree(root: Path, release: str = "6.1.0-9-amd64") -> Path:
    """Write a saved machine with two CPUs and 1 GiB."""
    files = {
        "proc/sys/kernel/osrelease": release,
        "proc/sys/kernel/arch": "x86_64",
        "proc/cmdline": "quiet slub_max_order=2",
        "proc/zoneinfo": ZONEINFO,
        "proc/meminfo": "MemTotal: 1000000 kB\nHugepagesize: 2048 kB\n",
        "proc/self/smaps": "KernelPageSize:        4 kB\n",
        "proc/sys/vm/min_free_kbytes": "45056",
        "proc/sys/vm/lowmem_reserve_ratio": "256\t256\t32\t0\t0",
        "proc/sys/vm/watermark_scale_factor": "10",
        "sys/devices/system/cpu/possible": "0-3",
        "sys/devices/system/cpu/present": "0-1",
        "sys/devices/system/cpu/online": "0-1",
        "sys/devices/system/node/online": "0",
        "sys/devices/system/node/has_memory": "0",
        "sys/devices/system/node/node0/cpulist": "0-1",
        "sys/devices/system/node/node0/distance": "10",
        "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
        **{f"sys/kernel/slab/:0000192/{key}": value for key, value in CACHE.items()},
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    for alias in ("aio_kiocb", "inet_peer_cache"):
        (root / "sys/kernel/slab" / alias).symlink_to(":0000192")
    return root


def differences(content: dict) -> list[tuple]:
    record = record_of(json.loads(json.dumps(content)))
    rows = compare_static(record, predict(record))
    return [(row.what, row.measured, row.predicted) for row in rows if not row.equal]


def test_a_saved_machine_becomes_a_record_that_is_predicted_in_full(tmp_path: Path) -> None:
    record, notes = capture(tree(tmp_path), name="box")
    assert record["name"] == "box"
    assert record["kernel"] == "v6_1"
    assert record["env"]["cpus"] == {"possible": 4, "present": 2, "online": 2}
    assert record["env"]["params"] == {"slub_max_order": 2}
    cache = record["given"]["caches"]["aio_kiocb"]
    assert cache["names"] == ["aio_kiocb", "inet_peer_cache"]
    assert record["measured"]["caches"]["aio_kiocb"]["objs_per_slab"] == 21
    assert differences(record) == []
    assert "release 6.1.0-9-amd64 is taken as the preset v6_1" in notes
    assert any("boost" in note for note in notes)


def test_zones_that_old_kernels_leave_out_are_put_in(tmp_path: Path) -> None:
    record, _ = capture(tree(tmp_path))
    kinds = [zone["zone"] for zone in record["given"]["zones"]]
    assert kinds == ["DMA", "DMA32", "Normal", "Movable", "Device"]
    assert record["measured"]["boot"]["zones"][1]["min"] == 11600 - 512


def test_a_min_free_kbytes_set_by_hand_is_told_and_taken(tmp_path: Path) -> None:
    (tree(tmp_path) / "proc/sys/vm/min_free_kbytes").write_text("90112\n")
    text = ZONEINFO.replace("boost    512", "boost    0")
    for old, new in (("175", "351"), ("218", "438"), ("261", "525")):
        text = text.replace(f" {old}\n", f" {new}\n")
    for old, new in (("11600", "22179"), ("14374", "27723"), ("17148", "33267")):
        text = text.replace(old, new)
    (tmp_path / "proc/zoneinfo").write_text(text)
    record, notes = capture(tmp_path)
    assert "min_free_kbytes is 90112, not the usual 45056; it is taken as set by hand" in notes
    assert record["env"]["sysctl"]["min_free_kbytes"] == 90112
    assert differences(record) == []


def test_without_rights_to_the_caches_the_rest_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path)
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if "slab" in str(path.relative_to(tmp_path)):
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    record, notes = capture(tmp_path)
    assert record["given"]["caches"] == {}
    assert differences(record) == []
    assert "/sys/kernel/slab/:0000192/object_size: cannot be read (Permission denied)" in notes
    assert "/proc/slabinfo: cannot be read (Permission denied)" in notes


def test_slabinfo_stands_in_for_sysfs(tmp_path: Path) -> None:
    tree(tmp_path, "4.18.0")
    for path in (tmp_path / "sys/kernel/slab").iterdir():
        path.unlink() if path.is_symlink() else [file.unlink() for file in path.iterdir()]
    row = "dentry 40 42 192 21 1 : tunables 0 0 0 : slabdata 2 2 0\n"
    (tmp_path / "proc/slabinfo").write_text("slabinfo - version: 2.1\n" + row)
    record, notes = capture(tmp_path)
    assert record["kernel"] == "v5_3"
    assert record["measured"]["caches"] == {
        "dentry": {"slab_size": 192, "objs_per_slab": 21, "order": 0}
    }
    assert any("slab sizes are taken as object sizes" in note for note in notes)
    slab = row.replace("tunables 0", "tunables 54")
    (tmp_path / "proc/slabinfo").write_text(slab)
    record, notes = capture(tmp_path)
    assert record["given"]["caches"] == {}
    assert any("SLAB's, not SLUB's" in note for note in notes)


def test_nodes_with_gaps_are_numbered_anew(tmp_path: Path) -> None:
    base = tree(tmp_path) / "sys/devices/system/node"
    (base / "online").write_text("0,8\n")
    (base / "has_memory").write_text("0\n")
    (base / "node8").mkdir()
    (base / "node8/cpulist").write_text("\n")
    (base / "node8/distance").write_text("40 10\n")
    (base / "node0/distance").write_text("10 40\n")
    (base / "node0/cpulist").write_text("0\n")
    (base / "node8/cpulist").write_text("1\n")
    record, notes = capture(tmp_path)
    assert [node["id"] for node in record["env"]["nodes"]] == [0, 1]
    assert "nodes [0, 8] are numbered from 0 on in the record" in notes
    assert predict(record_of(record))["node_order"] == {"0": [0], "1": [1, 0]}


def test_files_alone_make_a_record_with_what_they_tell(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/version").write_text("Linux version 3.10.0-957.el7 (builder@x)\n")
    (tmp_path / "proc/zoneinfo").write_text(ZONEINFO)
    record, notes = capture(tmp_path)
    assert record["kernel"] == "v3_13"
    assert record["env"]["cpus"] == {"possible": 2, "present": 2, "online": 2}
    assert "CPUs are those that /proc/zoneinfo lists" in notes
    predict(record_of(record))


def test_a_folder_without_a_machine_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PredictError, match="expected a folder with saved proc/"):
        capture(tmp_path)


@pytest.mark.parametrize(
    ("release", "preset"),
    [
        ("2.6.32", "v3_13"),
        ("4.18.0-80.el8", "v5_3"),
        ("5.4.0", "v5_4"),
        ("5.10.0-32-amd64", "v5_10"),
        ("5.15.0", "v6_1"),
        ("6.1.0", "v6_1"),
        ("6.6.1", "v6_6"),
        ("6.8.0", "v6_8"),
        ("6.18.44", "v6_12"),
        ("7.1.0", "v7_2"),
        ("7.3.4+deb13", "v7_3"),
        ("9.0", "v7_3"),
    ],
)
def test_each_release_has_its_nearest_preset(release: str, preset: str) -> None:
    assert preset_for(release) == preset


def test_releases_between_presets_differ_in_named_choices() -> None:
    assert choices_for("6.1.0") == {}
    assert choices_for("5.15.0")["slab"]["cpu_partial_counts"] == "objects"
    with pytest.raises(PredictError, match=r"release: found 'linux', expected one such as 6\.1\.0"):
        preset_for("linux")


@pytest.mark.skipif(not Path("/proc/zoneinfo").exists(), reason="no Linux")
def test_the_machine_that_runs_the_tests_becomes_a_record() -> None:
    record, notes = capture()
    assert any("is taken as the preset" in note for note in notes)
    predicted = predict(record_of(json.loads(json.dumps(record))))
    assert predicted["caches"].keys() == record["given"]["caches"].keys()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("sys/devices/system/cpu/possible", "a list such as 0-3,8"),
        ("sys/devices/system/node/node0/distance", "distances such as 10 21"),
    ],
)
def test_a_damaged_file_is_told_by_its_path(tmp_path: Path, path: str, expected: str) -> None:
    root = tree(tmp_path)
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("many\n")
    node = root / "sys/devices/system/node"
    node.mkdir(parents=True, exist_ok=True)
    (node / "online").write_text("0\n")
    with pytest.raises(PredictError, match=f"{path}: found 'many', expected {expected}"):
        capture(root=root)


def test_a_command_line_keeps_what_matters_to_the_allocators_and_nothing_else() -> None:
    line = (
        "root=/dev/disk1 slub_max_order=2 luks.key=secret slab_nomerge mem=2G console=ttyS0 "
        "hugepages=64 init_on_alloc=1 ip=10.0.0.1 numa_balancing=disable slub_debug=FZ,kmalloc-64 "
        "-- --password=x mem=1G"
    )
    assert memory_options(line) == (
        "slub_max_order=2 slab_nomerge mem=2G hugepages=64 init_on_alloc=1 "
        "numa_balancing=disable slub_debug=FZ,kmalloc-64"
    )


def test_a_copy_without_a_release_is_read_with_the_one_given(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:     1024000 kB\n")
    with pytest.raises(PredictError, match=r"osrelease: found nothing, expected .*--release"):
        capture(tmp_path)
    record, _ = capture(tmp_path, release="6.12.3")
    assert (record["kernel"], record["name"]) == ("v6_12", "6.12.3-cpus1")
