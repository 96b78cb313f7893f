"""One client of a server: its session, its messages in order, and its running requests.

`BaseSession` is common to pipes and to sessions over HTTP. `Connection` is a client on a pipe: stdio, a Unix socket,
HTTP+SSE or the in-memory transport. It reads and writes whole messages. The transport frames and carries them.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, ClassVar

from .._utils.exceptions import METHOD_NOT_FOUND, ProtocolError, TooLongError
from ..identity.principals_and_scopes import ANYONE, ListName, Principal
from ..protocol import jsonrpc
from ..protocol import jsonrpc_validation as messages
from ..protocol.jsonrpc import Json, RequestId, is_array, is_id, is_object
from ..protocol.jsonrpc_validation import (
    Notification,
    Request,
    Response,
    invalid,
    is_initialize,
    names_revision,
    readable_id,
)
from ..protocol.revisions import (
    BATCHES,
    CLIENT_CAPABILITIES,
    ERROR_ID_MAY_BE_ABSENT,
    LATEST_HANDSHAKE,
    PROTOCOL_VERSION,
    SERVER_CAPABILITIES,
    Client,
    Envelope,
    Handshake,
    Stateless,
    not_initialized,
)
from ..requests.access_and_error_responses import error_response
from ..requests.request_record import Call
from ..requests.requests_to_client import NO_HEADERS, Channel, OpenQuestions
from ..requests.running_requests import Calls, Reply, server_ended
from .engine import Engine, Served
from .stdio_subscriptions import Places, Subscriptions

logger = logging.getLogger(__name__)

# Messages in one JSON-RPC batch (2025-03-26).
MAX_BATCH = 100

# The client before `initialize`; the server then responds to `ping` only.
_BEFORE_INITIALIZE = Handshake(LATEST_HANDSHAKE, Client({}, {}))


class BaseSession(ABC):
    """The messages of one client, in order, and its running requests.

    All methods must be called in the event loop's thread; they return at once and do not raise.

    Args:
        engine: The engine of the server.
        calls: The running calls.
        questions: The open requests to the client.

    Attributes:
        session: The session that `initialize` opened; None before, and without one.
        questions: The open requests to the client.
    """

    _ignores_strange_answers: ClassVar[bool] = True
    """True if a response without a request is ignored, on transports that cannot return an error for it."""

    def __init__(self, engine: Engine, calls: Calls, questions: OpenQuestions) -> None:
        self.session: Handshake | None = None
        self.questions = questions
        self._engine = engine
        self._calls = calls

    async def drain(self) -> None:
        """Wait until every received request has its response, except subscriptions."""
        await self._calls.drain()

    # Differences between transports

    @abstractmethod
    def envelope(self, method: str, params: Json, meta: Json) -> Envelope:
        """Return the envelope of a request: its client and its revision.

        Raises:
            ProtocolError: The request is not allowed now, or lacks required metadata.
        """

    def _listen(self, call: Call) -> None:
        """Open a `subscriptions/listen` stream, which only pipes have.

        Raises:
            ProtocolError: -32601 on other transports.
        """
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {call.method}")

    @abstractmethod
    def _initialized(self) -> None:
        """Begin to send changes to the session."""

    def has_request(self, id_: RequestId) -> bool:
        """Return True if a request with this id is running."""
        return id_ in self._calls.keys

    def _cancel(self, id_: RequestId) -> None:
        self._calls.cancel(id_)

    def _reset(self) -> None:
        """Clear the session, as `initialize` has failed, so that the client can send it again."""
        self.session = None

    # Messages

    def _receive(self, message: object, reply: Reply, channel: Channel) -> None:
        """Receive one message and begin to serve it."""
        read = messages.read(message, self)
        if type(read) is Request:  # as most are
            self._serve(read, reply, channel)
        elif isinstance(read, Notification):
            self._receive_notification(read.method, read.params)
            reply(None, None)
        elif isinstance(read, Response):
            self._receive_response(read.message, reply)
        else:
            if is_object(message) and message.get("method") is None and "id" in message:
                # A malformed response ends its request, too.
                self.questions.answer({"jsonrpc": None, **message})
            self._refuse(read.id, read.problem, reply, is_stateless=names_revision(message))

    def _receive_batch(self, batch: list[Any], reply: Reply, channel: Channel, *, where: str) -> None:
        """Serve a JSON-RPC batch (2025-03-26, basic/index, "Batching"); its responses are sent in one array.

        Args:
            batch: The messages.
            reply: Takes the array, None if there is no response, or the error for the whole batch.
            channel: Channel for other messages of its requests.
            where: Place of single messages in other revisions, for the error message.
        """
        if self.session is None or self.session.revision not in BATCHES:
            problem = invalid(f"this protocol version has no batches. Send one message {where}")
            self._refuse(None, problem, reply)
            return
        if not 1 <= len(batch) <= MAX_BATCH:
            problem = invalid(f"a batch must contain 1 to {MAX_BATCH} messages, this one has {len(batch)}")
            self._refuse(None, problem, reply)
            return
        left = len(batch)
        responses: list[bytes] = []

        def collect(response: bytes | None, _: BaseException | None) -> None:
            nonlocal left
            left -= 1
            if response is not None:
                responses.append(response)
            if left == 0:
                reply(b"[" + b",".join(responses) + b"]" if responses else None, None)

        for message in batch:
            if is_initialize(message):
                problem = invalid("initialize must not be part of a batch")
                self._refuse(readable_id(message["id"], self), problem, collect)
            else:
                self._receive(message, collect, channel)

    def _serve(self, request: Request, reply: Reply, channel: Channel) -> None:
        engine = self._engine
        call = Call(engine.runtime, request, channel)
        if call.method == "initialize":
            reply = partial(self._reply_to_initialize, reply)
        try:
            if call.method == "subscriptions/listen" and call.era == "stateless":
                self._listen(call)
                reply(None, None)
                return
            outcome = engine.dispatch(call)
            if isinstance(outcome, (dict, bytes)):
                reply(jsonrpc.result(call.request_id, outcome), None)
                return
            self._calls.start(call.request_id, call, outcome, reply)
        except Exception as error:  # noqa: BLE001 - every request is answered
            reply(error_response(call, error), error)

    def _reply_to_initialize(
        self, reply: Reply, message: bytes | None, problem: BaseException | None
    ) -> None:
        if message is None or problem is not None:
            self._reset()
        reply(message, problem)

    def _receive_notification(self, method: str, params: object) -> None:
        """Apply a notification. Unknown and malformed ones are ignored, as a notification has no response."""
        if method == "notifications/initialized" and self.session is not None:
            self.session.is_initialized = True
            self._initialized()
        elif method == "notifications/cancelled" and is_object(params):
            id_ = params.get("requestId")
            if is_id(id_) and self.has_request(id_):
                logger.debug("the client cancelled the request %.100r: %.200r", id_, params.get("reason"))
                self._cancel(id_)
        if self.session is not None:
            self._engine.notification_listeners.notify(method, params)

    def _receive_response(self, message: Json, reply: Reply) -> None:
        """Pass a response to the request that waits for it; without a session there is none, so refuse it."""
        if self.session is None:
            self._refuse(None, invalid("this response matches no request of the server"), reply)
        elif self.questions.answer(message) or self._ignores_strange_answers:
            reply(None, None)
        else:
            self._refuse(None, invalid("this response matches no request of this session"), reply)

    def _refuse(
        self, id_: RequestId | None, problem: ProtocolError, reply: Reply, *, is_stateless: bool = False
    ) -> None:
        absent = is_stateless or self.session is None or self.session.revision in ERROR_ID_MAY_BE_ABSENT
        reply(jsonrpc.error(id_, problem, absent=absent), problem)


class Connection(BaseSession):
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
            engine.hub(), self._channel, engine.runtime.limits.concurrent_requests, places
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
            user = self._subscriptions.principal
            content = engine.listing.shown(name, revision, user)
            return content is None or content != before.listing.shown(name, revision, user)

        with self._subscriptions.moved(engine.hub(), engine.runtime.limits.concurrent_requests, differs):
            await self._calls.ended()
            await asyncio.sleep(0)  # so that pending changes are delivered

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
            self._reset()
        if method == "initialize":
            self.session = self._subscriptions.begin(params)
            return self.session
        if method == "ping":
            return _BEFORE_INITIALIZE
        if CLIENT_CAPABILITIES in meta:
            return Stateless.receive(meta)  # refuses it, as the protocolVersion is missing
        raise not_initialized(method)

    def has_request(self, id_: RequestId) -> bool:
        """Return True if a request or a subscription stream with this id is open."""
        return id_ in self._calls.keys or id_ in self._subscriptions.streams

    def _reset(self) -> None:
        super()._reset()
        self._subscriptions.end_session()

    def _listen(self, call: Call) -> None:
        self._subscriptions.open(self._engine.listen(call))

    def _initialized(self) -> None:
        self._subscriptions.initialized()

    def _cancel(self, id_: RequestId) -> None:
        if not self._calls.cancel(id_):
            self._subscriptions.cancel(id_)

    def _refuse_unread(self, problem: ProtocolError, message: bytes) -> None:
        """Send an error for a message that could not be read, with its id if it has one.

        If it is a response, the request to the client fails.
        """
        from ..protocol.jsonrpc_validation import id_of_answer, id_of_unreadable, is_call, looks_like_message

        if len(self.questions) and looks_like_message(message) and not is_call(message):
            self.questions.fail(id_of_answer(message, message), problem)
        self._refuse(readable_id(id_of_unreadable(message), self), problem, self._reply)

    def _reply(self, message: bytes | None, problem: BaseException | None) -> None:
        if message is not None:
            self._channel.send(message)


class _PipeChannel:
    """The channel of a pipe, on which all messages leave."""

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
        self.request_headers = request_headers
        self.principal = principal
        self.questions: OpenQuestions | None = questions
        self.caller = caller
        self.is_local = is_local
        self.has_ended = False
        self.standalone = self
        """The channel of the pipe's own user."""

    @property
    def is_open(self) -> bool:
        """True until the connection is closed."""
        return not self.standalone.has_ended

    def of(self, principal: Principal) -> _PipeChannel:
        """Return the same channel for requests of another user."""
        channel = copy(self)
        channel.principal = principal
        return channel

    def send(self, message: bytes) -> None:
        """Send one message."""
        self._send(message)

    async def ready(self) -> None:
        """Wait until the client has read enough of what was sent."""
        if self._ready is not None:
            await self._ready()

    def attend(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Do nothing: a pipe can send from the beginning."""
        return lambda: None

    def challenge(self, scopes: Sequence[str], revision: str) -> None:
        """Return None: a pipe has no HTTP status."""

    def defer_response(self) -> None:
        """Do nothing: a pipe has no HTTP status."""

    async def close(self) -> None:
        """Do nothing: other calls use the pipe too."""
