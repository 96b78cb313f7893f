"""The interface of client transports and their listener, and the transport to a server in the same process."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .._utils.concurrency import Listeners
from ..identity.principals_and_scopes import ANYONE, Principal
from ..protocol.jsonrpc import RequestId
from .client_messages import OutgoingMessage

if TYPE_CHECKING:
    from ..engine.engine import Served
    from ..engine.message_dispatch import Connection


class TransportListener(Protocol):
    """Receives messages and errors from a transport.

    Call its methods in the thread of the event loop. They return at once and raise nothing.
    """

    def receive(self, line: bytes, request_id: RequestId | None = None) -> None:
        """Process one JSON text: a JSON-RPC message, or a batch of messages.

        Args:
            line: The text in UTF-8.
            request_id: The id of the request that this text responds to; None if the transport does not know it.
        """

    def is_pending(self, id_: RequestId) -> bool:
        """Return whether a request still waits for its response.

        Args:
            id_: The id of the request.
        """
        ...

    def fail(self, id_: RequestId, error: Exception) -> None:
        """Fail one request whose response cannot be received. Other requests are not affected.

        Args:
            id_: The id of the request.
            error: The error that the caller of the request gets.
        """

    def connection_lost(self, error: Exception) -> None:
        """Report that nothing can be received until the transport is opened again. All pending requests fail.

        Args:
            error: The reason. A `TransportError` has `may_have_begun` if the server may have begun with
                pending requests.
        """


class Transport(Protocol):
    """Interface of transports: carries messages to one server and back.

    A transport may be opened again after it was closed or lost. One event loop uses it at a time. Its errors are
    `TransportError`, with `may_have_begun` for messages that the server may have processed.
    """

    async def open(self, receiver: TransportListener) -> None:
        """Start the process or connect. Messages go to the receiver from now on.

        Args:
            receiver: Receives messages and errors.

        Raises:
            TransportError: The server cannot be reached.
        """

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Send one message.

        Args:
            message: The message.

        Returns:
            An awaitable that is done when more may be sent; None if that is the case at once. If each request has its
            own response, as with HTTP, the awaitable is done when the response has been received. Cancelling it drops
            the response.

        Raises:
            TransportError: The message could not be sent, or its response was lost.
        """

    async def close(self) -> None:
        """Close the connection. Closing a closed transport does nothing."""


@runtime_checkable
class HasAuthorization(Protocol):
    """A transport whose messages carry an authorization that may change."""

    @property
    def is_authorizing(self) -> bool:
        """Whether it is obtaining an authorization, for example from a user. Messages wait until it has one."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """The access tokens in use."""
        ...

    @property
    def reauthorized(self) -> Listeners[[]]:
        """Called when messages carry another authorization from now on."""
        ...


@runtime_checkable
class HasStream(Protocol):
    """A transport that receives notifications on a stream of its own."""

    @property
    def missed(self) -> Listeners[[]]:
        """Called when messages may have been missed, as the stream was lost and could not be resumed."""
        ...

    async def listening(self) -> bool:
        """Wait until the stream is open or known to be unavailable, and return whether it is open."""
        ...


def is_authorizing(transport: Transport) -> bool:
    """Return whether a transport is obtaining an authorization, so that its messages wait."""
    return isinstance(transport, HasAuthorization) and transport.is_authorizing


def secrets_of(transport: Transport) -> tuple[str, ...]:
    """Return the access tokens that a transport uses."""
    return transport.secrets if isinstance(transport, HasAuthorization) else ()


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
        from ..engine.message_dispatch import Connection  # most clients do not need the engine

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
