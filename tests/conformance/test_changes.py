"""Changes: list_changed and resources/updated in sessions, and `subscriptions/listen` in 2026-07-28."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Server, ServerOptions, Tool
from mcpkit.transports import Connection
from tests.helpers.pipe import META, Pipe, Wire, initialize, message, settle


def handler() -> str:
    return ""


def item(name: str) -> str:
    return name


@pytest.fixture
def server() -> Server:
    server = Server("s", options=ServerOptions(capabilities=["tools", "resources", "prompts"]))
    server.tool(handler)
    server.prompt(handler)
    server.resource("data://x")(handler)
    server.resource("data://items/{name}")(item)
    return server


CHANGES: dict[str, tuple[str, Callable[[Server], Any]]] = {
    "tool added": ("tools", lambda server: server.tool(handler, name="new")),
    "tool replaced": ("tools", lambda server: server.catalog.add(Tool(handler), replace=True)),
    "tool removed": ("tools", lambda server: server.catalog.tools.remove("new")),
    "tool disabled": ("tools", lambda server: server.catalog.tools.disable("handler")),
    "prompt added": ("prompts", lambda server: server.prompt(handler, name="new")),
    "prompt disabled": ("prompts", lambda server: server.catalog.prompts.disable("handler")),
    "resource added": ("resources", lambda server: server.resource("data://new")(handler)),
    "resource removed": ("resources", lambda server: server.catalog.resources.remove("data://x")),
    "template added": ("resources", lambda server: server.resource("data://new/{name}")(item)),
    "template removed": (
        "resources",
        lambda server: server.catalog.resource_templates.remove("data://items/{name}"),
    ),
}


def list_changed(*lists: str) -> list[dict[str, Any]]:
    return [{"jsonrpc": "2.0", "method": f"notifications/{name}/list_changed"} for name in lists]


async def test_each_change_of_a_registry_sends_list_changed_once(server: Server, wire: Wire) -> None:
    faults = []
    async with wire(server) as pipe:
        for change, (name, make) in CHANGES.items():
            make(server)
            if (messages := await pipe.answered()) != list_changed(name):
                faults.append(f"{change}: {messages}")
        server.catalog.tools.enable("handler")
        await pipe.answered()
        server.catalog.tools.enable("handler")  # which changes nothing
        with pytest.raises(KeyError):
            server.catalog.tools.remove("unknown")
        await pipe.quiet()
    assert not faults, "\n".join(faults)


async def test_changes_before_initialized_are_sent_after_it(server: Server, wire: Wire) -> None:
    async with wire(server, initialize=False) as pipe:
        await pipe.result("initialize", initialize()["params"])
        server.tool(handler, name="new")
        server.tool(handler, name="newer")
        await pipe.quiet()
        pipe.notify("notifications/initialized")
        assert await pipe.answered() == list_changed("tools")


async def test_resource_updated_is_sent_to_subscribers_only(server: Server, wire: Wire) -> None:
    async with wire(server) as pipe, wire(server) as other:
        assert await pipe.result("resources/subscribe", {"uri": "data://x"}) == {}
        server.notify_resource_updated("data://x")
        server.notify_resource_updated("data://y")
        (update,) = await pipe.answered()
        assert update["method"] == "notifications/resources/updated"
        assert update["params"] == {"uri": "data://x"}
        await other.quiet()


async def test_slow_session_loses_oldest_updates_only(server, caplog) -> None:
    sent: list[bytes] = []
    room = asyncio.Event()
    connection = Connection(server, sent.append, ready=room.wait)

    subscriptions = [message("resources/subscribe", {"uri": f"data://{number}"}) for number in range(300)]
    for each in (initialize(), message("notifications/initialized", None, None), *subscriptions):
        connection.receive(json.dumps(each).encode())
    sent.clear()
    server.tool(handler, name="new")
    for number in range(300):
        server.notify_resource_updated(f"data://{number}")
    await settle()
    assert sent == []
    room.set()
    await settle()
    first, *updates = [json.loads(line) for line in sent]
    assert first == list_changed("tools")[0]
    assert [update["params"]["uri"] for update in updates] == [f"data://{n}" for n in range(45, 300)]
    assert [record.message for record in caplog.records] == [
        "a client reads too slowly, so it misses notifications of updates, the first one for 'data://0'"
    ]
    await connection.aclose()


REVISION = "2026-07-28"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = META + "subscriptionId"


async def listen(pipe: Pipe, id_: str | int = "s", **filters: Any) -> dict[str, Any]:
    """Open a stream and return the filter that is honoured."""
    pipe.send(pipe.message(id_, "subscriptions/listen", {"notifications": filters}))
    acknowledgement = await pipe.receive()
    assert acknowledgement["method"] == ACKNOWLEDGED
    assert acknowledgement["params"]["_meta"][SUBSCRIPTION] == id_
    return acknowledgement["params"]["notifications"]


async def test_listen_sends_only_what_the_filter_names(wire: Wire) -> None:
    server = Server("s")
    server.tool(handler)
    server.resource("data://x")(handler)
    filters = {"toolsListChanged": True, "resourcesListChanged": False, "promptsListChanged": True}
    async with wire(server, REVISION) as pipe:
        honoured = await listen(pipe, **filters, unknownChanged=True, resourceSubscriptions=["data://x"])
        assert honoured == {"toolsListChanged": True, "resourceSubscriptions": ["data://x"]}
        server.resource("data://new")(handler)
        server.notify_resource_updated("data://y")
        await pipe.quiet()
        server.tool(handler, name="new")
        server.notify_resource_updated("data://x")
        changed, updated = await pipe.answered()
        assert changed["method"] == "notifications/tools/list_changed"
        assert (updated["method"], updated["params"]["uri"]) == (
            "notifications/resources/updated",
            "data://x",
        )


async def test_listen_cancelled_sends_nothing_more_and_frees_its_id(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, "s", toolsListChanged=True)
        await listen(pipe, "t", toolsListChanged=True)
        pipe.cancel("s")
        assert await listen(pipe, "s") == {}  # its id is free, and it listens to nothing now
        server.tool(handler, name="new")
        (changed,) = await pipe.answered()
        assert changed["params"]["_meta"][SUBSCRIPTION] == "t"


async def test_listen_graceful_close_sends_result(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, "s", toolsListChanged=True)
        server_side = pipe.connection
        await server_side.aclose(graceful=True)
        answer = await pipe.receive()
        assert answer["id"] == "s"
        assert answer["result"]["_meta"][SUBSCRIPTION] == "s"
        assert answer["result"]["resultType"] == "complete"
        assert pipe.out.empty()
