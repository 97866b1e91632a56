"""Rows of a comparison: stable columns, and the formats for other programs."""

import csv
import io
import json
import math

import pytest

from sweep.answer.cells import cells_of
from sweep.answer.compare import compare
from sweep.answer.formats import written
from sweep.answer.tables import report_of
from sweep.report import main
from tests.sweep.synthetic import dataset, lab

COLUMNS = [
    "machine", "slab_max_order", "gfp", "workload", "axis", "baseline", "value", "metric", "units",
    "baseline_mean", "baseline_stddev", "baseline_runs", "baseline_failed",
    "mean", "stddev", "runs", "failed",
    "difference", "difference_low", "difference_high",
    "change", "change_low", "change_high", "change_units",
    "p_value", "p_adjusted", "significant", "changed", "regressed", "improved",
    "cause_1", "cause_1_points", "cause_2", "cause_2_points", "cause_3", "cause_3_points",
]  # fmt: skip


@pytest.fixture(scope="module")
def report():
    return report_of(compare(cells_of(lab()), "kernel=v6_1"))


@pytest.fixture
def run(tmp_path):
    lab().sel(machine=["icx", "graviton2"]).to_netcdf(tmp_path / "dataset.nc", engine="netcdf4")
    return tmp_path


def test_columns_have_stable_names(report):
    assert list(report.frame().columns) == COLUMNS


def test_rows_are_distinct_points_the_worst_first(report):
    table = report.frame()
    assert len(table) == 21
    assert table.loc[0, ["machine", "slab_max_order", "gfp"]].tolist() == [
        *("graviton2", "*", "atomic"),
    ]
    assert table.loc[0, ["baseline_failed", "failed"]].tolist() == [0, 3]
    assert table.loc[1, ["machine", "slab_max_order", "gfp"]].tolist() == ["icx", 3, "*"]
    assert table.loc[1, "mean"] == pytest.approx(1.225e6)
    assert table.loc[1, ["cause_1", "cause_1_points", "cause_2"]].tolist() == [
        *("list_lock_wait", 9.0, ""),
    ]
    assert table["regressed"].tolist() == [False, *[True] * 6, *[False] * 14]
    assert table["improved"].tolist() == [*[False] * 7, *[True] * 3, *[False] * 11]
    sizes = table["change"][10:].abs().tolist()
    assert sizes == sorted(sizes, reverse=True)


def test_each_compared_value_has_a_row(report):
    table = report_of(compare(cells_of(lab()), "slab_max_order=3", against=["0", "1"])).frame()
    icx = table[(table["machine"] == "icx") & (table["kernel"] == "v6_1_order_v2")]
    sockets = icx[icx["workload"] == "hackbench_sockets"]
    assert sockets["value"].tolist() == ["0", "1"]
    assert sockets["change"].tolist() == pytest.approx(
        [100 / 7, 100 * (1.4 - 0.175 / 3) / 1.225 - 100]
    )


def test_csv_reads_back_as_the_rows(report):
    rows = list(csv.DictReader(io.StringIO(written(report, "csv"))))
    table = report.frame()
    assert list(rows[0]) == COLUMNS
    assert len(rows) == len(table)
    assert [float(row["change"] or "nan") for row in rows] == pytest.approx(
        table["change"].tolist(), nan_ok=True, rel=0, abs=0
    )
    assert rows[0]["change"] == ""
    assert rows[1]["significant"] == "True"


def test_json_has_a_header_and_null_for_what_is_no_number(report):
    def refuse(name):
        raise AssertionError(name)

    found = json.loads(written(report, "json"), parse_constant=refuse)
    assert list(found) == ["header", "rows"]
    assert found["header"]["baseline"] == "v6_1"
    assert found["header"]["values"] == ["v6_1_order_v2"]
    assert found["header"]["methods"]["test"] == "Welch's t test, two-sided"
    assert found["header"]["provenance"]["config"] == {"compare": {"baseline": "kernel=v6_1"}}
    assert list(found["rows"][0]) == COLUMNS
    assert found["rows"][0]["change"] is None
    assert found["rows"][1]["slab_max_order"] == 3
    assert found["rows"][1]["regressed"] is True
    table = report.frame()
    assert [row["p_value"] for row in found["rows"][1:]] == table["p_value"].tolist()[1:]


def test_a_change_from_zero_is_null_in_json_and_inf_in_csv():
    ds = dataset({"kernel": ["a", "b"]}, nr_hugepages=lambda kernel, **_: 5 * (kernel == "b"))
    report = report_of(compare(cells_of(ds), "kernel=a"))
    assert json.loads(written(report, "json"))["rows"][0]["change"] is None
    (row,) = csv.DictReader(io.StringIO(written(report, "csv")))
    assert math.isinf(float(row["change"]))
    assert float(row["difference"]) == 5


def test_markdown_is_for_reading(report):
    lines = written(report, "markdown", 2).splitlines()
    assert lines[0] == (
        "| machine | slab_max_order | gfp | workload | metric | v6_1 | v6_1_order_v2 | change"
        " | 95 % interval | p adjusted | causes |"
    )
    assert lines[1] == "|" + " --- |" * 11
    assert lines[2].startswith(
        "| graviton2 | \\* | atomic | hugepages | nr_hugepages | 69.333 | - (3"
    )
    assert lines[3].startswith(
        "| icx | 3 | \\* | hackbench_sockets | throughput | 1.4e+06 | 1.225e+06 | -12.5 % | -12.9"
    )
    assert lines[3].endswith(" | list_lock_wait +9.0 |")
    assert lines[4:] == ["", "19 more rows"]


@pytest.mark.parametrize("form", ["csv", "json", "markdown"])
def test_rows_go_alone_to_the_output_and_to_a_file(run, capsys, form):
    suffix = {"markdown": "md"}.get(form, form)
    assert main([str(run), "--format", form]) == 0
    captured = capsys.readouterr()
    path = run / f"compare.{suffix}"
    assert captured.out == path.read_text()
    assert captured.err == f"wrote {path}\n"
    assert sorted(path.name for path in run.iterdir()) == [f"compare.{suffix}", "dataset.nc"]


def test_one_replicate_is_noticed_on_the_other_channel(tmp_path, capsys):
    lab().isel(replicate=[0]).to_netcdf(tmp_path / "dataset.nc", engine="netcdf4")
    assert main([str(tmp_path), "--format", "json"]) == 0
    captured = capsys.readouterr()
    row = json.loads(captured.out)["rows"][1]
    assert (row["p_value"], row["change_low"], row["significant"]) == (None, None, False)
    assert row["change"] == pytest.approx(-12.5)
    assert captured.err.splitlines()[0] == (
        "replicate: found 1 run of each point, expected 2 or more for confidence intervals and"
        " significance; changes are shown without them"
    )


def test_rows_without_a_comparison_are_refused(tmp_path, capsys):
    lab().sel(kernel="v6_1").to_netcdf(tmp_path / "dataset.nc", engine="netcdf4")
    assert main([str(tmp_path), "--format", "csv"]) == 2
    assert capsys.readouterr().err == (
        "sweep.report: --format: found 'csv', expected a --baseline to compare with\n"
    )
