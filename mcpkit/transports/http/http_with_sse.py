"""The transport of 2024-11-05: one event stream for each session, and POSTs for messages ("HTTP with SSE").

Deprecated since 2025-03-26. A session is a `Pipe`, which lives as long as its stream, in this process. sse-starlette
serves the stream: it sends the pings, detects a disconnect, and ends a stream that the client does not read.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

from ...engine.message_dispatch import Connection
from ...identity.principals_and_scopes import owner_of
from . import response
from .app_options import MESSAGES_PATH
from .request import RETRY_SOON, Bodies, UnreadError, check_content, mount_point
from .response import Exchange, RefusedError, Scope, event
from .sessions.loop_state import LoopState

if TYPE_CHECKING:
    from sse_starlette import EventSourceResponse

    from ..._utils.exceptions import ProtocolError
    from ...identity.audit_and_revocation import Revocation

logger = logging.getLogger(__name__)

_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform"}


class Pipe:
    """One session: it receives messages by POST, and sends all messages on its stream.

    Args:
        state: State of the app in the event loop.
        pipes: Open pipes by id, including this one until it ends.
        scope: ASGI scope of the GET.
        exchange: The exchange of the GET, which this pipe answers.

    Attributes:
        id: Id that the client appends to the path for POSTs.
        connection: The session.
        principal: Principal that opened it; messages of others are rejected.
        caller: Identifier of the client, for limits; see `Shares`.

    Raises:
        BusyError: Too many streams are open.
    """

    def __init__(self, state: LoopState, pipes: dict[str, Pipe], scope: Scope, exchange: Exchange) -> None:
        self._pipes, self._state, self._scope, self._exchange = pipes, state, scope, exchange
        self.caller = exchange.caller
        self.take()
        self.id = os.urandom(16).hex()
        self.principal = exchange.principal
        self.connection = Connection(
            state,
            lambda message: self._push(event(message)),
            ready=self._ready,
            request_headers=exchange.request_headers,
            principal=exchange.principal,
            caller=self.caller,
            is_local=False,
            places=self,
        )
        # Events for the client
        self._queue: list[bytes] = []
        self._queued, self._is_finished = 0, False
        self._has_news, self._has_room = asyncio.Event(), asyncio.Event()
        # The stream lasts as long as the latest access token
        self._token: bytes | None = exchange.request_headers.get(b"authorization")
        self._grant = exchange.grant
        self._ending: asyncio.Task[None] | None = None
        self._forget_token = state.end_with_token(exchange, self._end)
        pipes[self.id] = self
        endpoint = f"{quote(mount_point(scope) + MESSAGES_PATH)}?session_id={self.id}"
        self._push(b"event: endpoint\ndata: %s\n\n" % endpoint.encode())

    # The stream

    async def run(self, stream_after: float | None = None) -> None:
        """Serve the stream, until the session ends or the client disconnects."""
        stream = _event_source_response()(
            self._events(),
            headers=_HEADERS,
            sep="\n",
            ping=self._state.settings.http.sse_ping_interval,
            send_timeout=response.READ_TIMEOUT,
            # If other code has activated its detection of the shutdown, it waits for ours, which ends the calls first.
            shutdown_grace_period=self._state.settings.timeouts.shutdown or 3600.0,
        )
        try:
            await stream(self._scope, self._exchange.receive, self._exchange.asgi_send)
        except response.LOST:
            logger.debug("the client disconnected, or did not read its event stream", exc_info=True)
        finally:
            self._is_finished = True
            self._has_room.set()
            if self._leave():
                self._state.start_task(self.connection.aclose())

    async def _events(self) -> AsyncGenerator[bytes]:
        """Yield pieces of the stream; the next one is requested when one has been sent."""
        while self._queue or not self._is_finished:
            if not self._queue:
                self._has_news.clear()
                await self._has_news.wait()
                continue
            chunk = b"".join(self._queue)
            self._queue.clear()
            for start in range(0, len(chunk), response.PIECE):
                piece = chunk[start : start + response.PIECE]
                yield piece
                self._queued -= len(piece)
            self._has_room.set()

    def _push(self, chunk: bytes) -> None:
        if not self._is_finished:
            self._queue.append(chunk)
            self._queued += len(chunk)
            self._has_news.set()

    async def _ready(self) -> None:
        """Wait until the client has read enough."""
        while not self._is_finished and (
            len(self._queue) > response.MAX_READY_EVENTS or self._queued > response.MAX_READY_BYTES
        ):
            self._has_room.clear()
            await self._has_room.wait()

    @property
    def is_behind(self) -> bool:
        """True if the client should read its stream before it sends more requests."""
        return sum(map(len, self._queue)) > response.MAX_QUEUED

    # The session

    def take(self) -> None:
        """Count one more listening stream: the pipe itself, or one that is opened on it.

        Raises:
            BusyError: Too many streams are open.
        """
        self._state.check_stream_room(self.caller)
        self._state.stream_shares.take(self.caller)

    def release(self) -> None:
        """Uncount a listening stream."""
        self._state.stream_shares.release(self.caller)

    def renew(self, exchange: Exchange) -> None:
        """Use the access token of a new message, if it is valid at least as long as the present one."""
        token, grant, before = exchange.request_headers.get(b"authorization"), exchange.grant, self._grant
        if token == self._token or self._ending is not None or grant is None or before is None:
            return
        if grant.expires is None or (before.expires is not None and grant.expires >= before.expires):
            self._forget_token()
            self._token, self._grant = token, grant
            self._forget_token = self._state.end_with_token(exchange, self._end)

    def _end(self) -> None:
        """Stop listening, and end the session when the running requests have been answered."""
        self._forget_token()
        self.connection.end_listening()
        self._ending = self._state.loop.create_task(self._end_after_calls())

    async def _end_after_calls(self) -> None:
        await self.connection.drain()
        await self.aclose()

    def revoke(self, revocation: Revocation, problem: ProtocolError) -> None:
        """End at once after a revocation of the client's access, with an error for each running request."""
        if self._grant is None or not revocation.covers(self.principal, self._grant.issued):
            return
        self._leave()
        self.connection.cancel_all(problem)
        self._state.start_task(self.aclose())

    async def aclose(self) -> None:
        """End the stream, and cancel running requests."""
        if self._ending is not None and self._ending is not asyncio.current_task():
            self._ending.cancel()
        self._leave()
        await self.connection.aclose(graceful=True)
        self._is_finished = True
        self._has_news.set()
        self._has_room.set()

    def _leave(self) -> bool:
        """Remove this pipe from the open ones. Return True if it was among them."""
        if self._pipes.pop(self.id, None) is None:
            return False
        self.release()
        self._forget_token()
        return True


async def receive_message(pipes: dict[str, Pipe], bodies: Bodies, scope: Scope, exchange: Exchange) -> None:
    """Serve a POST of a message to an open session.

    Args:
        pipes: Open sessions by id.
        bodies: Reader of request bodies.
        scope: ASGI scope of the request.
        exchange: The exchange of the request.

    Raises:
        RefusedError: The method, the content or the session is not valid, or the client must read its stream first.
    """
    if scope["method"] != "POST":
        raise RefusedError(405, "use POST to send a message", ((b"allow", b"POST"),))
    check_content(exchange.request_headers)
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    pipe = pipes.get(query.get("session_id", [""])[0])
    if pipe is None or owner_of(pipe.principal) != owner_of(exchange.principal):
        raise UnreadError(404, "unknown session. Open a new event stream at /sse")
    if pipe.is_behind:
        text = "too many messages wait on the event stream. Read it, then send this message again"
        raise UnreadError(503, text, RETRY_SOON)
    pipe.connection.receive(await bodies.read(exchange), exchange.principal)
    pipe.renew(exchange)
    exchange.answer(None, 202)
    await exchange.respond()


def _event_source_response() -> type[EventSourceResponse]:
    """Import the class of sse-starlette, and restore `handle_exit` of uvicorn, which its import replaces.

    Its replacement would apply to all apps of the process. The service ends the streams in its place.
    """
    from uvicorn import Server

    handle_exit = Server.handle_exit
    from sse_starlette import EventSourceResponse

    Server.handle_exit = handle_exit  # type: ignore[method-assign]  # puts the original back
    return EventSourceResponse
