"""Static records of booted kernels: every value that was measured."""

import json
from pathlib import Path

import pytest

from allocator.records import load
from allocator.records.predict import predict, predict_files
from allocator.records.report import validate_files
from allocator.records.validate import compare_static

GOLDEN = Path(__file__).parents[2] / "golden" / "static"
RECORDS = sorted(GOLDEN.glob("*.json"))


def test_there_are_records_of_every_kernel_and_architecture() -> None:
    seen = {(r.kernel, r.env["arch"], r.env["page_size"]) for r in map(load, RECORDS)}
    assert seen >= {
        ("v5_10", "x86_64", 4096),
        ("v6_1", "x86_64", 4096),
        ("v6_12", "x86_64", 4096),
        ("v7_3", "x86_64", 4096),
        ("v6_1", "aarch64", 4096),
        ("v6_12", "aarch64", 16384),
        ("v6_1", "ppc64le", 65536),
    }


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_value_equals_the_booted_kernel(path: Path) -> None:
    record = load(path)
    rows = list(compare_static(record, predict(record)))
    assert len(rows) > 200
    assert [(row.what, row.measured, row.predicted) for row in rows if not row.equal] == []


@pytest.mark.parametrize("path", RECORDS[:3], ids=lambda path: path.stem)
def test_a_prediction_is_formed_as_what_was_measured(path: Path) -> None:
    record = load(path)
    predicted = predict(record)
    assert record.measured is not None
    assert predicted["caches"].keys() == record.measured["caches"].keys()
    for mine, real in zip(predicted["steps"], record.measured["steps"], strict=True):
        assert (mine["set"], mine["error"]) == (real["set"], real["error"])
        assert [(z["node"], z["zone"]) for z in mine["zones"]][:4] == [
            (z["node"], z["zone"]) for z in real["zones"]
        ][:4]
    json.dumps(predicted)


def test_what_was_measured_is_never_read(tmp_path: Path) -> None:
    content = json.loads(RECORDS[0].read_text())
    before = predict(load(RECORDS[0]))
    content["measured"] = {"boot": "?"}
    (tmp_path / "r.json").write_text(json.dumps(content))
    assert predict(load(tmp_path / "r.json")) == before
    del content["measured"]
    (tmp_path / "r.json").write_text(json.dumps(content))
    assert predict(load(tmp_path / "r.json")) == before


def test_a_refused_sysctl_changes_nothing(tmp_path: Path) -> None:
    content = json.loads((GOLDEN / "6.1-mem4096-thpnever.json").read_text())
    steps = content["given"]["steps"]
    refused = {**steps[0], "set": ["min_free_kbytes", "1"], "error": "Invalid argument"}
    content["given"]["steps"] = [steps[0], refused]
    (tmp_path / "r.json").write_text(json.dumps(content))
    first, second = predict(load(tmp_path / "r.json"))["steps"]
    assert second["error"] == "Invalid argument"
    assert second["zones"] == first["zones"]


def test_one_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[]")
    paths = [str(RECORDS[0]), str(tmp_path / "bad.json"), str(tmp_path / "no.json")]
    good, bad, missing = predict_files([*paths[:3]])
    assert good["name"] == load(RECORDS[0]).name
    assert "predicted" in good
    assert bad["name"] == "bad"
    assert "found [], expected a mapping" in str(bad["error"])
    assert "cannot be read" in str(missing["error"])


def test_a_kind_that_is_not_predicted_is_an_error_line(tmp_path: Path) -> None:
    content = json.loads(RECORDS[0].read_text()) | {"kind": "workload"}
    (tmp_path / "w.json").write_text(json.dumps(content))
    (answer,) = predict_files([str(tmp_path / "w.json")])
    assert "kind: found 'workload', expected one that is predicted" in str(answer["error"])


def test_validate_prints_a_table_of_what_differs(tmp_path: Path) -> None:
    content = json.loads((GOLDEN / "6.1-numa4.json").read_text())
    content["measured"]["caches"]["kmalloc-256"]["order"] = 7
    content["measured"]["node_order"]["3"] = [3, 2, 0, 1]
    (tmp_path / "r.json").write_text(json.dumps(content))
    lines = list(validate_files([str(tmp_path / "r.json")]))
    assert [line for line, _ in lines] == [
        "6.1-numa4                    measured     predicted",
        "cache kmalloc-256 order             7             0",
        "node order 3             [3, 2, 0, 1]  [3, 0, 1, 2]",
        "6.1-numa4 (v6_1): 272 of 274 values equal",
    ]
    assert not any(fine for _, fine in lines)


def test_validate_needs_something_to_compare_with(tmp_path: Path) -> None:
    content = json.loads(RECORDS[0].read_text())
    del content["measured"]
    (tmp_path / "r.json").write_text(json.dumps(content))
    ((line, fine),) = validate_files([str(tmp_path / "r.json")])
    assert fine is None
    assert line.endswith("measured: found nothing to compare with")
