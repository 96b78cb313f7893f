"""Tools without a function: wrong options and results, and what each protocol version receives."""

import asyncio
from typing import Any

import pytest

from mcpkit import Context, PromptError, ProtocolError, RegistrationError, Server, ToolError, ToolResult
from mcpkit.exceptions import CallTimeoutError, ResourceNotFoundError
from mcpkit.extensions import BaseTool, ErrorEvent
from mcpkit.middleware import CallTool, ToolCall, ToolCallResult
from mcpkit.testing import connect
from tests.helpers.servers.middleware import CALLS, BrokenError, error_text, make_failing_server
from tests.helpers.tables import each_row
from tests.helpers.waiting import Work, over

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


# Error hooks: the exceptions that they receive, errors that they replace, and hooks that fail


def events_of(server: Server) -> list[ErrorEvent]:
    """Return the list that the events of a server are appended to."""
    events: list[ErrorEvent] = []
    server.on_error(events.append)
    return events


@each_row("call", CALLS.values())
async def test_error_hook_receives_unexpected_exceptions(call, revision, caplog) -> None:
    error = BrokenError("secret")
    server = make_failing_server(error)
    events = events_of(server)
    async with connect(server, protocol_version=revision) as client:
        text = await error_text(client, call)
    (event,) = events
    assert (event.exception, event.ctx.server) == (error, server)
    assert text == f"Internal error (ref {event.ref})"
    assert f"(ref {event.ref})" in caplog.text


@each_row("call", CALLS.values())
@each_row("error", [ToolError("no"), PromptError("no"), ResourceNotFoundError("a:b"), ProtocolError(7, "no")])
async def test_error_hook_does_not_receive_deliberate_errors(call: Any, error: Exception) -> None:
    server = make_failing_server(error)
    events = events_of(server)
    async with connect(server) as client:
        await error_text(client, call)
    assert events == []


async def test_error_hook_does_not_receive_wrong_arguments_unknown_tools_and_cancellation() -> None:
    server, work = Server("s"), Work()
    events = events_of(server)
    server.tool(work.wait)

    async with connect(server) as client:
        assert (await client.call_tool("wait", {"to": "x"})).is_error
        with pytest.raises(ProtocolError):
            await client.call_tool("none")
        call = asyncio.ensure_future(client.call_tool("wait"))
        await work.started.wait()
        await over(call)
        await work.cancelled.wait()
    assert events == []


async def test_error_hook_receives_timeouts_without_a_reference() -> None:
    server = Server("s", timeouts=0.01)
    events = events_of(server)
    server.tool(Work().wait, name="tool")
    async with connect(server) as client:
        assert await error_text(client, CALLS["tool"]) == "timed out after 0.01 s"
    assert [(type(event.exception), event.ref) for event in events] == [(CallTimeoutError, None)]


@each_row("call", CALLS.values())
async def test_error_hook_may_replace_the_error(call, revision, caplog) -> None:
    server = make_failing_server(BrokenError("secret"))

    @server.on_error
    def explain(event: ErrorEvent) -> ToolError | None:
        return ToolError("the station is down") if isinstance(event.exception, BrokenError) else None

    events = events_of(server)
    async with connect(server, protocol_version=revision) as client:
        assert await error_text(client, call) == "the station is down"
    assert events == []  # later hooks see a deliberate error
    assert caplog.records == []


@each_row("raised", [ValueError("hook"), SystemExit(3), asyncio.CancelledError(), "returned"])
@each_row("call", CALLS.values())
async def test_failing_error_hook_leaves_the_response_unchanged(call, raised, caplog) -> None:
    caplog.clear()
    server = make_failing_server(BrokenError())

    @server.on_error
    def fail(event: ErrorEvent) -> Any:
        if isinstance(raised, str):
            return raised
        raise raised

    events = events_of(server)
    async with connect(server) as client:
        text = await error_text(client, call)
        assert (await client.list_tools())[0]["name"] == "tool"
    assert text == f"Internal error (ref {events[0].ref})"
    first, second = (record.getMessage() for record in caplog.records[:2])
    assert "the error hook" in first
    assert f"ref {events[0].ref}" in second


async def test_error_hook_of_the_serving_server_receives_middleware_exceptions() -> None:
    inner, outer = Server("inner"), Server("outer")
    inner.tool(name="tool")(lambda: "fine")
    outer.include(inner)
    inner_events, outer_events = events_of(inner), events_of(outer)

    @outer.middleware("tools/call")
    async def broken(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        await call_next(call)
        raise BrokenError

    async with connect(outer) as client:
        await error_text(client, CALLS["tool"])
    assert [(type(event.exception), event.ctx.server) for event in outer_events] == [(BrokenError, outer)]
    assert inner_events == []


@each_row("hook", [None, 3, lambda: None, asyncio.sleep])
def test_error_hook_wrong_function_is_refused(hook: Any) -> None:
    with pytest.raises(RegistrationError, match="on_error"):
        Server("s").on_error(hook)
