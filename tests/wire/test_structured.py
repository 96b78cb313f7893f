"""Structured results in each revision (server/tools, "Structured Content" and "Output Schema")."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typing_extensions import TypedDict

from mcpkit import Server, ToolResult
from tests.helpers.pipe import REVISIONS
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio

NONE = ("2024-11-05", "2025-03-26")
OBJECTS = ("2025-06-18", "2025-11-25")


class Forecast(TypedDict):
    summary: str
    degrees: float


FORECAST = {"summary": "sunny", "degrees": 21.5}


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.tool(name="object")
    async def an_object() -> Forecast:
        return {"summary": "sunny", "degrees": 21.5}

    @server.tool(name="list")
    async def a_list() -> list[int]:
        return [1, 2]

    @server.tool(name="number")
    async def a_number() -> int:
        return 3

    @server.tool(name="optional")
    async def an_optional() -> Forecast | None:
        return None

    @server.tool(name="silent", content="none")
    async def silent() -> Forecast:
        return {"summary": "sunny", "degrees": 21.5}

    @server.tool(name="told", content=lambda value: f"{value['degrees']} degrees")
    async def told() -> Forecast:
        return {"summary": "sunny", "degrees": 21.5}

    @server.tool(name="plain", structured=False)
    async def plain() -> Forecast:
        return {"summary": "sunny", "degrees": 21.5}

    @server.tool(name="wrong")
    async def wrong() -> Forecast:
        return {"summary": "sunny"}  # type: ignore[typeddict-item]  # on purpose

    @server.tool(name="failed")
    async def failed() -> ToolResult:
        return ToolResult("no", structured={"reason": 1}, is_error=True)

    @server.tool(name="free")
    async def free() -> Any:
        return [1, {"x": 2}]

    return server


@pytest.mark.parametrize("revision", NONE)
@pytest.mark.parametrize("name", ["object", "list", "number", "optional", "silent", "told", "free"])
async def test_old_revisions_get_text_and_never_nothing(
    server: Server, wire: Wire, revision: str, name: str
) -> None:
    async with wire(server, revision) as pipe:
        result = await pipe.call(name)
        assert "structuredContent" not in result
        assert result["content"]


@pytest.mark.parametrize("revision", NONE)
async def test_data_without_text_is_told_as_json_where_there_is_no_other_place(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        assert json.loads(await pipe.text("silent")) == FORECAST


@pytest.mark.parametrize("revision", REVISIONS[2:])
async def test_an_object_is_sent_as_it_is(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        result = await pipe.call("object")
        assert result["structuredContent"] == FORECAST
        assert json.loads(result["content"][0]["text"]) == FORECAST


@pytest.mark.parametrize(
    ("name", "value"), [("list", [1, 2]), ("number", 3), ("optional", None), ("free", [1, {"x": 2}])]
)
@pytest.mark.parametrize("revision", REVISIONS[2:])
async def test_other_values_are_wrapped_where_only_objects_are_known(
    server: Server, wire: Wire, revision: str, name: str, value: Any
) -> None:
    async with wire(server, revision) as pipe:
        structured = (await pipe.call(name))["structuredContent"]
        assert structured == ({"result": value} if revision in OBJECTS else value)


@pytest.mark.parametrize("revision", REVISIONS[2:])
async def test_structured_content_conforms_to_the_listed_schema(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        for tool in (await pipe.result("tools/list"))["tools"]:
            if "outputSchema" in tool and tool["name"] != "wrong":
                structured = (await pipe.call(tool["name"]))["structuredContent"]
                Draft202012Validator(tool["outputSchema"]).validate(structured)
                assert tool["outputSchema"].get("type") == "object" or revision not in OBJECTS


async def test_content_none_sends_the_data_once(server: Server, wire: Wire) -> None:
    async with wire(server, "2025-06-18") as pipe:
        result = await pipe.call("silent")
        assert result["content"] == []
        assert result["structuredContent"] == FORECAST


async def test_content_may_be_told_by_a_function(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        assert await pipe.text("told") == "21.5 degrees"


async def test_structured_false_promises_and_sends_no_data(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        result = await pipe.call("plain")
        assert "structuredContent" not in result
        assert json.loads(result["content"][0]["text"]) == FORECAST
        tools = {tool["name"]: tool for tool in (await pipe.result("tools/list"))["tools"]}
        assert "outputSchema" not in tools["plain"]


async def test_a_result_that_breaks_its_promise_is_an_error_result(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        result = await pipe.call("wrong")
        assert result["isError"] is True
        assert "structuredContent" not in result
        assert result["content"][0]["text"].startswith(
            "the tool ran, but result.degrees: expected a number, but it is missing"
        )


async def test_an_error_result_may_carry_data(server: Server, wire: Wire) -> None:
    async with wire(server, "2026-07-28") as pipe:
        result = await pipe.call("failed")
        assert result["isError"] is True
        assert result["structuredContent"] == {"reason": 1}


async def test_what_promises_no_data_lists_no_output_schema(server: Server, wire: Wire) -> None:
    async with wire(server, "2026-07-28") as pipe:
        listed = {
            tool["name"] for tool in (await pipe.result("tools/list"))["tools"] if "outputSchema" in tool
        }
        assert listed == {"object", "list", "number", "optional", "silent", "told", "wrong"}
