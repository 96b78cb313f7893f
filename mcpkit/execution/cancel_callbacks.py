"""Functions that stop a handler in a worker thread after its call was cancelled; Python cannot stop a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

logger = logging.getLogger(__name__)


class Stop:
    """A registered function that stops a handler; as a context manager, until the end of its block.

    Args:
        function: The function. It is called at most once, in a thread of its own.
        method: The method of the request, for the log.
    """

    def __init__(self, function: Callable[[], Any], method: str) -> None:
        self._function: Callable[[], Any] | None = function
        self._method = method
        self._lock = threading.RLock()

    @property
    def is_open(self) -> bool:
        """True if the function may still be called."""
        return self._function is not None

    def __enter__(self) -> None:
        """Do nothing: the function is registered already."""

    def __exit__(self, *_: object) -> None:
        """Unregister it."""
        self.take_back()

    def take_back(self) -> None:
        """Unregister the function. If it is being called now, wait until it has returned."""
        with self._lock:
            self._function = None

    def call(self) -> None:
        """Call the function, unless it has been called or unregistered. An exception is logged."""
        with self._lock:
            function, self._function = self._function, None
            if function is None:
                return
            try:
                function()
            except Exception:
                logger.warning(
                    "a function of on_cancel= raised while %s was cancelled. Its handler may still run in its thread",
                    self._method,
                    exc_info=True,
                )


def call_all(stops: Iterable[Stop]) -> None:
    """Call stop functions in a thread of their own, the latest first: they may block on a lock of the handler."""

    def call() -> None:
        for stop in reversed(list(stops)):
            stop.call()

    threading.Thread(target=call, name="mcpkit-stop", daemon=True).start()
