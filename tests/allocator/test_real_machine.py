"""How a point is run on real hardware: boot parameters, sysfs files, other topologies."""

import pytest

from allocator.point import Point, parse_group
from allocator.real_machine import boot_parameters, qemu_options, real_run
from allocator.slabs.parameters import SlabParameters
from allocator.topology import Topology
from tests.allocator.test_conf import ROOT, content


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ()),
        ({"max_order": 0}, ("slub_max_order=0",)),
        (
            {"min_order": 1, "max_order": 2, "min_objects": 9},
            ("slub_max_order=2", "slub_min_order=1", "slub_min_objects=9"),
        ),
        (
            {"min_order": 1, "max_order": 2, "min_order_last": False},
            ("slub_min_order=1", "slub_max_order=2"),
        ),
        ({"debug": "FZ", "merge": False}, ("slub_debug=FZ", "slab_nomerge")),
        ({"debug": ""}, ("slub_debug",)),
        ({"cpu_partial": 30}, ()),
    ],
)
def test_parameters_become_words_of_the_command_line(given: dict, words: tuple) -> None:
    assert boot_parameters(SlabParameters.from_config(given)) == words


def point(**slab: object) -> Point:
    names = {"machine": "icx_2xGold6338", "kernel": "v6_1", "gfp": "atomic"}
    configs = {group: content(ROOT / group / f"{name}.yaml") for group, name in names.items()}
    configs |= {"topology": {}, "slab": slab}
    configs["workload"] = {"name": "hackbench_sockets", "groups": 4, "cpus": 8}
    return Point.of(**{group: parse_group(group, c) for group, c in configs.items()})


def test_a_run_says_machine_kernel_setup_and_command() -> None:
    run = real_run(point(max_order=1, cpu_partial=30))
    assert run.machine.startswith("icx_2xGold6338: 2x Intel Xeon Gold 6338")
    assert run.kernel.startswith("v6_1: ")
    assert run.boot == ("slub_max_order=1",)
    assert run.qemu == ()
    assert run.setup == ("for f in /sys/kernel/slab/*/cpu_partial; do echo 30 > $f; done",)
    assert run.command == "taskset -c 0-7 hackbench -g 4 -f 20 -l 12 -s 100"


def test_other_cpus_and_memory_are_options_of_qemu() -> None:
    small = Topology.from_config({"cpus": [2], "memory_bytes": ["1GiB"]})
    assert small is not None
    assert qemu_options(small) == ("-smp cpus=2,maxcpus=2", "-m 1024M")
    memoryless = Topology.from_config(content(ROOT / "topology" / "memoryless_ppc64.yaml"))
    assert memoryless is not None
    assert qemu_options(memoryless) == (
        "-smp cpus=200,maxcpus=400",
        "-m 15360M",
        "-numa node,nodeid=0,cpus=0-199",
        "-object memory-backend-ram,id=m1,size=15360M",
        "-numa node,nodeid=1,memdev=m1",
        "-numa dist,src=0,dst=1,val=40",
        "-numa dist,src=1,dst=0,val=40",
    )
