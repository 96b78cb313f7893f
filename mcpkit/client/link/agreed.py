"""What a client and a server have agreed upon when they have begun to talk."""

from __future__ import annotations

from ...protocol.jsonrpc import is_object
from ...protocol.types import Json


class Negotiated:
    """What a server and a client have agreed upon.

    Attributes:
        revision: The revision that they speak.
        reason: Why it is that one, in words.
        info: What the server says it is.
        capabilities: What it declares.
        instructions: How it says that a model should use it, or None.
    """

    __slots__ = ("capabilities", "info", "instructions", "reason", "revision")

    def __init__(self, revision: str, reason: str, info: Json, result: Json) -> None:
        self.revision = revision
        self.reason = reason
        self.info = info
        capabilities, instructions = result.get("capabilities"), result.get("instructions")
        self.capabilities: Json = capabilities if is_object(capabilities) else {}
        self.instructions: str | None = instructions if isinstance(instructions, str) else None
