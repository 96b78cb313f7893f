"""Tools as functions, results as typed values, output schemas, and results with malformed members."""

import datetime as dt
import inspect
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import Client, Image, ProtocolError, Server, Text, ToolError
from mcpkit.client import RemoteTool
from mcpkit.client.call_results import decode_base64_text, is_plain_base64
from mcpkit.client.server_schemas_and_typed_results import ServerSchema, UnusableSchemaError
from mcpkit.exceptions import InvalidResultError
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, initialized
from tests.helpers.scripted_transport import error as error_result
from tests.helpers.tables import each_row

REVISIONS = ["2025-03-26", "2026-07-28"]


@dataclass
class Day:
    high: float
    sky: Literal["clear", "cloudy"]
    at: dt.datetime | None = None


class DayDict(TypedDict):
    high: float
    sky: str


class DayModel(BaseModel):
    high: float
    sky: str
    note: str = "none"


weather = Server("weather")


@weather.tool
async def forecast(city: Annotated[str, Field(description="Which city")], days: int = 1) -> Day:
    """Say how the weather will be."""
    if city == "Nowhere":
        raise ToolError("there is no such city")
    return Day(20.5 + days, "clear")


@weather.tool
async def cities(country: str | None = None) -> list[str]:
    """List cities."""
    return ["Oslo", "Bergen"]


@weather.tool
async def count() -> int:
    return 2


@weather.tool
async def repeat(what: str) -> Text:
    return Text(what)


@weather.tool
async def picture() -> Image:
    return Image(data=b"\x89PNG", mime_type="image/png")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_tools_are_callable(revision: str) -> None:
    async with Client(weather, protocol_version=revision) as client:
        tools = await client.tools()
        if revision == "2026-07-28":
            assert (await tools["forecast"](city="Oslo", days=2))["high"] == 22.5
            assert await tools["cities"]() == ["Oslo", "Bergen"]
        assert await tools["repeat"](what="hello") == "hello"
        assert (await tools["picture"]())[0]["type"] == "image"
        with pytest.raises(ToolError, match="there is no such city"):
            await tools["forecast"](city="Nowhere")
        with pytest.raises(ToolError, match="city: expected a string"):
            await tools["forecast"](city=5.5)


async def test_tool_has_metadata_and_signature() -> None:
    async with Client(weather) as client:
        tool = (await client.tools())["forecast"]
    assert isinstance(tool, RemoteTool)
    assert {tool.name, tool.title, tool.definition["name"]} == {"forecast"}
    assert tool.description == "Say how the weather will be."
    assert tool.schema["properties"]["city"]["description"] == "Which city"
    assert tool.output_schema is not None
    assert "high" in tool.output_schema["properties"]
    assert repr(tool) == "<tool forecast(*, city: str, days: int = 1)>"
    assert tool.__doc__ == "Say how the weather will be.\n\nArgs:\n    city: Which city\n    days: int"
    assert str(inspect.signature(tool)) == "(*, city: str, days: int = 1)"
    assert list(inspect.signature(RemoteTool).parameters) == ["call", "definition"]


CLOSED = {"additionalProperties": False}
NULLABLE = {"anyOf": [{"type": "string"}, {"type": "null"}]}


@each_row(("schema", "signature"), [
    ({"type": "object"}, "(**arguments)"),
    (CLOSED, "()"),
    ({"properties": {"max-results": {"type": "integer"}, "class": {}}, **CLOSED}, "(**arguments)"),
    ({"properties": {"a": NULLABLE}, **CLOSED}, "(*, a: str | None = ...)"),
    ({"properties": {"a": {"type": ["integer", "null"]}}, "required": ["a"]}, "(*, a: int | None, **arguments)"),
    ({"properties": {"a": {"$ref": "#"}, "b": True}, "required": "a"},
     "(*, a: Any = ..., b: Any = ..., **arguments)"),
    ({"properties": []}, "(**arguments)"),
    ({"properties": {"arguments": {"type": "object"}}}, "(*, arguments: dict = ..., **arguments_)"),
    ({"properties": {"a": {"type": ["null", "null"]}, "b": {"type": []}}},
     "(*, a: None = ..., b: Any = ..., **arguments)"),
    ({"properties": {"a": {"anyOf": [{"type": "null"}, 5, {"type": {}}]}}}, "(*, a: Any = ..., **arguments)"),
    ({"properties": {"self": {"type": "string"}, "a": 5}, "required": [5]},
     "(*, self: str = ..., a: Any = ..., **arguments)"),
    ([], "(**arguments)"),
])  # fmt: skip
async def test_tool_signature_of_any_schema(schema: Any, signature: str) -> None:
    tool = RemoteTool(Client(weather).call_tool, {"name": "it", "inputSchema": schema})
    assert str(inspect.signature(tool)).replace("typing.", "") == signature
    assert repr(tool) == f"<tool it{inspect.signature(tool)}>"


OSLO = {"city": "Oslo"}


@each_row(("name", "arguments", "type_", "value"), [
    ("forecast", OSLO, Day, Day(21.5, "clear")), ("forecast", OSLO, Day | None, Day(21.5, "clear")),
    ("forecast", OSLO, DayDict, {"high": 21.5, "sky": "clear"}),
    ("forecast", OSLO, DayModel, DayModel(high=21.5, sky="clear")), ("count", {}, int, 2),
    ("count", {}, Annotated[int, Field(json_schema_extra={"a": []})], 2),
    ("cities", {}, list[str], ["Oslo", "Bergen"]), ("repeat", {"what": "5"}, str, "5"),
    ("repeat", {"what": "5"}, int, 5), ("repeat", {"what": "hello"}, str, "hello"),
])  # fmt: skip
async def test_call_into_type(name: str, arguments: dict[str, Any], type_: Any, value: Any) -> None:
    for revision in REVISIONS:
        async with Client(weather, protocol_version=revision) as client:
            assert await client.call_tool(name, arguments, result_type=type_) == value


class Answering(ScriptedTransport):
    """A server of one tool.

    Args:
        schema: The output schema.
        answer: The members of each result.
        revision: The revision that it speaks.
    """

    def __init__(self, schema: Any, answer: Message, revision: str = "2026-07-28") -> None:
        super().__init__(self._answer)
        self.schema = schema
        self.answer = answer
        self.revision = revision

    def _answer(self, transport: ScriptedTransport, message: Message) -> list[Message]:
        method = message["method"]
        if method == "server/discover":
            return [discovered(message)]
        if method == "initialize":
            return [initialized(message, self.revision)]
        if method not in ("tools/list", "tools/call"):
            return []
        tool = {"name": "it", "inputSchema": {"type": "object"}, "outputSchema": self.schema}
        result = {"tools": [tool]} if method == "tools/list" else {"content": [], **self.answer}
        return [{"id": message["id"], "result": {"resultType": "complete", **result}}]


POINT: Message = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed before", "never listed"])
async def test_structured_content_is_checked_against_output_schema(revision: str, is_listed: bool) -> None:
    transport = Answering(POINT, {"structuredContent": {"x": 1}}, revision)
    async with Client(transport, protocol_version=revision) as client:
        if is_listed:
            await client.list_tools()
        for _ in range(3):
            assert (await client.call_tool("it")).structured_content == {"x": 1}
        assert transport.methods().count("tools/list") == 1
        transport.answer = {"structuredContent": {"x": "one"}}
        with pytest.raises(InvalidResultError) as raised:
            await client.call_tool("it")
    problem = 'the result of it does not match its outputSchema:\nx: expected an integer, got "one"'
    assert str(raised.value) == problem
    assert raised.value.result.structured_content == {"x": "one"}


async def test_structured_content_missing_is_error_unless_tool_failed(revision: str) -> None:
    transport = Answering(POINT, {"content": [{"type": "text", "text": "one"}]}, revision)
    async with Client(transport, protocol_version=revision) as client:
        await client.list_tools()
        with pytest.raises(InvalidResultError, match="structured content is missing"):
            await client.call_tool("it")
        transport.answer = {"isError": True}
        assert (await client.call_tool("it")).is_error


async def test_output_schema_changed_is_listed_again() -> None:
    transport = Answering(POINT, {"structuredContent": {"x": 1}})
    async with Client(transport) as client:
        await client.call_tool("it")
        transport.schema = {"type": "object", "properties": {"y": {"type": "string"}}, "required": ["y"]}
        transport.answer = {"structuredContent": {"y": "one"}}
        assert (await client.call_tool("it")).structured_content == {"y": "one"}
        assert transport.methods().count("tools/list") == 2
        transport.deliver({"method": "notifications/tools/list_changed"})
        await client.call_tool("it")
        assert transport.methods().count("tools/list") == 3


def problem(schema: Any, value: Any) -> str:
    return "; ".join(map(str, ServerSchema(schema).problems(value)))


INNER = {"type": "array", "items": {"$ref": "#/$defs/Node"}}
NODE = {
    "$defs": {"Node": {"type": "object", "properties": {"value": {"type": "integer"}, "inner": INNER}}},
    "$ref": "#/$defs/Node",
}
ITEMS = [{"type": "integer"}, {"type": "string"}]
PAIR = {"type": "array", "prefixItems": ITEMS, "minItems": 2, "maxItems": 2}


@each_row(("schema", "fitting", "other", "reported"), [
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}, {"a": "x"}, 'a: .* got "x"'),
    ({"type": "object", "required": ["a"]}, {"a": None}, {}, "a: .*missing"),
    ({"type": "object", "additionalProperties": False}, {}, {"a": 1}, "a: unknown"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": ""}, "a: expected an int"),
    ({"type": "object", "minProperties": 1, "properties": {"a": {}}}, {"b": 1}, {}, "at least 1 key"),
    (NODE, {"inner": [{"value": 1}]}, {"inner": [{"value": ""}]}, r"inner\[0\]\.value: expected an integer"),
    ({**NODE, "$ref": "#/%24defs/Node"}, {"value": 1}, {"value": ""}, "value: expected an integer"),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}}, {"a": {"a": {}}}, {"a": {"a": 1}}, "a.a: expected"),
    (PAIR, [1, "a"], ["a", 1], r"\[0\]: expected an integer"),
    (PAIR, [1, "a"], [1], "array of 2 items"),
    ({"type": ["string", "null"]}, None, 1, "expected a string or null"),
    ({"oneOf": [{"type": "string"}, {"const": 5}]}, 5, 6, "expected a string or 5"),
    ({"const": 1}, 1, True, "expected 1, got true"),
    ({"type": "string", "enum": [1, "a"]}, "a", 1, "expected a string"),
    ({"type": "integer", "allOf": [{"type": "number", "maximum": 5}]}, 5, 6, "at most 5"),
    ({"type": "string", "pattern": "^a+$", "maxLength": 3}, "aa", "ab", "matches"),
    (False, None, 1, "expected nothing"),
    ({"type": "object", "properties": {"default": {"type": "integer"}}}, {}, {"default": ""}, "default: expected"),
])  # fmt: skip
def test_server_schema_reports_mismatch(schema: Any, fitting: Any, other: Any, reported: str) -> None:
    assert fitting is None or problem(schema, fitting) == ""
    assert re.search(reported, problem(schema, other))


@each_row(("schema", "why"), [
    (5, "a schema must be an object"),
    ({"type": "strng"}, "unknown type 'strng'"),
    ({"type": [5]}, "unknown type 5"),
    ({"type": "object", "properties": []}, "`properties` must be an object"),
    ({"type": "object", "required": "a"}, "`required` an array"),
    ({"anyOf": {}}, "`anyOf` must be an array"),
    ({"enum": "a"}, "`enum` must be an array"),
    ({"$ref": 5}, "`\\$ref` must be a string"),
    ({"$ref": "#"}, "more than 1000 schemas"),
    ({"anyOf": [{"type": "string"}, {"$ref": "#"}]}, "more than 1000 schemas"),
    ({"allOf": [{}] * 30_000}, "more than 20000 schemas"),
])  # fmt: skip
def test_server_schema_invalid_is_error(schema: Any, why: str) -> None:
    with pytest.raises(UnusableSchemaError, match=why):
        ServerSchema(schema)


@each_row("malformed", [[], {}, 5, None])
def test_server_schema_format_not_a_string_is_ignored(malformed: Any) -> None:
    assert ServerSchema({"type": "string", "format": malformed}, asserts_formats=True).problems("a") == []


def answering(answers: Message) -> ScriptedTransport:
    """Return a server of the handshake era that sends these results, by method."""

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        method = message["method"]
        if "id" not in message:
            return []
        if method == "initialize":
            return [initialized(message)]
        if method not in answers:
            return [error_result(message, -32601)]
        return [{"id": message["id"], "result": answers[method]}]

    return ScriptedTransport(script)


ONE = {"type": "text", "text": "bread"}
LISTED = {"tools": [{"name": "bake", "inputSchema": {"type": "object"}}]}
READ: list[tuple[Message, Any, Any]] = [  # a result, its text, and what a typed tool returns
    ({"structuredContent": {"loaves": 3}}, '{"loaves": 3}', {"loaves": 3}),
    ({"content": None, "structuredContent": {"loaves": 3}, "isError": None}, '{"loaves": 3}', {"loaves": 3}),
    ({"content": [{"type": "text", "text": ""}], "structuredContent": [3]}, "[3]", [3]),
    ({"content": [ONE], "structuredContent": None, "_meta": None, "isError": "false"}, "bread", "bread"),
    ({"content": "bread"}, "bread", "bread"),
    ({"content": ONE}, "bread", "bread"),
    ({"content": ["bread", None, {"text": "butter"}], "_meta": []}, "bread\nbutter", "bread\nbutter"),
    ({"content": [{"type": "text", "text": ["bread", "butter"]}]}, "bread\nbutter", "bread\nbutter"),
    ({"content": [{"type": "text", "text": None, "annotations": None}]}, "", ""),
    ({"content": [{"type": "text", "text": {"loaves": 3}}]}, '{"loaves": 3}', '{"loaves": 3}'),
    ({"content": None}, "", None),
    ({}, "", None),
]


@each_row(("block", "type_"), [
    ({"data": "AA==", "mimeType": "image/png"}, "image"), ({"data": "data:audio/wav;base64,AA=="}, "audio"),
    ({"uri": "note://1"}, "resource_link"), ({"resource": {"uri": "note://1", "text": "bread"}}, "resource"),
    ({"type": ["text"], "text": "bread"}, "text"), ({"type": "video", "frames": 3}, "video"),
])  # fmt: skip
async def test_content_block_with_one_type_is_read(block: Message, type_: str) -> None:
    async with Client(answering({"tools/call": {"content": [block]}})) as client:
        [read] = (await client.call_tool("bake")).content
    assert read["type"] == type_
    assert block.keys() <= read.keys()


USER = {"role": "user", "content": ONE}


@pytest.mark.parametrize(("method", "result", "read"), [
    ("prompts/get", {"messages": "bread"}, [USER]),
    ("prompts/get", {"messages": [{"role": ["user"], "content": [ONE, "bread"]}]}, [USER, USER]),
    ("prompts/get", {"messages": [{"role": "user", "content": {"text": "bread"}}]}, [USER]),
    ("resources/read", {"contents": "bread"}, [{"uri": "note://1", "text": "bread"}]),
    ("resources/read", {"contents": [{"text": "bread"}]}, [{"uri": "note://1", "text": "bread"}]),
    ("prompts/get", {"messages": ["bread", {"role": "user"}]},
     [USER, {"role": "user", "content": {"type": "text", "text": ""}}]),
    ("resources/read", {"contents": [{"uri": "note://1", "text": ["bread", "butter"]}]},
     [{"uri": "note://1", "text": "bread"}, {"uri": "note://1", "text": "butter"}]),
    ("resources/read", {"contents": [{"text": "b", "blob": "Yg=="}]}, [{"uri": "note://1", "text": "b"}]),
    ("resources/read", {"contents": [{"blob": "data:image/png;base64,AA=="}]},
     [{"mimeType": "image/png", "uri": "note://1", "blob": "AA=="}]),
    ("resources/read", {"contents": [{"text": None}]}, [{"uri": "note://1", "text": ""}]),
])  # fmt: skip
async def test_prompt_or_resource_with_one_reading_is_read(method: str, result: Message, read: Any) -> None:
    async with Client(answering({method: result})) as client:
        request = client.get_prompt if method == "prompts/get" else client.read_resource
        assert await request("note://1") == read


@pytest.mark.parametrize(("result", "text", "value"), READ)
async def test_result_with_one_reading_is_read(result: Message, text: str, value: Any) -> None:
    async with Client(answering({"tools/list": LISTED, "tools/call": result})) as client:
        assert (await client.call_tool("bake")).text == text
        assert await (await client.tools())["bake"]() == value
        if value is None:
            with pytest.raises(InvalidResultError, match="neither structured content nor text"):
                await client.call_tool("bake", result_type=Any)


@pytest.mark.parametrize(("result", "output"), [
    ({"structuredContent": {"code": "QUOTA"}}, '{"code": "QUOTA"}'),
    ({"content": "no flour"}, "no flour"),
    ({"content": [{"type": "image", "mimeType": "image/png", "data": "AA=="}]}, '"data": "AA=="'),
    ({}, "the tool failed, and the server sent no error text"),
])  # fmt: skip
async def test_tool_error_text_comes_from_server(result: Message, output: str) -> None:
    async with Client(answering({"tools/list": LISTED, "tools/call": {**result, "isError": True}})) as client:
        for ask in (lambda: client.call_tool("bake", result_type=str), (await client.tools())["bake"]):
            with pytest.raises(ToolError) as caught:
                await ask()
            assert output in str(caught.value)


@pytest.mark.parametrize(("method", "result", "member"), [
    ("tools/call", {"toolResult": "bread"}, "content, got 'toolResult'"),
    ("tools/call", {"content": [ONE, 5]}, r"content\[1\]"),
    ("tools/call", {"content": [{"text": "bread", "uri": "note://1"}]}, r"content\[0\].type"),
    ("tools/call", {"content": [{"type": "text", "content": "bread"}]}, r"content\[0\].text"),
    ("tools/call", {"content": [{"type": "image", "data": "?"}]}, r"base64 as content\[0\].data"),
    ("tools/call", {"content": [ONE], "isError": "perhaps"}, "isError"),
    ("tools/call", {"content": [ONE], "_meta": "x"}, "_meta"),
    ("prompts/get", {"messages": [{"content": ONE}]}, r"messages\[0\].role"),
    ("prompts/get", {"messages": [{"role": "", "content": ONE}]}, r"messages\[0\].role"),
    ("prompts/get", {"messages": [{"role": "user", "text": "bread"}]}, r"messages\[0\].content"),
    ("resources/read", {"contents": [{"text": "a", "blob": "Yg=="}]}, r"contents\[0\], not both"),
    ("resources/read", {"contents": [{"content": "bread"}]}, r"text or blob in contents\[0\]"),
    ("resources/read", {"content": "bread"}, "contents, got 'content'"),
])  # fmt: skip
async def test_result_ambiguous_is_protocol_error_naming_member(method, result, member) -> None:
    async with Client(answering({method: result})) as client:
        requests = {"tools/call": client.call_tool, "prompts/get": client.get_prompt}
        with pytest.raises(ProtocolError, match=f"answer to {method} is malformed: expected .*{member}"):
            await requests.get(method, client.read_resource)("bake")


@each_row("text", ["?", "A", "AAAAA", "AA===", "+_==", "=AAA", "AA=A", "data:AAAA", "ÀAAA", "\ud800AAA"])
def test_base64_ambiguous_is_refused(text: str) -> None:
    assert not is_plain_base64(text)
    with pytest.raises(ValueError, match=r"base64|comma|ascii|surrogates"):
        decode_base64_text(text)
