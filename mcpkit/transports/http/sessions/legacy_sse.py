"""The transport of 2024-11-05: one event stream for each session, and POSTs beside it ("HTTP with SSE").

Deprecated since 2025-03-26. A session is a pipe that lives as long as its stream, in this process.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from ....engine.connection import Connection
from ..environment import Environment
from ..exchange import Exchange, Source, event

if TYPE_CHECKING:
    from ....auth.verifier import AccessToken
    from ....common.errors import ProtocolError
    from ....state.revocations import Revocation


class Pipe(Source):
    """One session: what comes by POST is served, and all that is said goes out on the stream.

    Args:
        environment: What it lives in.
        pipes: Those that are open, by their ids; it is one of them until it ends.
        exchange: The stream.
        messages: The path where the client is to post its messages, as the client sees it.

    Attributes:
        id: What its client adds to that path.
        connection: The session.
        principal: Who has opened it; what others post is not taken.
        caller: What tells its client from others; see `Shares`.

    Raises:
        BusyError: Too many streams are open.
    """

    def __init__(
        self, environment: Environment, pipes: dict[str, Pipe], exchange: Exchange, messages: str
    ) -> None:
        caller = exchange.caller
        self._pipes = pipes
        self._environment = environment
        self.caller = caller
        self.take()
        self.id = os.urandom(16).hex()
        self.connection = Connection(
            environment,
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
        self._let_go = environment.hold(exchange, self._end)
        pipes[self.id] = self
        exchange.attach(self)
        endpoint = f"{quote(messages)}?session_id={self.id}"
        exchange.push(b"event: endpoint\ndata: %s\n\n" % endpoint.encode())

    @property
    def is_behind(self) -> bool:
        """Whether the client should read its stream before it asks for more."""
        return self._exchange.is_behind

    def take(self) -> None:
        """Take a place among the streams that listen: for its own, and for each that is opened on it.

        Raises:
            BusyError: There is none.
        """
        self._environment.check_room(self.caller)
        self._environment.streams.take(self.caller)

    def give_back(self) -> None:
        """Give such a place back."""
        self._environment.streams.give_back(self.caller)

    def renew(self, exchange: Exchange) -> None:
        """Take note of the access token of a message: the pipe listens as long as the latest one lets it."""
        token = exchange.request_headers.get(b"authorization")
        if token == self._token or self._ending is not None or not _lasts(exchange.grant, self._grant):
            return
        self._let_go()
        self._token, self._grant = token, exchange.grant
        self._let_go = self._environment.hold(exchange, self._end)

    def _end(self) -> None:
        """Listen no more; once what runs has been answered, all is over."""
        self._let_go()
        self.connection.end_listening()
        self._ending = self._environment.loop.create_task(self._end_after_calls())

    async def _end_after_calls(self) -> None:
        await self.connection.drain()
        await self.aclose()

    def revoke(self, revocation: Revocation, problem: ProtocolError) -> None:
        """End at once where its client has been sent away, who is told so where an answer is awaited."""
        if self._grant is None or not revocation.covers(self.principal, self._grant.issued):
            return
        self._leave()
        self.connection.cancel_all(problem)
        self._environment.begin(self.aclose())

    async def aclose(self) -> None:
        """Take leave of the client, and cancel what runs."""
        if self._ending is not None and self._ending is not asyncio.current_task():
            self._ending.cancel()
        self._leave()
        await self.connection.aclose(graceful=True)
        self._exchange.finish()

    def _send(self, message: bytes) -> None:
        self._exchange.push(event(message))

    def _leave(self) -> bool:
        """Be found no more; say whether it was."""
        if self._pipes.pop(self.id, None) is None:
            return False
        self.give_back()
        self._let_go()
        return True

    def lost(self, exchange: Exchange) -> None:
        """Cancel what runs, as nobody hears of it any more."""
        if self._leave():
            self._environment.begin(self.connection.aclose())


def _lasts(grant: AccessToken | None, other: AccessToken | None) -> bool:
    """Say whether an access token holds at least as long as another one."""
    if grant is None or other is None:
        return False
    return grant.expires is None or (other.expires is not None and grant.expires >= other.expires)
