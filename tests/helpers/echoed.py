"""A tool that takes a value of a type and gives one, and what travels of them."""

from __future__ import annotations

import base64
import json
from typing import Any

from mcpkit import Server
from mcpkit.schema import Output
from mcpkit.testing import CallResult, connect

REVISIONS = ("2025-11-25", "2026-07-28")
NOT_GIVEN: Any = object()


class Echo:
    """A server with `give() -> T` and `echo(x: T) -> T`.

    Args:
        annotation: The type.
    """

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self.given: Any = None
        self.received: Any = None
        self.server = Server("echo")
        self.output = Output.of(annotation)

        async def give() -> Any:
            return self.given

        async def echo(x: Any) -> Any:
            self.received = x
            return x

        give.__annotations__ = {"return": annotation}
        echo.__annotations__ = {"x": annotation, "return": annotation}
        self.server.tool(give)
        self.server.tool(echo)

    @property
    def schema(self) -> Any:
        """The published schema of the argument, with what its references lead to."""
        tool = self.server.tools["echo"]
        schema = tool.arguments.schema
        definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
        return {**schema["properties"]["x"], **definitions}

    async def pass_on(self, value: Any, revision: str) -> Any:
        """Return the JSON value that a value is given as, after it has been echoed."""
        self.given = value
        async with connect(self.server, revision=revision) as client:
            sent = self.data(await client.call("give", {}), revision)
            returned = self.data(await client.call("echo", {"x": sent}), revision)
        assert _unordered(returned) == _unordered(sent)
        return sent

    async def take(self, data: Any) -> CallResult:
        """Return what comes of a JSON value."""
        async with connect(self.server) as client:
            return await client.call("echo", {"x": data})

    def data(self, result: CallResult, revision: str) -> Any:
        """Return the JSON value in a result."""
        assert not result.is_error, result.text
        if self.output is None:  # content: bytes are a blob, what holds them is JSON in a text
            if not result.content:
                return None
            block = result.content[0]
            if block["type"] == "text":
                return json.loads(block["text"])
            data = block["resource"]["blob"] if block["type"] == "resource" else block["data"]
            assert base64.b64encode(base64.b64decode(data, validate=True)).decode() == data
            return data
        is_wrapped = self.output.is_wrapped and revision == REVISIONS[0]
        return result.structured["result"] if is_wrapped else result.structured


def _unordered(data: Any) -> str:
    """Return a JSON value as a text that is the same for two arrays that a set may become."""
    if isinstance(data, list):
        return f"[{','.join(sorted(map(_unordered, data)))}]"
    if isinstance(data, dict):
        return f"{{{','.join(f'{name!r}:{_unordered(value)}' for name, value in sorted(data.items()))}}}"
    return json.dumps(data)
