"""What a client asks of a transport, and what a transport finds at its other side."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, runtime_checkable

from ...common.listeners import Listeners
from ...protocol.client import OutgoingMessage
from ...protocol.jsonrpc import RequestId


class TransportListener(Protocol):
    """Who takes what a transport brings; its methods are for the loop's thread, return at once and raise nothing."""

    def receive(self, line: bytes, request_id: RequestId | None = None) -> None:
        """Take one JSON text: a message, or a batch of them.

        Args:
            line: The text.
            request_id: The request that it answers, if it is an answer; None where the transport does not know.
        """

    def is_pending(self, id_: RequestId) -> bool:
        """Say whether a request still waits for its answer."""
        ...

    def fail(self, id_: RequestId, error: Exception) -> None:
        """Hear that a request has no answer that could be received, while others may have one."""

    def connection_lost(self, error: Exception) -> None:
        """Hear that nothing comes any more until the transport is opened again.

        Args:
            error: Why; a `TransportError` says whether what waits may have begun.
        """


class Stay(Protocol):
    """What keeps a server in this process running while connections to it are opened, lost and opened again."""

    async def enter(self) -> object:
        """Start it, unless it has been.

        Raises:
            TransportError: It could not be started.
        """

    async def leave(self) -> None:
        """Let it end. Called again this does nothing."""


class Transport(Protocol):
    """Carries messages to one server and back.

    It may be opened again after it was closed or lost. One event loop uses it at a time. Errors are
    `TransportError`s, which say whether the server may have begun with the message.
    """

    async def open(self, receiver: TransportListener) -> None:
        """Begin: start the process, connect. What comes goes to the receiver from now on.

        Raises:
            TransportError: There is no server to talk to.
        """

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Send one message; what is returned is done when more may be sent, None where that is at once.

        A transport that carries each request and its answer by themselves, such as HTTP, is done when the answer has
        been received, and raises where it cannot come any more. When it is cancelled it lets go of the answer.

        Raises:
            TransportError: It could not be sent, or its answer cannot come.
        """

    async def close(self) -> None:
        """End: whatever has been opened is closed. Called again it does nothing."""


@runtime_checkable
class HasAuthorization(Protocol):
    """A transport whose messages go under an authorization that changes."""

    @property
    def is_authorizing(self) -> bool:
        """Whether it gets one, from a user, say: until it has it the server is not asked."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """The tokens by which messages are authorized now."""
        ...

    @property
    def reauthorized(self) -> Listeners[[]]:
        """Called where messages go under another authorization from now on."""
        ...


@runtime_checkable
class HasStream(Protocol):
    """A transport that hears what the server says unasked by a stream beside the requests."""

    @property
    def missed(self) -> Listeners[[]]:
        """Called where something may have been missed, as the stream broke and does not go on where it did."""
        ...

    async def listening(self) -> bool:
        """Wait until the stream is there, or it is known that there is none, and say which."""
        ...


def is_authorizing(transport: Transport) -> bool:
    """Say whether a transport gets an authorization, so that messages wait that the server has not got yet."""
    return isinstance(transport, HasAuthorization) and transport.is_authorizing


def secrets_of(transport: Transport) -> tuple[str, ...]:
    """Return the tokens by which the messages of a transport are authorized now."""
    return transport.secrets if isinstance(transport, HasAuthorization) else ()
