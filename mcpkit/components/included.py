"""The result of `include`, which can be removed again."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import Self


class Inclusion:
    """The result of `include`. `remove()`, or the end of a `with` block, undoes it.

    Args:
        source: The included object.
        on_remove: Function that undoes the inclusion; further calls have no effect.

    Attributes:
        source: The included object.
    """

    def __init__(self, source: object, on_remove: Callable[[], None]) -> None:
        self.source = source
        self._on_remove = on_remove

    def remove(self) -> None:
        """Remove in one step what was included: components, extensions with their middleware, later changes.

        Components that were removed or replaced meanwhile stay as they are, and running calls continue. The lifespan of
        an included server is left when the outer server ends. It may be called from any thread; further calls have no
        effect.
        """
        self._on_remove()

    def __enter__(self) -> Self:
        """Return this object; the components are included within the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was included."""
        self.remove()

    def __repr__(self) -> str:
        """Return the included object."""
        return f"<Included {self.source!r}>"
