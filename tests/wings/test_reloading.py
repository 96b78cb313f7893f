"""A pipe outlives its engine: another server takes over, and its client need not begin anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.transports import Connection
from tests.helpers.pipe import META, stateless_meta

pytestmark = pytest.mark.anyio


class Host:
    """The other end of the pipe."""

    def __init__(self, server: Server) -> None:
        from tests.wings.reloading import Reloader

        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.connection = Connection(server, lambda line: self.messages.put_nowait(json.loads(line)))
        self.reloader = Reloader(self.connection, server)

    def send(self, method: str, params: dict[str, Any] | None = None, id_: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        self.connection.receive(json.dumps(message if id_ is None else {**message, "id": id_}).encode())

    async def receive(self) -> Any:
        return await asyncio.wait_for(self.messages.get(), 10)

    async def shake_hands(self) -> None:
        info = {"name": "host", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        self.send("initialize", params, 0)
        await self.receive()
        self.send("notifications/initialized")


def make(name: str, *tools: Any) -> Server:
    server = Server(name)
    for tool in tools:
        server.tool(tool)
    server.resource("data://x", name="x")(lambda: name)
    return server


async def add(a: int, b: int) -> int:
    return a + b


async def multiply(a: int, b: int) -> int:
    return a * b


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    host = Host(make("before", add))
    async with host.reloader:
        yield host


async def test_the_client_goes_on_with_the_new_server(host: Host) -> None:
    await host.shake_hands()
    await host.reloader.reload(make("after", add, multiply))
    assert (await host.receive())["method"] == "notifications/tools/list_changed"
    assert host.messages.empty()  # the resources are the same
    host.send("tools/call", {"name": "multiply", "arguments": {"a": 2, "b": 3}}, 1)
    assert (await host.receive())["result"]["content"][0]["text"] == "6"


async def test_what_has_begun_is_ended_where_it_began() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        await go.wait()
        return "done"

    host = Host(make("before", slow))
    async with host.reloader:
        await host.shake_hands()
        host.send("tools/call", {"name": "slow"}, 1)
        await begun.wait()
        reloading = asyncio.ensure_future(host.reloader.reload(make("after", multiply)))
        await asyncio.sleep(0)
        host.send("tools/call", {"name": "multiply", "arguments": {"a": 2, "b": 3}}, 2)
        go.set()
        await reloading
        answers = [each for _ in range(3) if "id" in (each := await host.receive())]
        texts = {each["id"]: each["result"]["content"][0]["text"] for each in answers}
        assert texts == {1: "done", 2: "6"}


async def test_subscriptions_hold_in_both_eras(host: Host) -> None:
    await host.shake_hands()
    host.send("resources/subscribe", {"uri": "data://x"}, 1)
    await host.receive()
    wanted = {"notifications": {"resourceSubscriptions": ["data://x"]}, "_meta": stateless_meta()}
    host.send("subscriptions/listen", wanted, 2)
    await host.receive()
    after = make("after", add)
    await host.reloader.reload(after)
    after.resource_updated("data://x")
    heard = [await host.receive() for _ in range(2)]
    assert [each["method"] for each in heard] == ["notifications/resources/updated"] * 2
    assert {each["params"].get("_meta", {}).get(META + "subscriptionId") for each in heard} == {None, 2}
