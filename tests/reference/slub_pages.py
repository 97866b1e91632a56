"""A simple source of pages: nodes that are plenty, limited, fragmented or empty."""

from collections.abc import Sequence

from tests.reference.slub_types import Block, Gfp, Places


class Pages:
    """Pages counted per node; a request goes to the nearest node that can serve it.

    Parameters
    ----------
    places
        Nodes of the machine.
    limits
        For each node how many pages it has; None: as many as are asked for.
    largest_order
        For each node the largest block it can give; None: any.
    """

    def __init__(
        self,
        places: Places,
        limits: Sequence[int | None] | None = None,
        largest_order: Sequence[int | None] | None = None,
    ) -> None:
        nodes = len(places.has_memory)
        self.places = places
        self.limits = list(limits or [None] * nodes)
        self.largest_order = list(largest_order or [None] * nodes)
        self.used = [0] * nodes
        self.given = 0

    def alloc(self, cpu: int, node: int, order: int, gfp: Gfp, *, high_order: bool) -> Block | None:
        """Allocate from the node, or unless THISNODE from the nearest one that can."""
        nodes = (node,) if "THISNODE" in gfp else self.places.fallback[node]
        for number in nodes:
            if self.can(number, order):
                self.used[number] += 1 << order
                self.given += 1
                return Block(number, order, self.given)
        return None

    def free(self, cpu: int, block: Block) -> None:
        """Take pages back."""
        self.used[block.node] -= 1 << block.order

    def can(self, number: int, order: int) -> bool:
        """Tell whether the node can give a block."""
        limit, largest = self.limits[number], self.largest_order[number]
        return (
            self.places.has_memory[number]
            and (limit is None or self.used[number] + (1 << order) <= limit)
            and (largest is None or order <= largest)
        )
