"""A server of which one message is bent, for tests of clients: as an ASGI app, or as a process over stdio."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

from mcpkit import Client
from tests.helpers.bent import REVISIONS, Bent, Message, Schema, bend, schema_of

STATELESS = REVISIONS[-1]
INFO = {"name": "bent", "version": "1"}
SCHEMA = {"type": "object", "properties": {"value": {"type": "integer"}}}
CAPABILITIES: Message = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}

Operation = Callable[[Client], Awaitable[object]]


async def call(client: Client) -> None:
    """Call a tool, and read all of its result."""
    result = await client.call("add", {"first": 1})
    assert isinstance(result.text, str)
    assert result.text != "None"
    assert all(isinstance(block, dict) for block in result.content)


OPERATIONS: dict[str, tuple[str, Operation]] = {
    "tools/list": ("ListToolsResult", lambda client: client.list_tools()),
    "tools/call": ("CallToolResult", call),
    "resources/list": ("ListResourcesResult", lambda client: client.list_resources()),
    "resources/templates/list": (
        "ListResourceTemplatesResult",
        lambda client: client.list_resource_templates(),
    ),
    "resources/read": ("ReadResourceResult", lambda client: client.read("note://one")),
    "prompts/list": ("ListPromptsResult", lambda client: client.list_prompts()),
    "prompts/get": ("GetPromptResult", lambda client: client.get_prompt("greet", {"name": "Ada"})),
    "completion/complete": ("CompleteResult", lambda client: client.complete("greet", "name", "A")),
}
"""What a client asks, by method: the definition of the result, and the call."""


def result_of(schema: Schema, method: str, random: Random) -> Message:
    """Return a good result of a method."""
    if method == "initialize":
        return schema.result(
            "InitializeResult",
            random,
            protocolVersion=schema.revision,
            capabilities=CAPABILITIES,
            serverInfo=INFO,
        )
    if method == "server/discover":
        return schema.result(
            "DiscoverResult", random, supportedVersions=[STATELESS], capabilities=CAPABILITIES
        )
    definition = OPERATIONS[method][0] if method in OPERATIONS else "EmptyResult"
    if definition not in schema.definitions:
        return {}
    result = schema.result(definition, random)
    for tool in result.get("tools", ()):
        tool |= {"name": "add", "inputSchema": {"type": "object"}}
        tool.pop("outputSchema", None)
    return result


class BentServer:
    """A server of which one message is bent.

    Args:
        folder: The folder with the official schemas.
        number: The number of the case, from which all else follows.

    Attributes:
        method: The method during which the bent message comes: `initialize` and `server/discover` open the connection.
        kind: What the message is: `answer`, `error`, `notification`, `request` or `rounds`.
        bent: The message as it was sent; None before that.
        replies: What the client has answered to requests.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.random = random = Random(number)
        self.revision = random.choice(REVISIONS)
        self.schema = schema_of(folder, self.revision)
        self.way = random.choice(["pipe", "json", "stream"])
        opening = "server/discover" if self.revision == STATELESS else "initialize"
        self.method = random.choice([opening, *OPERATIONS, "tools/call"])
        kinds = ["answer"] * 6 + ["error", "notification", "notification"]
        kinds += ["rounds", "rounds"] if self.revision == STATELESS else ["request", "request"]
        self.kind = random.choice(kinds)
        if self.kind == "rounds":
            self.method = "tools/call"
        self.bent: Bent | None = None
        self.replies: list[Message] = []
        self.is_good = False

    def __repr__(self) -> str:
        return f"{self.revision} {self.way} {self.method} {self.kind}: {self.bent}"

    def lines(self, asked: Message) -> list[bytes]:
        """Return what the server sends when it has received a message."""
        method, id_ = asked.get("method"), asked.get("id")
        if method is None:
            self.replies.append(asked)
        if method is None or id_ is None:
            return []
        if self.revision != STATELESS and method == "server/discover":
            return [
                dumped(
                    {"jsonrpc": "2.0", "id": id_, "error": {"code": -32601, "message": "Method not found"}}
                )
            ]
        answer: Message = {"jsonrpc": "2.0", "id": id_}
        if method == "initialize" and self.revision == STATELESS:  # the client has fallen back
            agreed = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": INFO}
            answer["result"] = agreed
        else:
            answer["result"] = result_of(self.schema, method, self.random)
        if method != self.method or self.bent is not None:
            return [dumped(answer)]
        if self.kind == "error":
            del answer["result"]
            answer["error"] = {"code": -32602, "message": "no such thing", "data": {"a": [1]}}
        elif self.kind == "rounds":
            answer["result"] = self.rounds()
        if self.kind in {"answer", "error", "rounds"}:
            message: Message = answer
        else:
            message = self.call(asked)
        self.bent = Bent(dumped(message), "good", (), []) if self.is_good else bend(message, self.random)
        lines = [self.bent.text]
        if self.kind in {"notification", "request"}:
            lines.append(dumped(answer))
        elif self.random.random() < 0.1:  # twice
            lines.append(self.bent.text)
        return lines

    def call(self, asked: Message) -> Message:
        """Return a notification, or a request of the server's."""
        if self.kind == "notification":
            methods = [*self.schema.methods("Server", "Notification")]
            message = self.schema.call("Server", self.random.choice(methods), self.random)
            params = message.get("params", {})
            if "progressToken" in params:
                params["progressToken"] = asked["id"]
            return message
        methods = [*self.schema.methods("Server", "Request")]
        return self.question(self.random.choice(methods), "question")

    def question(self, method: str, id_: str | None) -> Message:
        message = self.schema.call("Server", method, self.random, id_)
        if method == "elicitation/create":
            message["params"] = {"message": "How many?", "requestedSchema": SCHEMA}
        if method == "sampling/createMessage":
            message["params"].pop("tools", None)
            message["params"].pop("toolChoice", None)
        return message

    def rounds(self) -> Message:
        """Return a result that asks, of the stateless era."""
        asks = [
            {"method": "elicitation/create", "params": {"message": "How many?", "requestedSchema": SCHEMA}},
            {"method": "roots/list", "params": {}},
            {
                "method": "sampling/createMessage",
                "params": {
                    "messages": [{"role": "user", "content": {"type": "text", "text": "a"}}],
                    "maxTokens": 1,
                },
            },
        ]
        result = self.schema.result("InputRequiredResult", self.random)
        return result | {
            "resultType": "input_required",
            "inputRequests": {"k": self.random.choice(asks)},
            "requestState": "state",
        }

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve the case over HTTP."""
        if scope["type"] == "lifespan":
            return
        body = b""
        while (event := await receive())["type"] == "http.request":
            body += event["body"]
            if not event.get("more_body"):
                break
        lines = self.lines(json.loads(body)) if scope["method"] == "POST" else []
        status, kind, content = 202, b"application/json", b""
        if scope["method"] == "GET":
            status = 405
        elif lines:
            status, content = 200, lines[0]
            if self.way == "stream" or len(lines) > 1:
                kind, content = b"text/event-stream", b"".join(b"data: %b\n\n" % line for line in lines)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": content})


def dumped(message: Message) -> bytes:
    return json.dumps(message).encode()


def main() -> None:
    """Serve a case over stdio: `python bent_server.py FOLDER NUMBER`."""
    server = BentServer(Path(sys.argv[1]), int(sys.argv[2]))
    for line in sys.stdin.buffer:
        for answer in server.lines(json.loads(line)):
            sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
