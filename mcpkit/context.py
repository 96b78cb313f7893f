"""What a handler may ask of the request that it serves, and say before its result."""

from __future__ import annotations

import typing
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from .calls.asking.api import Asking
from .calls.call import Call
from .calls.reporting import Track, close_stream, log, notify, report_progress
from .common.current import current
from .components.catalog import Catalog

if TYPE_CHECKING:
    from .calls.sync_context import SyncContext
    from .state.store import Store

State = TypeVar("State", default=Any)
T = TypeVar("T")


class Context(Asking, Generic[State]):
    """One request, as its handler sees it.

    A parameter annotated with it is filled in and stays out of the schema;
    `Context[Database]` types the lifespan's state. It ends with its call: whatever would send
    something afterwards raises RuntimeError. Two of one request are equal.
    """

    __slots__ = ()

    @property
    def server(self) -> Catalog:
        """The server that serves the request, as far as it is a catalog: what it offers, and `resource_updated`."""
        server = self.call.runtime.server
        assert isinstance(server, Catalog), "every server is one"
        return server

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
        return typing.cast("State", self.call.known_state)

    @property
    def store(self) -> Store:
        """Where what serves the request keeps what processes share: the `Server(store=...)` of `ctx.server`."""
        return self.call.runtime.store

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more: the call was cancelled, or its time is over.

        Code that does not await, such as a loop in a worker thread, asks from time to time.
        """
        return self.call.is_over

    @property
    def deadline(self) -> float | None:
        """When the call's time will be over, as `time.monotonic()` counts; None when it may take any.

        While a question to the client is open, the clock stands still.
        """
        return self.call.deadline

    @property
    def sync(self) -> SyncContext:
        """The same reports and questions for functions that are not `async`."""
        from .calls.sync_context import SyncContext

        return SyncContext(self.call)

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
        await report_progress(self.call, done, total, message)

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
        return Track(self.call, items, message, total)

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
        await log(self.call, level, data, logger)

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
        await notify(self.call, method, params)

    async def close_stream(self) -> None:
        """End the connection that this call is answered on; the client comes back for the rest.

        A long call need not hold a connection (basic/transports, "Sending Messages", 2025-11-25): what
        is said from now on is kept until the client asks for it, after a second or so. Only
        sessions of that revision over HTTP can; everywhere else nothing happens.

        Raises:
            RuntimeError: The call has ended.
        """
        await close_stream(self.call)

    def __repr__(self) -> str:
        """Show the request."""
        return f"Context({self.method!r}, id={self.request_id!r}, revision={self.revision!r})"


def current_context() -> Context[Any]:
    """Return the Context of the request that is being served.

    Raises:
        RuntimeError: No request is being served here.
    """
    call = current.get(None)
    if not isinstance(call, Call):
        raise RuntimeError(  # noqa: TRY004 - there is none
            "no request is being served here; call current_context() from a handler"
        )
    return Context(call)
