from pathlib import Path

import pytest

from allocator.errors import ConfigError
from allocator.workloads.registry import PLACES, workload_from_config, workload_named

CONF = Path(__file__).parents[3] / "conf" / "workload"


@pytest.mark.parametrize("name", PLACES)
def test_a_workload_is_found_under_its_own_name(name: str) -> None:
    assert workload_named(name).name == name
    assert (CONF / f"{name}.yaml").exists()


@pytest.mark.parametrize("name", ["nosuch", None, 3])
def test_an_unknown_workload_is_refused_with_those_that_are_known(name: object) -> None:
    with pytest.raises(ConfigError, match=r"workload\.name: found .*, expected one of .*geometry"):
        workload_from_config({"name": name})
