"""What stands at the near side of a client's transport, and does nothing but take what comes."""

from __future__ import annotations

from mcpkit.protocol.client import ClientWire
from mcpkit.protocol.jsonrpc import RequestId


class Heard:
    """Takes the messages of a transport.

    Args:
        revision: The revision that is spoken.

    Attributes:
        wire: Makes messages, and knows which wait for their answers.
        lost_by: The errors by which the transport has said that nothing comes any more.
    """

    def __init__(self, revision: str) -> None:
        self.wire = ClientWire(revision, info={"name": "test", "version": "1"}, capabilities={})
        self.lost_by: list[Exception] = []

    def receive(self, line: bytes, answers: object = None) -> None:
        self.wire.receive(line)

    def is_pending(self, id_: RequestId) -> bool:
        return id_ in self.wire.pending

    def lost(self, error: Exception) -> None:
        self.lost_by.append(error)
