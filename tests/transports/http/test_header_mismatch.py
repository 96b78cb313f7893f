"""Headers held against the body of a stateless request (basic/transports/streamable-http)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from mcpkit import BaseTool, Context, Header, Server
from tests.helpers.asgi_client import Serve, serving
from tests.helpers.stateless_server import REVISION, text_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"mcp-protocol-version": f"  {REVISION} \t"}, 200),
        ({"mcp-method": " tools/call "}, 200),
        ({"mcp-name": "  region  "}, 200),
        ({"mcp-name": "=?base64?cmVnaW9u?="}, 200),
        ({"mcp-param-region": "=?base64?dXMtd2VzdDE=?="}, 200),
        ({"mcp-param-unknown": "\x00"}, 200),
        ({"mcp-method": None}, 400),
        ({"mcp-method": "TOOLS/CALL"}, 400),
        ({"mcp-method": "tools/list"}, 400),
        ({"mcp-name": None}, 400),
        ({"mcp-name": "echo"}, 400),
        ({"mcp-name": "Region"}, 400),
        ({"mcp-name": "=?base64?cmVnaW9u="}, 400),
        ({"mcp-name": "r\xe9gion".encode("latin-1")}, 400),
        ({"mcp-param-region": None}, 400),
        ({"mcp-param-region": "eu"}, 400),
        ({"mcp-param-region": "us-west1\x01"}, 400),
        ({"mcp-param-region": "=?base64?dXMtd2VzdDE?="}, 400),
    ],
)
async def test_headers_say_what_the_body_says(
    headers: dict[str, Any], status: int, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        headers = {"mcp-param-region": "us-west1"} | headers
        answer = await client.call("region", {"region": "us-west1"}, headers=headers).whole()
        assert answer.status == status
        if status == 400:
            assert answer.error()["code"] == -32020
            assert answer.json()["id"] == 1
        else:
            assert text_of(answer.json()) == "us-west1"


async def test_a_header_is_not_expected_for_what_is_not_given(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for arguments in ({}, {"region": None}):
            answer = await client.call("region", arguments).whole()
            assert answer.status == 200


async def test_resources_and_prompts_are_named_in_a_header_too(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for method, params in (
            ("resources/read", {"uri": "weather://fixed"}),
            ("prompts/get", {"name": "plan", "arguments": {"city": "Rome"}}),
        ):
            assert (await client.ask(method, params).whole()).status == 200
            for name in (None, "other"):
                answer = await client.ask(method, params, headers={"mcp-name": name}).whole()
                assert (answer.status, answer.error()["code"]) == (400, -32020)


async def test_a_method_without_a_name_needs_no_header_for_it(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        assert (await client.ask("tools/list").whole()).status == 200
        assert (await client.ask("server/discover", headers={"mcp-name": "anything"}).whole()).status == 200


@dataclass
class Place:
    region: Annotated[str, Header("Region")]


@pytest.mark.parametrize("is_explicit", [False, True])
async def test_an_argument_that_a_header_repeats_cannot_hide_in_a_text(
    schema_dir: Path, is_explicit: bool
) -> None:
    server, looked = Server("s"), []

    if is_explicit:
        region = {"type": "string", "x-mcp-header": "Region"}
        inner = {"type": "object", "properties": {"region": region}}

        @server.tool(input_schema={"type": "object", "properties": {"place": inner}})
        async def look(arguments: dict[str, Any]) -> None:
            looked.append(arguments["place"]["region"])

    else:

        @server.tool(name="look")
        async def look_at(place: Place) -> None:
            looked.append(place.region)

    async with serving(server, schema_dir) as client:
        for headers in ({}, {"mcp-param-region": "us"}):
            hidden = await client.call("look", {"place": '{"region": "eu"}'}, headers=headers).whole()
            assert (hidden.status, looked) == (400 if headers else 200, [])
        told = client.call("look", {"place": {"region": "eu"}}, headers={"mcp-param-region": "eu"})
        assert ((await told.whole()).status, looked) == (200, ["eu"])


async def test_what_names_a_request_is_a_text(schema_dir: Path) -> None:
    server = Server("s")

    @server.method("thing/do", named_by="id")
    async def do(**params: Any) -> dict[str, Any]:
        return params

    async with serving(server, schema_dir) as client:
        for value in (7, ["7"], {"7": 7}, True):
            answer = await client.ask("thing/do", {"id": value}, headers={"mcp-name": "8"}).whole()
            assert (answer.status, answer.json()["error"]["message"]) == (400, "id: expected a string")
        answer = await client.ask("thing/do", {"id": "7"}, headers={"mcp-name": "8"}).whole()
        assert (answer.status, answer.json()["error"]["code"]) == (400, -32020)
        assert (await client.ask("thing/do", {"id": "7"}, headers={"mcp-name": "7"}).whole()).status == 200


async def test_a_tool_without_a_function_is_held_to_its_headers_as_well(server: Server, serve: Serve) -> None:
    class Remote(BaseTool):
        async def execute(self, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": arguments["place"]}]}

    place = {"type": "string", "x-mcp-header": "Place"}
    server.add(
        Remote("remote", input_schema={"type": "object", "properties": {"place": place}}, validates=False)
    )
    async with serve(server) as client:
        for told, status in (("Graz", 200), ("Rome", 400), (None, 400)):
            answer = await client.call("remote", {"place": "Graz"}, headers={"mcp-param-place": told}).whole()
            assert answer.status == status
