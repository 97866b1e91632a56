"""The draw of get_any_partial(): cycle counter modulo 1024, replaced by a keyed random number.

mm/slub.c get_any_partial() compares `get_cycles() % 1024` with remote_node_defrag_ratio. Draw k of
a row depends on the row's key and k only, so neither the batch nor the order of rows matters.
"""

import numpy as np
from numpy.typing import NDArray

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def defrag_draw(key: NDArray[np.uint64], number: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return draw `number` of each `key`, 0..1023 (splitmix64 of the counter).

    Parameters
    ----------
    key
        (n,) 64-bit keys, one per row asked.
    number
        (n,) how many draws the row made before.
    """
    state = key + (number.astype(np.uint64) + np.uint64(1)) * _WEYL
    state = (state ^ (state >> np.uint64(30))) * _MIX1
    state = (state ^ (state >> np.uint64(27))) * _MIX2
    mixed: NDArray[np.uint64] = (state ^ (state >> np.uint64(31))) & np.uint64(1023)
    return mixed.astype(np.int64)
