"""JSON-RPC batches: only 2025-03-26 has them (basic/index, "Batching")."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Server
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio

BATCHES = "2025-03-26"


@pytest.fixture
def gate() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def server(gate: asyncio.Event) -> Server:
    server = Server("s")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def wait() -> str:
        await gate.wait()
        return "waited"

    return server


def ping(id_: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": "ping"}


def call(id_: Any, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def test_a_batch_is_answered_with_one_array(server: Server, wire: Wire) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([ping("a"), call("b", "echo", text="hello"), notification("notifications/unheard-of")])
        (answer,) = await pipe.answered()
        by_id = {each["id"]: each for each in answer}
        assert by_id["a"]["result"] == {}
        assert by_id["b"]["result"]["content"][0]["text"] == "hello"
        assert len(answer) == 2


async def test_a_batch_of_one_is_answered_with_an_array(server: Server, wire: Wire) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([ping(9)])
        assert [each["id"] for each in await pipe.receive()] == [9]


async def test_a_batch_of_notifications_and_responses_gets_no_answer(server: Server, wire: Wire) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([notification("notifications/unheard-of"), {"jsonrpc": "2.0", "id": 1, "result": {}}])
        await pipe.quiet()


async def test_a_batch_is_answered_when_its_slowest_request_is(
    server: Server, wire: Wire, gate: asyncio.Event
) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([call("slow", "wait"), ping("fast")])
        assert await pipe.result("ping") == {}  # sent alone, answered before the batch
        gate.set()
        assert {each["id"] for each in await pipe.receive()} == {"slow", "fast"}


async def test_cancelled_requests_are_left_out_of_the_array(server: Server, wire: Wire) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([call("slow", "wait"), ping("fast")])
        pipe.cancel("slow")
        (answer,) = await pipe.answered()
        assert [each["id"] for each in answer] == ["fast"]


async def test_a_batch_whose_requests_are_all_cancelled_gets_no_answer(server: Server, wire: Wire) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([call("slow", "wait"), notification("notifications/cancelled", requestId="slow")])
        await pipe.quiet()


async def test_an_empty_batch_is_an_invalid_request(server: Server, wire: Wire) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([])
        answer = await pipe.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)


async def test_initialize_in_a_batch_is_refused_and_the_rest_is_served(server: Server, wire: Wire) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([{"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {}}, ping("p")])
        by_id = {each["id"]: each for each in await pipe.receive()}
        assert by_id["i"]["error"]["code"] == -32600
        assert by_id["p"]["result"] == {}


async def test_a_batch_cannot_open_a_session(server: Server, wire: Wire) -> None:
    async with wire(server, initialize=False) as pipe:
        params = {"protocolVersion": BATCHES, "capabilities": {}, "clientInfo": {"name": "w", "version": "1"}}
        pipe.send([{"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params}])
        assert (await pipe.receive())["error"]["code"] == -32600
        assert (await pipe.error("tools/list"))["code"] == -32600


async def test_what_is_no_message_inside_a_batch_is_answered_inside_the_array(
    server: Server, wire: Wire
) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([3, {}, [], ping("p")])
        answer = await pipe.receive()
        assert [each["error"]["code"] for each in answer if "error" in each] == [-32600] * 3
        assert [each["id"] for each in answer] == [None, None, None, "p"]


async def test_a_duplicate_id_inside_a_batch_leaves_the_first_running(
    server: Server, wire: Wire, gate: asyncio.Event
) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([call("x", "wait"), call("x", "echo", text="second")])
        gate.set()
        (answer,) = await pipe.answered()
        assert [each["id"] for each in answer] == [None, "x"]
        assert answer[0]["error"]["code"] == -32600
        assert answer[1]["result"]["content"][0]["text"] == "waited"


@pytest.mark.parametrize(("size", "is_served"), [(100, True), (101, False)])
async def test_the_size_of_a_batch_is_capped(server: Server, wire: Wire, size: int, is_served: bool) -> None:
    async with wire(server, BATCHES) as pipe:
        pipe.send([ping(f"p{number}") for number in range(size)])
        answer = await pipe.receive()
        if is_served:
            assert len(answer) == size
        else:
            assert answer["error"]["code"] == -32600
            assert "100" in answer["error"]["message"]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("batch", [[], [ping("p")]])
async def test_other_revisions_refuse_batches(
    server: Server, wire: Wire, revision: str, batch: list[Any]
) -> None:
    async with wire(server, revision) as pipe:
        pipe.send(batch)
        assert (await pipe.receive())["error"]["code"] == -32600
        await pipe.quiet()
