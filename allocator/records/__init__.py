"""Records of real kernels: read them, predict them, compare."""

from allocator.errors import PredictError
from allocator.records.machine import load_topology, machine_topology
from allocator.records.record import KINDS, Record, Section, load

__all__ = [
    "KINDS",
    "PredictError",
    "Record",
    "Section",
    "load",
    "load_topology",
    "machine_topology",
]
