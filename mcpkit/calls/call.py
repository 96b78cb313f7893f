"""One request that is served: what the engine and the author's `Context` know of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ..common.errors import CallEndedError
from ..content.data import LONG, may_hold_huge_number, unwritten
from ..protocol.eras import CacheHint, Client
from ..protocol.jsonrpc import RequestId
from ..protocol.messages import Request
from ..protocol.types import Json
from .runtime import BaseCall, Runtime

if TYPE_CHECKING:
    from ..state.principal import Principal
    from .asking.dialogue import Dialogue
    from .channel import Channel
    from .reports import Reports
    from .turn import Turn
    from .workers.stops import Stop

NO_STATE = object()
"""In place of a handler's state, where there is no handler: in middleware."""


class Call(BaseCall):
    """One request, from the moment that it has been read to its answer.

    Args:
        runtime: What it runs with.
        request: What has been read.
        channel: Where the messages that belong to it leave.

    Attributes:
        needs: The scopes without which it would not run.
        state: What the lifespan of the component's server has yielded; `NO_STATE` outside of handlers.
        turn: Its clock and its slot; None while it is limited by neither.
        turn_since: When other requests had their turn last, in seconds of the event loop's clock.
        sent: Its params as the client sent them, where a middleware has changed them.
        reports: What it says by the way; None as long as it has said nothing.
        dialogue: What its handler has asked, and how it does; None as long as it has asked nothing.
        ref: What names its failure in the log; None where it has none.
        exception: What its error result has been made of, for middleware.
        sync_calls: What threads await for it in the event loop; None as long as they have awaited nothing.
        stops: What stops its function in a thread; None as long as nothing does.
    """

    __slots__ = (
        "dialogue",
        "exception",
        "needs",
        "ref",
        "reports",
        "sent",
        "state",
        "stops",
        "sync_calls",
        "turn",
        "turn_since",
    )

    def __init__(
        self,
        runtime: Runtime,
        request: Request,
        channel: Channel,
    ) -> None:
        # All at once, for the classes below as well: each request comes by here.
        self.method = request.method
        self.is_ended = False
        self.is_timed_out = False
        self.runtime = runtime
        self.envelope = request.envelope
        self.channel = channel
        self.request_id = request.id
        self.params = request.params
        self.meta = request.meta
        self.loop = None
        self.left = None
        self.needs: tuple[str, ...] = ()
        self.state: Any = NO_STATE
        self.turn: Turn | None = None
        self.turn_since: float | None = None
        self.reports: Reports | None = None
        self.sent: Json | None = None
        self.dialogue: Dialogue | None = None
        self.ref: str | None = None
        self.exception: BaseException | None = None
        self.sync_calls: set[asyncio.Task[Any]] | None = None
        self.stops: list[Stop] | None = None

    def twin(self, channel: Channel) -> Call:
        """Return a call of the same request that has not begun yet, and whose messages leave elsewhere."""
        request = Request()
        request.envelope, request.id, request.method = self.envelope, self.request_id, self.method
        request.params, request.meta = self.params, self.meta
        return Call(self.runtime, request, channel)

    @property
    def known_state(self) -> Any:
        """What the lifespan has yielded: that of the component's server in a handler, elsewhere the server's own.

        Raises:
            BusyError: Outside of handlers: it is still being entered.
            ProtocolError: Outside of handlers: it could not be entered.
        """
        return self.runtime.state_in(self.loop) if self.state is NO_STATE else self.state

    @property
    def deadline(self) -> float | None:
        """When its time will be over, as `time.monotonic()` counts; None when it may take any."""
        return None if self.turn is None else self.turn.deadline

    def paused(self) -> AbstractAsyncContextManager[object]:
        """Stop the clock, and lend the slot to other calls, for as long as the block lasts."""
        return nullcontext() if self.turn is None else self.turn

    def render(self, result: Json, cache: CacheHint | None = None) -> bytes:
        """Write a result with what the era wants of every result.

        Args:
            result: The result object.
            cache: How long it may be kept, and by whom, in place of what the method has. On a protected server what
                is served to somebody is for them alone.

        Raises:
            OutputError: Something in it cannot be written as JSON.
        """
        runtime = self.runtime
        try:
            cache = cache or runtime.cache.get(self.method)
            if cache is not None and runtime.is_protected and self.channel.principal.id is not None:
                cache = cache.private  # nobody else may be given what somebody with an access token has got
            written = self.envelope.render(result, runtime.identity, cache)
        except ValueError as error:
            raise unwritten(result) or error from None
        if len(written) > LONG and may_hold_huge_number(written) and (problem := unwritten(result)):
            raise problem
        return written

    def end(self, *, is_answered: bool) -> None:
        """End it: what its handler has said is sent before its response, and nothing after that.

        Args:
            is_answered: Whether a response comes next.
        """
        self.is_ended = True
        self.exception = None  # whose traceback refers to the request
        reports, self.reports = self.reports, None
        if reports is not None:
            reports.end(is_answered=is_answered)

    # What stops its function in a thread

    def stopped_by(self, function: Callable[[], object]) -> Stop:
        """Take note of what stops the function, from its thread.

        Raises:
            CallEndedError: It is too late for it.
        """
        from .workers.stops import Stop

        stop = Stop(function, self.method)
        self.stops = [*(each for each in self.stops or () if each.is_open), stop]
        if self.is_over:  # asked last, as whoever stops the function may have looked before
            stop.take_back()
            raise CallEndedError(self.method)
        return stop

    def take_stops_back(self) -> None:
        """Take back what stops the function, which has returned."""
        stops, self.stops = self.stops, None
        for stop in stops or ():
            stop.take_back()

    @property
    def is_stoppable(self) -> bool:
        """Whether a function in a thread has said what stops it."""
        return any(stop.is_open for stop in self.stops or ())

    def leave(self, left: asyncio.Future[None]) -> None:
        """Take note that a thread goes on alone, until `left` is done, and stop it as far as it has said how."""
        self.left = left
        for task in tuple(self.sync_calls or ()):
            task.cancel()
        if self.stops:
            from .workers.stops import call_all

            call_all(self.stops)


class CallContext:
    """What an author's function sees of a request; a parameter of this type is filled in.

    Args:
        call: The request.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    @property
    def request_id(self) -> RequestId:
        """The JSON-RPC id of the request."""
        return self._call.request_id

    @property
    def method(self) -> str:
        """The request's method, for example `tools/call`."""
        return self._call.method

    @property
    def params(self) -> dict[str, Any]:
        """The request's params as the client sent them, or a middleware has changed them."""
        return self._call.params

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the params; empty when there is none."""
        return self._call.meta

    @property
    def client(self) -> Client:
        """Who asks: `name`, `version`, `info` and `capabilities`, all as the client says."""
        return self._call.client

    @property
    def principal(self) -> Principal:
        """Who asks, as far as that has been verified: `id` and `scopes`; see `Principal`."""
        return self._call.principal

    @property
    def protocol_version(self) -> str:
        """The protocol version of the request, for example `2025-11-25`."""
        return self._call.revision

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request, by name in any case; empty over other transports.

        They are as the client, or what stands before the server, has sent them. Of a list that came in
        several lines, such as `Accept` or `X-Forwarded-For`, all values are there, with commas between; to
        read any other that came more than once is an error, which the client is told (-32602). Over HTTP+SSE
        they are those of the request that opened the stream.
        """
        return self._call.headers

    def __eq__(self, other: object) -> bool:
        """Say whether both are of one request."""
        return isinstance(other, CallContext) and call_of(other) is self._call

    def __hash__(self) -> int:
        """Tell requests apart."""
        return hash(self._call)


def call_of(context: CallContext) -> Call:
    """Return the request behind a context."""
    return context._call  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # handlers see a context alone
