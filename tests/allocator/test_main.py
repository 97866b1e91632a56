"""`python -m allocator`: exit statuses and single lines."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from allocator.__main__ import main

RECORD = str(Path(__file__).parents[1] / "golden" / "static" / "6.1-numa4.json")


def test_explain_prints_json_with_the_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--kernel", "v6_1", "--cpus", "128", "--size", "256"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["order"], report["objs_per_slab"], report["cpu_partial"]) == (2, 64, 52)
    assert report["steps"][-3] == "order 2"
    assert main(["explain", "--size", "64", "--text"]) == 0
    assert "order 0" in capsys.readouterr().out


def test_explain_takes_sizes_with_units_and_prints_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", "--size", "4KiB", "--cpus", "4", "--text"]) == 0
    text = capsys.readouterr().out
    assert "object_size            4096\n" in text
    assert "cpus                   4 present, 4 possible\n" in text
    assert main(["explain", "--size", "64", "--page-size", "64k", "--arch", "ppc64"]) == 0
    assert json.loads(capsys.readouterr().out)["page_size"] == 65536


def test_predict_goes_on_after_an_error_and_ends_with_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["predict", "/nowhere/r.json", RECORD]) == 2
    captured = capsys.readouterr()
    assert captured.err == "allocator: /nowhere/r.json: cannot be read: No such file or directory\n"
    first, second = map(json.loads, captured.out.splitlines())
    assert first == {
        "name": "r",
        "kind": None,
        "error": "/nowhere/r.json: cannot be read: No such file or directory",
    }
    assert second["name"] == "6.1-numa4"
    assert second["predicted"]["node_order"]["3"] == [3, 0, 1, 2]
    assert main(["predict", RECORD]) == 0


def test_validate_ends_with_1_if_anything_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", RECORD]) == 0
    assert capsys.readouterr().out == "6.1-numa4 (v6_1): 274 of 274 values equal\n"
    content = json.loads(Path(RECORD).read_text())
    content["measured"]["caches"]["kmalloc-8"]["order"] = 5
    (tmp_path / "r.json").write_text(json.dumps(content))
    assert main(["validate", str(tmp_path / "r.json")]) == 1
    assert "cache kmalloc-8 order" in capsys.readouterr().out


def test_validate_compares_replay_and_hugetlb_records_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = Path(RECORD).parents[1]
    replay, pool = (
        golden / "replay/6.1/stride-7.json",
        golden / "hugetlb/6.1b-1g-fill-256-smp1-1.json",
    )
    assert main(["validate", str(replay), str(pool)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "stride-7 (v6_1): 50 of 50 values equal",
        "6.1b-1g-fill-256-smp1-1 (v6_1_bailout): 1 of 1 values equal",
    ]
    content = json.loads(replay.read_text())
    content["measured"]["snapshots"][1]["caches"]["c"]["counts"]["slabs"]["N0"] = 99
    other = json.loads(pool.read_text())
    other["measured"]["nr_hugepages"] = [200, 210]
    for name, changed in (("r.json", content), ("p.json", other)):
        (tmp_path / name).write_text(json.dumps(changed))
    assert main(["validate", str(tmp_path / "r.json"), str(tmp_path / "p.json")]) == 1
    out = capsys.readouterr().out
    assert "cache c slabs" in out
    assert "49 of 50 values equal" in out
    assert "run 1 nr_hugepages, kernel 200 to 210" in out


def test_validate_names_a_file_once_and_what_it_cannot_predict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = {"kind": "workload", "kernel": "v6_1", "env": {}, "given": {}, "measured": {}}
    (tmp_path / "w.json").write_text(json.dumps(workload))
    assert main(["validate", "/nowhere", str(tmp_path / "w.json")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    nowhere, told = captured.err.splitlines()
    assert nowhere == "allocator: /nowhere: cannot be read: No such file or directory"
    assert told.endswith(
        "w.json: kind: found 'workload', expected one that is predicted: static, hugetlb, replay"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["explain", "--kernel", "v9", "--size", "8"], "--kernel: found 'v9', expected one of"),
        (["explain", "--size", "8", "--arch", "vax"], "--arch: found 'vax'"),
        (["explain", "--size", "8", "--possible", "0"], "--possible: found 0"),
        (["explain", "--size", "8", "--align", "3"], "--align: found 3, expected a power of two"),
        (["explain", "--size", "8", "--max-order", "99"], "--max-order: found 99, expected a num"),
        (["capture", "--from", "/nowhere"], "--from: found '/nowhere', expected a folder"),
        (["capture", "--from", ""], "--from: found '', expected a folder"),
    ],
)
def test_a_request_that_cannot_be_served_is_one_line_and_status_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("allocator: ")
    assert text in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [[], ["predict"], ["explain", "--size", "x"], ["fly"], ["explain", "--sise", "8"]]
)
def test_bad_usage_is_one_line_and_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_heavy_rooms_are_not_loaded_to_predict_a_static_record() -> None:
    code = (
        "import sys; from allocator.__main__ import main; main(['predict', sys.argv[1]]); "
        "print([m for m in sys.modules if m.split('.')[0] in ('ray', 'hydra', 'xarray')], "
        "any(m.startswith('allocator.workloads') for m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, RECORD], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[] False\n"
