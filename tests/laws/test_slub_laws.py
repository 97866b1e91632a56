"""Conservation laws of SLUB, on the scalar reference."""

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.laws.slub_driver import Driver
from tests.laws.slub_strategies import Step, Window, scripts, settings_of_slub, windows
from tests.reference.slub_cpu import CpuSlabs
from tests.reference.slub_laws import check, lost

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ROUND = settings(QUICK, max_examples=40)


@QUICK
@given(st.data())
def test_objects_slabs_and_pages_are_conserved(data):
    setting = data.draw(settings_of_slub())
    driver = Driver(setting)
    for step in data.draw(scripts(setting.topology)):
        driver.step(step)
        check(driver.cache, driver.held)


@QUICK
@given(st.data())
def test_every_request_is_counted_once(data):
    """Fast and slow entries are the calls made; new slabs less discarded ones are those there."""
    setting = data.draw(settings_of_slub())
    driver = Driver(setting)
    stats = driver.cache.stats
    allocated = freed = 0
    script = data.draw(scripts(setting.topology))
    for step in (step for step in script if step.op in ("alloc", "free")):
        done = len(driver.step(step))
        if step.op == "alloc":
            allocated += done + (done < step.count)  # the one that failed was a call too
        else:
            freed += done
    assert stats["FREE_FASTPATH"] + stats["FREE_SLOWPATH"] == freed
    assert stats["ALLOC_SLAB"] - stats["FREE_SLAB"] == sum(n.nr_slabs for n in driver.cache.nodes)
    if setting.kernel.slab.slowpath_counts == "calls":
        assert stats["ALLOC_FASTPATH"] + stats["ALLOC_SLOWPATH"] == allocated


@QUICK
@given(st.data())
def test_nothing_is_left_when_everything_is_freed_and_shrunk(data):
    setting = data.draw(settings_of_slub())
    driver = Driver(setting)
    for step in data.draw(scripts(setting.topology)):
        driver.step(step)
    cache = driver.cache
    cache.free(0, driver.held)
    cache.shrink()
    leaked = lost(cache) if isinstance(cache, CpuSlabs) else []
    alive = [slab for slab in cache.slabs if slab.alive]
    assert [slab for slab in alive if slab not in leaked] == []
    assert all(slab.inuse == 0 for slab in leaked)


@ROUND
@given(st.data())
def test_windows_conserve_too(data):
    setting = data.draw(settings_of_slub())
    driver = Driver(setting)
    for window in data.draw(st.lists(windows(setting.topology), min_size=1, max_size=20)):
        note(str(window))
        driver.window(window)
        check(driver.cache, driver.held)


@ROUND
@given(st.data())
def test_a_window_of_one_cpu_is_sequential_execution(data):
    setting = data.draw(settings_of_slub())
    alone, windowed = Driver(setting), Driver(setting)
    script = data.draw(scripts(setting.topology))
    for step in (s for s in script if s.op in ("alloc", "balloc", "free", "bfree")):
        one = Step(op=step.op, cpu=step.cpu, count=step.count, node=step.node, pick=step.pick)
        got = alone.step(one)
        [seen] = windowed.window(Window(op=step.op, requests=(one,)))
        assert [(o.slab.number, o.slot) for o in got] == [(o.slab.number, o.slot) for o in seen]
    assert alone.cache.stats == windowed.cache.stats
    for here, there in zip(alone.cache.nodes, windowed.cache.nodes, strict=True):
        assert [slab.number for slab in here.partial] == [slab.number for slab in there.partial]
        assert here.list_lock == there.list_lock
        assert here.slab_updates == there.slab_updates
