"""POSTs that end with their connection: of the stateless era, and of the handshake era without a session.

Follows basic/transports/streamable-http (2026-07-28), and the older versions for a server without sessions.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ..._utils.exceptions import METHOD_NOT_FOUND, MalformedError, ProtocolError
from ...engine.changes_between_processes import ChangeQueue
from ...engine.message_dispatch import BaseSession
from ...engine.subscription_filters_and_delivery import LOST, Listen
from ...identity.principals_and_scopes import Change, Principal
from ...protocol import jsonrpc, revisions
from ...protocol import jsonrpc_validation as messages
from ...protocol.http_headers import Headers, check_mirrored, check_standard
from ...protocol.jsonrpc import Json, Outcome, Ready, RequestId, is_array, is_object
from ...protocol.jsonrpc_validation import Request
from ...protocol.revisions import HANDSHAKE, Client, Envelope, Handshake, Stateless, unsupported_version
from ...requests.access_and_error_responses import error_response
from ...requests.request_record import Call
from ...requests.requests_to_client import Channel, OpenQuestions
from ...requests.running_requests import OVER, Calls, Reply
from .response import ANSWERED, Exchange, Source, event, headers_of, status_of
from .service import OPEN, Service
from .sessions.http_session import SESSION_STATUSES

# Processes the result of a request before it is sent.
Finish = Callable[[Ready | Coroutine[Any, Any, Outcome]], Coroutine[Any, Any, Outcome]]

_VERSION = b"mcp-protocol-version"


def is_stateless(message: Any, headers: Headers) -> bool:
    """Return True if a POST belongs to the stateless era.

    The envelope decides: `_meta` first, then the header. An `initialize` request without a revision in `_meta` always
    belongs to the handshake era, whatever header a client or a proxy has added (basic/versioning).

    Args:
        message: The JSON value of the body.
        headers: The headers.
    """
    if messages.names_revision(message):
        return True
    version = headers.get(_VERSION)
    if version is None or version in _SESSIONLESS or version.strip() in _SESSIONLESS:
        return False
    return not messages.is_initialize(message)


def unknown_revision(headers: Headers) -> ProtocolError | None:
    """Return the error for a header with an unsupported revision, or None."""
    header = headers.get(_VERSION)
    version = None if header is None else header.strip().decode("latin-1")
    return None if version is None or version in revisions.ALL else unsupported_version(version)


def serve_stateless(service: Service, message: Any, exchange: Exchange) -> Awaitable[None]:
    """Serve one POST of the stateless era.

    Args:
        service: The service.
        message: The JSON value of the body.
        exchange: The exchange of the request.
    """
    if service.stage == OPEN:
        return _serve_early(service, message, exchange)
    return _serve(service, message, exchange)


async def _serve_early(service: Service, message: Any, exchange: Exchange) -> None:
    """Serve a POST that was received before the lifespan was entered, once it is: its tool may be registered there."""
    if await exchange.wait_for(service.engine.startup.wait_open()):
        await _serve(service, message, exchange)
    else:
        await exchange.respond_disconnected()


def _serve(service: Service, message: Any, exchange: Exchange) -> Awaitable[None]:
    request = messages.read(message, _PostSender(service, exchange))
    problem: ProtocolError | None = None
    if type(request) is Request:
        if request.method != "subscriptions/listen":
            return serve_call(service, exchange, request, exchange.reply, service.settings.sse_after)
        call = Call(service.engine.runtime, request, exchange)
        try:
            Listener(service, service.engine.listen(call), exchange)
        except Exception as error:  # noqa: BLE001 - every request is answered
            exchange.reply(error_response(call, error), error)
    elif isinstance(request, messages.Notification):
        problem = unknown_revision(exchange.request_headers)
        if problem is None:
            exchange.answer(None, 202)  # no notification has a meaning here
    elif isinstance(request, messages.Refusal) and is_object(message) and "method" in message:
        exchange.reply(jsonrpc.error(request.id, request.problem), request.problem)
    else:
        text = "the body of a POST must be a JSON-RPC request or notification with a method"
        problem = messages.invalid(text)
    if problem is not None:
        exchange.reply(jsonrpc.error(None, problem), problem)
    return service.send(exchange)


async def serve_call(
    service: Service,
    exchange: Exchange,
    request: Request,
    reply: Reply,
    stream_after: float,
    finish: Finish | None = None,
) -> None:
    """Serve a request that ends with its connection: of the stateless era, or without a session.

    Args:
        service: The service.
        exchange: The connection.
        request: The request.
        reply: Receives the response, for the exchange.
        stream_after: See `Exchange.run`.
        finish: Processes the result before it is sent. Its owner is attached to the exchange, and cancels the call
            when the client disconnects.
    """
    calls, call = service.calls, Call(service.engine.runtime, request, exchange)
    sender: asyncio.Task[None] | None = None
    try:
        try:
            outcome = service.engine.dispatch(call)
            running = None
            if not isinstance(outcome, (dict, bytes)):
                calls.check_room(call, outcome)
                running = outcome if finish is None else finish(outcome)
            elif finish is not None:
                running = finish(outcome)
            else:
                reply(jsonrpc.result(call.request_id, outcome), None)
            if running is not None and (awaited := calls.begin(call, running, reply)) is not OVER:
                if finish is None:
                    exchange.attach(service)
                sender = service.loop.create_task(service.serve(exchange, stream_after))
                await calls.resume(exchange, call, running, awaited, reply)
        except Exception as error:  # noqa: BLE001 - every request is answered
            reply(error_response(call, error), error)
        if sender is not None:
            await sender
        elif exchange.state == ANSWERED:  # as most are; `Service.send` would be one more call
            await exchange.respond()
        else:
            await service.serve(exchange)
    finally:
        if sender is not None:
            sender.cancel()


class _PostSender:
    """Sender of a single POST: nothing is known about it but its message."""

    __slots__ = ("_catalog", "_exchange")

    def __init__(self, service: Service, exchange: Exchange) -> None:
        self._catalog = service.engine.catalog
        self._exchange = exchange

    def has_request(self, id_: RequestId) -> bool:
        """Return False: POSTs share no ids."""
        return False

    def envelope(self, method: str, params: Json, meta: Json) -> Stateless:
        """Check the headers against the request, and return its envelope."""
        version = meta.get(revisions.PROTOCOL_VERSION)
        headers, principal = self._exchange.request_headers, self._exchange.principal
        if version is None and (problem := unknown_revision(headers)) is not None:
            raise problem
        if type(version) is str:
            if version not in revisions.STATELESS:
                header = headers.get(_VERSION)
                if header is not None and header.strip() == version.encode():
                    raise unsupported_version(version)  # the other headers are those of that revision
            name_param = None
            if (
                method not in revisions.METHODS
                and (custom := self._catalog.methods.shown(method, principal)) is not None
            ):
                name_param = custom.name_param
            check_standard(headers, method, params, version, name_param)
        envelope = Stateless.receive(meta)
        if method == "tools/call":
            name = params.get("name")
            tool = self._catalog.tools.by_key.get(name) if type(name) is str else None
            if (
                tool is not None
                and tool.is_enabled
                and (mirrored := tool.mirrored)
                and tool.is_visible(principal)
            ):
                arguments = params.get("arguments")
                check_mirrored(headers, mirrored, arguments if is_object(arguments) else {})
        return envelope


# The handshake era without sessions

_STARTS_EAGERLY = sys.version_info >= (3, 12)

# Assumed results of the handshake for clients without a session, by version.
_SESSIONLESS = {revision.encode(): Handshake(revision, Client({}, {})) for revision in HANDSHAKE}

# Without a session the server sends no requests, as there is nowhere to respond.
_NO_QUESTIONS = OpenQuestions()


class SessionlessClient(BaseSession):
    """A client of the handshake era without a session: each POST is independent.

    Args:
        service: The service.
        calls: Running requests: a separate object for a batch, because its ids are.
        assumed: Assumed result of the handshake; None for `initialize`.
        exchange: Response to its POST.

    Attributes:
        request: Its request; None for a batch, or if it has been answered.
    """

    request: Request | None = None
    _has_batch = False
    _ignores_strange_answers = False

    def __init__(self, service: Service, calls: Calls, assumed: Handshake | None, exchange: Exchange) -> None:
        super().__init__(service.engine, calls, _NO_QUESTIONS)
        self.session, self._exchange = assumed, exchange

    def receive(self, message: Any) -> None:
        """Process the body of the POST."""
        if is_array(message):
            self._has_batch = True
            self._receive_batch(message, self.reply, self._exchange, where="a POST")
        else:
            self._receive(message, self.reply, self._exchange)

    def reply(self, message: bytes | None, problem: BaseException | None) -> None:
        """Answer the POST."""
        status = 202 if message is None else status_of(problem, SESSION_STATUSES)
        self._exchange.answer(message, status, headers_of(problem))

    def envelope(self, method: str, params: Json, meta: Json) -> Envelope:
        """Return the envelope of a request without a session."""
        if method in {"resources/subscribe", "resources/unsubscribe"}:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method} (this server has no sessions)")
        assert self.session is not None
        if method == "logging/setLevel":
            # The level holds for this POST alone.
            self.session = Handshake(self.session.revision, self.session.client)
        return self.session

    def _serve(self, request: Request, reply: Reply, channel: Channel) -> None:
        if self._has_batch:
            super()._serve(request, reply, channel)
        else:
            self.request = request

    def _initialized(self) -> None:
        """Do nothing: there is no stream for notifications."""


async def serve_sessionless(service: Service, message: Any, exchange: Exchange) -> None:
    """Serve one POST of the handshake era without a session.

    Args:
        service: The service.
        message: The JSON value of the body.
        exchange: The exchange of the request.
    """
    version = exchange.request_headers.get(_VERSION, b"").strip()
    # 2025-03-26 is the version of a client that sends none (basic/transports, "Protocol Version Header").
    assumed = _SESSIONLESS.get(version) or _SESSIONLESS[b"2025-03-26"]
    calls = Calls() if is_array(message) else service.calls
    client = SessionlessClient(service, calls, assumed, exchange)
    client.receive(message)
    if not is_array(message):
        await serve_request(service, exchange, client)
        return
    service.batches.add(calls)
    try:
        await start_calls(exchange)
        await service.send(exchange, service.settings.sse_after_in_session)
    finally:
        service.batches.discard(calls)
        calls.cancel_all()  # the client has disconnected, and cannot resume the stream


async def serve_request(
    service: Service, exchange: Exchange, client: SessionlessClient, finish: Finish | None = None
) -> None:
    """Serve the request of a client that has received its POST; see `serve_call`."""
    if client.request is None:
        await service.send(exchange)
    else:
        stream_after = service.settings.sse_after_in_session
        await serve_call(service, exchange, client.request, client.reply, stream_after, finish)


async def start_calls(exchange: Exchange) -> None:
    """Let calls make their first step, after which most have ended: before Python 3.12, in the next loop iteration."""
    if exchange.state != ANSWERED and not _STARTS_EAGERLY:
        await asyncio.sleep(0)


# Streams of changes


class Listener(Source):
    """One `subscriptions/listen` stream (basic/patterns/subscriptions, 2026-07-28).

    Args:
        service: The service.
        listen: The request.
        exchange: The exchange of the request.

    Attributes:
        is_local: Always False; see `Channel`.

    Raises:
        BusyError: Too many streams are open.
        ProtocolError: -32602, if the client does not accept an event stream.
    """

    is_local = False

    def __init__(self, service: Service, listen: Listen, exchange: Exchange) -> None:
        if not exchange.may_stream:
            raise MalformedError(
                "the response to subscriptions/listen is an event stream. Send the header Accept: text/event-stream"
            )
        self._state = state = service.loop_state
        state.check_stream_room(exchange.caller)
        self._listeners = service.listeners
        self._listen, self._exchange = listen, exchange
        self._changes = ChangeQueue()
        self._is_acknowledged = False
        exchange.attach(self)
        self._listeners.add(self.end)
        state.stream_shares.take(exchange.caller)
        for change in listen.changes:
            state.hub.subscribe(self, change)
        self._forget_token = state.end_with_token(exchange, self.end)
        state.hub.when_listening(self._acknowledge, self._refuse)

    def _acknowledge(self) -> None:
        if self.end in self._listeners:
            self._is_acknowledged = True
            self._exchange.push(event(self._listen.acknowledged()))

    def _refuse(self, problem: ProtocolError) -> None:
        if self.end in self._listeners:
            self._exchange.reply(jsonrpc.error(self._listen.request_id, problem), problem)
            self.lost(self._exchange)

    @property
    def principal(self) -> Principal:
        """Principal of the client."""
        return self._exchange.principal

    def changed(self, change: Change) -> None:
        """Queue a change. A stream that falls too far behind is ended, so that it blocks no other."""
        if not change.is_lost and self._changes.add(change):
            self._exchange.wake()
            return
        reason = LOST if change.is_lost else "the client does not read its stream fast enough"
        self._exchange.push(event(self._listen.cancelled(reason)))
        self._finish()

    def end(self) -> None:
        """End the stream gracefully, with its result."""
        for chunk in self.refill():
            self._exchange.push(chunk)
        self._exchange.push(event(self._listen.result()))
        self._finish()

    def _finish(self) -> None:
        self._exchange.finish()
        self.lost(self._exchange)

    def lost(self, exchange: Exchange) -> None:
        """Stop listening."""
        if self.end in self._listeners:
            self._listeners.remove(self.end)
            self._forget_token()
            self._state.stream_shares.release(exchange.caller)
            self._state.hub.unsubscribe_all(self)

    def refill(self) -> list[bytes]:
        """Return the events of queued changes."""
        if not self._is_acknowledged:
            return []
        return [event(self._listen.notification(change)) for change in self._changes.take()]
