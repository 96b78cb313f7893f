"""Transport to a server in the same process and event loop. Messages are serialized as over a wire."""

from __future__ import annotations

from contextlib import AsyncExitStack

from ..engine.engine_startup_gate_and_error_hooks import Served
from ..engine.message_dispatch import Connection
from ..identity.principals_and_scopes import ANYONE, Principal
from .client_messages import OutgoingMessage
from .transport_interface import TransportListener


class MemoryTransport:
    """Carries messages to a server object.

    Args:
        server: The server.
        principal: The principal of the client.
        headers: The HTTP request headers that handlers see, by name in lower case.
    """

    def __init__(
        self, server: Served, *, principal: Principal = ANYONE, headers: dict[bytes, bytes] | None = None
    ) -> None:
        self._server = server
        self._principal = principal
        self._headers = headers or {}
        self._open: AsyncExitStack | None = None
        self._connection: Connection | None = None

    async def open(self, receiver: TransportListener) -> None:
        """Enter the server's lifespan and connect."""
        engine = self._server.engine
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(engine.running())
            await engine.ready()
            self._connection = Connection(
                self._server, receiver.receive, request_headers=self._headers, principal=self._principal
            )
            stack.push_async_callback(self._connection.aclose)
            self._open = stack.pop_all()

    def send(self, message: OutgoingMessage) -> None:
        """Pass one message to the server."""
        assert self._connection is not None
        self._connection.receive(message.line)

    async def close(self) -> None:
        """Cancel running calls and leave the server's lifespan."""
        if self._open is not None:
            stack, self._open = self._open, None
            await stack.aclose()
