"""One client at the other end of a pipe: its session, its running requests and its subscriptions.

What stdio, Unix sockets, HTTP+SSE and the in-memory transport have in common. It reads whole messages
and writes whole messages; how they are framed and carried is the transport's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ..calls.asking.pending import OpenQuestions
from ..calls.call import Call
from ..calls.channel import NO_HEADERS
from ..calls.tasks import Calls, server_ended
from ..common.errors import ProtocolError, TooLongError
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
from ..state.change import ListName
from ..state.principal import ANYONE, Principal
from .engine import Served
from .peer import Peer
from .subscriptions.pipe import Places, Subscriptions


class Connection(Peer):
    """One client at the other end of a pipe, in either era or both.

    All methods are for the event loop's thread.

    Args:
        server: Who answers.
        send: Takes one JSON message without a newline; must not block.
        ready: Returns once the other side keeps up with what is sent; None when it always does.
        request_headers: The headers of the HTTP request that opened the pipe, by name in lower case.
        principal: Who is at the other end.
        caller: What tells it from other clients that share the server; see `Shares`.
        is_local: Whether there are no access tokens at the other end, so that nobody has to say who they are.
        places: What each of its `subscriptions/listen` streams takes a place of, where many pipes share them; None
            bounds them by `Limits.concurrent_requests` alone.
        may_begin_again: Whether another `initialize` opens the session anew, rather than being refused; what runs goes
            on.
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
        """Take one message and begin to serve it.

        Args:
            line: One JSON text without its newline, or the error to answer where the transport could
                not even frame one. Whatever it holds, this returns at once and raises nothing.
            principal: Who is at the other end now, where each message says it: the same with other scopes.
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
        """Let another server answer from now on, for a client that need not notice.

        Both must be running, and the one before until this returns: what it has begun it ends, and until then the
        client hears of its changes. The session, the subscriptions and the questions that are open stay. The client
        is told of each list that differs, or may: where a template has `entries=`, and where a provider lists. What
        the one before has declared the other declares, too: it was negotiated. Where it has nothing of that, its
        lists are empty.

        Args:
            server: Who answers.

        Returns:
            When all that the one before has begun has ended.

        Raises:
            RegistrationError: Type hints of a component of the other cannot be resolved. Then nothing changes.
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
        """End the subscriptions, of which the client is told; what runs goes on."""
        self._subscriptions.close(graceful=True)

    def cancel_all(self, problem: ProtocolError) -> None:
        """Cancel what runs; whoever waits for it is told why."""
        self._calls.cancel_all(problem)

    async def aclose(self, *, graceful: bool = False) -> None:
        """Cancel what runs and end the subscriptions.

        Args:
            graceful: Whether the client is told: whoever waits for a call that the server has ended, and
                subscribers that their stream ends (basic/patterns/subscriptions, "Graceful Closure").
        """
        self._channel.has_ended = True
        self._subscriptions.close(graceful=graceful)
        await self._calls.aclose(server_ended() if graceful else None)

    def envelope(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Envelope:
        """Route by the envelope, never by the method: with a protocolVersion in `_meta`, stateless."""
        if PROTOCOL_VERSION in meta:
            return Stateless.receive(meta)
        if self.session is not None:
            if method != "initialize":
                return self.session
            if not self._may_begin_again:
                raise invalid("this session is already initialized")
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
        """Say whether a request runs, or listens, under an id."""
        return id_ in self._calls.keys or id_ in self._subscriptions.streams

    def _cancel(self, id_: RequestId) -> None:
        if not self._calls.cancel(id_):
            self._subscriptions.cancel(id_)

    def _refuse_unread(self, problem: ProtocolError, message: bytes) -> None:
        """Refuse a message that was not read, under its id where it has one; an answer ends its question."""
        from ..protocol.unreadable import id_of_answer, id_of_unreadable, is_call, looks_like_message

        if len(self.questions) and looks_like_message(message) and not is_call(message):
            self.questions.fail(id_of_answer(message, message), problem)
        self._refuse(readable_id(id_of_unreadable(message), self), problem, self._reply)

    def _reply(self, message: bytes | None, problem: BaseException | None) -> None:
        if message is not None:
            self._channel.send(message)


class _PipeChannel:
    """The channel of a pipe: all messages leave the same way."""

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
        """The pipe, whoever asks."""
        return self._whole

    @property
    def is_open(self) -> bool:
        """Whether somebody is at the other end."""
        return not self.has_ended

    def attend(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Do nothing: it is heard from the beginning."""
        return lambda: None

    def of(self, principal: Principal) -> _PipeChannel:
        """Return the same channel for what somebody else asks."""
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
        """Return None: there is no status to tell."""

    def defer_response(self) -> None:
        """Do nothing: there is no status to tell."""

    def send(self, message: bytes) -> None:
        """Send one message."""
        self._send(message)

    async def ready(self) -> None:
        """Wait until the other side keeps up."""
        if self._ready is not None:
            await self._ready()

    async def close(self) -> None:
        """Leave the pipe open: it is not the call's alone."""


_BEFORE_INITIALIZE = Handshake(LATEST_HANDSHAKE, Client({}, {}))
"""The client before `initialize`; only `ping` is answered then."""
