"""What a workload is to the rest of the model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from allocator.results import Results
from allocator.streams import Stream

if TYPE_CHECKING:  # a point holds its workload
    from allocator.point import Point


class Workload(Protocol):
    """Parameters of one workload, and how to run a batch of lanes of it.

    Implementations are frozen dataclasses; their fields are the keys of the `workload` group.
    """

    name: ClassVar[str]
    """Key in the registry, and `workload.name` in a configuration."""
    ignores: ClassVar[frozenset[str]]
    """Groups (`gfp`) or keys (`slab.max_order`) that cannot change the results; `replicate`, if
    nothing random can: a sweep then simulates one lane for all replicates and seeds."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Check and convert the `workload` group.

        Raises
        ------
        ConfigError
            If a key is unknown or a value cannot be used.
        """
        ...

    def shape(self, point: "Point") -> tuple[object, ...]:
        """Return what lanes must share to advance together (CPUs, nodes, generation...).

        Raises
        ------
        ConfigError
            If the workload cannot run on this machine; a sweep asks before it begins.
        """
        ...

    def command_line(self, point: "Point") -> str:
        """Return the command that runs this workload on a real machine."""
        ...

    def run(self, points: Sequence["Point"], streams: Sequence[Stream]) -> Results:
        """Simulate one lane per point; all points have the same shape."""
        ...
