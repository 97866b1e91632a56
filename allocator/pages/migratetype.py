"""Migrate types: which list a free block is on, and whose blocks a request may take.

include/linux/mmzone.h enum migratetype; the rows are mm/page_alloc.c fallbacks[].
"""

from typing import Final

UNMOVABLE: Final = 0
MOVABLE: Final = 1
RECLAIMABLE: Final = 2
HIGHATOMIC: Final = 3
ISOLATE: Final = 4

NR_LISTS: Final = 5
"""Lists of one order; areas for contiguous allocation (CMA) are not modelled."""

NAMES: Final = ("Unmovable", "Movable", "Reclaimable", "HighAtomic", "Isolate")
"""As /proc/pagetypeinfo spells them."""

FALLBACKS: Final[dict[int, tuple[int, int]]] = {
    UNMOVABLE: (RECLAIMABLE, MOVABLE),
    MOVABLE: (RECLAIMABLE, UNMOVABLE),
    RECLAIMABLE: (UNMOVABLE, MOVABLE),
}
"""Types whose blocks a request of the key may take, in the order they are looked at."""

PCP_TYPES: Final = 3
"""Unmovable, Movable and Reclaimable have lists on each CPU; others use Movable's."""
