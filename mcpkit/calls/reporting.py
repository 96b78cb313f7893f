"""What a handler may say before its result: progress, log messages, notifications of extensions."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sized
from typing import Any, Generic, TypeVar

from ..protocol import jsonrpc
from ..protocol.revisions import NOTIFICATIONS, SEVERITY
from .asking.api import Asking
from .call import Call, call_of
from .coroutines import WORK
from .loggable import as_text, log_message
from .reports import Reports

T = TypeVar("T")

logger = logging.getLogger(__name__)

_making = threading.Lock()


def reports_of(call: Call) -> Reports:
    """Return the reports of a request, of which there is one object; from any thread."""
    with _making:
        if call.reports is None:
            call.reports = Reports(call)
        return call.reports


def counted(call: Call) -> float:
    """Return how far a request has said that it is; 0 where it has said nothing yet."""
    return 0 if call.reports is None else max(0, call.reports.reported)


def note_progress(call: Call, done: float, total: float | None, message: str | None) -> Reports | None:
    """Take note of progress, from any thread; return who is to deliver it, where it is to be sent now.

    Raises:
        CallEndedError: Nobody waits for the result any more.
        TypeError: `done` or `total` is no number.
        ValueError: `done` or `total` is not finite.
    """
    call.check_open()
    done, total = _finite(done), None if total is None else _finite(total)
    if "progressToken" not in call.meta:
        return None
    reports = reports_of(call)
    return reports if reports.note(done, total, None if message is None else as_text(message)) else None


def _finite(number: float) -> float:
    """Return a number of progress as JSON has it; it may be of numpy, a Decimal or the like.

    Raises:
        TypeError: It is none.
        ValueError: It is not finite, or too great for a double.
    """
    try:
        if math.isfinite(number):
            return number if type(number) in (int, float) else float(number)
    except OverflowError:
        raise ValueError("progress must be a number below 1.8e308, got a larger integer") from None
    raise ValueError(f"progress must be a finite number, got {number!r}")


class Reporting(Asking):
    """The reports of a `Context`, beside its questions."""

    __slots__ = ()

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report how far the work has come (basic/patterns/progress).

        Nothing is sent when the client did not ask for progress, nor when `progress` is not greater
        than what was reported before, as the specification wants it to increase. Where reports come
        too fast, the first, the one that reaches the total, and at most 50 a second are sent at
        once; of the others the latest follows when its time comes, or before the result.

        Other requests have their turn at least every 10 ms of what is done between reports, and this one is cancelled
        here when it is to be.

        Args:
            progress: How much is done, in any unit.
            total: How much there is, in the same unit; None when unknown.
            message: A sentence for people; anything but a text is sent as its `repr`. Revision 2024-11-05 does not
                have it.

        Raises:
            RuntimeError: The call has ended.
            TypeError: `progress` or `total` is no number.
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
        """Go through items by `async for`, and report how many are done; see `report_progress`.

        What was reported before counts: after 10 items of another loop, 5 more are 11 to 15 of 15.

        Args:
            items: Any items; those that come by `async for`, too.
            message: A sentence for people, the same in each report.
            total: How many there are; their `len`, where they have one, when None.

        Returns:
            The items, in their order. An item is done when the next one is asked for. Others have their turn
            meanwhile, as with `report_progress`.

        Raises:
            TypeError: They are not iterable.
        """
        return Track(self, items, message, total)

    async def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client (utilities/logging; deprecated since 2026-07-28).

        Nothing is sent when the client asked for more severe messages only, or, in the stateless
        era, for none.

        Args:
            level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
            data: Any value, without secrets. What has no form in JSON, such as an exception or an object, is sent as
                its `repr`, at any depth.
            logger: The name of the logger.

        Raises:
            RuntimeError: The call has ended, or the server does not declare `logging`.
            ValueError: There is no such level.
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
    """Send a notification of an extension, which belongs to a request.

    Raises:
        RuntimeError: The call has ended.
        ValueError: The method is no notification, or one of the core protocol.
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
    """What a handler can do with the HTTP response to its request: `ctx.http`."""

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
    """Goes through items, and reports how many are done, on top of what was done before: progress must increase.

    Args:
        context: What reports.
        items: The items.
        message: A sentence for people.
        total: How many there are; None asks the items themselves, where they can tell.

    Raises:
        TypeError: There is no way to go through the items.
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
        """Return this."""
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
