"""Tools as functions, results as values of a type, and what they are held against."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import (
    Client,
    Image,
    InvalidResultError,
    ProtocolError,
    RegistrationError,
    RemoteTool,
    Server,
    SyncClient,
    Text,
    ToolError,
)
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, initialized

pytestmark = pytest.mark.anyio
REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
STRUCTURED = REVISIONS[2:]


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


class Nothing(BaseModel):
    other: int = 1


class Wrapping(BaseModel):
    result: int


server = Server("weather")


@server.tool
async def forecast(city: Annotated[str, Field(description="Which city")], days: int = 1) -> Day:
    """Say how the weather will be."""
    if city == "Nowhere":
        raise ToolError("there is no such city")
    return Day(20.5 + days, "clear")


@server.tool
async def cities(country: str | None = None) -> list[str]:
    """List cities."""
    return ["Oslo", "Bergen"]


@server.tool
async def count() -> int:
    return 2


@server.tool
async def say(what: str) -> Text:
    return Text(what)


@server.tool
async def nothing() -> None: ...


@server.tool
async def picture() -> Image:
    return Image(data=b"\x89PNG", mime_type="image/png")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_tools_are_functions(revision: str) -> None:
    async with Client(server, revision=revision) as client:
        tools = await client.tools()
        assert (
            (await tools["forecast"](city="Oslo", days=2))["high"] == 22.5 if revision in STRUCTURED else True
        )
        if revision in STRUCTURED:
            assert await tools["cities"]() == ["Oslo", "Bergen"]
            assert await tools["count"]() == 2
        assert await tools["say"](what="hello") == "hello"
        assert (await tools["picture"]())[0]["type"] == "image"
        with pytest.raises(ToolError, match="there is no such city"):
            await tools["forecast"](city="Nowhere")
        with pytest.raises(ToolError, match="city: expected a string"):
            await tools["forecast"](city=5.5)


async def test_a_tool_says_what_it_is() -> None:
    async with Client(server) as client:
        tool = (await client.tools())["forecast"]
    assert isinstance(tool, RemoteTool)
    assert (tool.name, tool.title, tool.description) == (
        "forecast", "forecast", "Say how the weather will be.",
    )  # fmt: skip
    assert tool.schema["properties"]["city"]["description"] == "Which city"
    assert tool.output_schema is not None
    assert tool.output_schema["required"] == ["high", "sky"] or "high" in tool.output_schema["properties"]
    assert tool.definition["name"] == "forecast"
    assert repr(tool) == "<tool forecast(*, city: str, days: int = 1)>"
    assert tool.__doc__ == "Say how the weather will be.\n\nArgs:\n    city: Which city\n    days: int"
    assert str(inspect.signature(tool)) == "(*, city: str, days: int = 1)"
    assert list(inspect.signature(RemoteTool).parameters) == ["call", "definition"]


@pytest.mark.parametrize(
    ("schema", "signature"),
    [
        ({"type": "object"}, "(**arguments)"),
        ({"type": "object", "additionalProperties": False}, "()"),
        (
            {"properties": {"max-results": {"type": "integer"}, "class": {}}, "additionalProperties": False},
            "(**arguments)",
        ),
        (
            {
                "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                "additionalProperties": False,
            },
            "(*, a: str | None = ...)",
        ),
        (
            {"properties": {"a": {"type": ["integer", "null"]}}, "required": ["a"]},
            "(*, a: int | None, **arguments)",
        ),
        (
            {"properties": {"a": {"$ref": "#"}, "b": True}, "required": "a"},
            "(*, a: Any = ..., b: Any = ..., **arguments)",
        ),
        ({"properties": []}, "(**arguments)"),
        ({"properties": {"arguments": {"type": "object"}}}, "(*, arguments: dict = ..., **arguments_)"),
        (
            {"properties": {"a": {"type": ["null", "null"]}, "b": {"type": []}}},
            "(*, a: None = ..., b: Any = ..., **arguments)",
        ),
        (
            {"properties": {"a": {"anyOf": [{"type": "null"}, 5, {"type": {}}]}}},
            "(*, a: Any = ..., **arguments)",
        ),
        (
            {"properties": {"self": {"type": "string"}, "a": 5}, "required": [5]},
            "(*, self: str = ..., a: Any = ..., **arguments)",
        ),
        ([], "(**arguments)"),
    ],
)
async def test_signatures_are_made_of_whatever_servers_say(schema: Any, signature: str) -> None:
    tool = RemoteTool(Client(server).call, {"name": "it", "inputSchema": schema})
    assert str(inspect.signature(tool)).replace("typing.", "") == signature
    assert repr(tool) == f"<tool it{inspect.signature(tool)}>"


async def test_an_argument_may_have_any_name() -> None:
    odd = Server("odd")

    @odd.tool(input_schema={"type": "object"})
    async def echo(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    given = {"self": 1, "arguments": 2, "name": 3, "tool": 4, "class": 5, "a-b": 6}
    async with Client(odd) as client:
        assert await (await client.tools())["echo"](**given) == given


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_result_is_read_into_a_type(revision: str) -> None:
    async with Client(server, revision=revision) as client:
        oslo = {"city": "Oslo"}
        assert await client.call("forecast", oslo, into=Day) == Day(21.5, "clear")
        assert (await client.call("forecast", oslo, into=DayDict))["sky"] == "clear"
        assert await client.call("forecast", oslo, into=DayModel) == DayModel(high=21.5, sky="clear")
        assert await client.call("count", into=int) == 2
        assert await client.call("cities", into=list[str]) == ["Oslo", "Bergen"]
        assert await client.call("say", {"what": "5"}, into=str) == "5"
        assert await client.call("say", {"what": "5"}, into=int) == 5
        assert await client.call("say", {"what": "hello"}, into=str) == "hello"
        optional: Any = Day | None
        assert await client.call("forecast", oslo, into=optional) == Day(21.5, "clear")
        assert await client.call("count", into=Annotated[int, Field(json_schema_extra={"a": []})]) == 2


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_result_that_does_not_fit_the_type_says_where(revision: str) -> None:
    async with Client(server, revision=revision) as client:
        with pytest.raises(InvalidResultError, match=r"what count has answered is no Day:\n") as raised:
            await client.call("count", into=Day)
        assert "2" in raised.value.result.text
        with pytest.raises(
            InvalidResultError, match=r"forecast has answered is no dict\[str, int\]:\nhigh: expected an int"
        ):
            await client.call("forecast", {"city": "Oslo"}, into=dict[str, int])
        with pytest.raises(InvalidResultError, match=r'is no int:\nexpected an integer, got "hello"'):
            await client.call("say", {"what": "hello"}, into=int)
        with pytest.raises(InvalidResultError, match="picture has answered"):
            await client.call("picture", into=str)
        with pytest.raises(ToolError, match="no such city"):
            await client.call("forecast", {"city": "Nowhere"}, into=Day)
        with pytest.raises(RegistrationError, match="has no form in JSON"):
            await client.call("count", into=complex)


async def test_a_wrapped_result_is_not_taken_for_a_model_that_knows_nothing_of_it() -> None:
    async with Client(server, revision="2025-11-25") as client:
        with pytest.raises(InvalidResultError, match="count has answered is no Nothing"):
            await client.call("count", into=Nothing)
        assert await client.call("count", into=Wrapping) == Wrapping(result=2)
        assert await client.call("count", into=dict[str, int]) == {"result": 2}


class Answering(ScriptedTransport):
    """A server of either era whose only tool has schemas of the test's, and answers what it says.

    Args:
        schema: The output schema.
        answer: The members of each result.
        era: The revision that it speaks.
    """

    def __init__(self, schema: Any, answer: Message, era: str = "2026-07-28") -> None:
        super().__init__(self._answer)
        self.schema = schema
        self.answer = answer
        self.era = era
        self.is_listed = True

    def _answer(self, transport: ScriptedTransport, message: Message) -> list[Message]:
        method, id_ = message["method"], message.get("id")
        if method in ("server/discover", "initialize"):
            return [discovered(message) if self.era == "2026-07-28" else initialized(message, self.era)]
        if method == "tools/list":
            tool = {"name": "it", "inputSchema": {"type": "object"}, "outputSchema": self.schema}
            return [
                {"id": id_, "result": {"resultType": "complete", "tools": [tool] if self.is_listed else []}}
            ]
        if method == "tools/call":
            return [{"id": id_, "result": {"resultType": "complete", "content": [], **self.answer}}]
        return []


POINT: Message = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
ERAS = ["2025-06-18", "2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("is_listed", [True, False], ids=["listed before", "never listed"])
async def test_what_a_tool_answers_is_held_against_its_output_schema(era: str, is_listed: bool) -> None:
    transport = Answering(POINT, {"structuredContent": {"x": 1}}, era)
    async with Client(transport, revision=era) as client:
        if is_listed:
            await client.list_tools()
        for _ in range(3):
            assert (await client.call("it")).structured == {"x": 1}
        assert transport.methods().count("tools/list") == 1
        transport.answer = {"structuredContent": {"x": "one"}}
        with pytest.raises(InvalidResultError) as raised:
            await client.call("it")
    assert (
        str(raised.value)
        == 'what it has answered does not fit its outputSchema:\nx: expected an integer, got "one"'
    )
    assert raised.value.result.structured == {"x": "one"}


@pytest.mark.parametrize("era", ERAS)
async def test_calls_at_the_same_time_list_their_tools_once(era: str) -> None:
    transport = Answering(POINT, {"structuredContent": {"x": 1}}, era)
    async with Client(transport, revision=era) as client:
        await asyncio.gather(*(client.call("it") for _ in range(20)))
    assert transport.methods().count("tools/list") == 1


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_promised_and_missing_is_told_of_and_an_error_promises_nothing(era: str) -> None:
    transport = Answering(POINT, {"content": [{"type": "text", "text": "one"}]}, era)
    async with Client(transport, revision=era) as client:
        await client.list_tools()
        with pytest.raises(InvalidResultError, match="it has no structured content"):
            await client.call("it")
        transport.answer = {"isError": True}
        assert (await client.call("it")).is_error


async def test_a_schema_that_has_changed_unheard_is_looked_at_again() -> None:
    transport = Answering(POINT, {"structuredContent": {"x": 1}})
    async with Client(transport) as client:
        await client.call("it")
        transport.schema = {"type": "object", "properties": {"y": {"type": "string"}}, "required": ["y"]}
        transport.answer = {"structuredContent": {"y": "one"}}
        assert (await client.call("it")).structured == {"y": "one"}
        assert transport.methods().count("tools/list") == 2
        transport.say({"method": "notifications/tools/list_changed"})
        await client.call("it")
        assert transport.methods().count("tools/list") == 3


async def test_a_tool_that_is_not_listed_is_asked_for_once() -> None:
    transport = Answering(POINT, {"structuredContent": {"x": "one"}})
    transport.is_listed = False
    async with Client(transport) as client:
        for _ in range(3):
            assert (await client.call("it")).structured == {"x": "one"}
    assert transport.methods().count("tools/list") == 1


async def test_what_has_no_structured_content_is_not_asked_for() -> None:
    transport = Answering(POINT, {"content": []})
    async with Client(transport) as client:
        await client.call("it")
    assert "tools/list" not in transport.methods()


async def test_nothing_is_held_against_anything_where_nobody_wants_it() -> None:
    transport = Answering(POINT, {"structuredContent": {"x": "one"}})
    async with Client(transport, validate=False) as client:
        await client.list_tools()
        assert (await client.call("it")).structured == {"x": "one"}


@pytest.mark.parametrize(
    "schema", [{"type": "strng"}, [], {"$ref": "#"}, {"type": "object", "properties": 5}]
)
async def test_a_schema_that_is_none_is_told_of_once(schema: Any, caplog: pytest.LogCaptureFixture) -> None:
    transport = Answering(schema, {"structuredContent": {"x": "one"}})
    async with Client(transport) as client:
        for _ in range(3):
            assert (await client.call("it")).structured == {"x": "one"}
    assert caplog.text.count("is not held against its outputSchema") == 1


async def test_a_result_is_not_lost_where_tools_cannot_be_listed() -> None:
    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "server/discover":
            return [discovered(message)]
        if message["method"] == "tools/list":
            return [{"id": message["id"], "error": {"code": -32601, "message": "no list"}}]
        return [{"id": message["id"], "result": {"content": [], "structuredContent": {}}}]

    async with Client(ScriptedTransport(script)) as client:
        assert (await client.call("it")).structured == {}
        with pytest.raises(ProtocolError, match="no list"):
            await client.list_tools()


def test_tools_are_functions_without_an_event_loop_too() -> None:
    client = SyncClient(server, roots=["/a"])
    client.roots = ["/c"]
    with client:
        assert client.roots == ["/c"]
        tool = client.tools()["forecast"]
        assert tool(city="Oslo")["high"] == 21.5
        assert repr(tool) == "<tool forecast(*, city: str, days: int = 1)>"
        assert client.call("forecast", {"city": "Oslo"}, into=Day) == Day(21.5, "clear")
        with pytest.raises(ToolError, match="no such city"):
            tool(city="Nowhere")
        with pytest.raises(ToolError, match="self: unknown argument"):
            tool(self="Oslo")
        client.roots = ["/b"]
        assert client.roots == ["/b"]
