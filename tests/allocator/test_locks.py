"""Locks: the vectorised recursion equals a queue that serves one request after another."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from allocator.locks import Locks, fifo_ends
from allocator.machine import Machine
from allocator.transfers import Transfers

CONF = Path(__file__).parents[2] / "conf" / "machine"


def machine(name: str) -> Machine:
    return Machine.from_config(yaml.safe_load((CONF / f"{name}.yaml").read_text()))


ROME = machine("epyc_rome_2x7742")
TRANSFERS = Transfers([ROME], [ROME.layout])


def one_lane(count: int, home: int = 0, lines: float = 1.0) -> Locks:
    return Locks(
        np.zeros(count, dtype=np.int64),
        np.full(count, home, dtype=np.int64),
        TRANSFERS,
        np.array([lines]),
    )


def scalar_queue(
    requests: list[tuple[int, int, float, float]], count: int, lines: float
) -> tuple[list[float], list[float], list[float]]:
    """Serve (lock, cpu, arrival, hold) one by one; return waits, hand-overs and free times."""
    free, holder = [0.0] * count, [-1] * count
    waits, handovers = [0.0] * len(requests), [0.0] * len(requests)
    order = sorted(range(len(requests)), key=lambda i: (requests[i][2], requests[i][1], i))
    for i in order:
        lock, cpu, arrival, hold = requests[i]
        start = max(arrival, free[lock])
        moved = ROME.transfer(np.array([holder[lock]]), np.array([cpu]), np.array([0]))
        waits[i] = start - arrival
        handovers[i] = float(moved[0]) * lines
        free[lock] = start + handovers[i] + hold
        holder[lock] = cpu
    return waits, handovers, free


request = st.tuples(
    st.integers(0, 3), st.integers(0, 255), st.integers(0, 3000), st.integers(0, 400)
)


@given(st.lists(st.lists(request, max_size=30), min_size=1, max_size=3))
def test_locks_equal_a_scalar_fifo_queue(calls: list[list[tuple[int, int, int, int]]]) -> None:
    locks = one_lane(4, lines=1.5)
    clean = [[(a, b, float(c) + 4000 * n, float(d)) for a, b, c, d in call]
             for n, call in enumerate(calls)]  # fmt: skip
    waits, handovers, free = scalar_queue([r for call in clean for r in call], 4, 1.5)
    found_wait: list[float] = []
    found_handover: list[float] = []
    for call in clean:
        served = locks.acquire(
            np.array([r[0] for r in call], dtype=np.int64),
            np.array([r[1] for r in call], dtype=np.int64),
            np.array([r[2] for r in call]),
            np.array([r[3] for r in call]),
        )
        found_wait += served.wait_ns.tolist()
        found_handover += served.handover_ns.tolist()
    used = locks.acquisitions > 0
    # two requests of one CPU at one instant may swap; sums per lock do not change then
    np.testing.assert_allclose(found_handover, handovers, atol=1e-6)
    np.testing.assert_allclose(locks.free_at[used] / 1e3, np.array(free)[used], atol=0.1)
    np.testing.assert_allclose(found_wait, waits, atol=0.1)  # ps are rounded
    assert locks.wait_ns.sum() == pytest.approx(sum(waits), abs=1.0)


def test_an_idle_lock_makes_nobody_wait() -> None:
    none = np.zeros(2, dtype=np.int64)
    ends = fifo_ends(np.array([0, 0, 1]), np.array([0, 100, 5]), np.array([10, 10, 10]), none)
    assert ends.tolist() == [10, 110, 15]


def test_simultaneous_requests_queue_up() -> None:
    locks = one_lane(1)
    cpus = np.array([0, 64, 1])
    served = locks.acquire(np.zeros(3, dtype=np.int64), cpus, np.zeros(3), np.full(3, 100.0))
    # CPU 0 first, then 1 (same CCX, 25.3 ns), then 64 (other socket, 266.6 ns)
    assert served.wait_ns.tolist() == pytest.approx([0.0, 225.3, 100.0])
    assert served.handover_ns.tolist() == [0.0, 266.6, 25.3]
    assert locks.contended.tolist() == [2]


def test_a_lock_homed_on_the_other_socket_costs_more() -> None:
    near, far = one_lane(1, home=0), one_lane(1, home=1)
    for locks in (near, far):
        cpus = np.array([0, 8])
        locks.acquire(np.zeros(2, dtype=np.int64), cpus, np.array([0.0, 1.0]), np.zeros(2))
    assert near.handover_ns.tolist() == [132.8]
    assert far.handover_ns.tolist() == [268.3]


def test_no_request_is_no_work() -> None:
    locks = one_lane(2)
    none = np.zeros(0)
    served = locks.acquire(none.astype(np.int64), none.astype(np.int64), none, none)
    assert served.delay_ns.size == 0
    assert locks.acquisitions.sum() == 0


def test_a_backlog_is_what_is_left_of_the_requests_that_came_before() -> None:
    locks = one_lane(2)
    lock = np.array([0, 0, 1])
    arrival = np.array([0.0, 10.0, 500.0])
    locks.acquire(lock, np.array([0, 0, 0]), arrival, np.full(3, 100.0))
    asked = locks.backlog(np.array([0, 0, 0, 1, 1]), np.array([0.0, 10.0, 250.0, 499.0, 550.0]))
    assert asked.tolist() == pytest.approx([100.0, 190.0, 0.0, 0.0, 50.0])


def test_a_restarted_lock_forgets_its_queue_and_keeps_its_holder() -> None:
    locks = one_lane(1)
    zero = np.zeros(1, dtype=np.int64)
    locks.acquire(zero, np.array([64]), np.zeros(1), np.full(1, 1e6))
    locks.restart()
    served = locks.acquire(zero, np.array([0]), np.zeros(1), np.full(1, 5.0))
    assert served.wait_ns.tolist() == [0.0]
    assert served.handover_ns.tolist() == [266.6]
