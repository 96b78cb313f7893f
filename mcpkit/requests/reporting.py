"""Messages of a handler before its result: progress, log messages, notifications of extensions."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sized
from typing import Any, Generic, TypeVar

from ..execution.coroutines import WORK
from ..protocol import jsonrpc
from ..protocol.revisions import NOTIFICATIONS, SEVERITY
from .call import Call, call_of
from .client_requests_api import Asking
from .loggable import as_text, log_message
from .notifications import Reports

T = TypeVar("T")

logger = logging.getLogger(__name__)

_making = threading.Lock()


def reports_of(call: Call) -> Reports:
    """Return the `Reports` of a request, created on first use; from any thread."""
    with _making:
        if call.reports is None:
            call.reports = Reports(call)
        return call.reports


def counted(call: Call) -> float:
    """Return the progress that a request has reported; 0 before the first report."""
    return 0 if call.reports is None else max(0, call.reports.reported)


def note_progress(call: Call, done: float, total: float | None, message: str | None) -> Reports | None:
    """Record progress, from any thread. Return the `Reports` if it should be delivered now, else None.

    Raises:
        CallEndedError: The call has ended.
        TypeError: `done` or `total` is not a number.
        ValueError: `done` or `total` is not finite.
    """
    call.check_open()
    done, total = _finite(done), None if total is None else _finite(total)
    if "progressToken" not in call.meta:
        return None
    reports = reports_of(call)
    return reports if reports.note(done, total, None if message is None else as_text(message)) else None


def _finite(number: float) -> float:
    """Return a progress number in a JSON form; it may be a NumPy number, a Decimal or similar.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not finite, or exceeds the range of a double.
    """
    try:
        if math.isfinite(number):
            return number if type(number) in (int, float) else float(number)
    except OverflowError:
        raise ValueError("progress must be a number below 1.8e308, got a larger integer") from None
    raise ValueError(f"progress must be a finite number, got {number!r}")


class Reporting(Asking):
    """The methods of `Context` that report progress and log to the client."""

    __slots__ = ()

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress to the client (basic/patterns/progress).

        Nothing is sent if the client did not request progress, or if `progress` is not greater than before, because the
        specification requires it to increase. The first report, the one that reaches `total`, and at most 50 a second
        are sent at once. Of the others, the latest is sent when it is due, or before the result.

        This method also lets other requests run if more than 10 ms have passed since the last report. A cancellation of
        the call takes effect here.

        Args:
            progress: Amount of work done, in any unit.
            total: Total amount of work, in the same unit; None if unknown.
            message: A sentence for people. Anything but a string is sent as its `repr`. Protocol version 2024-11-05
                does not have it.

        Raises:
            RuntimeError: The call has ended.
            TypeError: `progress` or `total` is not a number.
            ValueError: `progress` or `total` is not finite.
        """
        call = self._call
        reports = note_progress(call, progress, total, message)
        if reports is not None:
            await reports.deliver()
        loop = asyncio.get_running_loop()
        now = loop.time()
        if call.turn_since is None:
            call.turn_since = now
        elif now - call.turn_since > WORK:
            await asyncio.sleep(0)
            call.turn_since = loop.time()

    def track(
        self, items: Iterable[T] | AsyncIterable[T], message: str | None = None, *, total: float | None = None
    ) -> AsyncIterator[T]:
        """Iterate over items with `async for`, and report how many are done; see `report_progress`.

        Progress continues from earlier reports: after 10 items of another loop, 5 more are 11 to 15 of 15.

        Args:
            items: An iterable or async iterable.
            message: A sentence for people, the same in each report.
            total: Number of items; None for their `len`, if they have one.

        Returns:
            An async iterator of the items. An item counts as done when the next one is requested. Other requests run
            meanwhile, as with `report_progress`.

        Raises:
            TypeError: The items are not iterable.
        """
        return Track(self, items, message, total)

    async def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client (utilities/logging; deprecated since 2026-07-28).

        Nothing is sent if the level is below the client's minimum level, or, in the stateless era, if the request sets
        none.

        Args:
            level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
            data: Any value, without secrets. A value without a JSON form, such as an exception or an object, is sent as
                its `repr`, at any depth.
            logger: Name of the logger.

        Raises:
            RuntimeError: The call has ended, or the server does not declare `logging`.
            ValueError: The level is unknown.
        """
        call = self._call
        call.check_open()
        if level not in SEVERITY:
            raise ValueError(f"unknown log level {level!r}: expected one of {', '.join(SEVERITY)}")
        if not call.runtime.declares("logging"):
            raise RuntimeError(
                "this server does not declare the logging capability, as none of its handlers takes a Context. "
                "Give this handler a parameter `ctx: Context`, or write "
                'Server(..., options=ServerOptions(capabilities={"logging"}))'
            )
        least = call.envelope.log_level
        if least is None or SEVERITY[level] < SEVERITY[least]:
            return
        call.channel.send(log_message(level, data, logger))
        await call.channel.ready()

    async def debug(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `debug`; see `log`."""
        await self.log("debug", data, logger=logger)

    async def info(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `info`; see `log`."""
        await self.log("info", data, logger=logger)

    async def warning(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `warning`; see `log`."""
        await self.log("warning", data, logger=logger)

    async def error(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `error`; see `log`."""
        await self.log("error", data, logger=logger)


async def send_notification(call: Call, method: str, params: Mapping[str, Any] | None) -> None:
    """Send a notification of an extension that belongs to a request.

    Raises:
        RuntimeError: The call has ended.
        ValueError: The method is not a notification, or belongs to the core protocol.
    """
    call.check_open()
    if not method.startswith("notifications/") or method in NOTIFICATIONS:
        raise ValueError(
            f"{method!r} is not a notification of an extension. Use a name such as 'notifications/thing/changed', "
            "which the core protocol does not have"
        )
    call.channel.send(jsonrpc.notification(method, None if params is None else dict(params)))
    await call.channel.ready()


class HttpContext:
    """Control of the HTTP response to a request: `ctx.http`."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    async def close_stream(self) -> None:
        """Close the event stream of this request; the client resumes it for the rest.

        A long call need not keep a connection open (basic/transports, "Sending Messages", 2025-11-25). Messages are
        stored until the client requests them, after a second or so. Only sessions of that version over HTTP can do so;
        everywhere else nothing happens.

        Raises:
            RuntimeError: The call has ended.
        """
        self._call.check_open()
        await self._call.channel.close()


class Track(Generic[T]):
    """Async iterator over items that reports how many are done, added to earlier progress: progress must increase.

    Args:
        context: Context that reports.
        items: The items.
        message: A sentence for people.
        total: Number of items; None for their `len`, if they have one.

    Raises:
        TypeError: The items are not iterable.
    """

    def __init__(
        self,
        context: Reporting,
        items: Iterable[T] | AsyncIterable[T],
        message: str | None,
        total: float | None,
    ) -> None:
        self._context = context
        self._message = message
        self._total = len(items) if total is None and isinstance(items, Sized) else total
        self._done: float | None = None
        self._async_items: AsyncIterator[T] | None = None
        self._items: Iterator[T] = iter(())
        if isinstance(items, AsyncIterable):
            self._async_items = aiter(items)
        else:
            self._items = iter(items)

    def __aiter__(self) -> AsyncIterator[T]:
        """Return this object."""
        return self

    async def __anext__(self) -> T:
        """Report that the item before is done, and return the next one."""
        if self._done is None:
            self._done = counted(call_of(self._context))
            if self._total is not None:
                self._total += self._done
        await self._context.report_progress(self._done, self._total, self._message)
        if self._async_items is not None:
            item = await anext(self._async_items)
        else:
            try:
                item = next(self._items)
            except StopIteration:
                raise StopAsyncIteration from None
        self._done += 1
        return item
