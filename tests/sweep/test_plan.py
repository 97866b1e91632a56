import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.plan import LARGEST_CHUNK, MAX_DEATHS, Cost, Planner, chunk_size


def cost(*times: tuple[int, float]) -> Cost:
    known = Cost()
    for points, seconds in times:
        known.tell(points, seconds)
    return known


def test_a_chunk_lasts_as_long_as_wished() -> None:
    per_point = cost((8, 0.008), (32, 0.032))  # 1 ms a point
    assert chunk_size(per_point, left=10**6, workers=2, target=0.8) == 256  # grows in steps
    grown = cost((8, 0.008), (256, 0.256))
    assert chunk_size(grown, left=10**6, workers=2, target=0.8) == pytest.approx(800, abs=1)


def test_a_large_fixed_time_makes_large_chunks() -> None:
    fixed = cost((8, 2.08), (32, 2.32))  # 2 s a task, 10 ms a point
    size = chunk_size(fixed, left=10**6, workers=2, target=0.8)
    assert size == 256
    fixed.tell(256, 4.56)
    assert chunk_size(fixed, left=10**6, workers=2, target=0.8) == pytest.approx(800, abs=1)


def test_a_slow_first_chunk_is_not_followed_by_single_points() -> None:
    known = cost((8, 8.0))  # all of it may be fixed, or none
    assert chunk_size(known, left=100, workers=2, target=0.8) == 4
    known.tell(4, 7.9)  # fixed: fewer tasks are better
    assert chunk_size(known, left=100, workers=2, target=0.8) >= 50
    known = cost((8, 8.0), (4, 4.0))
    assert chunk_size(known, left=100, workers=2, target=0.8) == 2


def test_the_last_points_are_shared_out() -> None:
    known = cost((100, 0.1), (800, 0.8))
    assert chunk_size(known, left=600, workers=2, target=0.8) == 300
    assert chunk_size(known, left=10, workers=2, target=0.8) == 10  # too short to share


def test_no_chunk_is_larger_than_results_may_be() -> None:
    known = cost((10_000, 0.001), (40_000, 0.004))
    assert chunk_size(known, left=10**7, workers=2, target=0.8) == LARGEST_CHUNK


@given(
    st.lists(st.tuples(st.integers(1, 10**5), st.floats(1e-6, 1e3)), min_size=1, max_size=30),
    st.integers(1, 10**6),
    st.integers(1, 64),
)
def test_a_size_is_always_possible(times: list[tuple[int, float]], left: int, workers: int) -> None:
    size = chunk_size(cost(*times), left=left, workers=workers, target=0.8)
    assert 1 <= size <= min(left, LARGEST_CHUNK)


@given(
    st.lists(st.integers(0, 4), max_size=400),
    st.integers(1, 8),
    st.one_of(st.none(), st.integers(1, 50)),
    st.randoms(use_true_random=False),
)
def test_every_point_is_given_out_once_whatever_is_lost(kinds, workers, fixed_size, random) -> None:
    points = np.arange(len(kinds)) + 1000
    planner = Planner(
        points, np.array(kinds, dtype=np.int64), workers=workers, target=0.8, fixed_size=fixed_size
    )
    finished: list[int] = []
    flying = []
    while True:
        chunk = planner.ask()
        if chunk is not None:
            assert len({kinds[p - 1000] for p in chunk.points.tolist()}) == 1
            assert fixed_size is None or chunk.points.size <= fixed_size
            flying.append(chunk)
        elif not flying:
            break
        if chunk is None or len(flying) > 2 * workers:
            done = flying.pop(random.randrange(len(flying)))
            fate = random.random()
            if fate < 0.1:
                planner.lost(done)
            elif fate < 0.2:
                if not planner.died(done):
                    assert done.points.size == 1
                    finished += done.points.tolist()
            else:
                planner.tell(done, random.random())
                finished += done.points.tolist()
    assert sorted(finished) == points.tolist()


def test_a_poisonous_point_is_found_and_others_are_not_given_up() -> None:
    planner = Planner(np.arange(64), np.zeros(64, dtype=np.int64), workers=1, target=0.8)
    given_up, done, deaths = [], [], 0
    while (chunk := planner.ask()) is not None:
        if 37 in chunk.points:
            deaths += 1
            if not planner.died(chunk):
                given_up += chunk.points.tolist()
        else:
            done += chunk.points.tolist()
    assert given_up == [37]
    assert sorted(done) == [point for point in range(64) if point != 37]
    assert deaths <= MAX_DEATHS + 6  # log2 of the chunk, not its size
