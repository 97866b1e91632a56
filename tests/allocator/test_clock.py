"""Clocks: who moves in a window."""

import numpy as np

from allocator.clock import Clocks


def test_the_earliest_ready_cpu_always_moves() -> None:
    clocks = Clocks(2, 3)
    clocks.now[:] = [[5.0, 1.0, 9.0], [0.0, 50.0, 2.0]]
    ready = np.array([[True, True, True], [False, True, True]])
    moves = clocks.window(ready, np.array([4.0, 0.0]))
    assert moves.tolist() == [[True, True, False], [False, False, True]]


def test_an_idle_cpu_wakes_with_the_earliest_ready_one() -> None:
    clocks = Clocks(1, 3)
    clocks.now[:] = [[7.0, 3.0, 9.0]]
    clocks.idle(np.array([[True, False, True]]))
    assert clocks.now.tolist() == [[7.0, 7.0, 9.0]]


def test_spending_counts_as_busy_and_waking_does_not() -> None:
    clocks = Clocks(1, 2)
    clocks.spend(np.array([0]), np.array([0]), np.array([30.0]))
    clocks.idle(np.array([[True, False]]))
    assert clocks.now.tolist() == [[30.0, 30.0]]
    assert clocks.busy_ns.tolist() == [[30.0, 0.0]]
    assert clocks.elapsed_ns().tolist() == [30.0]


def test_no_ready_cpu_moves_no_clock() -> None:
    clocks = Clocks(1, 2)
    nobody = np.zeros((1, 2), dtype=bool)
    clocks.idle(nobody)
    assert not clocks.window(nobody, np.array([1.0])).any()
    assert clocks.now.tolist() == [[0.0, 0.0]]
