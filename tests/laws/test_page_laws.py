"""Laws of the page allocator, and that a series is the same as its requests one by one."""

from hypothesis import HealthCheck, example, given, note, settings

from allocator.pages import migratetype as mt
from allocator.pages.zone import Zone
from tests.laws.page_twin import SHAPES, STEPS, Setting, Step, Twin, settings_of_machines

SETTING = Setting(
    kernel="v6_1",
    shape=SHAPES[3],
    min=100,
    gap=30,
    reserve=20,
    batch=7,
    high=60,
    tuned_to=0,
    threshold=4,
    large_slice=True,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(settings_of_machines(), STEPS)
@example(SETTING, [Step(op="alloc", cpu=0, words="ATOMIC+MEMALLOC", count=9000)])
def test_a_series_of_requests_equals_them_one_by_one_on_the_reference(
    setting: Setting, steps: list[Step]
) -> None:
    twin = Twin(setting)
    for step in steps:
        note(str(step))
        mine, theirs = twin.step(step)
        assert mine == theirs
        assert twin.differences() == []


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(settings_of_machines(), STEPS)
def test_pages_are_conserved_and_no_merge_is_missed(setting: Setting, steps: list[Step]) -> None:
    twin = Twin(setting)
    for step in steps:
        note(str(step))
        twin.step(step)
    for zone in twin.product.zones:
        held = [(pfn, o) for pfn, o in twin.held if zone.buddy.start <= pfn < zone.buddy.end]
        listed = [(pfn, order) for pfn, order, _ in free_blocks(zone)]
        kept = [
            (pfn, order) for pcp in zone.pcps.values() for pfn, order in pcp_blocks(zone, pcp.lists)
        ]
        pages = [p for pfn, o in [*held, *listed, *kept] for p in range(pfn, pfn + (1 << o))]
        assert sorted(pages) == list(range(zone.buddy.start, zone.buddy.end))
        assert all(pfn % (1 << order) == 0 for pfn, order in listed)
        assert sum(1 << order for _, order in listed) == zone.buddy.free_pages
        check_merges(zone)


def free_blocks(zone: Zone) -> list[tuple[int, int, int]]:
    return [
        (pfn, order, migratetype)
        for order, row in enumerate(zone.buddy.lists)
        for migratetype, blocks in enumerate(row)
        for pfn in blocks.blocks().tolist()
    ]


def pcp_blocks(zone: Zone, lists: list) -> list[tuple[int, int]]:
    low = mt.PCP_TYPES * len(zone.policy.pcp_orders)
    return [
        (pfn, number // mt.PCP_TYPES if number < low else zone.buddy.pageblock_order)
        for number, pages in enumerate(lists)
        for pfn in pages.blocks().tolist()
    ]


def check_merges(zone: Zone) -> None:
    """No two free buddies lie side by side, unless their pageblocks must not merge."""
    buddy = zone.buddy
    for pfn, order, _ in free_blocks(zone):
        other = pfn ^ (1 << order)
        if order == buddy.max_order or buddy.free_order(other) != order:
            continue
        assert order >= buddy.pageblock_order
        assert {buddy.type_of(pfn), buddy.type_of(other)} & set(buddy.barriers)
