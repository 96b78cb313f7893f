"""Progress and log notifications of one request: their messages, and their delivery without waiting for the client."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, cast

from pydantic_core import to_json

from .._utils.concurrency import Running, call_in_loop, running_loop
from ..protocol import jsonrpc
from .requests_to_client import Channel

logger = logging.getLogger(__name__)

# Seconds from one progress notification to the next, in the long run.
INTERVAL = 1 / 40

# How many may come at once. No second has more than 50 (basic/patterns/progress, "Implementation Notes").
BURST = 10

_AHEAD = (BURST - 1) * INTERVAL

# Bytes that are sent before the client must have shown that it keeps up.
MAX_UNREAD = 16 * 1024

# Bytes of log records that wait for it; further ones are dropped.
MAX_WAITING = 256 * 1024


class Reports:
    """Progress and log messages of one request. A slow client does not block the handler.

    Args:
        call: The request.
        channel: Channel of the request.
        loop: Event loop of the request.
        token: Progress token of the request.
        has_message: Whether progress notifications have a message in this protocol version.

    Attributes:
        reported: Greatest progress that was reported; minus infinity before the first report.
    """

    def __init__(
        self,
        call: Running,
        channel: Channel,
        loop: asyncio.AbstractEventLoop,
        token: object,
        *,
        has_message: bool,
    ) -> None:
        self._call = call
        self._channel = channel
        self._loop = loop
        self._token = token
        self._has_message = has_message
        self._lock = threading.Lock()
        self.reported = float("-inf")
        self._progress: bytes | None = None  # the latest notification, if it was not sent yet
        self._has_reached_total = False
        self._is_scheduled = False  # whether a timer runs that sends it, or is about to be started
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0  # due time of the next notification if they came evenly
        self._records: deque[bytes] = deque()
        self._waiting = 0  # bytes of the records
        self._dropped = 0
        self._unread = 0  # bytes sent since the client was last known to keep up
        self._waiter: asyncio.Task[None] | None = None

    # From any thread

    def add_progress(self, progress: float, total: float | None, message: str | None) -> bool:
        """Record progress; it replaces progress that has not been sent yet.

        Returns:
            Whether to `deliver` it now: the first, the one that reaches the total, and any within the rate limit.
            Others are sent by a timer.
        """
        if progress <= self.reported:
            return False
        params: dict[str, Any] = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and self._has_message:
            params["message"] = message
        notification = jsonrpc.notification("notifications/progress", params)
        with self._lock:
            if progress <= self.reported:
                return False
            self.reported = progress
            self._progress = notification
            if total is not None and progress >= total and not self._has_reached_total:
                self._has_reached_total = True
                return True
            is_due = self._loop.time() >= self._next - _AHEAD
            if is_due or self._is_scheduled:
                return is_due
            self._is_scheduled = True
        self._in_loop(self._start_timer)
        return False

    def add_record(self, record: bytes) -> None:
        """Send a log record, after those that wait; it is dropped if too many wait."""
        is_in_loop = running_loop() is self._loop
        with self._lock:
            if self._waiting >= MAX_WAITING:
                self._dropped += 1
                return
            is_alone = not self._records  # otherwise the sender of the others sends this one, too
            self._records.append(record)
            self._waiting += len(record)
        if is_alone or is_in_loop:
            self._in_loop(self._send_records)

    def _in_loop(self, function: Callable[[], None]) -> None:
        if running_loop() is self._loop:
            function()
        else:
            call_in_loop(self._loop, function)

    # In the event loop's thread

    async def deliver(self) -> None:
        """Send the latest progress, and wait until the client keeps up.

        Raises:
            RuntimeError: The call has ended.
        """
        self._call.check_open()
        self._send_progress()
        await self._channel.ready()
        self._unread = 0

    def end(self, *, is_answered: bool) -> None:
        """Send pending messages, if a response follows. The request has ended."""
        if self._timer is not None:
            self._timer.cancel()
        if self._waiter is not None:
            self._waiter.cancel()
        with self._lock:
            unsent = [*self._records, self._progress]
            self._records.clear()
        try:
            for message in unsent if is_answered else ():
                if message is not None:
                    self._channel.send(message)
        except Exception:  # the response must be sent all the same
            logger.exception(
                "the last notifications of a %s request could not be sent. Its response is sent all the same",
                self._call.method,
            )
        if self._dropped:
            logger.warning(
                "%d log notifications of a %s request were dropped, as the client reads too slowly. "
                "Its response is sent all the same",
                self._dropped,
                self._call.method,
            )

    def _start_timer(self) -> None:
        if not self._call.is_ended:
            self._timer = self._loop.call_at(self._next - _AHEAD, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        with self._lock:
            is_pending = self._progress is not None and self._waiter is None
            is_early = self._loop.time() < self._next - _AHEAD  # another one has been sent meanwhile
            self._is_scheduled = is_pending and is_early
        if self._is_scheduled:
            self._start_timer()
        elif is_pending:
            self._send_progress()

    def _send_progress(self) -> None:
        with self._lock:
            progress, self._progress = self._progress, None
        if progress is not None:
            self._next = max(self._next, self._loop.time()) + INTERVAL
            self._send(progress)

    def _send_records(self) -> None:
        while self._records and self._waiter is None and not self._call.is_ended:
            with self._lock:
                record = self._records.popleft()
                self._waiting -= len(record)
            self._send(record)

    def _send(self, message: bytes) -> None:
        self._channel.send(message)
        self._unread += len(message)
        if self._unread >= MAX_UNREAD and self._waiter is None:
            self._waiter = asyncio.Task(self._wait(), loop=self._loop)

    async def _wait(self) -> None:
        try:
            await self._channel.ready()
        except OSError as error:
            logger.debug(
                "the client of a %s request has disconnected and gets no more notifications: %s",
                self._call.method,
                error,
            )
            return  # `_waiter` stays, so that nothing more is sent
        self._waiter = None
        self._unread = 0
        self._send_records()
        if self._timer is None:
            self._on_time()


# Messages with any Python value: a value without a JSON form is sent as text

# Levels of lists and objects; clients read about 200, and what is deeper is sent as text.
_MAX_DEPTH: Final = 64

# Bytes of a message that cannot contain numbers or levels that clients cannot read.
_SURELY_READABLE: Final = 256

# Integers from here on leave the range of a double, in which most clients read them.
_OUT_OF_RANGE: Final = 1 << 1023


def log_message(level: str, data: object, logger: object = None) -> bytes:
    """Return a `notifications/message`, whatever its data are.

    Args:
        level: The level.
        data: Any value. NaN and infinities become strings; exceptions, objects and other values without a JSON form
            become their `repr`, and half surrogate pairs become escapes.
        logger: The name of the logger, if it has one.
    """
    params = {"level": level, "data": data}
    if logger is not None:
        params["logger"] = as_text(logger)
    message = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    try:
        line = to_json(message, inf_nan_mode="strings")
        if len(line) > _SURELY_READABLE:
            jsonrpc.decode(line)
    except Exception:  # noqa: BLE001 - a value's class may raise anything
        params["data"] = loggable(data)
        line = to_json(message, inf_nan_mode="strings")
    return line


def loggable(value: object, parents: tuple[int, ...] = ()) -> Any:
    """Return a JSON value for any value, with text for parts without a JSON form.

    Args:
        value: The value.
        parents: Identities of the collections that contain it.
    """
    known: object = value
    try:
        if isinstance(value, str) or (isinstance(value, int) and not -_OUT_OF_RANGE < value < _OUT_OF_RANGE):
            return as_text(known)
        if not isinstance(value, (Mapping, list, tuple, set, frozenset)):
            return jsonrpc.decode(to_json(known, inf_nan_mode="strings"))
        if len(parents) >= _MAX_DEPTH or id(known) in parents:
            return as_text(known)
        parents = (*parents, id(known))
        if isinstance(value, Mapping):
            entries = cast("Mapping[object, object]", value).items()
            return {as_text(name): loggable(each, parents) for name, each in entries}
        return [loggable(each, parents) for each in cast("Collection[object]", value)]
    except Exception:  # noqa: BLE001 - a value's class may raise anything
        return as_text(known)


def as_text(value: object) -> str:
    """Return a text itself, and any other value's `repr`, with half surrogate pairs as escapes; never raises."""
    try:
        text = value if isinstance(value, str) else repr(value)
        return str.encode(text, errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - a value's class may raise anything
        return object.__repr__(value)
