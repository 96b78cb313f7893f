"""Time limits, retries and progress of requests, and callbacks that run one after the other."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from .._utils.exceptions import OutcomeUnknownError, TransportError
from .._utils.option_checks import check_count, check_function, check_seconds
from ..execution.coroutines import uncancel
from ..options import Options
from ..protocol.jsonrpc import Json
from ..protocol.revisions import CACHEABLE
from .client_messages import ProgressReceived

ROUNDS: Final = 10
"""The default limit of input rounds, the same as in the official clients."""

WITHOUT_EFFECTS: Final = CACHEABLE | {
    "completion/complete",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "resources/subscribe",
    "resources/unsubscribe",
}
"""Methods of requests that may be sent twice, since they change nothing or are idempotent."""

_MIN_PAUSE: Final = 0.1
"""Seconds before the third attempt. The pause doubles with each further attempt."""

_MAX_PAUSE: Final = 10.0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Timeout(Options):
    """Time limits of a client, in seconds: `Client(url, timeout=Timeout(response=30, total=120))`.

    `timeout=30` is short for `timeout=Timeout(response=30)`.

    Attributes:
        response: How long a request may wait without a response or a progress notification. None sets no limit.
        total: How long a request may take in all, with retries and reconnecting. None sets no limit.
        connect: How long connecting and negotiating a protocol version may take. None sets no limit.

    Raises:
        TypeError: There is no such option, or it is not a number.
        ValueError: A number is not above 0.
    """

    response: float | None = None
    total: float | None = None
    connect: float | None = 60

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value in vars(self).items():
            check_seconds(f"Timeout({name}=...)", value, may_be_none=True)

    @classmethod
    def of(cls, value: Timeout | float | None) -> Timeout:
        """Return the `Timeout` for an option `timeout=`, where a number stands for `response`.

        Args:
            value: A `Timeout`, the seconds to wait for a response, or None for no limit.
        """
        return value if isinstance(value, Timeout) else Timeout(response=value)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Retries(Options):
    """Limits of repeated requests of a client: `Client(url, retries=Retries(attempts=5))`.

    The client repeats only requests that change nothing, or that the caller marks with `retry=True`.

    Attributes:
        attempts: How often a request is sent in all if the connection fails.
        max_delay: The longest `Retry-After` of a server in seconds to wait for. After a longer one the error is raised.
        rounds: How many rounds of input requests (elicitation, sampling, roots) a request may have in 2026-07-28. 0
            returns results of type `input_required` to the caller.

    Raises:
        TypeError: There is no such option, or it is not a number.
        ValueError: A number is too small.
    """

    attempts: int = 3
    max_delay: float = 30
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_count("Retries(attempts=...)", self.attempts)
        check_seconds("Retries(max_delay=...)", self.max_delay, may_be_zero=True)
        check_count("Retries(rounds=...)", self.rounds, least=0)


async def send_with_retries(
    retries: Retries, send: Callable[[], Awaitable[Json]], method: str, retry: bool | None
) -> Json:
    """Send a request, and again after a failure; see `send_again`."""
    try:
        return await send()
    except TransportError as error:
        return await send_again(retries, error, send, method, retry)


async def send_again(
    retries: Retries,
    error: TransportError,
    send: Callable[[], Awaitable[Json]],
    method: str,
    retry: bool | None,
) -> Json:
    """Send a request again after a failure, as long as that is safe and may help.

    Args:
        retries: How often the request is sent, and the longest `Retry-After` to wait for.
        error: The error of the first attempt.
        send: Sends the request once more, with a new id.
        method: The method.
        retry: Whether the request may be sent twice. None decides by the method.

    Raises:
        OutcomeUnknownError: The server may have run the request, and it must not run twice.
        TransportError: All attempts failed before the server began.
        ProtocolError: The server responded with an error.
    """
    may_repeat = method in WITHOUT_EFFECTS if retry is None else retry
    for attempt in range(1, retries.attempts + 1):
        if error.may_have_begun and not may_repeat:
            hint = " (pass retry=True if repeating it does no harm)" if error.may_pass else ""
            raise OutcomeUnknownError(
                f"the server may have executed {method}, so the client does not repeat it{hint}: {error}"
            ) from error
        if attempt == retries.attempts or not error.may_pass or (error.retry_after or 0) > retries.max_delay:
            break
        await asyncio.sleep(pause_after(attempt) if error.retry_after is None else error.retry_after)
        try:
            return await send()
        except TransportError as again:
            error = again
    raise error


def pause_after(attempts: int) -> float:
    """Return the seconds between failed attempts and the next one, with random jitter."""
    if attempts == 1:
        return 0
    return min(_MIN_PAUSE * 2.0 ** (attempts - 2), _MAX_PAUSE) * random.uniform(0.5, 1)


logger = logging.getLogger(__name__)

MAX_WAITING: Final = 1000
"""Calls of an `async` callback that wait for those before them."""

ProgressCallback = Callable[[float, "float | None", "str | None"], object]
"""Called with progress, total (or None) and message (or None) of a progress notification; it may be `async`."""


class SerialCallbacks:
    """Calls callbacks, `async` or not, and awaits their results in the order of the calls.

    Args:
        on_error: Called with the exception of an awaited callback.
    """

    def __init__(self, on_error: Callable[[Exception], object]) -> None:
        self._on_error = on_error
        self._waiting: deque[Awaitable[object]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._has_warned = False

    def call(self, callback: Callable[..., object], *args: object) -> None:
        """Call a callback. If too many calls are waiting, the call is dropped, which is logged once.

        Raises:
            Exception: A callback that is not `async` failed.
        """
        if len(self._waiting) >= MAX_WAITING:
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "a notification handler is too slow; further notifications of the server are dropped "
                    "until it catches up. Start long work of the handler in a task of its own"
                )
            return
        returned = callback(*args)
        if inspect.isawaitable(returned):
            self._waiting.append(returned)
            if self._worker is None or self._worker.done():
                self._worker = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        while self._waiting:
            try:
                await self._waiting.popleft()
            except Exception as error:  # noqa: BLE001 - the user's own callback
                self._on_error(error)

    async def finished(self) -> None:
        """Wait until all calls have ended."""
        if self._worker is not None:
            await self._worker

    def stop(self) -> None:
        """Cancel the running call and drop those that wait."""
        if self._worker is not None:
            self._worker.cancel()
        for each in self._waiting:
            if inspect.iscoroutine(each):
                each.close()
        self._waiting.clear()


class PendingRequest:
    """The time limits and the progress of one pending request.

    Args:
        method: The method.
        response: The future of the response.
        progress: Called for each progress notification.
        timeout: Seconds without a response or a progress notification after which the request times out; None for no
            limit.
        max_timeout: Seconds after which the request times out in any case; None for no limit.
        is_paused: Returns whether the server waits for the client, for example for an elicitation. That time does not
            count for `timeout`.

    Attributes:
        is_late: Whether the request has timed out.

    Raises:
        TypeError: `progress` is not a function.
    """

    def __init__(
        self,
        method: str,
        response: asyncio.Future[Json],
        progress: ProgressCallback | None,
        timeout: float | None,
        max_timeout: float | None,
        is_paused: Callable[[], bool],
    ) -> None:
        check_function("progress", progress, "done, total and message")
        self._loop = response.get_loop()
        self._method = method
        self._response = response
        self._progress = progress
        self._timeout = timeout
        self._is_paused = is_paused
        self._callbacks = SerialCallbacks(self._fail)
        self._error: Exception | None = None  # of a progress callback
        self._deadline = None if max_timeout is None else self._loop.time() + max_timeout
        self.is_late = False
        self._sender: asyncio.Task[Any] | None = asyncio.current_task()  # None once the request has been sent
        self._timer = self._start_timer()

    def _start_timer(self) -> asyncio.TimerHandle | None:
        ends = [] if self._timeout is None else [self._loop.time() + self._timeout]
        if self._deadline is not None:
            ends.append(self._deadline)
        return self._loop.call_at(min(ends), self._time_out) if ends else None

    def _time_out(self) -> None:
        if self._is_paused() and (self._deadline is None or self._loop.time() < self._deadline):
            self._timer = self._start_timer()
            return
        self.is_late = True
        if self._sender is not None:
            self._sender.cancel()
        elif not self._response.done():
            self._response.set_exception(self._timeout_error())

    def on_progress(self, event: ProgressReceived) -> None:
        """Start `timeout` anew after a progress notification; `max_timeout` goes on."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._start_timer()
        if self._progress is not None:
            try:
                self._callbacks.call(self._progress, event.done, event.total, event.message)
            except Exception as error:  # noqa: BLE001 - the caller's own function; the call raises it
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._error = error
        if not self._response.done():
            self._response.set_exception(error)

    async def result(self) -> Json:
        """Wait for the response and for the progress callbacks of earlier notifications."""
        self._sender = None
        result = await self._response
        await self._callbacks.finished()
        if self._error is not None:
            raise self._error
        return result

    def end(self) -> None:
        """Stop the timer and the progress callbacks."""
        if self._timer is not None:
            self._timer.cancel()
        self._callbacks.stop()

    def has_cancelled_sender(self) -> bool:
        """Return whether the time limit, and nothing else, has cancelled the task that sends the request."""
        return self.is_late and self._sender is not None and uncancel(self._sender) == 0

    def last_result(self) -> Json:
        """Return a response that arrived together with the time limit.

        Raises:
            TimeoutError: No response has arrived.
            Exception: The response was an error.
        """
        if self._response.done() and not self._response.cancelled():
            return self._response.result()
        raise self._timeout_error() from None

    def _timeout_error(self) -> TimeoutError:
        return TimeoutError(f"the server did not answer {self._method} in time; the request was cancelled")
