"""One client on a pipe: its session, its running requests and its subscriptions.

Common to stdio, Unix sockets, HTTP+SSE and the in-memory transport. It reads and writes whole messages. The transport
frames and carries them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from .._utils.exceptions import ProtocolError, TooLongError
from ..identity.change import ListName
from ..identity.principal import ANYONE, Principal
from ..protocol import jsonrpc
from ..protocol.capabilities import SERVER_CAPABILITIES
from ..protocol.eras import (
    CLIENT_CAPABILITIES,
    PROTOCOL_VERSION,
    Client,
    Envelope,
    Handshake,
    Stateless,
    not_initialized,
)
from ..protocol.jsonrpc import RequestId, is_array
from ..protocol.messages import invalid, readable_id
from ..protocol.revisions import LATEST_HANDSHAKE
from ..requests.call import Call
from ..requests.channel import NO_HEADERS, OpenQuestions
from ..requests.running import Calls, server_ended
from .engine import Served
from .peer import Peer
from .subscriptions.pipe import Places, Subscriptions


class Connection(Peer):
    """One client on a pipe, with a session or without one.

    All methods must be called in the event loop's thread.

    Args:
        server: The server.
        send: Sends one JSON message without a newline; must not block.
        ready: Returns when the client has read enough of what was sent; None if it always has.
        request_headers: The headers of the HTTP request that opened the pipe, by name in lower case.
        principal: The user.
        caller: Key that distinguishes the client from others of the server; see `Shares`.
        is_local: Whether the pipe has no access tokens, so that the user need not authenticate.
        places: Limit of `subscriptions/listen` streams that several pipes share; None for `Limits.concurrent_requests`
            alone.
        may_begin_again: Whether another `initialize` opens a new session instead of being refused. Running requests
            continue.
    """

    def __init__(
        self,
        server: Served,
        send: Callable[[bytes], None],
        *,
        ready: Callable[[], Awaitable[None]] | None = None,
        request_headers: Mapping[bytes, bytes] = NO_HEADERS,
        principal: Principal = ANYONE,
        caller: str | None = None,
        is_local: bool = True,
        places: Places | None = None,
        may_begin_again: bool = False,
    ) -> None:
        engine = server.engine
        super().__init__(engine, Calls(), OpenQuestions())
        principal = engine.runtime.scopes.of(principal)
        self._channel = _PipeChannel(
            send, ready, request_headers, principal, self.questions, caller, is_local
        )
        self._may_begin_again = may_begin_again
        self._subscriptions = Subscriptions(
            engine.hubs.here(), self._channel, engine.runtime.limits.concurrent_requests, places
        )

    def receive(self, line: bytes | ProtocolError, principal: Principal | None = None) -> None:
        """Receive one message and begin to serve it. It returns at once and never raises.

        Args:
            line: One JSON text without its newline, or the error to send if the transport could not frame it.
            principal: The current user, on transports where each message has one: the same user with other scopes.
        """
        channel = self._channel
        if principal is not None:
            self._subscriptions.principal = principal
            if principal != channel.principal:
                channel = channel.of(principal)
        if isinstance(line, ProtocolError):
            self._refuse_unread(line, line.beginning if isinstance(line, TooLongError) else b"")
            return
        try:
            message = jsonrpc.decode(line)
        except ProtocolError as error:
            self._refuse_unread(error, line)
            return
        if is_array(message):
            self._receive_batch(message, self._reply, channel, where="a line")
        else:
            self._receive(message, self._reply, channel)

    async def move(self, server: Served) -> None:
        """Move the client to another server without a new connection.

        Both servers must be running; the previous one must keep running until this returns. It completes its running
        requests, and the client gets its changes until then. The session, the subscriptions and the open requests to
        the client stay. The client is notified of each list that differs, or may differ because of `list_entries=` or a
        provider. The new server declares all capabilities of the previous one, as they were negotiated. It serves empty
        lists for those that it does not have.

        Args:
            server: The new server.

        Returns:
            None, when all requests of the previous server have ended.

        Raises:
            RegistrationError: Type hints of a component of the new server cannot be resolved. Then nothing changes.
        """
        engine, before = server.engine, self._engine
        if engine is before:
            return
        engine.catalog.resolve()
        for capability in filter(before.declared.has, SERVER_CAPABILITIES):
            engine.declared.add(capability)
        self._engine = engine

        def differs(name: ListName, revision: str) -> bool:
            shown = engine.listing.shown(name, revision, self._subscriptions.principal)
            return shown is None or shown != before.listing.shown(
                name, revision, self._subscriptions.principal
            )

        with self._subscriptions.moved(
            engine.hubs.here(), engine.runtime.limits.concurrent_requests, differs
        ):
            await self._calls.ended()
            await asyncio.sleep(0)  # for what has just changed

    def end_listening(self) -> None:
        """End the subscriptions and notify the client of it. Running requests continue."""
        self._subscriptions.close(graceful=True)

    def cancel_all(self, problem: ProtocolError) -> None:
        """Cancel the running requests, and send the reason to the client."""
        self._calls.cancel_all(problem)

    async def aclose(self, *, graceful: bool = False) -> None:
        """Cancel the running requests and end the subscriptions.

        Args:
            graceful: Whether the client gets an error for each running request, and the end of each subscription stream
                (basic/patterns/subscriptions, "Graceful Closure").
        """
        self._channel.has_ended = True
        self._subscriptions.close(graceful=graceful)
        await self._calls.aclose(server_ended() if graceful else None)

    def envelope(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Envelope:
        """Return the envelope of a request. A protocolVersion in `_meta` makes it stateless, whatever its method."""
        if PROTOCOL_VERSION in meta:
            return Stateless.receive(meta)
        if self.session is not None:
            if method != "initialize":
                return self.session
            if not self._may_begin_again:
                raise invalid("this session is already initialized. Send initialize only once")
            self._refused()
        if method == "initialize":
            self.session = self._subscriptions.begin(params)
            return self.session
        if method == "ping":
            return _BEFORE_INITIALIZE
        if CLIENT_CAPABILITIES in meta:
            return Stateless.receive(meta)  # refuses it, as the protocolVersion is missing
        raise not_initialized(method)

    def _refused(self) -> None:
        super()._refused()
        self._subscriptions.end_session()

    def _listen(self, call: Call) -> None:
        self._subscriptions.open(self._engine.listen(call))

    def _initialized(self) -> None:
        self._subscriptions.initialized()

    def has_request(self, id_: RequestId) -> bool:
        """Return True if a request or a subscription stream with this id is open."""
        return id_ in self._calls.keys or id_ in self._subscriptions.streams

    def _cancel(self, id_: RequestId) -> None:
        if not self._calls.cancel(id_):
            self._subscriptions.cancel(id_)

    def _refuse_unread(self, problem: ProtocolError, message: bytes) -> None:
        """Send an error for a message that could not be read, with its id if it has one.

        If it is a response, the request to the client fails.
        """
        from ..protocol.unreadable import id_of_answer, id_of_unreadable, is_call, looks_like_message

        if len(self.questions) and looks_like_message(message) and not is_call(message):
            self.questions.fail(id_of_answer(message, message), problem)
        self._refuse(readable_id(id_of_unreadable(message), self), problem, self._reply)

    def _reply(self, message: bytes | None, problem: BaseException | None) -> None:
        if message is not None:
            self._channel.send(message)


class _PipeChannel:
    """The channel of a pipe, on which all messages leave."""

    __slots__ = (
        "_ready",
        "_send",
        "_whole",
        "caller",
        "has_ended",
        "is_local",
        "principal",
        "questions",
        "request_headers",
    )

    def __init__(
        self,
        send: Callable[[bytes], None],
        ready: Callable[[], Awaitable[None]] | None,
        request_headers: Mapping[bytes, bytes],
        principal: Principal,
        questions: OpenQuestions,
        caller: str | None,
        is_local: bool,
    ) -> None:
        self._send = send
        self._ready = ready
        self.questions: OpenQuestions | None = questions
        self.request_headers = request_headers
        self.principal = principal
        self.caller = caller
        self.is_local = is_local
        self.has_ended = False
        self._whole: _PipeChannel = self

    @property
    def standalone(self) -> _PipeChannel:
        """The channel of the pipe's own user."""
        return self._whole

    @property
    def is_open(self) -> bool:
        """True until the connection is closed."""
        return not self.has_ended

    def attend(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Do nothing: a pipe can send from the beginning."""
        return lambda: None

    def of(self, principal: Principal) -> _PipeChannel:
        """Return the same channel for requests of another user."""
        assert self.questions is not None
        channel = _PipeChannel(
            self._send,
            self._ready,
            self.request_headers,
            principal,
            self.questions,
            self.caller,
            self.is_local,
        )
        channel._whole = self._whole
        return channel

    def challenge(self, scopes: Sequence[str], revision: str) -> None:
        """Return None: a pipe has no HTTP status."""

    def defer_response(self) -> None:
        """Do nothing: a pipe has no HTTP status."""

    def send(self, message: bytes) -> None:
        """Send one message."""
        self._send(message)

    async def ready(self) -> None:
        """Wait until the client has read enough of what was sent."""
        if self._ready is not None:
            await self._ready()

    async def close(self) -> None:
        """Do nothing: other calls use the pipe too."""


_BEFORE_INITIALIZE = Handshake(LATEST_HANDSHAKE, Client({}, {}))
"""The client before `initialize`; only `ping` is answered then."""
