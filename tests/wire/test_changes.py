"""Changes in the handshake era: list_changed, and resources/updated for what was subscribed to."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.transports import Connection
from tests.helpers.pipe import HANDSHAKE, settle
from tests.wire.conftest import Wire

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("revision", HANDSHAKE)]


def handler() -> str:
    return ""


def item(name: str) -> str:
    return name


@pytest.fixture
def server() -> Server:
    server = Server("s", offers=["tools", "resources", "prompts"])
    server.tool(handler)
    server.prompt(handler)
    server.resource("data://x")(handler)
    server.resource("data://items/{name}")(item)
    return server


CHANGES: dict[str, tuple[str, Callable[[Server], Any]]] = {
    "tool added": ("tools", lambda server: server.tool(handler, name="new")),
    "tool replaced": ("tools", lambda server: server.tool(handler, name="handler", replace=True)),
    "tool removed": ("tools", lambda server: server.tools.remove("handler")),
    "tool disabled": ("tools", lambda server: server.tools.disable("handler")),
    "prompt added": ("prompts", lambda server: server.prompt(handler, name="new")),
    "prompt disabled": ("prompts", lambda server: server.prompts.disable("handler")),
    "resource added": ("resources", lambda server: server.resource("data://new")(handler)),
    "resource removed": ("resources", lambda server: server.resources.remove("data://x")),
    "template added": ("resources", lambda server: server.resource("data://new/{name}")(item)),
    "template removed": (
        "resources",
        lambda server: server.resource_templates.remove("data://items/{name}"),
    ),
}


def list_changed(*lists: str) -> list[dict[str, Any]]:
    return [{"jsonrpc": "2.0", "method": f"notifications/{name}/list_changed"} for name in lists]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_is_told_once(server: Server, wire: Wire, revision: str, change: str) -> None:
    name, make = CHANGES[change]
    async with wire(server, revision) as pipe:
        make(server)
        assert await pipe.answered() == list_changed(name)
        await pipe.quiet()


async def test_what_changes_nothing_is_not_told(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        server.tools.enable("handler")
        with pytest.raises(KeyError):
            server.tools.remove("unheard")
        await pipe.quiet()


async def test_many_changes_at_once_are_told_once(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        for number in range(100):
            server.tool(handler, name=f"t{number}")
            server.prompt(handler, name=f"p{number}")
        assert await pipe.answered() == list_changed("tools", "prompts")


async def test_changes_from_threads_are_told(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        threads = [
            threading.Thread(target=server.tool, args=(handler,), kwargs={"name": f"t{number}"})
            for number in range(8)
        ]
        for thread in threads:
            thread.start()
        assert await pipe.receive() == list_changed("tools")[0]
        for thread in threads:
            thread.join()
        await pipe.answered()
        assert len((await pipe.result("tools/list"))["tools"]) == 9


async def test_the_list_asked_for_after_the_news_is_the_new_one(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        await pipe.result("tools/list")
        thread = threading.Thread(target=server.tool, args=(handler,), kwargs={"name": "new"})
        thread.start()
        await pipe.receive()
        assert [tool["name"] for tool in (await pipe.result("tools/list"))["tools"]] == ["handler", "new"]
        thread.join()


async def test_changes_between_initialize_and_initialized_are_told_afterwards(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision, initialize=False) as pipe:
        params = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "w", "version": "1"},
        }
        await pipe.result("initialize", params)
        server.tool(handler, name="new")
        server.tool(handler, name="newer")
        await pipe.quiet()
        pipe.notify("notifications/initialized")
        assert await pipe.answered() == list_changed("tools")


async def test_before_initialize_nothing_is_told(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision, initialize=False) as pipe:
        server.tool(handler, name="new")
        await pipe.quiet()
        await pipe.initialize()
        await pipe.quiet()


async def test_every_session_is_told(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as first, wire(server, "2025-11-25") as second:
        server.tool(handler, name="new")
        assert await first.answered() == list_changed("tools")
        assert await second.answered() == list_changed("tools")


async def test_a_closed_connection_is_told_nothing_and_does_no_harm(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        pass
    server.tool(handler, name="new")
    server.resource_updated("data://x")
    await asyncio.sleep(0)
    assert pipe.out.empty()


async def test_updates_reach_those_who_subscribed(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe, wire(server, revision) as other:
        assert await pipe.result("resources/subscribe", {"uri": "data://x"}) == {}
        server.resource_updated("data://x")
        server.resource_updated("data://y")
        (update,) = await pipe.answered()
        assert update["method"] == "notifications/resources/updated"
        assert update["params"] == {"uri": "data://x"}
        await other.quiet()


async def test_each_session_hears_only_of_what_it_subscribed_to(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as first, wire(server, revision) as second:
        await first.result("resources/subscribe", {"uri": "data://x"})
        await second.result("resources/subscribe", {"uri": "data://y"})
        server.resource_updated("data://y")
        await first.quiet()
        assert [update["params"]["uri"] for update in await second.answered()] == ["data://y"]


async def test_what_a_template_serves_can_be_subscribed_to(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        await pipe.result("resources/subscribe", {"uri": "data://items/1"})
        server.resource_updated("data://items/1")
        assert [update["params"]["uri"] for update in await pipe.answered()] == ["data://items/1"]


async def test_after_unsubscribe_no_update_is_told(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        await pipe.result("resources/subscribe", {"uri": "data://x"})
        assert await pipe.result("resources/unsubscribe", {"uri": "data://x"}) == {}
        assert await pipe.result("resources/unsubscribe", {"uri": "data://never"}) == {}
        server.resource_updated("data://x")
        await pipe.quiet()


async def test_updates_from_threads_are_told_once_for_each_turn(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        await pipe.result("resources/subscribe", {"uri": "data://x"})

        def update() -> None:
            for _ in range(100):
                server.resource_updated("data://x")

        thread = threading.Thread(target=update)
        thread.start()
        thread.join()  # the loop has had no turn meanwhile
        assert len(await pipe.answered()) == 1


@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
@pytest.mark.parametrize("params", [{}, {"uri": 3}, {"uri": None}])
async def test_subscribing_needs_a_uri(
    server: Server, wire: Wire, revision: str, method: str, params: dict[str, Any]
) -> None:
    async with wire(server, revision) as pipe:
        assert (await pipe.error(method, params))["code"] == -32602


async def test_subscriptions_apply_in_order_of_arrival(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        pipe.start("resources/subscribe", {"uri": "data://x"})
        server.resource_updated("data://x")
        pipe.start("resources/unsubscribe", {"uri": "data://x"})
        pipe.start("resources/subscribe", {"uri": "data://x"})
        messages = await pipe.answered()
        assert [message.get("method", "answer") for message in messages] == [
            "answer",
            "answer",
            "answer",
            "notifications/resources/updated",
        ]


async def test_a_list_that_was_not_negotiated_is_not_announced(wire: Wire, revision: str) -> None:
    server = Server("s")
    server.tool(handler)
    async with wire(server, revision) as pipe:
        server.prompt(handler)
        server.tool(handler, name="new")
        assert await pipe.answered() == list_changed("tools")


async def test_the_text_of_a_template_can_be_subscribed_to(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        await pipe.result("resources/subscribe", {"uri": "data://items/{name}"})
        server.resource_updated("data://items/1")
        server.resource_updated("data://x")
        assert [update["params"]["uri"] for update in await pipe.answered()] == ["data://items/1"]
        await pipe.result("resources/unsubscribe", {"uri": "data://items/{name}"})
        server.resource_updated("data://items/1")
        await pipe.quiet()


@pytest.mark.slow
async def test_what_is_subscribed_to_is_bounded(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        error = await pipe.error("resources/subscribe", {"uri": "data://" + "x" * 2042})
        assert (error["code"], "2,048 characters" in error["message"]) == (-32602, True)
        for number in range(1000):
            pipe.start("resources/subscribe", {"uri": f"data://{number}"})
        assert all("result" in answer for answer in await pipe.answered())
        error = await pipe.error("resources/subscribe", {"uri": "data://x"})
        assert (error["code"], "at most 1,000 URIs" in error["message"]) == (-32602, True)
        await pipe.result("resources/subscribe", {"uri": "data://7"})
        await pipe.result("resources/unsubscribe", {"uri": "data://7"})
        await pipe.result("resources/subscribe", {"uri": "data://x"})


async def test_a_session_that_reads_too_slowly_loses_its_oldest_updates_only(
    server: Server, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[bytes] = []
    room = asyncio.Event()
    connection = Connection(server, sent.append, ready=room.wait)

    def receive(method: str, **params: Any) -> None:
        connection.receive(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        )

    receive("initialize", protocolVersion=revision, capabilities={}, clientInfo={"name": "w", "version": "1"})
    connection.receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    for number in range(300):
        receive("resources/subscribe", uri=f"data://{number}")
    sent.clear()
    server.tool(handler, name="new")
    for number in range(300):
        server.resource_updated(f"data://{number}")
    await settle()
    assert sent == []
    room.set()
    await settle()
    told = [json.loads(message) for message in sent]
    assert told[0] == list_changed("tools")[0]
    assert [message["params"]["uri"] for message in told[1:]] == [f"data://{n}" for n in range(45, 300)]
    assert [record.message for record in caplog.records] == [
        "a client reads too slowly: updates are lost, the first of them of 'data://0'"
    ]
    await connection.aclose()
