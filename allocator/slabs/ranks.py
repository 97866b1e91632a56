"""Order and rank within groups, by sorting packed keys instead of looping.

Requests of one window that meet at one list are told apart by their rank there: the r-th of them
takes the r-th share. All functions keep the order of equal keys.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Kind = TypeVar("Kind", bound=np.generic)

_counted = np.arange(1 << 16)


def counted(size: int) -> Ints:
    """Return 0..size-1, not to be written to; making them anew each time would cost more."""
    global _counted
    if size > len(_counted):
        _counted = np.arange(2 * size)
    return _counted[:size]


def gathered(values: NDArray[Kind], index: Ints) -> NDArray[Kind]:
    """Return values[index] without a check of bounds: the index must be right."""
    return values.take(index, mode="wrap")


def stable_order(keys: NDArray[np.integer], bound: int) -> Ints:
    """Return the indices that sort `keys` and keep the order of equal ones.

    Parameters
    ----------
    keys
        (n,) integers in 0..bound-1.
    bound
        One more than the largest possible key; sorting is faster where key and index fit 32 bits.
    """
    size = len(keys)
    if size < 2 or bool((keys[1:] >= keys[:-1]).all()):
        return np.arange(size)
    bits = (size - 1).bit_length()
    if (bound - 1).bit_length() + bits > 63:
        return np.argsort(keys, kind="stable")
    packed = keys.astype(np.int64)
    packed <<= bits
    packed |= counted(size)
    numbers = _sorted_numbers(packed, (bound - 1).bit_length() + bits)
    numbers &= (1 << bits) - 1
    return numbers.astype(np.int64, copy=False)


def _sorted_numbers(packed: Ints, bits: int) -> NDArray[np.integer]:
    """Sort numbers of so many bits, 32 at a time if they are no longer."""
    numbers: NDArray[np.integer] = packed.astype(np.uint32) if bits <= 32 else packed
    numbers.sort()
    return numbers


def sorted_by(keys: Ints, numbers: Ints, bound: int) -> tuple[Ints, Ints]:
    """Sort pairs by key, then number.

    Parameters
    ----------
    keys
        (n,) integers in 0..bound-1.
    numbers
        (n,) ascending integers, 0 or more.
    bound
        One more than the largest possible key.
    """
    bits = int(numbers[-1]).bit_length()
    width = (bound - 1).bit_length() + bits
    if width > 63:
        order = np.argsort(keys, kind="stable")
        return keys[order], numbers[order]
    packed = _sorted_numbers((keys << bits) | numbers, width)
    sorted_keys, sorted_numbers = packed >> bits, packed & ((1 << bits) - 1)
    return sorted_keys.astype(np.int64, copy=False), sorted_numbers.astype(np.int64, copy=False)


def group_starts(sorted_keys: NDArray[np.integer]) -> Ints:
    """Return where each group of equal neighbours begins."""
    if not len(sorted_keys):
        return np.zeros(0, dtype=np.int64)
    new = np.empty(len(sorted_keys), dtype=bool)
    new[0] = True
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=new[1:])
    return new.nonzero()[0]


def group_lengths(starts: Ints, size: int) -> Ints:
    """Return the length of each group, given where the groups begin."""
    lengths = np.empty_like(starts)
    if len(starts):
        np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
        lengths[-1] = size - starts[-1]
    return lengths


def ranks_from(starts: Ints, size: int) -> Ints:
    """Return each element's place in its group, given where the groups begin."""
    return counted(size) - starts.repeat(group_lengths(starts, size))


def rank_among_equals(keys: NDArray[np.integer], bound: int) -> Ints:
    """Return how many earlier elements have the same key, (n,)."""
    if bool((keys[1:] >= keys[:-1]).all()):
        return ranks_from(group_starts(keys), len(keys))
    order = stable_order(keys, bound)
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[order] = ranks_from(group_starts(keys[order]), len(keys))
    return ranks


def ragged(starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> Ints:
    """Return starts[i], starts[i]+1, ... (lengths[i] numbers) for every i, one after another."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    numbers: Ints = (starts - (ends - lengths)).repeat(lengths)
    numbers += counted(total)
    return numbers
