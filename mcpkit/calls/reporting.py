"""What a handler may say before its result: progress, log messages, notifications of extensions."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..protocol import jsonrpc
from ..protocol.revisions import NOTIFICATIONS, SEVERITY
from .coroutines import WORK
from .reports import Reports

if TYPE_CHECKING:
    from .call import Call

T = TypeVar("T")

logger = logging.getLogger("mcpkit")

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
        TypeError: One of them is of another type.
        ValueError: `done` or `total` is not finite.
    """
    call.check_open()
    done, total = _finite(done), None if total is None else _finite(total)
    if message is not None and not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
        raise TypeError(f"the message of progress is a sentence, got {message!r}")
    if "progressToken" not in call.meta:
        return None
    reports = reports_of(call)
    return reports if reports.note(done, total, message) else None


async def report_progress(call: Call, done: float, total: float | None, message: str | None) -> None:
    """Report how far the work has come; others have their turn at least every 10 ms of what is done between reports.

    Raises:
        Exception: As `note_progress`.
    """
    reports = note_progress(call, done, total, message)
    if reports is not None:
        await reports.deliver()
    loop = asyncio.get_running_loop()
    now = loop.time()
    if call.turn_since is None:
        call.turn_since = now
    elif now - call.turn_since > WORK:
        await asyncio.sleep(0)
        call.turn_since = loop.time()


async def log(call: Call, level: str, data: Any, logger: str | None) -> None:
    """Send a log message, unless the client has asked for more severe ones only.

    Raises:
        CallEndedError: Nobody waits for the result any more.
        RuntimeError: The server does not declare `logging`.
        ValueError: There is no such level.
    """
    call.check_open()
    if level not in SEVERITY:
        raise ValueError(f"unknown log level {level!r}: expected one of {', '.join(SEVERITY)}")
    if not call.runtime.declares("logging"):
        raise RuntimeError(
            "this server does not declare logging, as none of its handlers takes a Context: "
            'give this one a parameter `ctx: Context`, or write Server(..., offers={"logging"})'
        )
    least = call.envelope.log_level
    if least is None or SEVERITY[level] < SEVERITY[least]:
        return
    params: dict[str, Any] = {"level": level, "data": data}
    if logger is not None:
        params["logger"] = logger
    call.channel.send(jsonrpc.notification("notifications/message", params))
    await call.channel.ready()


async def notify(call: Call, method: str, params: Mapping[str, Any] | None) -> None:
    """Send a notification of an extension's.

    Raises:
        CallEndedError: Nobody waits for the result any more.
        ValueError: The method is no notification or one of the core protocol, or the params have no form in JSON.
    """
    call.check_open()
    if not method.startswith("notifications/") or method in NOTIFICATIONS:
        raise ValueError(
            f"{method!r} is no notification of an extension: take a name such as 'notifications/thing/changed', "
            "which the core protocol does not have"
        )
    call.channel.send(jsonrpc.notification(method, None if params is None else dict(params)))
    await call.channel.ready()


async def close_stream(call: Call) -> None:
    """End the connection that a call is answered on, where the client can come back for the rest.

    Raises:
        CallEndedError: Nobody waits for the result any more.
    """
    call.check_open()
    await call.channel.close()


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
        raise ValueError("progress must be numbers below 1.8e308, which this integer is not") from None
    raise ValueError(f"progress must be finite numbers, got {number!r}")


class Track(Generic[T]):
    """Goes through items, and reports how many are done, on top of what was done before: progress must increase.

    Args:
        call: The request.
        items: The items.
        message: A sentence for people.
        total: How many there are; None asks the items themselves, where they can tell.

    Raises:
        TypeError: There is no way to go through the items.
    """

    __slots__ = ("_async_items", "_call", "_done", "_items", "_message", "_total")

    def __init__(
        self,
        call: Call,
        items: Iterable[T] | AsyncIterable[T],
        message: str | None,
        total: float | None,
    ) -> None:
        self._call = call
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
            self._done = counted(self._call)
            if self._total is not None:
                self._total += self._done
        await report_progress(self._call, self._done, self._total, self._message)
        if self._async_items is not None:
            item = await anext(self._async_items)
        else:
            try:
                item = next(self._items)
            except StopIteration:
                raise StopAsyncIteration from None
        self._done += 1
        return item
