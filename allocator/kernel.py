"""A kernel as the model sees it: every behaviour that differs, as named choices."""

from dataclasses import dataclass, replace

from allocator.pages.policy import PagePolicy
from allocator.slabs.policy import SlabPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A named kernel: the policies its allocators follow."""

    name: str
    """Name of the preset, as in records and configurations (`v6_1`)."""
    follows: str
    """What the preset follows: the release or patch, and how it is known."""
    slab: SlabPolicy
    """Choices of SLUB."""
    page: PagePolicy
    """Choices of the page allocator."""

    def vary(
        self,
        name: str,
        follows: str,
        *,
        slab: dict[str, object] | None = None,
        page: dict[str, object] | None = None,
    ) -> "Kernel":
        """Return a kernel that differs in the named choices.

        Raises
        ------
        TypeError
            If a name is no field of the policy.
        """
        return Kernel(
            name=name,
            follows=follows,
            slab=replace(self.slab, **(slab or {})),  # type: ignore[arg-type]
            page=replace(self.page, **(page or {})),  # type: ignore[arg-type]
        )
