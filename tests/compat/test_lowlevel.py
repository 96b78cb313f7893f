"""Low-level servers of mcpkit.compat with clients of both eras; messages are validated against the official schemas."""

import asyncio
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcpkit.compat import types
from mcpkit.compat.lowlevel.lowlevel_server import Server, ToolSchema
from mcpkit.compat.shared_models_and_settings import McpError
from mcpkit.testing import connect
from tests.helpers.pipe import HANDSHAKE, STATELESS, open_pipe, settle

ABLE = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}


FORM = {"type": "object", "properties": {"city": {"type": "string"}}}


def text(value: object) -> list[types.TextContent]:
    return [types.TextContent(type="text", text=str(value))]


CALL = {"name": "do it", "arguments": {}}
SERVER_TOOL = {"name": "do it", "inputSchema": {"type": "object"}}


class Lab:
    """A server of which the one tool runs a function of the test with the session."""

    def __init__(self) -> None:
        self.server = Server("lab", "1")
        self.runs = 0
        self.session: Any = None

        @self.server.list_tools()
        async def tools() -> list[types.Tool]:
            return [types.Tool(**SERVER_TOOL)]

        @self.server.call_tool()
        async def call(name: str, arguments: dict[str, Any]) -> Any:
            self.runs += 1
            self.session = self.server.request_context.session
            return text(await self.do(self.session))

    async def do(self, session: Any) -> Any:
        return "done"


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", *STATELESS])
async def test_handler_elicits_in_each_era(lab: Lab, revision: str):
    async def elicit(session: Any) -> str:
        answer = await session.elicit_form("Where?", FORM)
        roots = await session.list_roots()
        return f"{answer.action} {answer.content} {[str(each.uri) for each in roots.roots]}"

    lab.do = elicit
    answers = {
        "elicitation/create": {"action": "accept", "content": {"city": "Rome"}},
        "roots/list": {"roots": [{"uri": "file:///home"}]},
    }
    requests = []

    def answer(method: str, params: dict[str, Any]) -> Any:
        requests.append(params)
        return answers[method]

    async with connect(lab.server.served, protocol_version=revision, request_handler=answer) as client:
        assert (await client.call_tool("do it")).text == "accept {'city': 'Rome'} ['file:///home']"
    assert lab.runs == (1 if revision in HANDSHAKE else 3), "from the top in each round"
    form = {"message": "Where?", "requestedSchema": FORM}
    assert requests == [form if revision == "2025-06-18" else {"mode": "form", **form}, {}]


async def test_sampling_without_capability_is_error(lab: Lab, schema_dir: Path):
    async def sample(session: Any) -> Any:
        message = types.SamplingMessage(role="user", content=text("a")[0])
        with pytest.raises(McpError, match="Sampling not supported") as refused:
            await session.create_message([message], max_tokens=1)
        return refused.value.error.code

    lab.do = sample
    async with open_pipe(lab.server.served, "2025-11-25", schema_dir) as pipe:
        assert await pipe.text("do it") == "-32600"
    async with open_pipe(lab.server.served, "2026-07-28", schema_dir) as pipe:
        error = await pipe.error("tools/call", CALL)
        assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"sampling": {}}})


async def test_client_error_raises_mcp_error(lab: Lab, schema_dir: Path):
    async def list_roots(session: Any) -> Any:
        with pytest.raises(McpError) as refused:
            await session.list_roots()
        return refused.value.error.code, refused.value.error.message

    lab.do = list_roots
    async with open_pipe(lab.server.served, "2025-11-25", schema_dir, capabilities=ABLE) as pipe:
        pipe.start("tools/call", CALL)
        request = await pipe.question("roots/list")
        pipe.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32077, "message": "Not today"}})
        assert (await pipe.receive())["result"]["content"][0]["text"] == "(-32077, 'Not today')"


async def change(session: Any) -> None:
    await session.send_tool_list_changed()
    await session.send_resource_updated("file:///a")
    await session.send_resource_updated("file:///b")


async def test_subscriptions_listen_receives_changes(lab: Lab, schema_dir: Path):
    lab.do = change
    async with open_pipe(lab.server.served, "2026-07-28", schema_dir) as pipe:
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}
        listening = pipe.start("subscriptions/listen", {"notifications": wanted})
        assert (await pipe.receive())["method"] == "notifications/subscriptions/acknowledged"
        await pipe.call_tool("do it")
        expected = ["notifications/tools/list_changed", "notifications/resources/updated"]
        assert [message["method"] for message in await pipe.answered()] == expected
        # A session that is kept can still notify of changes.
        await lab.session.send_tool_list_changed()
        assert (await pipe.receive())["method"] == "notifications/tools/list_changed"
        with pytest.raises(Exception, match="no session for further messages"):
            await lab.session.send_log_message("info", "late")
        pipe.cancel(listening)


async def test_list_changed_is_sent_to_own_session_only(lab: Lab, schema_dir: Path):
    lab.do = change
    served = lab.server.served
    async with (
        open_pipe(served, "2025-11-25", schema_dir) as pipe,
        open_pipe(served, "2025-11-25", schema_dir) as other,
    ):
        pipe.start("tools/call", CALL)
        first, *_, answer = await pipe.answered()
        assert first == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        assert "result" in answer
        await other.quiet()


async def test_session_is_usable_until_client_disconnects(lab: Lab, schema_dir: Path):
    async with open_pipe(lab.server.served, "2025-11-25", schema_dir, capabilities=ABLE) as pipe:
        await pipe.call_tool("do it")
        session = lab.session
        await pipe.call_tool("do it")
        assert lab.session is session
        await session.send_log_message("info", "later")
        assert (await pipe.receive())["params"] == {"level": "info", "data": "later"}
        for method, send, result in (
            ("roots/list", session.list_roots, {"roots": []}),
            ("ping", session.send_ping, {}),
        ):
            sending = asyncio.create_task(send())
            pipe.reply(await pipe.question(method), result)
            assert (await sending).model_dump(exclude_none=True) == result
    for late in (session.send_log_message("info", "too late"), session.list_roots()):
        with pytest.raises(Exception, match="the session of the client has ended"):
            await late


async def test_notifications_reach_their_handlers(lab: Lab, schema_dir: Path):
    received: list[Any] = []

    @lab.server.progress_notification()
    async def progress(*values: Any) -> None:
        received.append(values)

    async def roots(notification: Any) -> None:
        received.append(notification.method)
        raise RuntimeError("this is only logged")

    lab.server.notification_handlers[types.RootsListChangedNotification] = roots
    async with open_pipe(lab.server.served, "2025-11-25", schema_dir) as pipe:
        pipe.notify("notifications/progress", {"progressToken": "t", "progress": 1})
        pipe.notify("notifications/progress", {"progressToken": []})
        pipe.notify("notifications/roots/list_changed")
        pipe.notify("notifications/no/such")
        await settle()
        assert received == [("t", 1.0, None, None), "notifications/roots/list_changed"]
        assert await pipe.result("ping") == {}


async def test_request_handlers_may_return_dicts_and_raise_mcp_error(lab: Lab, schema_dir: Path):
    async def tools(request: types.ListToolsRequest) -> Any:
        return {"tools": [SERVER_TOOL]}

    async def fail(request: Any) -> Any:
        raise McpError(types.ErrorData(code=-32050, message="own error", data=[1]))

    lab.server.request_handlers |= {types.ListToolsRequest: tools, types.CallToolRequest: fail}
    async with open_pipe(lab.server.served, "2025-11-25", schema_dir) as pipe:
        assert (await pipe.result("tools/list"))["tools"] == [SERVER_TOOL]
        error = await pipe.error("tools/call", CALL)
        assert error == {"code": -32050, "message": "own error", "data": [1]}


@pytest.mark.parametrize("answer", [None, 3, "text", {"a": object()}, [object()], ([], {"a": object()})])
async def test_invalid_tool_result_is_error_and_server_continues(lab: Lab, schema_dir: Path, answer: Any):
    @lab.server.call_tool(validate_input=False)
    async def call(name: str, arguments: dict[str, Any]) -> Any:
        return answer if name == "wrong" else text("right")

    async with open_pipe(lab.server.served, "2025-11-25", schema_dir) as pipe:
        said = await pipe.request("tools/call", {"name": "wrong"})
        assert "error" in said or said["result"]["isError"]
        assert await pipe.text("do it") == "right"


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


def of(**a: Any) -> dict[str, Any]:
    """Return the schema of an object with one property."""
    return {"type": "object", "properties": {"a": a}}


PEOPLE = {"$defs": {"A": {"type": "array", "items": PERSON}}}
SCHEMAS: list[Any] = [
    PERSON,
    {},
    {"type": "object"},
    {"type": ["object", "null"], "properties": {"a": {"enum": [1, "b", None]}, "b": {"const": [1]}}},
    {**of(**{"$ref": "#/$defs/A"}), **PEOPLE},
    of(oneOf=[{"type": "string"}, {"type": "integer"}]),
    of(anyOf=[{"type": "string"}, {"type": "null"}]),
    {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
    of(type="array", uniqueItems=True, maxItems=2),
    of(type="string", pattern="^a+$"),
    of(multipleOf=0.5, exclusiveMaximum=3),
    {"type": "nothing"},
    of(type="nothing"),
    {"properties": []},
    {"type": "object", "required": "a"},
]
A: list[Any] = [1, "b", None, [], [1], [{"name": "Ada"}], [1, 1.0], "aa", 2.5, 3, "today", True]
VALUES: list[Any] = [
    *({}, {"name": "Ada"}, {"name": "A", "age": -1, "x": 1}, {"name": "Ada", "age": 1.0}),
    *({"name": "Ada", "age": True}, *({"a": value} for value in A), {"b": [1], "xa": "1", "y": 2}, None, []),
]


def problem(validate: Any) -> str | None:
    """Return the problem that a validation finds or raises."""
    try:
        return validate()
    except jsonschema.ValidationError as error:
        return error.message
    except jsonschema.SchemaError as error:
        return str(error)


def test_tool_schema_problems_equal_jsonschema_messages() -> None:
    deviations = []
    for schema in SCHEMAS:
        tool_schema = ToolSchema(schema)
        for value in VALUES:
            actual = problem(lambda: tool_schema.problem(value))
            expected = problem(lambda: jsonschema.validate(value, schema))
            if actual != expected:
                deviations.append((schema, value, actual, expected))
    assert deviations == []
