"""Random streams: keyed by what is simulated, never by where in a batch or on which worker."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


def content_text(config: object) -> str:
    """Return plain data as text that is equal where the data are; whole floats are as integers."""
    return json.dumps(_canonical(config), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _canonical(config: object) -> object:
    if isinstance(config, Mapping):
        return {str(key): _canonical(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [_canonical(value) for value in config]
    if isinstance(config, float) and config.is_integer():
        return int(config)
    return config


def content_key(config: object) -> int:
    """Return a 64-bit key of plain data (dicts, lists, str, int, float, bool, None).

    Equal content gives the same key on every machine and Python; 1 and 1.0 are equal.
    """
    return int.from_bytes(
        hashlib.blake2b(content_text(config).encode(), digest_size=8).digest(), "little"
    )


SCENARIO = ("machine", "topology", "workload")
"""Groups that choose what a kernel is put through."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The randomness of one lane.

    The scenario (machine, topology, workload) is in the key and the kernel, slab and GFP choices
    are not: a kernel and its patched form meet the same traffic, so their difference is theirs.
    """

    seed: int
    """Root seed of the run."""
    scenario: int
    """`content_key` of the machine, topology and workload."""
    replicate: int
    """Number of the replicate."""

    def generator(self, purpose: str) -> np.random.Generator:
        """Return the generator for one purpose (`"traffic"`, `"defrag"`, `"kswapd"`)."""
        words = content_key(purpose)
        sequence = np.random.SeedSequence((self.seed, self.scenario, self.replicate, words))
        return np.random.Generator(np.random.PCG64(sequence))


def scenario_key(groups: Mapping[str, object]) -> int:
    """Return the key of what a kernel is put through: machine, topology and workload.

    Groups that the workload ignores may be missing: they choose no traffic either.
    """
    return content_key({name: groups[name] for name in SCENARIO if name in groups})
