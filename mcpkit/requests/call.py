"""One request that the server handles, and the base class of `Context`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from .._utils.errors import CallEndedError
from ..content.data import LONG, may_hold_huge_number, unwritten
from ..protocol.eras import CacheHint, Client
from ..protocol.jsonrpc import RequestId
from ..protocol.messages import Request
from ..protocol.types import Json
from .runtime import BaseCall, Runtime

if TYPE_CHECKING:
    from ..execution.cancel_callbacks import Stop
    from ..identity.principal import Principal
    from .channel import Channel
    from .elicitation_state import Dialogue
    from .notifications import Reports
    from .turn import Turn

NO_STATE = object()
"""In place of a handler's state, where there is no handler: in middleware."""


class Call(BaseCall):
    """One request, from its arrival to its response.

    Args:
        runtime: Shared objects of the server.
        request: The parsed request.
        channel: Channel for the messages of the request.

    Attributes:
        needs: Scopes that the component needs.
        state: Value of the lifespan of the component's server; `NO_STATE` outside of handlers.
        turn: Clock and slot of the call; None if it has neither timeout nor concurrency limit.
        turn_since: Time when other requests last ran, in seconds of the event loop's clock.
        sent: Params as the client sent them, if a middleware has changed them.
        reports: Progress and log messages of the call; None before the first.
        dialogue: Requests to the client; None before the first.
        ref: Reference of the call's failure in the log; None if there is none.
        exception: Exception behind the error result, for middleware.
        sync_calls: Tasks in the event loop that worker threads of the call wait for; None if there were none.
        stops: Functions that stop the handler in its thread; None if there are none.
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
        """Return a new call of the same request that sends its messages on another channel."""
        request = Request()
        request.envelope, request.id, request.method = self.envelope, self.request_id, self.method
        request.params, request.meta = self.params, self.meta
        return Call(self.runtime, request, channel)

    @property
    def known_state(self) -> Any:
        """Value of the lifespan: of the component's server in a handler, else of the server itself.

        Raises:
            BusyError: Outside of handlers: the lifespan is still starting.
            ProtocolError: Outside of handlers: the lifespan failed to start.
        """
        return self.runtime.state_in(self.loop) if self.state is NO_STATE else self.state

    @property
    def deadline(self) -> float | None:
        """End of the timeout, in seconds of `time.monotonic()`; None without a timeout."""
        return None if self.turn is None else self.turn.deadline

    def paused(self) -> AbstractAsyncContextManager[object]:
        """Return a context manager that stops the clock, and gives the slot to other calls."""
        return nullcontext() if self.turn is None else self.turn

    def render(self, result: Json, cache: CacheHint | None = None) -> bytes:
        """Encode a result, with the members that the era requires.

        Args:
            result: The result object.
            cache: Cache hint in place of the method's. A protected server makes it private for an authenticated
                principal.

        Raises:
            OutputError: A value has no JSON form.
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
        """End the call. Pending progress and log messages are sent before the response, and none after it.

        Args:
            is_answered: Whether a response follows.
        """
        self.is_ended = True
        self.exception = None  # whose traceback refers to the request
        reports, self.reports = self.reports, None
        if reports is not None:
            reports.end(is_answered=is_answered)

    # What stops its function in a thread

    def stopped_by(self, function: Callable[[], object]) -> Stop:
        """Register a function that stops the handler; called in the handler's thread.

        Raises:
            CallEndedError: The call has ended.
        """
        from ..execution.cancel_callbacks import Stop

        stop = Stop(function, self.method)
        self.stops = [*(each for each in self.stops or () if each.is_open), stop]
        if self.is_over:  # asked last, as whoever stops the function may have looked before
            stop.take_back()
            raise CallEndedError(self.method)
        return stop

    def take_stops_back(self) -> None:
        """Unregister all stop functions, after the handler has returned."""
        stops, self.stops = self.stops, None
        for stop in stops or ():
            stop.take_back()

    @property
    def is_stoppable(self) -> bool:
        """True if the handler has registered a stop function."""
        return any(stop.is_open for stop in self.stops or ())

    def leave(self, left: asyncio.Future[None]) -> None:
        """Record that the worker thread runs on until `left` is done, and call the registered stop functions."""
        self.left = left
        for task in tuple(self.sync_calls or ()):
            task.cancel()
        if self.stops:
            from ..execution.cancel_callbacks import call_all

            call_all(self.stops)


class CallContext:
    """Request of the client, for a handler or middleware. It is passed to a parameter of this type.

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
        """The params of the request: those that the client sent, or those of a middleware that changed them."""
        return self._call.params

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the params; an empty dict if there is none."""
        return self._call.meta

    @property
    def client(self) -> Client:
        """Name, version, info and capabilities of the client, as it declares them (not verified)."""
        return self._call.client

    @property
    def principal(self) -> Principal:
        """The verified principal of the request, with `id` and `scopes`; see `Principal`."""
        return self._call.principal

    @property
    def protocol_version(self) -> str:
        """The protocol version of the request, for example `2025-11-25`."""
        return self._call.revision

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the HTTP request, with case-insensitive names; empty on other transports.

        The values are those that the client, or a proxy before the server, sent. The lines of a list header, such as
        `Accept` or `X-Forwarded-For`, are joined with commas. Reading any other header that was sent more than once
        raises an error that becomes the response (-32602). Over HTTP+SSE, they are the headers of the request that
        opened the stream.
        """
        return self._call.headers

    def __eq__(self, other: object) -> bool:
        """Return True if both belong to the same request."""
        return isinstance(other, CallContext) and call_of(other) is self._call

    def __hash__(self) -> int:
        """Return the hash of the request."""
        return hash(self._call)


def call_of(context: CallContext) -> Call:
    """Return the request behind a context."""
    return context._call  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # handlers see a context alone
