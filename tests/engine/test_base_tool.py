"""A tool that has no function behind it: what an author may get wrong, and what every revision is told."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from mcpkit import Context, RegistrationError, Server, ToolError, ToolResult
from mcpkit.extensions import BaseTool
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

ERAS = ["2025-11-25", "2026-07-28"]
ANYTHING: dict[str, Any] = {"type": "object"}


class Given(BaseTool):
    """Returns what it was made with, or raises it."""

    def __init__(
        self, value: Any = None, name: str = "given", schema: Any = ANYTHING, **options: Any
    ) -> None:
        super().__init__(name, input_schema=schema, **{"validate_input": False, **options})
        self.given = {"content": []} if value is None else value

    async def execute(self, arguments: dict[str, Any], ctx: Context) -> Any:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given


def serving(*tools: BaseTool, **options: Any) -> Server:
    server = Server("front", **options)
    for tool in tools:
        server.include(tool)
    return server


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": None}, 'tool \'given\': input_schema: the root .* must have `"type": "object"`'),
        ({"schema": {"city": str}}, "tool 'given': input_schema cannot be converted to JSON"),
        ({"schema": {"properties": {}}}, 'must have `"type": "object"`'),
        ({"schema": "object"}, "input_schema must be a dict with string keys"),
        ({"schema": {"type": "object", "default": float("nan")}}, "input_schema cannot be converted to JSON"),
        (
            {"schema": {"type": "object", "properties": {"a": {"type": "text"}}}, "validate_input": True},
            "tool 'given': inp",
        ),
        (
            {
                "schema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}},
                "validate_input": True,
            },
            r"\$ref cannot be resolved",
        ),
        (
            {"schema": {"type": "object", "properties": {"a": {"x-mcp-header": "a b"}}}},
            "not a valid HTTP header name",
        ),
        ({"output_schema": []}, "output_schema must be a dict with string keys"),
        ({"name": "a b"}, "invalid tool name 'a b'"),
        ({"annotations": {"readonly": True}}, "unknown member 'readonly'"),
        ({"timeout": -1}, "timeout must be a positive number"),
    ],
)
def test_base_tool_wrong_option_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Given(**options)


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("warm", "the tool ran, but result is a str. Return a CallToolResult, such as"),
        (ToolResult("warm"), "result is a ToolResult. Return a CallToolResult"),
        ([{"type": "text", "text": "warm"}], "result is a list"),
        ({"structuredContent": {}}, "result.content: expected a list of content blocks"),
        ({"content": "warm"}, "result.content: expected a list"),
        (
            {"content": ["warm"]},
            "result.content[0]: expected a content block, an object with a `type`, got a str",
        ),
        ({"content": [{"text": "warm"}]}, "result.content[0]: expected a content block"),
        ({"content": [{"type": "text"}]}, "result.content[0].text: expected a string, but it is missing"),
        ({"content": [{"type": "audio", "data": "AAAA"}]}, "result.content[0].mimeType: expected a string"),
        (
            {"content": [{"type": "resource", "resource": {}}]},
            "result.content[0].resource.uri: expected a string",
        ),
        ({"content": [], "_meta": None}, "result._meta: expected a dict, got a NoneType"),
        ({"content": [], "isError": "no"}, "result.isError: expected a bool, got a str"),
        (
            {"content": [], "resultType": "task"},
            "result.resultType: expected 'complete'. Return extension.result(",
        ),
        ({"content": [], "structuredContent": {"a": object()}}, "the tool ran, but"),
        ({"content": [], "structuredContent": 10**400}, "the tool ran, but"),
        ({"content": [{"type": "text", "text": "\ud800"}]}, "the tool ran, but"),
    ],
)
async def test_base_tool_wrong_result_is_an_error(revision: str, result: Any, text: str) -> None:
    async with connect(serving(Given(result), Given(name="other")), protocol_version=revision) as client:
        answer = await client.call_tool("given")
        assert answer.is_error
        assert text in answer.text
        assert not (await client.call_tool("other")).is_error


@pytest.mark.parametrize("revision", ERAS)
async def test_base_tool_exception_is_handled_like_one_of_any_tool(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    said, bug = Given(ToolError("closed today"), name="said"), Given(ValueError("secret"), name="bug")

    class Groups(Given):
        async def execute(self, arguments: dict[str, Any], ctx: Context) -> Any:
            async with anyio.create_task_group():
                raise ToolError("closed")

    several = Groups(name="several")
    async with connect(serving(said, bug, several), protocol_version=revision) as client:
        assert (await client.call_tool("said")).text == "closed today"
        assert (await client.call_tool("several")).text == "closed"
        with caplog.at_level(logging.ERROR, "mcpkit"):
            text = (await client.call_tool("bug")).text
    assert text.startswith("Internal error (ref ")
    assert "secret" in caplog.text


async def test_base_tool_result_is_adapted_to_older_revisions() -> None:
    link = {"type": "resource_link", "uri": "a://b", "name": "b"}
    sound = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    given = Given(
        {"content": [link, sound], "structuredContent": [1]},
        output_schema={"type": "array"},
        title="All that",
    )
    async with connect(serving(given), protocol_version="2024-11-05") as client:
        assert [each["type"] for each in (await client.call_tool("given")).raw["content"]] == [
            "text",
            "resource",
        ]
    async with connect(serving(given), protocol_version="2025-11-25") as client:
        assert "outputSchema" not in (await client.list_tools())[0]  # which can only be an object there
        assert (await client.call_tool("given")).structured_content == {"result": [1]}
    async with connect(serving(given)) as client:
        (listed,) = await client.list_tools()
        assert listed == {
            "name": "given", "title": "All that", "inputSchema": ANYTHING, "outputSchema": {"type": "array"}
        }  # fmt: skip
        assert (await client.call_tool("given")).structured_content == [1]


async def test_base_tool_execute_that_is_not_async_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Plain(Given):
        def execute(self, arguments: dict[str, Any], ctx: Context) -> Any:
            return {"content": []}

    async with connect(serving(Plain())) as client:
        with caplog.at_level(logging.ERROR, "mcpkit"):
            assert (await client.call_tool("given")).is_error
    assert "execute returned a dict. Write `async def execute`" in caplog.text
