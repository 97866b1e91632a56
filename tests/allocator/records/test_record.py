"""Reading records: every fault is one line with file, field, found and expected."""

import json
from pathlib import Path

import pytest

from allocator.errors import ConfigError, PredictError
from allocator.records import load, load_topology, machine_topology
from allocator.records.machine import cpu_list, kernel_of, parameters_of
from allocator.records.record import record_of
from allocator.records.static import predict_static


def content(**changes: object) -> dict:
    record = {
        "schema": 1,
        "kind": "static",
        "name": "box",
        "kernel": "v6_1",
        "env": {
            "release": "6.1.0",
            "arch": "x86_64",
            "page_size": 4096,
            "huge_page_kb": 2048,
            "cpus": {"possible": 4, "present": 2, "online": 2},
            "nodes": [{"id": 0, "cpus": [0, 1], "has_memory": True}],
            "distances": [[10]],
            "cmdline": "",
            "params": {},
            "thp": "always",
            "sysctl": {"lowmem_reserve_ratio": [256, 256, 32, 0, 0]},
        },
        "given": {
            "zones": [
                {"node": 0, "zone": "DMA", "present": 3998, "managed": 3840},
                {"node": 0, "zone": "DMA32", "present": 258016, "managed": 245002},
            ],
            "caches": {"c": {"object_size": 256, "align": 8}},
            "steps": [],
        },
    }
    return record | changes


def write(tmp_path: Path, record: object) -> Path:
    path = tmp_path / "box.json"
    path.write_text(json.dumps(record))
    return path


def changed(path: str, value: object) -> dict:
    """A record with one field changed; `...` takes it away."""
    record = content()
    *outer, last = path.split(".")
    part = record
    for key in outer:
        part = part[int(key)] if isinstance(part, list) else part[key]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return record


def test_a_record_is_read(tmp_path: Path) -> None:
    record = load(write(tmp_path, content()))
    assert (record.name, record.kind, record.kernel) == ("box", "static", "v6_1")
    assert record.measured is None
    predicted = predict_static(record)
    assert predicted["caches"]["c"] == {
        "slab_size": 256,
        "objs_per_slab": 16,
        "order": 0,
        "min_partial": 5,
        "cpu_partial": 52,
    }
    assert predicted["node_order"] == {"0": [0]}


def test_a_missing_file_is_named() -> None:
    with pytest.raises(PredictError, match=r"^/nowhere/x\.json: cannot be read: No such file"):
        load("/nowhere/x.json")


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{oops")
    with pytest.raises(PredictError, match=r"x\.json: not JSON: Expecting property name"):
        load(tmp_path / "x.json")
    (tmp_path / "x.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(PredictError, match=r"x\.json: not JSON: "):
        load(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("schema", 2, r"record\.schema: found 2, expected 1"),
        ("kind", "dynamic", r"record\.kind: found 'dynamic', expected one of static, replay"),
        ("kernel", ..., r"record\.kernel: found nothing, expected a text"),
        ("env", [], r"record\.env: found \[\], expected a mapping"),
        ("kernel", "v9", r"kernel: found 'v9', expected one of v3_13"),
        ("env.arch", "vax", r"env\.arch: found 'vax', expected one of x86_64, aarch64"),
        ("env.page_size", "4k", r"env\.page_size: found '4k', expected a whole number"),
        ("env.page_size", 8192, r"env: topology\.page_size: found 8192"),
        ("env.cpus.present", 0, r"env\.cpus\.present: found 0, expected a whole number from 1"),
        ("env.nodes", [], r"env\.nodes: found \[\], expected nodes 0, 1"),
        ("env.nodes.0.cpus", "0-1", r"env\.nodes\[0\]\.cpus: found '0-1', expected a list"),
        ("env.distances", [[10, 20]], r"env: topology\.distances: found 'rows of \[2\]'"),
        ("env.params", {"slub_max_order": -1}, r"slub_max_order: found -1"),
        ("env.sysctl.lowmem_reserve_ratio", "256", r"lowmem_reserve_ratio: found '256'"),
        ("env.choices", {"slab": {"speed": 1}}, r"env\.choices: kernel\.slab\.speed: found 1"),
        ("given.zones", {}, r"given\.zones: found {}, expected a list"),
        ("given.zones.0.zone", "Low", r"given\.zones\[0\]\.zone: found 'Low', expected one of"),
        ("given.zones.1.managed", None, r"given\.zones\[1\]\.managed: found None"),
        ("given.caches", ..., r"given\.caches: found nothing, expected a mapping"),
        ("given.caches.c.object_size", 0, r"given\.caches\.c\.object_size: found 0"),
        ("given.caches.c.align", 24, r"caches\.c\.align: found 24, expected a power of two"),
        ("given.caches.c.ctor", "no", r"given\.caches\.c\.ctor: found 'no', expected true"),
        ("given.steps", [7], r"given\.steps\[0\]: found 7, expected a mapping"),
        ("given.steps", [{"set": "x"}], r"given\.steps\[0\]\.set: found 'x', expected a sysctl"),
        (
            "given.steps",
            [{"set": ["a", "1"], "managed": [[0, "DMA"]]}],
            r"given\.steps\[0\]\.managed: found \[\[0, 'DMA'\]\], expected rows",
        ),
    ],
)
def test_a_fault_names_file_field_found_and_expected(
    tmp_path: Path, path: str, value: object, text: str
) -> None:
    file = write(tmp_path, changed(path, value))
    with pytest.raises(PredictError, match=rf"^{file}: .*{text}") as caught:
        predict_static(load(file))
    assert "\n" not in str(caught.value)


def test_the_machine_of_a_record_is_a_topology(tmp_path: Path) -> None:
    topology = load_topology(str(write(tmp_path, content())))
    assert (topology.cpus, topology.nr_cpu_ids, topology.nodes) == (2, 4, 1)
    assert topology.memory_bytes == ((3998 + 258016) * 4096,)


def test_a_sweep_is_told_which_key_named_a_bad_record() -> None:
    with pytest.raises(ConfigError, match=r"^machine\.record: found '/nowhere'"):
        load_topology("/nowhere")


def test_replay_records_tell_their_machine_in_other_words() -> None:
    env = {
        "machine": "x86_64",
        "cpus": 3,
        "nodes_online": "0-1",
        "nodes_normal_memory": "1",
        "node_cpus": {"0": "0-1", "1": "2"},
        "mem_total_kb": 351608,
    }
    topology = machine_topology(record_of(content(kind="replay", env=env, given={})))
    assert topology.node_of_cpu == (0, 0, 1)
    assert topology.memory_bytes == (0, 351608 * 1024)


def test_present_cpus_that_are_offline_go_to_the_first_node() -> None:
    record = changed("env.cpus", {"possible": 8, "present": 4, "online": 2})
    assert machine_topology(record_of(record)).node_of_cpu == (0, 0, 0, 0)


def test_parameters_come_from_params_or_the_command_line() -> None:
    cmdline = "slub_min_order=1 slub_max_order=2 slab_min_objects=9 slub_debug=ZQ,foo"
    record = record_of(changed("env.cmdline", cmdline))
    parameters = parameters_of(record, kernel_of(record))
    assert (parameters.max_order, parameters.min_order) == (2, 1)
    assert not parameters.min_order_last
    assert parameters.min_objects is None  # 6.1 knows slub_ only
    assert parameters.debug == "Z,foo"  # unknown letters are passed over
    new = record_of(changed("env.cmdline", cmdline) | {"kernel": "v6_12"})
    assert parameters_of(new, kernel_of(new)).min_objects == 9


def test_a_kernel_built_without_cpu_partial_has_none() -> None:
    record = record_of(changed("env.config", {"SLUB": "y"}))
    assert predict_static(record)["caches"]["c"]["cpu_partial"] == 0


@pytest.mark.parametrize(
    ("text", "numbers"), [("", []), ("0", [0]), ("0-2,5", [0, 1, 2, 5]), ("3,1", [3, 1])]
)
def test_cpu_lists_are_read(text: str, numbers: list[int]) -> None:
    assert cpu_list(text) == numbers


def test_a_bad_cpu_list_is_one_line() -> None:
    with pytest.raises(PredictError, match="found '0-x', expected a list such as 0-3,8"):
        cpu_list("0-x")


def test_a_list_of_nodes_that_is_none_is_told_by_file_and_field():
    env = {"machine": "x86_64", "nodes_online": "0", "nodes_normal_memory": "x"}
    record = record_of(content(env=env), Path("box.json"))
    with pytest.raises(PredictError, match=r"box\.json: env\.nodes_normal_memory: found 'x'"):
        machine_topology(record)


def test_a_file_without_an_end_is_not_read_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("allocator.records.record.MAX_BYTES", 100)
    file = tmp_path / "long.json"
    file.write_text(" " * 101)
    with pytest.raises(PredictError, match=r"long\.json: found more than 100 bytes"):
        load(file)
