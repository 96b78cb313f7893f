"""One client at the other end of a pipe: its session, its running requests and its subscriptions.

What stdio, Unix sockets and the in-memory transport have in common. It reads whole messages and
writes whole messages; how they are framed and carried is the transport's.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .context import Context, _current
from .errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, ProtocolError
from .execution import FATAL
from .failures import error_response
from .protocol import jsonrpc
from .protocol.eras import (
    CLIENT_CAPABILITIES,
    PROTOCOL_VERSION,
    Client,
    Envelope,
    Handshake,
    Stateless,
    not_initialized,
)
from .protocol.jsonrpc import RequestId, is_array, is_id, is_object
from .protocol.revisions import LATEST_HANDSHAKE
from .subscriptions import Subscriptions

if TYPE_CHECKING:
    from .methods import Outcome
    from .server import Server

logger = logging.getLogger("mcpkit")

Reply = Callable[[bytes | None], None]
"""Takes the response to one message, or None when there will be none."""

MAX_BATCH: Final = 100
"""Messages in one JSON-RPC batch (2025-03-26)."""

_start: Callable[..., asyncio.Task[None]] = asyncio.Task[None]
if sys.version_info >= (3, 12):
    # A handler that never waits is answered in the same turn of the loop.
    _start = partial(asyncio.Task[None], eager_start=True)


class Connection:
    """One client at the other end of a pipe, in either era or both.

    All methods are for the event loop's thread.

    Args:
        server: Who answers.
        send: Takes one JSON message without a newline; must not block.
        ready: Returns once the other side keeps up with what is sent; None when it always does.
    """

    def __init__(
        self,
        server: Server,
        send: Callable[[bytes], None],
        *,
        ready: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.session: Handshake | None = None
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._running: dict[RequestId, _Call] = {}
        self._idle: asyncio.Future[None] | None = None
        self._channel = _PipeChannel(send, ready)
        self._subscriptions = Subscriptions(server, self._channel)

    def receive(self, line: bytes | ProtocolError) -> None:
        """Take one message and begin to serve it.

        Args:
            line: One JSON text without its newline, or the error to answer where the transport could
                not even frame one. Whatever it holds, this returns at once and raises nothing.
        """
        if isinstance(line, ProtocolError):
            self._refuse(None, line)
            return
        try:
            message = jsonrpc.decode(line)
        except ProtocolError as error:
            self._refuse(None, error)
            return
        if is_array(message):
            self._receive_batch(message)
        else:
            self._receive_one(message, self._reply)

    async def drain(self) -> None:
        """Return once every request that has been received is answered; subscriptions do not count."""
        while self._running:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    async def aclose(self, *, graceful: bool = False) -> None:
        """Cancel what runs and end the subscriptions.

        Args:
            graceful: Whether subscribers are told that their stream ends
                (basic/patterns/subscriptions, "Graceful Closure").
        """
        self._subscriptions.close(graceful=graceful)
        calls = list(self._running.values())
        for call in calls:
            self._cancel(call)
        await asyncio.gather(*(call.task for call in calls if call.task is not None), return_exceptions=True)

    # One message

    def _receive_one(self, message: Any, reply: Reply) -> None:
        if not is_object(message) or message.get("jsonrpc") != "2.0":
            id_ = self._readable_id(message) if is_object(message) and "method" in message else None
            self._refuse(id_, _invalid('expected an object with "jsonrpc": "2.0"'), reply)
            return
        method = message.get("method")
        if "id" in message and type(method) is str:
            self._receive_request(message, message["id"], method, reply)
        elif type(method) is str:
            self._receive_notification(method, message.get("params"))
            reply(None)
        elif ("result" in message or "error" in message) and "method" not in message:
            self._receive_response(reply)
        else:
            self._refuse(self._readable_id(message), _invalid("expected a method name"), reply)

    def _receive_request(self, message: dict[str, Any], id_: Any, method: str, reply: Reply) -> None:
        if not is_id(id_):
            self._refuse(None, _invalid("expected a string or an integer as id"), reply)
            return
        if self._is_taken(id_):
            error = _invalid(f"a request with the id {str(id_)[:60]!r} is running already")
            self._refuse(None, error, reply, is_stateless=_says_stateless(message))
            return
        params: dict[str, Any] | None = message.get("params")
        try:
            if params is None:
                params = {}
            elif type(params) is not dict:
                raise ProtocolError(INVALID_PARAMS, "params: expected an object")
            meta: dict[str, Any] | None = params.get("_meta")
            if meta is None:
                meta = {}
            elif type(meta) is not dict:
                raise ProtocolError(INVALID_PARAMS, "params._meta: expected an object")
            elif "progressToken" in meta and not is_id(meta["progressToken"]):
                raise ProtocolError(
                    INVALID_PARAMS, "params._meta.progressToken: expected a string or an integer"
                )
            envelope = self._envelope(method, params, meta)
            ctx: Context[Any] = Context(self._server, envelope, self._channel, id_, method, params, meta)
        except ProtocolError as error:
            self._refuse(id_, error, reply)
            return
        self._serve(ctx, reply)

    def _readable_id(self, message: dict[str, Any]) -> RequestId | None:
        """Return the id to refuse a malformed request under; never that of one that runs, which goes on."""
        id_ = message.get("id")
        return id_ if is_id(id_) and not self._is_taken(id_) else None

    def _is_taken(self, id_: RequestId) -> bool:
        return id_ in self._running or id_ in self._subscriptions.streams

    def _envelope(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Envelope:
        """Route by the envelope, never by the method: with a protocolVersion in `_meta`, stateless."""
        if PROTOCOL_VERSION in meta:
            return Stateless.receive(meta)
        if self.session is not None:
            if method == "initialize":
                raise _invalid("this session is initialized already")
            return self.session
        if method == "initialize":
            self.session = Handshake.receive(params)
            self._subscriptions.begin(self.session)
            return self.session
        if method == "ping":
            return _BEFORE_INITIALIZE
        if CLIENT_CAPABILITIES in meta:
            return Stateless.receive(meta)  # refuses it, as the protocolVersion is missing
        raise not_initialized(method)

    def _serve(self, ctx: Context[Any], reply: Reply) -> None:
        server = self._server
        try:
            if ctx.method == "subscriptions/listen" and ctx.era == "stateless":
                self._subscriptions.open(ctx)
                reply(None)
                return
            outcome = server._dispatch(ctx)
            if isinstance(outcome, dict | bytes):
                reply(jsonrpc.result(ctx.request_id, outcome))
                return
            if server._running_count >= server.max_running:
                outcome.close()
                raise ProtocolError(
                    INTERNAL_ERROR, f"Too many requests are running ({server.max_running}); try again later"
                )
        except Exception as error:  # noqa: BLE001 - every request is answered
            reply(error_response(ctx, error))
            return
        call = _Call(ctx, outcome, reply)
        self._running[ctx.request_id] = call
        server._running_count += 1
        call.task = _start(self._run(call), loop=self._loop)
        if call.is_cancelled:  # by what its first step led to: a client in the same process hears at once
            call.task.cancel()

    async def _run(self, call: _Call) -> None:
        ctx = call.ctx
        call.is_started = True
        _current.set(ctx)
        message: bytes | None = None
        try:
            message = jsonrpc.result(ctx.request_id, await call.outcome)
        except BaseException as error:
            if not call.is_cancelled:
                message = error_response(ctx, error)
            if isinstance(error, FATAL):
                raise
        finally:
            self._server._running_count -= 1
            if not call.is_cancelled:
                self._settle(call, message)

    def _cancel(self, call: _Call) -> None:
        """Stop a request; whoever asked is free at once and gets no answer, however long it takes to stop."""
        call.is_cancelled = True
        if call.task is not None:
            call.task.cancel()
        if not call.is_started:  # its task ends without ever running
            call.outcome.close()
            self._server._running_count -= 1
        self._settle(call, None)

    def _settle(self, call: _Call, message: bytes | None) -> None:
        call.ctx.is_ended = True
        del self._running[call.ctx.request_id]
        call.reply(message)
        if not self._running and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def _receive_notification(self, method: str, params: Any) -> None:
        """Apply a notification; those that are unknown or malformed are ignored, as nobody could be told."""
        if method == "notifications/initialized" and self.session is not None:
            self.session.is_initialized = True
            self._subscriptions.initialized()
        elif method == "notifications/cancelled" and is_object(params):
            id_ = params.get("requestId")
            if not is_id(id_):
                return
            call = self._running.get(id_)
            if call is not None:
                logger.debug("request %r was cancelled: %s", id_, params.get("reason"))
                self._cancel(call)
            else:
                self._subscriptions.cancel(id_)

    def _receive_response(self, reply: Reply) -> None:
        """Ignore an answer that nobody waits for; refuse one where no session can have asked."""
        if self.session is None:
            self._refuse(None, _invalid("nothing has been asked, so there is nothing to answer"), reply)
        else:
            reply(None)

    # Answers

    def _reply(self, message: bytes | None) -> None:
        if message is not None:
            self._channel.send(message)

    def _refuse(
        self,
        id_: RequestId | None,
        error: ProtocolError,
        reply: Reply | None = None,
        *,
        is_stateless: bool = False,
    ) -> None:
        absent = is_stateless or self.session is None or self.session.error_id_may_be_absent
        (reply or self._reply)(jsonrpc.error(id_, error, absent=absent))

    # Batches

    def _receive_batch(self, messages: list[Any]) -> None:
        """Serve a JSON-RPC batch (2025-03-26, basic/index, "Batching")."""
        if self.session is None or not self.session.has_batches:
            self._refuse(None, _invalid("this revision has no batches; send one message a line"))
            return
        if not 1 <= len(messages) <= MAX_BATCH:
            self._refuse(None, _invalid(f"a batch holds 1 to {MAX_BATCH} messages, this one {len(messages)}"))
            return
        batch = _Batch(len(messages), self._channel.send)
        for message in messages:
            if _is_initialize(message):
                error = _invalid("initialize must not be part of a batch")
                self._refuse(self._readable_id(message), error, batch.reply)
            else:
                self._receive_one(message, batch.reply)


class _Call:
    """A request that runs."""

    __slots__ = ("ctx", "is_cancelled", "is_started", "outcome", "reply", "task")

    def __init__(self, ctx: Context[Any], outcome: Coroutine[Any, Any, Outcome], reply: Reply) -> None:
        self.ctx = ctx
        self.outcome = outcome
        self.reply = reply
        self.task: asyncio.Task[None] | None = None
        self.is_started = False
        self.is_cancelled = False


class _Batch:
    """Collects the answers to a batch: one array, or nothing when there are none."""

    __slots__ = ("_answers", "_open", "_send")

    def __init__(self, size: int, send: Callable[[bytes], None]) -> None:
        self._open = size
        self._send = send
        self._answers: list[bytes] = []

    def reply(self, message: bytes | None) -> None:
        """Take the answer to one of the messages, or None."""
        self._open -= 1
        if message is not None:
            self._answers.append(message)
        if self._open == 0 and self._answers:
            self._send(b"[" + b",".join(self._answers) + b"]")


class _PipeChannel:
    """The channel of a pipe: all messages leave the same way."""

    __slots__ = ("_ready", "_send")

    def __init__(self, send: Callable[[bytes], None], ready: Callable[[], Awaitable[None]] | None) -> None:
        self._send = send
        self._ready = ready

    def send(self, message: bytes) -> None:
        """Send one message."""
        self._send(message)

    async def ready(self) -> None:
        """Wait until the other side keeps up."""
        if self._ready is not None:
            await self._ready()


_BEFORE_INITIALIZE: Final = Handshake(LATEST_HANDSHAKE, Client({}, {}))
"""Who asks when nobody has said so yet; only `ping` is answered then."""


def _is_initialize(message: Any) -> bool:
    return is_object(message) and "id" in message and message.get("method") == "initialize"


def _says_stateless(message: dict[str, Any]) -> bool:
    params = message.get("params")
    meta = params.get("_meta") if is_object(params) else None
    return is_object(meta) and PROTOCOL_VERSION in meta


def _invalid(message: str) -> ProtocolError:
    return ProtocolError(INVALID_REQUEST, f"Invalid Request: {message}")
