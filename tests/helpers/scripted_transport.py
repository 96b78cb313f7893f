"""A transport with a function of the test as its server, and a channel that keeps the messages of a detached call."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from mcpkit.client.client_messages import OutgoingMessage
from mcpkit.client.transport_interface_and_memory import TransportListener
from mcpkit.exceptions import TransportError
from mcpkit.middleware import ToolCall
from mcpkit.transports import OpenQuestions

Message = dict[str, Any]
Script = Callable[["ScriptedTransport", Message], "Iterable[Message] | None"]


class ScriptedTransport:
    """A pipe with a function at its other end.

    Args:
        script: Takes the transport and each message that was sent; returns those that come back.

    Attributes:
        sent: All messages that were sent, oldest first.
        opened: How often it has been opened.
        is_open: Whether it is.
    """

    def __init__(self, script: Script) -> None:
        self.sent: list[Message] = []
        self.opened = 0
        self.is_open = False
        self._script = script
        self._receiver: TransportListener | None = None

    async def open(self, receiver: TransportListener) -> None:
        """Open it."""
        self.opened += 1
        self.is_open = True
        self._receiver = receiver

    def send(self, message: OutgoingMessage) -> None:
        """Let the script answer."""
        if not self.is_open:
            raise TransportError("the pipe is closed", may_have_begun=False)
        sent = json.loads(message.line)
        self.sent.append(sent)
        for each in self._script(self, sent) or ():
            self.deliver(each)

    def deliver(self, message: Message) -> None:
        """Send a message to the client."""
        assert self._receiver is not None
        self._receiver.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def die(self, *, may_have_begun: bool = True) -> None:
        """Break."""
        assert self._receiver is not None
        self.is_open = False
        self._receiver.connection_lost(TransportError("the server has ended", may_have_begun=may_have_begun))

    async def close(self) -> None:
        """Close it."""
        self.is_open = False

    def methods(self) -> list[str]:
        """Return the methods of what was sent."""
        return [message["method"] for message in self.sent if "method" in message]


def discovered(message: Message, **members: Any) -> Message:
    """Return a server's answer to `server/discover`."""
    info = {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
    result = {
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "_meta": info, **members,
    }  # fmt: skip
    return {"id": message["id"], "result": result}


def initialized(message: Message, revision: str = "2025-11-25") -> Message:
    """Return a server's answer to `initialize`."""
    info = {"name": "scripted", "version": "1"}
    result = {"protocolVersion": revision, "capabilities": {"tools": {}, "logging": {}}, "serverInfo": info}
    return {"id": message["id"], "result": result}


def text(message: Message, text: str) -> Message:
    """Return a tool's answer."""
    return {"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}}


def error(message: Message, code: int, text: str = "no", data: Any = None) -> Message:
    """Return an error."""
    return {"id": message["id"], "error": {"code": code, "message": text, "data": data}}


class Mailbox:
    """The channel of a call that continues without its client.

    Attributes:
        messages: The messages that the call has sent.
    """

    def __init__(self, request: ToolCall) -> None:
        channel = request.channel
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
