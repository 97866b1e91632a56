"""Zones of described machines against those of booted ones."""

import pytest

from allocator.kernels import PRESETS
from allocator.pages.boot_memory import boot_zones
from allocator.topology import Topology


def populated(kernel: str, **config: object) -> list[tuple]:
    cpus = [1] * len(config["memory_bytes"])  # type: ignore[arg-type]
    topology = Topology.from_config({"cpus": cpus, **config})
    assert topology is not None
    zones = boot_zones(topology, PRESETS[kernel].page)
    return [(z.node, z.zone, z.start_pfn, z.present, z.managed) for z in zones if z.present]


@pytest.mark.parametrize(
    ("kernel", "config", "booted"),
    [
        (
            "v6_1",
            {"memory_bytes": ["1GiB"]},
            [(0, "DMA", 1, 3998, 3840), (0, "DMA32", 4096, 258016, 245002)],
        ),
        (
            "v5_10",
            {"memory_bytes": ["1GiB"]},
            [(0, "DMA", 1, 3998, 3977), (0, "DMA32", 4096, 258016, 246579)],
        ),
        (
            "v6_1",
            {"memory_bytes": ["16GiB"]},
            [
                (0, "DMA", 1, 3998, 3840),
                (0, "DMA32", 4096, 520160, 495673),
                (0, "Normal", 1048576, 3670016, 3597587),
            ],
        ),
        (
            "v6_1",
            {"memory_bytes": ["4GiB", "4GiB"]},
            [
                (0, "DMA", 1, 3998, 3840),
                (0, "DMA32", 4096, 520160, 495673),
                (0, "Normal", 1048576, 524288, 507734),
                (1, "Normal", 1572864, 1048576, 1031571),
            ],
        ),
        (
            "v6_12",
            {"arch": "arm64", "memory_bytes": ["4GiB"]},
            [(0, "DMA", 262144, 786432, 762543), (0, "Normal", 1048576, 262144, 241440)],
        ),
        (
            "v6_1",
            {"arch": "ppc64", "memory_bytes": ["4GiB"]},
            [(0, "Normal", 0, 65536, 64431)],
        ),
    ],
)
def test_zones_come_near_those_of_a_booted_machine(
    kernel: str, config: dict, booted: list[tuple]
) -> None:
    got = populated(kernel, **config)
    assert [row[:3] for row in got] == [row[:3] for row in booted]
    for mine, real in zip(got, booted, strict=True):
        assert mine[3] == pytest.approx(real[3], rel=0.001)
        assert mine[4] == pytest.approx(real[4], rel=0.015)


def test_every_node_has_every_zone_type() -> None:
    topology = Topology.from_config({"cpus": [1, 1], "memory_bytes": ["1GiB", 0]})
    assert topology is not None
    zones = boot_zones(topology, PRESETS["v6_1"].page)
    assert [(z.node, z.zone) for z in zones] == [
        (node, kind) for node in (0, 1) for kind in ("DMA", "DMA32", "Normal", "Movable")
    ]
    assert all(z.present == z.managed == 0 for z in zones if z.node == 1)


def test_3_13_calls_ppc64_memory_dma() -> None:
    (only,) = populated("v3_13", arch="ppc64", memory_bytes=["15GiB"])
    assert only[1] == "DMA"


def test_a_gap_at_the_hole_between_nodes_starts_the_next_one_above() -> None:
    got = populated("v6_1", memory_bytes=["2GiB", "2GiB"])
    assert [(row[0], row[1], row[2]) for row in got] == [
        (0, "DMA", 1),
        (0, "DMA32", 4096),
        (1, "Normal", 1 << 20),
    ]
