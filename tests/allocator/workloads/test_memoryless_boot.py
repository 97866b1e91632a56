"""The memoryless-node thread: which patch saves the memory, on which kind of kernel."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from allocator.errors import ConfigError
from allocator.point import GROUPS
from allocator.results import Results, Status
from allocator.simulate import Tasks, simulate
from allocator.workloads.memoryless_boot import MemorylessBoot

CONF = Path(__file__).parents[3] / "conf"
KERNELS = ("v3_13", "v3_13_rientjes", "v3_13_joonsoo", "v3_13_blanchard")
PAGE = 65536


def choice(group: str, name: str) -> dict[str, object]:
    loaded = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def boot(topology: str, **changes: object) -> Results:
    """Boot the LPAR with two caches under the four kernels, one lane each."""
    workload = choice("workload", "memoryless_boot") | changes
    if "caches" not in changes:
        caches = workload["caches"]
        assert isinstance(caches, dict)
        workload["caches"] = {name: caches[name] for name in ("kmalloc-512", "inode_cache")}
    tables = {
        "machine": [choice("machine", "power_lpar_memoryless")],
        "topology": [choice("topology", topology)],
        "kernel": [choice("kernel", name) for name in KERNELS],
        "slab": [choice("slab", "default")],
        "gfp": [choice("gfp", "kernel")],
        "workload": [workload],
    }
    index = np.zeros((4, len(GROUPS)), dtype=np.int64)
    index[:, GROUPS.index("kernel")] = range(4)
    return simulate(Tasks(tables=tables, index=index, replicate=np.zeros(4, np.int64), seed=0))


def active(results: Results, cache: str) -> list[float]:
    table = results.tables["caches"]
    column = table.labels.index(cache)
    return [float(value) for value in table.values["active_percent"][:, column]]


def test_without_numa_mem_id_only_blanchard_keeps_slabs_in_use() -> None:
    results = boot("memoryless_ppc64_unaware")
    base, rientjes, joonsoo, blanchard = active(results, "kmalloc-512")
    assert base == rientjes == joonsoo  # numa_mem_id() gives the memoryless node itself
    assert base < 15
    assert blanchard > 98
    assert min(active(results, "inode_cache")) > 98  # no inode is asked for on a node


def test_with_numa_mem_id_every_patch_keeps_slabs_in_use() -> None:
    base, *patched = active(boot("memoryless_ppc64"), "kmalloc-512")
    assert base < 15
    assert min(patched) > 98


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_each_named_object_costs_a_slab_of_its_own(share: float) -> None:
    one = {"object_size": 512, "objects": 2000, "reclaimable": False, "names_node": True}
    results = boot("memoryless_ppc64_unaware", caches={"kmalloc-512": one}, named_share=share)
    slabs = results.tables["caches"].values["num_slabs"][:, 0].tolist()
    per_cpu = 1  # 10 objects a CPU fit in one slab of 128
    unpatched = 2000 if share else 200 * per_cpu
    assert slabs == [unpatched] * 3 + [200 * per_cpu]
    assert results.scalars["Slab"].tolist() == [slab * PAGE for slab in slabs]


def test_end_of_memory_is_a_status() -> None:
    one = {"object_size": 32768, "objects": 40000, "reclaimable": False, "names_node": True}
    results = boot("memoryless_ppc64_unaware", caches={"kmalloc-32768": one}, named_share=1.0)
    assert results.status[0] == Status.OOM
    assert "out of memory" in results.errors[0]
    assert results.status[3] == Status.OK


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"named_share": 2}, "workload.named_share: found 2, expected a number from 0 to 1"),
        ({"burst": 0}, "workload.burst: found 0, expected 1 to 1024 objects"),
        ({"share": 1}, "workload.share: found 1"),
        ({"caches": {}}, "workload.caches: found {}"),
        ({"caches": {"a": {"object_size": 8}}}, "workload.caches.a"),
    ],
)
def test_bad_values_are_named(config: dict[str, object], text: str) -> None:
    good = {"object_size": 8, "objects": 1, "reclaimable": False, "names_node": False}
    with pytest.raises(ConfigError) as error:
        MemorylessBoot.from_config({"caches": {"a": good}} | config)
    assert text in str(error.value)
