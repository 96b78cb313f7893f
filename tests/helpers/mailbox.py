"""A channel that keeps the messages of a detached call."""

from __future__ import annotations

import json
from typing import Any

from mcpkit.middleware import ToolCall
from mcpkit.transports import OpenQuestions


class Mailbox:
    """The channel of a call that continues without its client.

    Attributes:
        messages: The messages that the call has sent.
    """

    def __init__(self, request: ToolCall) -> None:
        channel = request.ctx.call.channel
        self.principal = channel.principal
        self.request_headers = channel.request_headers
        self.caller = channel.caller
        self.questions = OpenQuestions()
        self.messages: list[dict[str, Any]] = []

    def send(self, message: bytes) -> None:
        """Keep a message."""
        self.messages.append(json.loads(message))

    async def ready(self) -> None:
        """Accept the next message at once."""

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
