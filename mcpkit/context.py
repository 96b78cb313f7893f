"""What a handler may ask of the request that it serves, and say before its result."""

from __future__ import annotations

import asyncio
import math
import typing
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Union

from typing_extensions import TypeVar

from .asking.asking import Asking
from .channel import Channel
from .errors import CallEndedError
from .protocol import jsonrpc
from .protocol.eras import Client, Envelope
from .protocol.revisions import NOTIFICATIONS, SEVERITY
from .reporting import Reports, Track, reports_of
from .running.current import current
from .running.steps import WORK

if TYPE_CHECKING:
    from .access.principal import Principal
    from .asking.rounds import Rounds
    from .running.limits import Turn
    from .running.stops import Stop
    from .server import Server
    from .sync_context import SyncContext

State = TypeVar("State", default=Any)
T = TypeVar("T")

NO_STATE: Final = object()
"""In place of a handler's state, where there is no handler: in middleware."""


class Context(Asking, Generic[State]):
    """One request, as its handler sees it.

    A parameter annotated with it is filled in and stays out of the schema;
    `Context[Database]` types the lifespan's state. It ends with its call: whatever would send
    something afterwards raises RuntimeError.

    Attributes:
        request_id: The JSON-RPC id of the request.
        method: The request's method, for example `tools/call`.
        params: The request's params as the client sent them, or a middleware has changed them.
        meta: The `_meta` of the params; empty when there is none.
        server: The server that serves the request.
    """

    __slots__ = (
        "_channel",
        "_envelope",
        "_exception",
        "_left",
        "_loop",
        "_ref",
        "_reports",
        "_rounds",
        "_state",
        "_stops",
        "_sync_calls",
        "_turn",
        "_turn_since",
        "is_ended",
        "meta",
        "method",
        "params",
        "request_id",
        "server",
    )

    def __init__(
        self,
        server: Server,
        envelope: Envelope,
        channel: Channel,
        request_id: jsonrpc.RequestId,
        method: str,
        params: dict[str, Any],
        meta: dict[str, Any],
    ) -> None:
        self.server = server
        self.request_id = request_id
        self.method = method
        self.params = params
        self.meta = meta
        self.is_ended = False
        self._envelope = envelope
        self._channel = channel
        self._reports: Reports | None = None
        self._state: Any = NO_STATE
        self._rounds: Rounds | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn: Turn | None = None
        self._turn_since: float | None = None
        self._ref: str | None = None
        self._exception: BaseException | None = None
        self._left: asyncio.Future[None] | None = None
        self._sync_calls: set[asyncio.Task[Any]] | None = None
        self._stops: list[Stop] | None = None

    @property
    def client(self) -> Client:
        """Who asks: `name`, `version`, `info` and `capabilities`, all as the client says."""
        return self._envelope.client

    @property
    def principal(self) -> Principal:
        """Who asks, as far as that has been verified: `id` and `scopes`; see `Principal`."""
        return self._channel.principal

    @property
    def revision(self) -> str:
        """The protocol revision that this request is served in, for example `2025-11-25`."""
        return self._envelope.revision

    @property
    def era(self) -> str:
        """`handshake` or `stateless`."""
        return self._envelope.era

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request, by name in any case; empty over other transports.

        They are as the client, or what stands before the server, has sent them. Of a list that came in
        several lines, such as `Accept` or `X-Forwarded-For`, all values are there, with commas between; to
        read any other that came more than once is an error, which the client is told (-32602). Over HTTP+SSE
        they are those of the request that opened the stream.
        """
        from .request_headers import RequestHeaders

        return RequestHeaders(self._channel.request_headers)

    @property
    def state(self) -> State:
        """What the server's lifespan yielded; None without a lifespan.

        In a handler it is that of the server whose component it is, in a middleware that of the server which
        has the middleware.

        Raises:
            BusyError: In a middleware alone: the lifespan is still being entered, after the server's
                `lifespan_wait`. Let it pass, as the client is told to try again.
            ProtocolError: In a middleware alone: it could not be entered.
        """
        if self._state is NO_STATE:
            return typing.cast("State", self.server._lifespans.state_in(self._loop))
        return typing.cast("State", self._state)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more: the call was cancelled, or its time is over.

        Code that does not await, such as a loop in a worker thread, asks from time to time.
        """
        return self.is_ended or (self._turn is not None and self._turn.is_over)

    @property
    def deadline(self) -> float | None:
        """When the call's time will be over, as `time.monotonic()` counts; None when it may take any.

        While a question to the client is open, the clock stands still.
        """
        return None if self._turn is None else self._turn.deadline

    @property
    def sync(self) -> SyncContext:
        """The same reports and questions for functions that are not `async`."""
        from .sync_context import SyncContext

        return SyncContext(self)

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the work has come (basic/patterns/progress).

        Nothing is sent when the client did not ask for progress, nor when `done` is not greater
        than what was reported before, as the specification wants it to increase. Where reports come
        too fast, the first, the one that reaches the total, and at most 50 a second are sent at
        once; of the others the latest follows when its time comes, or before the result.

        Other requests have their turn at least every 10 ms of what is done between reports, and this one is cancelled
        here when it is to be.

        Args:
            done: How much is done, in any unit.
            total: How much there is, in the same unit; None when unknown.
            message: A sentence for people; revision 2024-11-05 does not have it.

        Raises:
            RuntimeError: The call has ended.
            TypeError: One of them is of another type.
            ValueError: `done` or `total` is not finite.
        """
        reports = self._note_progress(done, total, message)
        if reports is not None:
            await reports.deliver()
        now = asyncio.get_running_loop().time()
        if self._turn_since is None:
            self._turn_since = now
        elif now - self._turn_since > WORK:
            await asyncio.sleep(0)
            self._turn_since = asyncio.get_running_loop().time()

    def track(
        self, items: Iterable[T] | AsyncIterable[T], message: str | None = None, *, total: float | None = None
    ) -> AsyncIterator[T]:
        """Go through items by `async for`, and report how many are done; see `progress`.

        What was reported before counts: after 10 items of another loop, 5 more are 11 to 15 of 15.

        Args:
            items: Any items; those that come by `async for`, too.
            message: A sentence for people, the same in each report.
            total: How many there are; their `len`, where they have one, when None.

        Returns:
            The items, in their order. An item is done when the next one is asked for. Others have their turn
            meanwhile, as with `progress`.

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
            data: Any JSON value; no secrets.
            logger: The name of the logger.

        Raises:
            RuntimeError: The call has ended, or the server does not declare `logging`.
            ValueError: There is no such level.
        """
        self._check_open()
        if level not in SEVERITY:
            raise ValueError(f"unknown log level {level!r}: expected one of {', '.join(SEVERITY)}")
        if not self.server._declared.has("logging"):
            raise RuntimeError(
                "this server does not declare logging, as none of its handlers takes a Context: "
                'give this one a parameter `ctx: Context`, or write Server(..., offers={"logging"})'
            )
        least = self._envelope.log_level
        if least is None or SEVERITY[level] < SEVERITY[least]:
            return
        params: dict[str, Any] = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        self._channel.send(jsonrpc.notification("notifications/message", params))
        await self._channel.ready()

    async def debug(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `debug`; see `log`."""
        await self.log("debug", data, logger=logger)

    async def info(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `info`; see `log`."""
        await self.log("info", data, logger=logger)

    async def notice(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `notice`; see `log`."""
        await self.log("notice", data, logger=logger)

    async def warning(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `warning`; see `log`."""
        await self.log("warning", data, logger=logger)

    async def error(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `error`; see `log`."""
        await self.log("error", data, logger=logger)

    async def critical(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `critical`; see `log`."""
        await self.log("critical", data, logger=logger)

    async def alert(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `alert`; see `log`."""
        await self.log("alert", data, logger=logger)

    async def emergency(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `emergency`; see `log`."""
        await self.log("emergency", data, logger=logger)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification of an extension's, which belongs to this request.

        Ask first whether the client knows the extension: `extension.is_supported(ctx)`.

        Args:
            method: Its method, such as `notifications/thing/changed`; none of the core protocol's.
            params: Its params, a JSON object.

        Raises:
            RuntimeError: The call has ended.
            ValueError: The method is no notification or one of the core protocol, or the params have no
                form in JSON.
        """
        self._check_open()
        if not method.startswith("notifications/") or method in NOTIFICATIONS:
            raise ValueError(
                f"{method!r} is no notification of an extension: take a name such as 'notifications/thing/changed', "
                "which the core protocol does not have"
            )
        self._channel.send(jsonrpc.notification(method, None if params is None else dict(params)))
        await self._channel.ready()

    async def close_stream(self) -> None:
        """End the connection that this call is answered on; the client comes back for the rest.

        A long call need not hold a connection (basic/transports, "Sending Messages", 2025-11-25): what
        is said from now on is kept until the client asks for it, after a second or so. Only
        sessions of that revision over HTTP can; everywhere else nothing happens.

        Raises:
            RuntimeError: The call has ended.
        """
        self._check_open()
        await self._channel.close()

    def _check_open(self) -> None:
        if self.cancelled:
            raise CallEndedError(self.method)

    def _note_progress(self, done: float, total: float | None, message: str | None) -> Reports | None:
        """Take note of progress, from any thread; return who is to deliver it, where it is to be sent now."""
        self._check_open()
        done, total = _finite(done), None if total is None else _finite(total)
        if message is not None and not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"the message of progress is a sentence, got {message!r}")
        if "progressToken" not in self.meta:
            return None
        reports = reports_of(self)
        return reports if reports.note(done, total, message) else None

    def _paused(self) -> AbstractAsyncContextManager[object]:
        """Stop the call's clock, and lend its slot to other calls, for as long as the block lasts."""
        return nullcontext() if self._turn is None else self._turn

    def _is_stoppable(self) -> bool:
        """Say whether a function in a thread has said what stops it."""
        return any(stop.is_open for stop in self._stops or ())

    def _leave(self, left: asyncio.Future[None]) -> None:
        """Take note that a thread goes on alone, until `left` is done, and stop it as far as it has said how."""
        self._left = left
        for call in tuple(self._sync_calls or ()):
            call.cancel()
        if self._stops:
            from .running.stops import call_all

            call_all(self._stops)

    def _stopped_by(self, function: Callable[[], object]) -> Stop:
        """Take note of what stops the function, from its thread.

        Raises:
            CallEndedError: It is too late for it.
        """
        from .running.stops import Stop

        stop = Stop(function, self.method)
        self._stops = [*(each for each in self._stops or () if each.is_open), stop]
        if self.cancelled:  # asked last, as whoever stops the function may have looked before
            stop.take_back()
            raise CallEndedError(self.method)
        return stop

    def _take_stops_back(self) -> None:
        """Take back what stops the function, which has returned."""
        stops, self._stops = self._stops, None
        for stop in stops or ():
            stop.take_back()

    def __repr__(self) -> str:
        """Show the request."""
        return f"Context({self.method!r}, id={self.request_id!r}, revision={self.revision!r})"


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


def current_context() -> Context[Any]:
    """Return the Context of the request that is being served.

    Raises:
        RuntimeError: No request is being served here.
    """
    try:
        ctx: Context[Any] = current.get()
    except LookupError:
        raise RuntimeError("no request is being served here; call current_context() from a handler") from None
    return ctx


def is_context(annotation: Any, default: Any) -> bool:
    """Say whether a parameter's annotation asks for the Context (`Context`, `Context[T]`, or either with None)."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return is_context(typing.get_args(annotation)[0], default)
    if origin is Union or origin is UnionType:
        return any(is_context(part, default) for part in typing.get_args(annotation))
    annotation = origin or annotation
    return isinstance(annotation, type) and issubclass(annotation, Context)
