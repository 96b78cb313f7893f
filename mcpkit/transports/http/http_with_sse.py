"""The transport of 2024-11-05: one event stream for each session, and POSTs for messages ("HTTP with SSE").

Deprecated since 2025-03-26. A session is a `Pipe`, which lives as long as its stream, in this process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

from ...engine.message_dispatch import Connection
from ...identity.principals_and_scopes import owner_of
from .app_options import MESSAGES_PATH
from .request import Bodies, UnreadError, check_content, mount_point
from .response import Exchange, RefusedError, Scope, Source, event
from .sessions.loop_state import LoopState

if TYPE_CHECKING:
    from ..._utils.exceptions import ProtocolError
    from ...auth.verifier import AccessToken
    from ...identity.revocation import Revocation


class Pipe(Source):
    """One session: it receives messages by POST, and sends all messages on its stream.

    Args:
        state: State of the app in the event loop.
        pipes: Open pipes by id, including this one until it ends.
        exchange: The stream.
        messages: Path for POSTs, as the client sees it.

    Attributes:
        id: Id that the client appends to that path.
        connection: The session.
        principal: Principal that opened it; messages of others are rejected.
        caller: Identifier of the client, for limits; see `Shares`.

    Raises:
        BusyError: Too many streams are open.
    """

    def __init__(self, state: LoopState, pipes: dict[str, Pipe], exchange: Exchange, messages: str) -> None:
        caller = exchange.caller
        self._pipes = pipes
        self._state = state
        self.caller = caller
        self.take()
        self.id = os.urandom(16).hex()
        self.connection = Connection(
            state,
            self._send,
            ready=exchange.ready,
            request_headers=exchange.request_headers,
            principal=exchange.principal,
            caller=caller,
            is_local=False,
            places=self,
        )
        self.principal = exchange.principal
        self._exchange = exchange
        self._token = exchange.request_headers.get(b"authorization")
        self._grant = exchange.grant
        self._ending: asyncio.Task[None] | None = None
        self._let_go = state.end_with_token(exchange, self._end)
        pipes[self.id] = self
        exchange.attach(self)
        endpoint = f"{quote(messages)}?session_id={self.id}"
        exchange.push(b"event: endpoint\ndata: %s\n\n" % endpoint.encode())

    @property
    def is_behind(self) -> bool:
        """True if the client should read its stream before it sends more requests."""
        return self._exchange.is_behind

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
        """Use the access token of a new message: the stream lasts as long as the latest token."""
        token = exchange.request_headers.get(b"authorization")
        if token == self._token or self._ending is not None or not _lasts(exchange.grant, self._grant):
            return
        self._let_go()
        self._token, self._grant = token, exchange.grant
        self._let_go = self._state.end_with_token(exchange, self._end)

    def _end(self) -> None:
        """Stop listening, and end the session when the running requests have been answered."""
        self._let_go()
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
        self._exchange.finish()

    def _send(self, message: bytes) -> None:
        self._exchange.push(event(message))

    def _leave(self) -> bool:
        """Remove this pipe from the open ones. Return True if it was among them."""
        if self._pipes.pop(self.id, None) is None:
            return False
        self.release()
        self._let_go()
        return True

    def lost(self, exchange: Exchange) -> None:
        """Cancel running requests, because the client has disconnected."""
        if self._leave():
            self._state.start_task(self.connection.aclose())


def _lasts(grant: AccessToken | None, other: AccessToken | None) -> bool:
    """Return True if an access token is valid at least as long as another one."""
    if grant is None or other is None:
        return False
    return grant.expires is None or (other.expires is not None and grant.expires >= other.expires)


async def serve_sse(
    state: LoopState,
    pipes: dict[str, Pipe],
    scope: Scope,
    exchange: Exchange,
    serve: Callable[[Exchange], Awaitable[None]],
) -> None:
    """Serve a GET of the event stream, which opens a session.

    Args:
        state: State of the app in the event loop.
        pipes: Open sessions by id.
        scope: ASGI scope of the request.
        exchange: The exchange of the request.
        serve: Sends the stream until it ends.

    Raises:
        RefusedError: The method is not GET (405).
        BusyError: Too many streams are open.
    """
    if scope["method"] != "GET":
        raise UnreadError(405, "use GET to open the event stream", ((b"allow", b"GET"),))
    pipe = Pipe(state, pipes, exchange, mount_point(scope) + MESSAGES_PATH)
    try:
        await serve(exchange)
    finally:
        await pipe.aclose()


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
        raise UnreadError(
            503,
            "too many messages wait on the event stream. Read it, then send this message again",
            ((b"retry-after", b"1"),),
        )
    pipe.connection.receive(await bodies.read(exchange), exchange.principal)
    pipe.renew(exchange)
    exchange.answer(None, 202)
    await exchange.respond()
