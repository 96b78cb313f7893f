"""The outcome of the negotiation between client and server."""

from __future__ import annotations

from ...protocol.jsonrpc import is_object
from ...protocol.types import Json


class Negotiated:
    """The outcome of the negotiation between client and server.

    Attributes:
        revision: The negotiated protocol version.
        reason: An explanation why it was chosen.
        info: The server's `Implementation`.
        capabilities: The capabilities that the server declares.
        instructions: The server's instructions for a model, or None.
    """

    __slots__ = ("capabilities", "info", "instructions", "reason", "revision")

    def __init__(self, revision: str, reason: str, info: Json, result: Json) -> None:
        self.revision = revision
        self.reason = reason
        self.info = info
        capabilities, instructions = result.get("capabilities"), result.get("instructions")
        self.capabilities: Json = capabilities if is_object(capabilities) else {}
        self.instructions: str | None = instructions if isinstance(instructions, str) else None
