"""Time limits and progress of a pending request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ..._utils.option_checks import check_function, check_seconds
from ...execution.coroutines import uncancel, within
from ...protocol.jsonrpc import Json
from ..client_messages import ProgressReceived
from .in_turn import InTurn

ProgressCallback = Callable[[float, "float | None", "str | None"], object]
"""Called with progress, total (or None) and message (or None) of a progress notification; it may be `async`."""


class Awaited:
    """Watches the time limits and the progress of one request.

    Args:
        method: The method.
        answer: The future of the response.
        progress: Called for each progress notification.
        timeout: Seconds without a response or a progress notification after which the request times out; None for no
            limit.
        max_timeout: Seconds after which the request times out in any case; None for no limit.
        is_asked: Returns whether the server waits for a response of the client, for example to an elicitation. That
            time does not count.

    Attributes:
        is_late: Whether the request has timed out.
        sender: The task that sends the request; None once it has been sent.

    Raises:
        TypeError: An argument is of another type.
        ValueError: A time limit is not above 0.
    """

    __slots__ = (
        "_answer",
        "_ends",
        "_failure",
        "_is_asked",
        "_loop",
        "_method",
        "_progress",
        "_timeout",
        "_timer",
        "_turns",
        "is_late",
        "sender",
    )

    def __init__(
        self,
        method: str,
        answer: asyncio.Future[Json],
        progress: ProgressCallback | None,
        timeout: float | None,
        max_timeout: float | None,
        is_asked: Callable[[], object],
    ) -> None:
        check_function("progress", progress, "done, total and message")
        check_seconds("timeout", timeout, may_be_none=True)
        check_seconds("max_timeout", max_timeout, may_be_none=True)
        self._loop = answer.get_loop()
        self._method = method
        self._answer = answer
        self._progress = progress
        self._timeout = timeout
        self._is_asked = is_asked
        self._turns = InTurn(self._has_failed)
        self._failure: Exception | None = None
        self._ends = None if max_timeout is None else self._loop.time() + max_timeout
        self.is_late = False
        self.sender: asyncio.Task[Any] | None = asyncio.current_task()
        self._timer = self._start()

    def _start(self) -> asyncio.TimerHandle | None:
        quiet = None if self._timeout is None else self._loop.time() + self._timeout
        ends = [end for end in (quiet, self._ends) if end is not None]
        return self._loop.call_at(min(ends), self._give_up) if ends else None

    def _give_up(self) -> None:
        if self._is_asked() and (self._ends is None or self._loop.time() < self._ends):
            self._timer = self._start()
            return
        self.is_late = True
        if self.sender is not None:
            self.sender.cancel()
        elif not self._answer.done():
            self._answer.set_exception(self.too_late())

    def has_come(self, progressed: ProgressReceived) -> None:
        """Restart the `timeout` after a progress notification; `max_timeout` goes on."""
        self.stop()
        self._timer = self._start()
        if self._progress is not None:
            try:
                self._turns.call(self._progress, progressed.done, progressed.total, progressed.message)
            except Exception as error:  # noqa: BLE001 - the caller's own function; the call raises it
                self._has_failed(error)

    def _has_failed(self, error: Exception) -> None:
        self._failure = error
        if not self._answer.done():
            self._answer.set_exception(error)

    async def result(self) -> Json:
        """Wait for the response and for the progress callbacks of earlier notifications."""
        self.sender = None
        result = await self._answer
        await self._turns.finished()
        if self._failure is not None:
            raise self._failure
        return result

    def end(self) -> None:
        """Stop the timers and the progress callbacks."""
        self.stop()
        self._turns.stop()

    def has_interrupted(self) -> bool:
        """Return whether the time limit, and nothing else, has cancelled the sender."""
        return self.is_late and self.sender is not None and uncancel(self.sender) == 0

    def last_result(self) -> Json:
        """Return a response that arrived together with the time limit.

        Raises:
            TimeoutError: No response has arrived.
            Exception: The response was an error.
        """
        if self._answer.done() and not self._answer.cancelled():
            return self._answer.result()
        raise self.too_late() from None

    def too_late(self) -> TimeoutError:
        """Return the error for a request that has timed out."""
        return TimeoutError(f"the server did not answer {self._method} in time; the request was cancelled")

    def stop(self) -> None:
        """Stop the timers."""
        if self._timer is not None:
            self._timer.cancel()


async def opened(opening: Awaitable[object], seconds: float | None, method: str) -> float | None:
    """Wait for a connection within the time limit of a request, and return the remaining seconds.

    Args:
        opening: Returns once the connection is open.
        seconds: The time limit of the request; None for no limit.
        method: The method of the request.

    Raises:
        TimeoutError: The time limit has passed.
    """
    if seconds is None:
        await opening
        return None
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds
    try:
        await within(seconds, opening)
    except TimeoutError:
        raise TimeoutError(
            f"the client could not connect to send {method} within {seconds:g} s, the timeout of the "
            "request. Check that the server is running, or raise the timeout"
        ) from None
    return max(ends - loop.time(), 1e-3)
