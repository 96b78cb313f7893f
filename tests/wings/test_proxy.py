"""A tool that has no Python function behind it: it asks, reports, is cancelled, and passes results untouched."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

ERAS = ["2025-11-25", "2026-07-28"]
LISTED: dict[str, Any] = {
    "name": "far.away",
    "description": "Do it elsewhere.",
    "inputSchema": {
        "type": "object",
        "$defs": {"City": {"type": "string", "x-case": "title"}},
        "properties": {"city": {"$ref": "#/$defs/City"}},
        "required": ["city"],
    },
    "outputSchema": {"type": "object", "properties": {"warm": {"type": "boolean"}}},
}
RESULT: dict[str, Any] = {
    "content": [{"type": "text", "text": "warm", "x-new": [1]}, {"type": "hologram", "data": "AAAA"}],
    "structuredContent": {"warm": "not quite", "more": None},
    "isError": True,
    "_meta": {"com.example/price": 3},
}


async def answer(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {**RESULT, "_meta": {**RESULT["_meta"], "name": name, "arguments": arguments}}


async def test_results_pass_untouched() -> None:
    from tests.wings.proxy import ProxyTool

    server = Server("front")
    server.add(ProxyTool(answer, LISTED))
    async with connect(server) as client:
        assert (await client.list_tools())[0].items() >= LISTED.items()
        result = (await client.call("far.away", {"city": 7, "unknown": "too"})).data
    assert {name: result[name] for name in RESULT if name != "_meta"} == {
        name: value for name, value in RESULT.items() if name != "_meta"
    }
    assert result["_meta"].items() >= RESULT["_meta"].items()
    assert result["_meta"]["arguments"] == {"city": 7, "unknown": "too"}


@pytest.mark.parametrize("revision", ERAS)
async def test_it_asks_and_reports(revision: str) -> None:
    from tests.wings.proxy import AskingProxy

    server = Server("front")
    server.add(AskingProxy(answer, LISTED))
    reports: list[tuple[float, float | None, str | None]] = []

    def agree(method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert params["message"] == "May far.away be called?"
        return {"action": "accept", "content": {"value": True}}

    async with connect(server, revision=revision, answers=agree) as client:
        result = await client.call("far.away", {"city": "Oslo"}, progress=lambda *each: reports.append(each))
        assert result.meta["name"] == "far.away"
    assert reports == [(0, 1, "asking the other server"), (1, 1, None)]
    async with connect(server, revision=revision, answers=lambda *_: {"action": "decline"}) as client:
        assert (await client.call("far.away", {"city": "Oslo"})).text == "the user has not agreed"


async def test_it_is_cancelled() -> None:
    from tests.wings.proxy import ProxyTool

    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    server = Server("front")
    server.add(ProxyTool(hang, LISTED))
    async with connect(server) as client:
        call = asyncio.ensure_future(client.call("far.away"))
        await begun.wait()
        call.cancel()
        await asyncio.wait_for(ended.wait(), 10)


async def test_limits_and_middleware_hold_for_it() -> None:
    from tests.wings.proxy import ProxyTool

    async def hang(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.get_running_loop().create_future()

    server = Server("front", timeout=0.01)
    server.add(ProxyTool(hang, LISTED))
    seen: list[Any] = []

    @server.middleware("tools/call")
    async def note(request: Any, call_next: Any) -> Any:
        seen.append(request.name)
        return await call_next(request)

    async with connect(server) as client:
        result = await client.call("far.away")
        assert result.is_error
        assert "timed out" in result.text or "0.01" in result.text
    assert seen == ["far.away"]


async def test_what_the_framework_validates_never_leaves() -> None:
    from tests.wings.proxy import Operation

    sent: list[tuple[str, str]] = []

    async def fetch(method: str, path: str) -> Any:
        sent.append((method, path))
        return {"name": "Rex"}

    schema = {
        "operationId": "getPet",
        "parameters": {
            "type": "object",
            "properties": {"pet": {"type": "string"}},
            "required": ["pet"],
            "additionalProperties": False,
        },
    }
    server = Server("front")
    server.add(Operation(fetch, "GET", "/pets/{pet}", schema))
    async with connect(server) as client:
        refused = await client.call("getPet", {"pet": 5.5})
        assert refused.is_error
        assert "pet" in refused.text
        assert (await client.call("getPet", {"pet": "../admin"})).structured == {"name": "Rex"}
    assert sent == [("GET", "/pets/..%2Fadmin")]
