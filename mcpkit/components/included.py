"""What one `include` has brought, and how it is taken back."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import Self


class Inclusion:
    """What `include` has brought: `remove` takes it back, and so does the end of a `with` block.

    Args:
        source: What is included.
        take_back: Takes it back; called again, it does nothing.

    Attributes:
        source: What is included.
    """

    def __init__(self, source: object, take_back: Callable[[], None]) -> None:
        self.source = source
        self._take_back = take_back

    def remove(self) -> None:
        """Take back all that came by it, at once: components, extensions with their middleware, later changes.

        What has been removed or replaced since stays as it is, and calls that run go on. A lifespan of a server
        that is taken back is left when the server that included it ends. It may be called in any thread, and
        again: then nothing happens.
        """
        self._take_back()

    def __enter__(self) -> Self:
        """Return this: what it has brought is there inside the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take it back."""
        self.remove()

    def __repr__(self) -> str:
        """Show what is included."""
        return f"<Included {self.source!r}>"
