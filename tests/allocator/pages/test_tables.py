from allocator import gfp as flags
from allocator.counters import TABLES
from allocator.pages.tables import nodes_table, zones_table
from tests.allocator.pages.zones_of_tests import machine, zone

KERNEL = flags.DIRECT_RECLAIM | flags.KSWAPD_RECLAIM | flags.IO | flags.FS


def lanes():
    one = machine(zone(end=4096))
    two = machine(zone(end=4096), zone(node=1, start=4096, end=8192), node_of_cpu={0: 0, 1: 1})
    one.alloc_many(0, 0, KERNEL, 3)
    two.alloc_many(1, 0, KERNEL, 3)
    return one, two


def test_zones_of_machines_with_different_nodes():
    table = zones_table(lanes())
    assert table.labels == ("N0.Normal", "N1.Normal")
    assert table.values["nr_free_pages"].tolist() == [[4089, 0], [4096, 4089]]
    assert table.values["pcp_count"].tolist() == [[4, 0], [0, 4]]
    assert table.values["zone_lock_takes"].tolist() == [[1, 0], [0, 1]]
    assert set(table.values) <= set(TABLES["zones"])


def test_numa_events_of_nodes():
    table = nodes_table(lanes())
    assert table.labels == ("0", "1")
    assert table.values["numa_hit"].tolist() == [[3, 0], [0, 3]]
    assert set(table.values) <= set(TABLES["nodes"])
