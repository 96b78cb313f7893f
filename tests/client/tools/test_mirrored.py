"""Arguments that tools have clients repeat in HTTP headers, and tools whose rules for that are wrong."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from mcpkit import Client, Header, ProtocolError, Server
from tests.helpers.scripted_http import Asked, Reply, scripted

pytestmark = pytest.mark.anyio

PROPERTIES: dict[str, Any] = {
    "region": {"type": "string", "x-mcp-header": "Region"},
    "count": {"type": "integer", "x-mcp-header": "Count"},
    "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Deep-Flag"}}},
    "plain": {"type": "string"},
}

TEXT = {"type": "string", "x-mcp-header": "A"}


class Shop:
    """A server over HTTP of either era, whose tools are what the test says.

    Args:
        tools: The tools, by name: the properties of their arguments.
        refuses: Whether calls whose header `Mcp-Param-Region` is missing are refused.
        revision: The revision that it speaks.
    """

    def __init__(self, tools: dict[str, Any], *, refuses: bool = False, revision: str = "2026-07-28") -> None:
        self.tools = tools
        self.refuses = refuses
        self.revision = revision
        self.listed = 0
        self.calls: list[dict[str, str]] = []

    async def __call__(self, asked: Asked, reply: Reply) -> None:
        if asked.rpc == "server/discover" and self.revision == "2026-07-28":
            await reply.result(
                {
                    "resultType": "complete",
                    "supportedVersions": [self.revision],
                    "capabilities": {"tools": {}},
                }
            )
        elif asked.rpc == "initialize":
            info = {"name": "shop", "version": "1"}
            await reply.result(
                {"protocolVersion": self.revision, "capabilities": {"tools": {}}, "serverInfo": info}
            )
        elif asked.rpc == "tools/list":
            self.listed += 1
            tools = [
                {"name": name, "inputSchema": {"type": "object", "properties": properties}}
                for name, properties in self.tools.items()
            ]
            await reply.result({"resultType": "complete", "tools": tools})
        elif asked.rpc == "tools/call":
            await self._call(asked, reply)
        elif asked.method == "POST" and asked.rpc == "notifications/initialized":
            await reply.send(202)
        else:
            await reply.send(405)

    async def _call(self, asked: Asked, reply: Reply) -> None:
        headers = {name: value for name, value in asked.headers.items() if name.startswith("mcp-param-")}
        self.calls.append(headers)
        if self.refuses and "mcp-param-region" not in headers:
            await reply.error(400, -32020, "Header mismatch: Mcp-Param-Region header is missing")
        else:
            await reply.result({"resultType": "complete", "content": [{"type": "text", "text": "sold"}]})


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed before", "never listed"])
async def test_arguments_are_repeated_in_headers(is_listed: bool) -> None:
    shop = Shop({"buy": PROPERTIES})
    async with scripted(shop) as server, Client(server.url) as client:
        if is_listed:
            await client.list_tools()
        await client.call("buy", {"region": "north", "count": 42, "deep": {"flag": False}, "plain": "x"})
        await client.call("buy", {"region": "Tromsø ", "count": None, "deep": {"flag": True}})
        await client.call("buy", {"region": "=?base64?x?=", "count": 3.0, "deep": None})
        await client.call("buy")
    assert shop.calls == [
        {"mcp-param-region": "north", "mcp-param-count": "42", "mcp-param-deep-flag": "false"},
        {"mcp-param-region": "=?base64?VHJvbXPDuCA=?=", "mcp-param-deep-flag": "true"},
        {"mcp-param-region": "=?base64?PT9iYXNlNjQ/eD89?=", "mcp-param-count": "3"},
        {},
    ]
    assert shop.listed == 1


async def test_calls_at_the_same_time_list_their_tools_once() -> None:
    shop = Shop({"buy": PROPERTIES})
    async with scripted(shop) as server, Client(server.url) as client:
        await asyncio.gather(*(client.call("buy", {"region": "north"}) for _ in range(20)))
    assert shop.listed == 1
    assert shop.calls == [{"mcp-param-region": "north"}] * 20


async def test_an_integer_that_no_header_carries_is_an_error_of_the_caller() -> None:
    shop = Shop({"buy": PROPERTIES})
    async with scripted(shop) as server, Client(server.url) as client:
        with pytest.raises(
            ValueError, match="the argument count is repeated in a header, which carries integers from"
        ):
            await client.call("buy", {"count": 2**53})
    assert shop.calls == []


async def test_sessions_repeat_nothing() -> None:
    shop = Shop({"buy": PROPERTIES, "bad": {"a": {"x-mcp-header": ""}}}, revision="2025-11-25")
    async with scripted(shop) as server, Client(server.url, revision="2025-11-25") as client:
        await client.call("buy", {"region": "north"})
        assert [tool["name"] for tool in await client.list_tools()] == ["buy", "bad"]
    assert shop.calls == [{}]


async def test_a_call_whose_headers_are_refused_is_made_again_once_with_what_the_tool_says_now() -> None:
    shop = Shop({"buy": {}}, refuses=True)
    async with scripted(shop) as server, Client(server.url) as client:
        with pytest.raises(ProtocolError, match="Mcp-Param-Region header is missing"):
            await client.call("buy", {"region": "north"})
        assert (shop.listed, len(shop.calls)) == (2, 2)
        shop.tools["buy"] = PROPERTIES
        assert (await client.call("buy", {"region": "north"})).text == "sold"
    assert (shop.listed, len(shop.calls)) == (3, 4)
    assert shop.calls[-1] == {"mcp-param-region": "north"}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"a": {"type": "string", "x-mcp-header": ""}}, "no name of an HTTP header"),
        ({"a": {"type": "string", "x-mcp-header": "a b"}}, "no name of an HTTP header"),
        ({"a": {"type": "string", "x-mcp-header": "a\r\nb"}}, "no name of an HTTP header"),
        ({"a": {"type": "string", "x-mcp-header": 5}}, "no name of an HTTP header"),
        ({"a": {"type": "number", "x-mcp-header": "A"}}, "cannot carry this type"),
        ({"a": {"type": "object", "x-mcp-header": "A"}}, "cannot carry this type"),
        ({"a": {"type": "null", "x-mcp-header": "A"}}, "cannot carry this type"),
        (
            {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}},
            "that of argument",
        ),
        (
            {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
            "where clients find no single value",
        ),
        ({"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}}, "where clients find no single value"),
    ],
)
async def test_tools_with_wrong_rules_are_left_out_and_told_of_once(
    schema: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop({"bad": schema, "good": PROPERTIES})
    async with scripted(shop) as server, Client(server.url) as client:
        for _ in range(2):
            assert [tool["name"] for tool in await client.list_tools(fresh=True)] == ["good"]
        assert list(await client.tools()) == ["good"]
        await client.call("good", {"region": "north"})
        await client.call("good", {"region": "north"})
    assert len(caplog.records) == 1
    assert "The tool bad of the server" in caplog.text
    assert why in caplog.text


class Place(BaseModel):
    zone: Annotated[str, Header("Zone")]


store = Server("store")


@store.tool
async def stock(
    item: str,
    place: Place,
    region: Annotated[str, Header("Region")] = "north",
    count: Annotated[int, Header("Count")] = 1,
) -> str:
    """How much there is of an item."""
    return f"{count} of {item} in the {region}, {place.zone}"


async def test_a_server_of_ours_takes_what_is_repeated() -> None:
    app = store.asgi()
    async with Client(app) as client:
        assert client.revision == "2026-07-28"
        arguments = {"item": "lamp", "region": "søuth\n", "place": {"zone": " a"}, "count": -7}
        assert (await client.call("stock", arguments)).text == "-7 of lamp in the søuth\n,  a"
        tool = (await client.tools())["stock"]
        assert await tool(item="lamp", place={"zone": ""}) == "1 of lamp in the north, "


async def test_a_pipe_has_no_headers() -> None:
    async with Client(store) as client:
        assert (
            await client.call("stock", {"item": "lamp", "place": {"zone": "a"}})
        ).text == "1 of lamp in the north, a"
