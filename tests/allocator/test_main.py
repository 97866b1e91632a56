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


def test_predict_goes_on_after_an_error_and_ends_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["predict", "/nowhere/r.json", RECORD]) == 1
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["explain", "--kernel", "v9", "--size", "8"], "--kernel: found 'v9', expected one of"),
        (["explain", "--size", "8", "--arch", "vax"], "topology.arch: found 'vax'"),
        (["explain", "--size", "8", "--possible", "0"], "topology.cpus_possible: found 0"),
        (["capture", "--from", "/nowhere"], "osrelease: found nothing"),
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
