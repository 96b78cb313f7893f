"""Completion of arguments, and the context of a request."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Annotated, Any, Literal

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.testing import TestClient, connect
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    return Server("s")


async def complete(client: TestClient, argument: str, value: str, **arguments: str) -> dict[str, Any]:
    params: dict[str, Any] = {
        "ref": {"type": "ref/prompt", "name": "plan"},
        "argument": {"name": argument, "value": value},
    }
    if arguments:
        params["context"] = {"arguments": arguments}
    return (await client.request("completion/complete", params))["completion"]


class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class Size(IntEnum):
    SMALL = 1
    BIG = 12


async def test_completion_of_choices(server: Server) -> None:
    @server.prompt
    def plan(
        unit: Unit,
        size: Size,
        kind: Literal["short", "long"] | None = None,
        exact: Annotated[Literal[True, False], "exactly"] = True,
    ) -> str:
        return ""

    async with connect(server) as client:
        assert (await complete(client, "unit", ""))["values"] == ["celsius", "fahrenheit"]
        assert (await complete(client, "unit", "F"))["values"] == ["fahrenheit"]
        assert (await complete(client, "size", "1"))["values"] == ["1", "12"]
        assert (await complete(client, "kind", "lo"))["values"] == ["long"]
        assert (await complete(client, "exact", "t"))["values"] == ["true"]
        assert (await complete(client, "kind", "x")) == {"values": [], "total": 0, "hasMore": False}


@each_row(("count", "has_more"), [(0, False), (100, False), (101, True)])
async def test_completion_sends_at_most_100_values(count: int, has_more: bool) -> None:
    server = Server("s")
    server.prompt(
        lambda n: "", name="plan", complete={"n": lambda value: (str(number) for number in range(count))}
    )
    async with connect(server) as client:
        completion = await complete(client, "n", "")
        assert completion["values"] == [str(number) for number in range(min(count, 100))]
        assert completion["total"] == count
        assert completion["hasMore"] is has_more


@each_row(
    "params",
    [
        {}, {"ref": {}}, {"ref": {"type": "ref/prompt"}}, {"ref": {"type": "ref/prompt", "name": "unheard"}},
        {"ref": {"type": "ref/resource", "uri": "data://unheard/{x}"}},
        {"ref": {"type": "ref/tool", "name": "plan"}},
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "town", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city"}},
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": 3}},
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": []}, {"context": []},
        {"context": {"arguments": {"x": 3}}}, {"context": {"arguments": []}},
    ],
)  # fmt: skip
async def test_completion_malformed_request_is_invalid_params(params: dict[str, Any]) -> None:
    server = Server("s")
    server.prompt(lambda city: "", name="plan", complete={"city": ["Rome"]})
    given: dict[str, Any] = {"argument": {"name": "city", "value": ""}}
    if "context" in params:
        given["ref"] = {"type": "ref/prompt", "name": "plan"}
    async with connect(server) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.request("completion/complete", given | params)
        assert caught.value.code == -32602


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_context_of_request(server: Server, revision: str) -> None:
    seen: list[Context] = []

    @server.tool
    async def look(ctx: Context, x: int = 0) -> str:
        seen.append(ctx)
        return ""

    info = {"name": "tests", "version": "1.2"}
    async with connect(
        server, protocol_version=revision, client_info=info, capabilities={"roots": {}}
    ) as client:
        await client.request(
            "tools/call", {"name": "look", "arguments": {"x": 1}, "_meta": {"example.com/trace": "abc"}}
        )
    (ctx,) = seen
    assert ctx.method == "tools/call"
    assert ctx.params["arguments"] == {"x": 1}
    assert ctx.meta["example.com/trace"] == "abc"
    assert ctx.client.info == info
    assert (ctx.client.name, ctx.client.version) == ("tests", "1.2")
    assert ctx.client.capabilities == {"roots": {}}
    assert ctx.protocol_version == revision
    assert ctx.server is server
    assert ctx.state is None
    assert ctx.request_id == 2
