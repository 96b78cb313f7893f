"""A pipe whose server ends, and begins anew."""

from __future__ import annotations

from collections.abc import Callable

from mcpkit import Server, TransportError
from mcpkit.client.link.transport import Receiver
from mcpkit.client.transports.memory import MemoryTransport
from mcpkit.protocol.client import Outgoing


class Restarted:
    """A pipe to a server that ends, and is another one of the same kind when the pipe is opened again.

    Attributes:
        server: The one that runs now, or ran last.
        opened: How often the pipe has been opened.
        failures: How often it is not to be opened from now on.
        retry_after: For how long it asks then to be left alone.
        is_final: Whether that would be the same the next time.
        is_forgotten: Whether the server knows the session no more, which the next message finds out.
    """

    def __init__(self, make: Callable[[], Server]) -> None:
        self.server = make()
        self.opened = 0
        self.failures = 0
        self.retry_after: float | None = None
        self.is_final = False
        self.is_forgotten = False
        self._make = make
        self._way: MemoryTransport | None = None
        self._receiver: Receiver | None = None

    async def open(self, receiver: Receiver) -> None:
        """Start a server."""
        if self.failures:
            self.failures -= 1
            raise TransportError(
                "it does not start",
                may_have_begun=False,
                may_pass=not self.is_final,
                retry_after=self.retry_after,
            )
        self.opened += 1
        self.server = self._make()
        self._receiver = receiver
        self._way = MemoryTransport(self.server)
        await self._way.open(receiver)

    async def send(self, message: Outgoing) -> None:
        """Send a message to the server that runs."""
        if self.is_forgotten and message.method != "initialize":
            self.is_forgotten = False
            raise TransportError("nobody knows the session", may_have_begun=False, session_is_gone=True)
        if self._way is None:
            raise TransportError("it has ended", may_have_begun=False)
        self._way.send(message)

    async def die(self) -> None:
        """End the server."""
        await self.close()
        assert self._receiver is not None
        self._receiver.lost(TransportError("it has ended", may_have_begun=True))

    async def close(self) -> None:
        """End the server, as the client wants it."""
        if self._way is not None:
            way, self._way = self._way, None
            await way.close()
