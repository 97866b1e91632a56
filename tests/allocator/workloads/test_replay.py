"""Replay scripts: records of booted kernels, and the workload for sweeps."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from allocator.errors import ConfigError
from allocator.records.record import load
from allocator.workloads.replay import predict_replay
from allocator.workloads.replay_workload import Replay

GOLDEN = Path(__file__).parents[2] / "golden" / "replay"
RECORDS = sorted(GOLDEN.glob("*/*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_counts_and_places_of_a_script_equal_the_booted_kernel(path):
    measured = json.loads(path.read_text())["measured"]["snapshots"]
    predicted = predict_replay([load(path).blind()])[0]["snapshots"]
    assert [told["label"] for told in predicted] == [told["label"] for told in measured]
    for told, wanted in zip(predicted, measured, strict=True):
        if wanted["label"] == "sysfs-failed":
            continue
        for cache, values in wanted["caches"].items():
            assert told["caches"][cache]["counts"] == values["counts"]
        for part in ("placed", "slabs", "gone"):
            assert told["place"][part] == wanted["place"][part]
        assert told["results"] == wanted["results"]


def test_a_malformed_line_is_told_by_file_line_and_what_was_expected(tmp_path):
    script = tmp_path / "bad.ops"
    script.write_text("cache c 256 0 -\nalloc c 0 many 0\n")
    with pytest.raises(ConfigError, match=r"bad\.ops:2: .*many.*expected"):
        Replay.from_config({"script": str(script)})


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"ops": "cache c 8 0 -", "script": "x"}, "only one of workload.script"),
        ({"script": "/nowhere/x.ops"}, "can be read"),
        ({"ops": "page 0 0 1 0 KERNEL"}, "operations on caches only"),
        ({"ops": "snap a"}, "creates a cache"),
        ({"size": 3}, "script or ops"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(config, text):
    with pytest.raises(ConfigError, match=text):
        Replay.from_config(config)


def test_a_script_alone_takes_the_place_of_the_example(tmp_path):
    script = tmp_path / "s.ops"
    script.write_text("cache c 8 0 -\n")
    assert Replay.from_config({"script": str(script), "ops": None}).text == "cache c 8 0 -\n"
    assert Replay.from_config({"script": None, "ops": None}).text.startswith("cache c 256 0 -\n")


def test_freeing_an_id_twice_is_refused_before_anything_runs():
    ops = "cache c 256 0 -\nalloc c 0 4 0\nfree c 0 0 4 1\nfree c 0 1 1 1\n"
    with pytest.raises(ConfigError, match=r"workload\.ops:4: .*freed in line 3"):
        Replay.from_config({"ops": ops})


def test_equal_workloads_share_a_shape():
    one = Replay.from_config({"ops": "cache c 8 0 -"})
    assert one == Replay.from_config({"ops": "cache c 8 0 -"})
    assert np.unique([hash(one), hash(Replay.from_config({"ops": "cache c 8 0 -"}))]).size == 1


@pytest.mark.parametrize("cache", ["cache c 5000000 0 -", "cache c 64 8388608 -"])
def test_a_cache_whose_objects_fit_no_slab_is_refused_as_the_kernel_does(cache):
    path = RECORDS[0]
    record = load(path).blind()
    script = f"cache a 8 0 -\n{cache}\nalloc c 0 1 0\n"
    with pytest.raises(ConfigError, match=r"given\.ops:2: found .*at most 4194304") as fault:
        predict_replay([replace(record, given={"ops": script})])
    assert str(path) in str(fault.value)


def test_a_script_without_an_end_is_not_read_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("allocator.records.script_file.MAX_BYTES", 100)
    script = tmp_path / "long.ops"
    script.write_text("#" * 101)
    with pytest.raises(ConfigError, match=r"long\.ops', expected a script of at most 100 bytes"):
        Replay.from_config({"script": str(script)})
