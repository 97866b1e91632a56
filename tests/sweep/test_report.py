"""The report's command line, and what a run does at its end."""

import subprocess
import sys

import pytest
import xarray as xr

import sweep.fit.saved
from allocator.errors import ConfigError
from sweep.report import finish, main
from sweep.settings import CompareSettings
from tests.sweep.synthetic import dataset, lab


@pytest.fixture
def run(tmp_path):
    lab().sel(machine=["icx"]).to_netcdf(tmp_path / "dataset.nc", engine="netcdf4")
    return tmp_path


def test_a_run_ends_with_table_and_pictures(tmp_path, capsys):
    paths = finish(tmp_path, lab(), {"compare": {"baseline": "kernel=v6_1"}})
    assert [path.name for path in paths] == [
        "compare.txt",
        "surface.png",
        "surface-epyc.png",
        "surface-icx.png",
        "surface-graviton2.png",
        "curve-slab_max_order.png",
        "report.html",
    ]
    out = capsys.readouterr().out
    assert out.startswith("kernel: v6_1_order_v2 against v6_1\n72 points (21 distinct): ")
    assert out.count("=" * 89) == 5
    assert f"6 more groups in {tmp_path / 'compare.txt'}" in out
    assert (tmp_path / "compare.txt").read_text().count("=" * 89) == 11
    assert not list(tmp_path.glob("*.tmp"))


def test_a_baseline_that_was_not_swept_gives_way_to_the_first_value(tmp_path, capsys):
    finish(tmp_path, lab().sel(machine=["icx"]), {"compare": {"baseline": "kernel=v6_12"}})
    assert capsys.readouterr().out.startswith(
        "kernel=v6_12 was not swept: compared with kernel=v6_1\nkernel: v6_1_order_v2 against "
    )


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ({"baselin": "kernel=v6_1"}, "compare.baselin: found 'kernel=v6_1', expected one of the k"),
        ({"baseline": "v6_1"}, "compare.baseline: found 'v6_1', expected AXIS=VALUE, an axis in m"),
        ({"baseline": "kernle=v6_1"}, "compare.baseline: found 'kernle=v6_1', expected AXIS=VALUE"),
        ({"html": "yes"}, "compare.html: found 'yes', expected true or false"),
        ({"metric": 3}, "compare.metric: found 3, expected "),
    ],
)
def test_what_to_compare_is_checked_before_the_run(section, line):
    with pytest.raises(ConfigError) as caught:
        CompareSettings.from_config(section)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize("config", [{}, {"compare": None}, {"compare": {"baseline": None}}])
def test_without_baseline_the_metric_is_printed(tmp_path, capsys, config):
    paths = finish(tmp_path, lab().sel(machine=["icx"]), config)
    out = capsys.readouterr().out
    assert out.startswith("machine  kernel         slab_max_order  gfp ")
    assert "to compare, e.g.: python -m sweep.report" in out
    assert paths[0].name == "summary.txt"
    assert paths[0].exists()


def test_a_single_kernel_is_not_compared(tmp_path, capsys):
    ds = lab().sel(kernel="v6_1", machine=["icx"], drop=True)
    paths = finish(tmp_path, ds, {"compare": {"baseline": "kernel=v6_1"}})
    assert capsys.readouterr().out.startswith("machine  slab_max_order  gfp ")
    assert paths[0].name == "summary.txt"


def test_a_single_point_can_be_reported(tmp_path, capsys):
    ds = dataset({}, throughput=lambda **_: 5.0)
    finish(tmp_path, ds, {"compare": {"baseline": "kernel=v6_1"}})
    assert "5.00        throughput" in capsys.readouterr().out


def test_a_run_where_everything_failed_has_nothing_to_report(tmp_path, capsys):
    ds = dataset({"kernel": ["a", "b"]}, status=lambda **_: 2, throughput=lambda **_: 5.0)
    assert finish(tmp_path, ds, {"compare": {"baseline": "kernel=a"}}) == []
    assert capsys.readouterr().out == "nothing to compare: 6 of 6 runs failed\n"
    ds.to_netcdf(tmp_path / "dataset.nc", engine="netcdf4")
    for arguments in (["--baseline", "kernel=a"], []):
        assert main([str(tmp_path), *arguments]) == 2
        assert capsys.readouterr().err == (
            "sweep.report: status: found '6 of 6 runs failed', expected at least one run that"
            " ended well\n"
        )


def test_points_of_which_one_kernel_always_fails_are_reported(tmp_path, capsys):
    ds = dataset(
        {"kernel": ["a", "b"]},
        status=lambda kernel, **_: 2 * (kernel == "b"),
        throughput=lambda **_: 5.0,
    )
    finish(tmp_path, ds, {"compare": {"baseline": "kernel=a"}})
    captured = capsys.readouterr()
    assert "3 of 6 runs: failed" in captured.out
    assert "           :3          100%           3:3     failed" in captured.out
    assert captured.err.startswith("replicate: found 0 runs of each point")


def test_the_command_takes_the_baseline_of_the_run(run, capsys):
    assert main([str(run)]) == 0
    assert capsys.readouterr().out.startswith("kernel: v6_1_order_v2 against v6_1\n")
    assert (run / "compare.txt").exists()


def test_another_comparison_has_files_of_its_own(run, tmp_path, capsys):
    out = tmp_path / "elsewhere"
    arguments = ["--baseline", "slab.max_order=3", "--against", "0", "--groups", "1"]
    assert main([str(run / "dataset.nc"), *arguments, "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "compare-slab.max_order=3-0.txt",
        "report-slab.max_order=3-0.html",
        "surface-slab.max_order=3-0-icx.png",
    ]
    assert capsys.readouterr().out.count("=" * 89) == 1


def test_a_page_is_written_unless_it_is_not_wanted(run, capsys):
    assert main([str(run)]) == 0
    page = (run / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "machine=icx slab_max_order=3 gfp=* workload=hackbench_sockets" in page
    assert "&#34;schema_version&#34;: 1" in page
    (run / "report.html").unlink()
    assert main([str(run), "--no-html"]) == 0
    assert not (run / "report.html").exists()


def test_surfaces_and_comparison_are_saved_in_the_run(run, capsys):
    assert main([str(run)]) == 0
    with xr.open_datatree(run / "dataset.nc", engine="netcdf4") as tree:
        assert tree["compare"].attrs["baseline"] == "kernel=v6_1"
        assert set(tree["fit/icx"].children) == {"hackbench_sockets", "hugepages"}
    page = (run / "report.html").read_text()
    assert "Coefficients: group /fit of dataset.nc" in page
    assert "<h2>What the change hangs on</h2>" in page


@pytest.mark.parametrize("named", ["file", "out", "rows"])
def test_a_dataset_that_is_only_read_stays_as_it_is(run, tmp_path, named):
    before = (run / "dataset.nc").read_bytes()
    arguments = {
        "file": [str(run / "dataset.nc")],
        "out": [str(run), "--out", str(tmp_path / "elsewhere")],
        "rows": [str(run), "--format", "csv"],
    }
    assert main(arguments[named]) == 0
    assert (run / "dataset.nc").read_bytes() == before


def test_a_report_goes_on_where_the_dataset_cannot_be_written(run, monkeypatch, capsys):
    def full(*_):
        raise ConfigError("dataset", "dataset.nc", "a dataset to save fits in (no space)")

    monkeypatch.setattr(sweep.fit.saved, "save", full)
    assert main([str(run)]) == 0
    assert capsys.readouterr().err == (
        "sweep.report: dataset: found 'dataset.nc', expected a dataset to save fits in (no space);"
        " the report goes on\n"
    )
    assert "Coefficients: not saved" in (run / "report.html").read_text()


def test_mmtests_layout(run, capsys):
    assert main([str(run), "--layout", "mmtests", "--groups", "2"]) == 0
    assert "1225000 *  -12.50%*" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--baseline", "kernel=v9"], "kernel: found 'v9', expected one of v6_1, v6_1_order_v2"),
        (["--baseline", "kernel"], "baseline: found 'kernel', expected AXIS=VALUE, AXIS one of "),
        (["--baseline", "a=b"], "axis: found 'a', expected one of machine, kernel, "),
        (["--metric", "speed"], "metric: found 'speed', expected one of throughput, nr_hugepages"),
        (["--against", "v6_1_order_v2"], "--against: found 'v6_1_order_v2', expected a --baseline"),
        (["--baseline", "kernel=v6_1", "--against", "v6_1"], "against: found 'v6_1', expected va"),
        (["--baseline", "="], "axis: found '', expected one of machine, kernel, "),
        (["--groups", "-1"], "--groups: found -1, expected 0 or more"),
        (["--out", "/dev/null/x"], "--out: found '/dev/null/x/compare.txt', expected a place to w"),
    ],
)
def test_bad_input_is_one_line_and_status_2(run, capsys, arguments, line):
    assert main([str(run), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"sweep.report: {line}")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["x", "--layout", "fancy"], ["x", "--groups", "many"]])
def test_a_wrong_command_line_is_one_line_too(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("sweep.report: ")
    assert err.count("\n") == 1


def test_a_closed_pipe_does_not_lose_the_files(run):
    command = f"{sys.executable} -m sweep.report {run} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.stdout == "kernel: v6_1_order_v2 against v6_1\n"
    assert done.stderr == ""
    assert (run / "surface-icx.png").exists()


def test_files_that_cannot_be_read_are_one_line(tmp_path, capsys):
    (tmp_path / "dataset.nc").write_bytes(b"\x89HDF\r\n\x1a\n torn")
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "dataset.nc"):
        assert main([str(path)]) == 2
        assert capsys.readouterr().err.startswith("sweep.report: dataset: found ")
