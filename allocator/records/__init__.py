"""Records of real kernels: read them, predict them, compare."""

from allocator.errors import PredictError
from allocator.records.machine import (
    caches_of,
    kernel_of,
    load_topology,
    machine_topology,
    parameters_of,
    zones_of,
)
from allocator.records.record import KINDS, Record, Section, load

__all__ = [
    "KINDS",
    "PredictError",
    "Record",
    "Section",
    "caches_of",
    "kernel_of",
    "load",
    "load_topology",
    "machine_topology",
    "parameters_of",
    "zones_of",
]
