"""An engine that loses messages, and tells of the gap, as one does that was not reached for a while."""

from __future__ import annotations

from collections.abc import Callable

from mcpkit import Memory


class Losing(Memory):
    """Within one process.

    Attributes:
        is_losing: Whether what is published now is lost.
    """

    is_losing = False

    def __init__(self) -> None:
        super().__init__()
        self._missed: dict[object, Callable[[], None]] = {}

    async def publish(self, topic: str, message: str) -> None:
        """Tell the listeners, or nobody."""
        if not self.is_losing:
            await super().publish(topic, message)

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Do so, and remember who is to be told of a gap."""
        key, end = object(), super().subscribe(topic, listener, missed)
        if missed is not None:
            self._missed[key] = missed

        def unsubscribe() -> None:
            self._missed.pop(key, None)
            end()

        return unsubscribe

    def tell_of_gap(self) -> None:
        """Lose no more, and say that something was lost."""
        self.is_losing = False
        for missed in tuple(self._missed.values()):
            missed()
