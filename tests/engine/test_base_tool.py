"""Tools without a function: wrong options and results, and what each protocol version receives."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Context, RegistrationError, Server, ToolError, ToolResult
from mcpkit.extensions import BaseTool
from mcpkit.testing import connect
from tests.helpers.tables import each_row

ANYTHING: dict[str, Any] = {"type": "object"}


class Fixed(BaseTool):
    """A tool that returns a value, or raises it."""

    def __init__(
        self, value: Any = None, name: str = "fixed", schema: Any = ANYTHING, **options: Any
    ) -> None:
        super().__init__(name, input_schema=schema, **{"validate_input": False, **options})
        self.value = {"content": []} if value is None else value

    async def execute(self, arguments: dict[str, Any], ctx: Context) -> Any:
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


def serving(*tools: BaseTool) -> Server:
    server = Server("front")
    for tool in tools:
        server.include(tool)
    return server


def of_property(schema: Any) -> dict[str, Any]:
    return {"schema": {"type": "object", "properties": {"a": schema}}}


@each_row(("options", "message"), [
    ({"schema": None}, 'tool \'fixed\': input_schema: the root .* must have `"type": "object"`'),
    ({"schema": {"city": str}}, "tool 'fixed': input_schema cannot be converted to JSON"),
    ({"schema": "object"}, "input_schema must be a dict with string keys"),
    (of_property({"type": "text"}) | {"validate_input": True}, "tool 'fixed': inp"),
    (of_property({"$ref": "#/$defs/a"}) | {"validate_input": True}, r"\$ref cannot be resolved"),
    (of_property({"x-mcp-header": "a b"}), "not a valid HTTP header name"),
    ({"name": "a b"}, "invalid tool name 'a b'"),
    ({"timeout": -1}, "timeout must be a positive number"),
])  # fmt: skip
def test_base_tool_wrong_option_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Fixed(**options)


@each_row(("result", "text"), [
    ("warm", "the tool ran, but result is a str. Return a CallToolResult, such as"),
    (ToolResult("warm"), "result is a ToolResult. Return a CallToolResult"),
    ({"structuredContent": {}}, "result.content: expected a list of content blocks"),
    ({"content": ["warm"]}, "content[0]: expected a content block, an object with a `type`, got a str"),
    ({"content": [{"type": "text"}]}, "result.content[0].text: expected a string, but it is missing"),
    ({"content": [{"type": "resource", "resource": {}}]}, "content[0].resource.uri: expected a string"),
    ({"content": [], "_meta": None}, "result._meta: expected a dict, got a NoneType"),
    ({"content": [], "resultType": "task"}, "expected 'complete'. Return extension.result("),
    ({"content": [], "structuredContent": {"a": object()}}, "the tool ran, but"),
    ({"content": [{"type": "text", "text": "\ud800"}]}, "the tool ran, but"),
])  # fmt: skip
async def test_base_tool_wrong_result_is_an_error(revision: str, result: Any, text: str) -> None:
    async with connect(serving(Fixed(result), Fixed(name="other")), protocol_version=revision) as client:
        response = await client.call_tool("fixed")
        assert response.is_error
        assert text in response.text
        assert not (await client.call_tool("other")).is_error


async def test_base_tool_exception_is_handled_like_one_of_any_tool(caplog: pytest.LogCaptureFixture) -> None:
    class Sync(Fixed):
        def execute(self, arguments: dict[str, Any], ctx: Context) -> Any:
            return {"content": []}

    tools = (
        Fixed(ToolError("closed today"), "deliberate"),
        Fixed(ValueError("secret"), "other"),
        Sync(name="sync"),
    )
    async with connect(serving(*tools)) as client:
        texts = [(await client.call_tool(tool.name)).text for tool in tools]
    assert texts[0] == "closed today"
    assert all(text.startswith("Internal error (ref ") for text in texts[1:])
    assert "secret" in caplog.text
    assert "execute returned a dict. Write `async def execute`" in caplog.text


async def test_base_tool_result_is_adapted_to_older_revisions() -> None:
    link = {"type": "resource_link", "uri": "a://b", "name": "b"}
    sound = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    result = {"content": [link, sound], "structuredContent": [1]}
    tool = Fixed(result, output_schema={"type": "array"}, title="All that")
    async with connect(serving(tool), protocol_version="2024-11-05") as client:
        blocks = (await client.call_tool("fixed")).raw["content"]
        assert [each["type"] for each in blocks] == ["text", "resource"]
    async with connect(serving(tool), protocol_version="2025-11-25") as client:
        assert "outputSchema" not in (await client.list_tools())[0]  # it can only be an object there
        assert (await client.call_tool("fixed")).structured_content == {"result": [1]}
    async with connect(serving(tool)) as client:
        described = {"title": "All that", "inputSchema": ANYTHING, "outputSchema": {"type": "array"}}
        assert await client.list_tools() == [{"name": "fixed", **described}]
        assert (await client.call_tool("fixed")).structured_content == [1]
