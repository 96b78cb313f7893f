"""An engine of which one call fails, as one does that is away for a moment."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from mcpkit import Memory

When = Literal["before", "after"]
"""Whether what fails has been done: the reply may be what was lost."""

CALLS = ("add", "look", "change", "take", "renew", "owned", "waiting", "listening", "read", "write", "claim")


class Refusing(Memory):
    """Within one process.

    Args:
        number: Which call fails, from 1; 0 for none.
        when: Before it is done, or after.
        error: What it raises.

    Attributes:
        called: The names of what has been called.
    """

    def __init__(self, number: int, when: When = "before", error: type[OSError] = OSError) -> None:
        super().__init__()
        self.called: list[str] = []
        self._number = number
        self._when = when
        self._error = error
        self._lock = threading.Lock()
        for name in CALLS:
            setattr(self, name, self._counted(name, getattr(self, name)))

    def _counted(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            with self._lock:
                self.called.append(name)
                is_refused = len(self.called) == self._number
            if is_refused and self._when == "before":
                raise self._error("it is away")
            result = await method(*args, **options)
            if is_refused:
                raise self._error("its reply is lost")
            return result

        return call
