"""Progress and log messages of one request that are sent without waiting; progress is limited in rate."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .._utils.current import running_loop
from ..protocol import jsonrpc
from ..protocol.revisions import knows
from .runtime import BaseCall

INTERVAL = 1 / 40
"""Seconds from one progress notification to the next, in the long run."""

BURST = 10
"""How many may come at once. No second has more than 50 (basic/patterns/progress, "Implementation Notes")."""

_AHEAD = (BURST - 1) * INTERVAL

MOST_UNREAD = 16 * 1024
"""Bytes that are sent before the client must have shown that it keeps up."""

MOST_WAITING = 256 * 1024
"""Bytes of log records that wait for it; further ones are dropped."""

logger = logging.getLogger(__name__)


class Reports:
    """Progress and log messages of one request. A slow client does not block the handler.

    Args:
        call: The request.
    """

    __slots__ = (
        "_call",
        "_channel",
        "_dropped",
        "_has_reached_total",
        "_held",
        "_is_asked",
        "_lock",
        "_loop",
        "_next",
        "_records",
        "_timer",
        "_unread",
        "_waiter",
        "_waiting",
        "reported",
    )

    def __init__(self, call: BaseCall) -> None:
        assert call.loop is not None, "its handler runs"
        self._call = call
        self._channel = call.channel
        self._loop = call.loop
        self._lock = threading.Lock()
        self.reported = float("-inf")
        self._held: bytes | None = None
        self._has_reached_total = False
        self._is_asked = False  # whether a timer runs that sends what is held, or is about to be started
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0  # when the next one would be due if they came evenly
        self._records: deque[bytes] = deque()
        self._waiting = 0  # bytes of them
        self._dropped = 0
        self._unread = 0  # bytes sent since the client was last known to keep up
        self._waiter: asyncio.Task[None] | None = None

    # From any thread

    def note(self, done: float, total: float | None, message: str | None) -> bool:
        """Record progress; it replaces progress that has not been sent yet.

        Returns:
            Whether to `deliver` it now: the first, the one that reaches the total, and any within the rate limit.
            Others are sent by a timer.
        """
        if done <= self.reported:
            return False
        params: dict[str, Any] = {"progressToken": self._call.meta["progressToken"], "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None and knows(self._call.revision, "ProgressNotification", "message"):
            params["message"] = message
        notification = jsonrpc.notification("notifications/progress", params)
        with self._lock:
            if done <= self.reported:
                return False
            self.reported = done
            self._held = notification
            if total is not None and done >= total and not self._has_reached_total:
                self._has_reached_total = True
                return True
            is_due = self._loop.time() >= self._next - _AHEAD
            if is_due or self._is_asked:
                return is_due
            self._is_asked = True
        self._in_loop(self._start_timer)
        return False

    def post(self, record: bytes) -> None:
        """Send a log record, after those that wait; it is dropped if too many wait."""
        is_in_loop = running_loop() is self._loop
        with self._lock:
            if self._waiting >= MOST_WAITING:
                self._dropped += 1
                return
            is_alone = not self._records  # otherwise whoever sends the others sends this one, too
            self._records.append(record)
            self._waiting += len(record)
        if is_alone or is_in_loop:
            self._in_loop(self._send_records)

    def _in_loop(self, function: Callable[[], None]) -> None:
        if running_loop() is self._loop:
            function()
        else:
            with suppress(RuntimeError):  # the loop has been closed, and nobody waits any more
                self._loop.call_soon_threadsafe(function)

    # In the event loop's thread

    async def deliver(self) -> None:
        """Send the progress that was noted last, and wait until the client keeps up.

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
            unsent = [*self._records, self._held]
            self._records.clear()
        try:
            for message in unsent if is_answered else ():
                if message is not None:
                    self._channel.send(message)
        except Exception:  # the answer has to come all the same
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
            is_wanted = self._held is not None and self._waiter is None
            is_early = self._loop.time() < self._next - _AHEAD  # another one has been sent meanwhile
            self._is_asked = is_wanted and is_early
        if self._is_asked:
            self._start_timer()
        elif is_wanted:
            self._send_progress()

    def _send_progress(self) -> None:
        with self._lock:
            held, self._held = self._held, None
        if held is not None:
            self._next = max(self._next, self._loop.time()) + INTERVAL
            self._send(held)

    def _send_records(self) -> None:
        while self._records and self._waiter is None and not self._call.is_ended:
            with self._lock:
                record = self._records.popleft()
                self._waiting -= len(record)
            self._send(record)

    def _send(self, message: bytes) -> None:
        self._channel.send(message)
        self._unread += len(message)
        if self._unread >= MOST_UNREAD and self._waiter is None:
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
            return  # as long as this is the waiter, nothing more is sent
        self._waiter = None
        self._unread = 0
        self._send_records()
        if self._timer is None:
            self._on_time()
