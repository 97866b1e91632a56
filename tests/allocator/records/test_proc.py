"""Files of /proc in the forms that kernels of twenty years gave them."""

from allocator.records import proc

OLD = """\
Node 0, zone      DMA
  pages free     5410
        min      181
        low      226
        high     271
        scanned  0 (a: 0 i: 0)
        spanned  8192
        present  8192
        protection: (0, 0, 0, 0)
  pagesets
    cpu: 0 pcp: 0
              count: 2
              high:  6
              batch: 1
    cpu: 0 pcp: 1
              count: 0
              high:  2
              batch: 1
  all_unreclaimable: 0
  start_pfn:         196608
"""
NEW = """\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 42
      nr_hugetlb   0
  pages free     3808
        boost    7
        min      33
        low      41
        high     49
        promo    57
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 3019, 7627, 7627, 7627)
      nr_free_pages 3808
      high 12345
  pagesets
    cpu: 0
              count:    0
              high:     24
              batch:    1
              high_min: 24
              high_max: 240
  vm stats threshold: 4
    cpu: 1
              count:    3
              high:     25
              batch:    1
              high_min: 24
              high_max: 240
  vm stats threshold: 4
  node_unreclaimable:  0
  start_pfn:           1
Node 1, zone  Movable
  pages free     0
        min      32
        low      32
        high     32
        spanned  0
        present  0
        managed  0
        protection: (0, 0, 0, 0, 0)
"""


def test_a_zone_of_2_6_has_no_managed_pages_and_two_lists_a_cpu() -> None:
    (zone,) = proc.zoneinfo(OLD)
    assert zone == {
        "node": 0,
        "zone": "DMA",
        "free": 5410,
        "min": 181,
        "low": 226,
        "high": 271,
        "spanned": 8192,
        "present": 8192,
        "protection": [0, 0, 0, 0],
        "pcp": {0: {"count": 2, "high": 6, "batch": 1}},
        "start_pfn": 196608,
    }


def test_a_zone_of_today_has_boost_promo_and_tuned_lists() -> None:
    first, empty = proc.zoneinfo(NEW)
    assert (first["boost"], first["min"], first["promo"], first["managed"]) == (7, 33, 57, 3840)
    assert first["high"] == 49  # not the counter of that name
    assert first["pcp"][1] == {
        "count": 3,
        "high": 25,
        "batch": 1,
        "high_min": 24,
        "high_max": 240,
    }
    assert (empty["node"], empty["zone"], empty["pcp"]) == (1, "Movable", {})


def test_text_that_is_none_gives_nothing() -> None:
    for read in (proc.zoneinfo, proc.buddyinfo, proc.slabinfo, proc.meminfo):
        assert not read("")
        assert not read("\0garbage\nNode x, zone\n: tunables : slabdata\n")
    assert proc.pagetypeinfo("garbage") == {"free": [], "blocks": []}


def test_buddyinfo_lists_blocks_by_order() -> None:
    text = (
        "Node 0, zone      DMA      1      0      2 \nNode 1, zone   Normal     10     20     30 "
    )
    assert proc.buddyinfo(text) == [
        {"node": 0, "zone": "DMA", "free": [1, 0, 2]},
        {"node": 1, "zone": "Normal", "free": [10, 20, 30]},
    ]


def test_pagetypeinfo_has_free_blocks_and_pageblocks_by_type() -> None:
    text = """\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1
Node    0, zone      DMA, type    Unmovable      1      0
Node    0, zone      DMA, type      Movable >100000      3

Number of blocks type     Unmovable      Movable
Node 0, zone      DMA            1            7
"""
    found = proc.pagetypeinfo(text)
    assert found["pageblock_order"] == 9
    assert found["free"] == [
        (0, "DMA", "Unmovable", [1, 0]),
        (0, "DMA", "Movable", [100000, 3]),
    ]
    assert found["blocks"] == [(0, "DMA", {"Unmovable": 1, "Movable": 7})]


def test_slabinfo_rows_may_have_any_name_and_be_cut_short() -> None:
    text = """\
slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit>
nf_conntrack_ffff881026e52400  5 9  320   51    4 : tunables  0  0  0 : slabdata  1 2  0
kmalloc-8192         132    148   8192    4    8 : tunables    0    0    0 : slabdata     37     37
TIPC                   0      0    320   12    1 : tunables   54   27    8 : slabdata      0   0  0
"""
    rows = proc.slabinfo(text)
    assert list(rows) == ["nf_conntrack_ffff881026e52400", "TIPC"]
    assert rows["nf_conntrack_ffff881026e52400"] == {
        "active_objs": 5,
        "num_objs": 9,
        "objsize": 320,
        "objperslab": 51,
        "pagesperslab": 4,
        "limit": 0,
        "active_slabs": 1,
        "num_slabs": 2,
    }
    assert rows["TIPC"]["limit"] == 54


def test_meminfo_is_read_of_a_machine_or_a_node() -> None:
    text = "MemTotal:  990732 kB\nActive(anon):  12 kB\nHugePages_Total:   3\n"
    assert proc.meminfo(text) == {"MemTotal": 990732, "Active(anon)": 12, "HugePages_Total": 3}
    assert proc.meminfo("Node 1 MemFree:  77 kB\n") == {"MemFree": 77}
