"""The scalar reference against records of booted kernels."""

import json
from pathlib import Path

import pytest

from allocator.records.record import load
from tests.reference.slub_truth import differences, main, replay

GOLDEN = Path(__file__).parents[1] / "golden" / "replay"
RECORDS = sorted(GOLDEN.rglob("*.json"))
COUNTED = sorted(GOLDEN.with_name("replay_stats").rglob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_counts_places_and_results_equal_the_booted_kernel(path):
    record = load(path)
    everything = {"counts": True, "place": True, "results": True}
    assert list(differences(record, everything, replay(record))) == []


@pytest.mark.parametrize("path", COUNTED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_slub_stats_counter_equals_the_booted_kernel(path):
    record = load(path)
    everything = {"counts": True, "place": True, "results": True}
    predicted = replay(record)
    assert all(snapshot["caches"]["c"]["stats"] for snapshot in predicted)
    assert list(differences(record, everything, predicted)) == []


def test_a_difference_is_told(tmp_path, capsys):
    content = json.loads(RECORDS[0].read_text())
    content["measured"]["snapshots"][0]["caches"]["c"]["counts"]["slabs"]["total"] += 1
    (tmp_path / "changed.json").write_text(json.dumps(content))
    assert main([str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "0/1" in told
    assert "changed: " in told
