import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from allocator.errors import ConfigError
from allocator.point import parse_group
from sweep.__main__ import CONFIGURATION
from sweep.files import with_files_read

RECORDS = sorted((Path(__file__).parents[1] / "golden" / "static").rglob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_captured_machine_is_written_out(path: Path) -> None:
    profile = OmegaConf.to_container(OmegaConf.load(CONFIGURATION / "machine" / "record.yaml"))
    assert isinstance(profile, dict)
    config = {**profile, "record": str(path)}
    read = with_files_read("machine", config)
    assert "record" not in read
    assert read == json.loads(json.dumps(read))
    assert parse_group("machine", read) == parse_group("machine", config)


def test_a_script_is_its_text(tmp_path: Path) -> None:
    path = tmp_path / "x.script"
    path.write_text("cache c 256 0 -\nalloc c 0 640 0\n")
    config = {"name": "replay", "script": str(path), "ops": None}
    read = with_files_read("workload", config)
    assert read == {"name": "replay", "script": None, "ops": path.read_text()}
    path.write_text("nonsense\n")
    with pytest.raises(ConfigError, match=r"x\.script:1"):
        with_files_read("workload", config)


def test_a_file_that_is_not_there_is_named() -> None:
    config = {"name": "replay", "script": "nowhere", "ops": None}
    with pytest.raises(ConfigError, match="nowhere"):
        with_files_read("workload", config)
