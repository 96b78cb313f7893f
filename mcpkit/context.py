"""What a handler may ask of the request that it serves, and say before its result."""

from __future__ import annotations

import asyncio
import math
import typing
from collections.abc import Awaitable, Coroutine
from contextvars import ContextVar
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, Union

from typing_extensions import TypeVar

from .protocol import jsonrpc
from .protocol.eras import Client, Envelope
from .protocol.revisions import SEVERITY, knows

if TYPE_CHECKING:
    from .server import Server

State = TypeVar("State", default=Any)

_current: ContextVar[Context[Any]] = ContextVar("mcpkit.context")


class Channel(Protocol):
    """Where the messages that belong to a request leave."""

    def send(self, message: bytes) -> None:
        """Send one JSON message; in the event loop's thread, without blocking."""
        ...

    def ready(self) -> Awaitable[None]:
        """Wait until the reader on the other side keeps up."""
        ...

    def close(self) -> Awaitable[None]:
        """End the connection, where the client can come back to hear the rest."""
        ...


class Context(Generic[State]):
    """One request, as its handler sees it.

    A parameter annotated with it is filled in and stays out of the schema;
    `Context[Database]` types the lifespan's state. It ends with its call: whatever would send
    something afterwards raises RuntimeError.

    Attributes:
        request_id: The JSON-RPC id of the request.
        method: The request's method, for example `tools/call`.
        params: The request's params as the client sent them.
        meta: The `_meta` of the params; empty when there is none.
        server: The server that serves the request.
    """

    __slots__ = (
        "_channel",
        "_envelope",
        "_last_progress",
        "_loop",
        "_progress_token",
        "_state",
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
        self._progress_token: str | int | None = meta.get("progressToken")
        self._last_progress = float("-inf")
        self._state: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def client(self) -> Client:
        """Who asks: `name`, `version`, `info` and `capabilities`, all as the client says."""
        return self._envelope.client

    @property
    def revision(self) -> str:
        """The protocol revision that this request is served in, for example `2025-11-25`."""
        return self._envelope.revision

    @property
    def era(self) -> str:
        """`handshake` or `stateless`."""
        return self._envelope.era

    @property
    def state(self) -> State:
        """What the server's lifespan yielded; None without a lifespan."""
        return typing.cast("State", self._state)

    @property
    def sync(self) -> SyncContext:
        """The same reports for functions that are not `async`."""
        return SyncContext(self)

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the work has come (basic/patterns/progress).

        Nothing is sent when the client did not ask for progress, nor when `done` is not greater
        than what was reported before, as the specification wants it to increase.

        Args:
            done: How much is done, in any unit.
            total: How much there is, in the same unit; None when unknown.
            message: A sentence for people; revision 2024-11-05 does not have it.

        Raises:
            RuntimeError: The call has ended.
            ValueError: `done` or `total` is not finite.
        """
        self._check_open()
        if not math.isfinite(done) or not math.isfinite(total or 0):
            raise ValueError(f"progress must be finite numbers, got {done!r} of {total!r}")
        if self._progress_token is None or done <= self._last_progress:
            return
        self._last_progress = done
        params: dict[str, Any] = {"progressToken": self._progress_token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None and knows(self.revision, "ProgressNotification", "message"):
            params["message"] = message
        self._channel.send(jsonrpc.notification("notifications/progress", params))
        await self._channel.ready()

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
        if not self.server._declares("logging"):
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
        if self.is_ended:
            raise RuntimeError(
                f"this Context belongs to a {self.method} request that has ended; "
                "use it only while its handler runs"
            )

    def __repr__(self) -> str:
        """Show the request."""
        return f"Context({self.method!r}, id={self.request_id!r}, revision={self.revision!r})"


class SyncContext:
    """The reports of a `Context` for a handler that runs in a worker thread.

    Each call waits until the message is on its way.
    """

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Context[Any]) -> None:
        self._ctx = ctx

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the work has come; see `Context.progress`."""
        self._run(self._ctx.progress(done, total, message))

    def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client; see `Context.log`."""
        self._run(self._ctx.log(level, data, logger=logger))

    def debug(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `debug`."""
        self.log("debug", data, logger=logger)

    def info(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `info`."""
        self.log("info", data, logger=logger)

    def notice(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `notice`."""
        self.log("notice", data, logger=logger)

    def warning(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `warning`."""
        self.log("warning", data, logger=logger)

    def error(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `error`."""
        self.log("error", data, logger=logger)

    def critical(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `critical`."""
        self.log("critical", data, logger=logger)

    def alert(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `alert`."""
        self.log("alert", data, logger=logger)

    def emergency(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `emergency`."""
        self.log("emergency", data, logger=logger)

    def close_stream(self) -> None:
        """End the connection that this call is answered on; see `Context.close_stream`."""
        self._run(self._ctx.close_stream())

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        loop = self._ctx._loop
        if loop is None or asyncio._get_running_loop() is loop:
            coroutine.close()
            raise RuntimeError(
                "ctx.sync is for functions that run in a worker thread; here, await the method of ctx"
            )
        asyncio.run_coroutine_threadsafe(coroutine, loop).result()


def current_context() -> Context[Any]:
    """Return the Context of the request that is being served.

    Raises:
        RuntimeError: No request is being served here.
    """
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError("no request is being served here; call current_context() from a handler") from None


def is_context(annotation: Any, default: Any) -> bool:
    """Say whether a parameter's annotation asks for the Context (`Context`, `Context[T]`, or either with None)."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return is_context(typing.get_args(annotation)[0], default)
    if origin is Union or origin is UnionType:
        return any(is_context(part, default) for part in typing.get_args(annotation))
    annotation = origin or annotation
    return isinstance(annotation, type) and issubclass(annotation, Context)
