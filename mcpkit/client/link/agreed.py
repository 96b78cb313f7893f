"""The outcome of the negotiation between client and server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...protocol.objects import Implementation, ServerCapabilities


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

    def __init__(
        self, revision: str, reason: str, info: Any, capabilities: Any, instructions: str | None
    ) -> None:
        self.revision = revision
        self.reason = reason
        self.info: Implementation = info
        self.capabilities: ServerCapabilities = capabilities
        self.instructions = instructions
