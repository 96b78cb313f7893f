"""`subscriptions/listen`: the stateless era's way to hear of changes (basic/patterns/subscriptions)."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.transports import Connection
from tests.helpers.listening import hearing
from tests.helpers.pipe import META, Pipe, settle, stateless_meta
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio

REVISION = "2026-07-28"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = META + "subscriptionId"


def handler() -> str:
    return ""


@pytest.fixture
def server() -> Server:
    server = Server("s")
    server.tool(handler)
    server.resource("data://x")(handler)
    return server


async def listen(pipe: Pipe, id_: str | int = "s", **wanted: Any) -> dict[str, Any]:
    """Open a stream and return the filter that is honoured."""
    pipe.send(pipe.message(id_, "subscriptions/listen", {"notifications": wanted}))
    acknowledgement = await pipe.receive()
    assert acknowledgement["method"] == ACKNOWLEDGED
    assert acknowledgement["params"]["_meta"][SUBSCRIPTION] == id_
    return acknowledgement["params"]["notifications"]


async def test_the_acknowledgement_names_what_is_honoured(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        honoured = await listen(
            pipe,
            toolsListChanged=True,
            resourcesListChanged=False,
            promptsListChanged=True,
            resourceSubscriptions=["data://x"],
        )
        assert honoured == {"toolsListChanged": True, "resourceSubscriptions": ["data://x"]}


async def test_an_empty_filter_is_acknowledged_and_hears_nothing(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        assert await listen(pipe) == {}
        server.tool(handler, name="new")
        server.resource_updated("data://x")
        await pipe.quiet()


async def test_only_what_was_asked_for_is_told(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, toolsListChanged=True, resourceSubscriptions=["data://x"])
        server.resource("data://new")(handler)
        server.resource_updated("data://y")
        await pipe.quiet()
        server.tool(handler, name="new")
        server.resource_updated("data://x")
        messages = await pipe.answered()
        assert [message["method"] for message in messages] == [
            "notifications/tools/list_changed",
            "notifications/resources/updated",
        ]
        assert messages[1]["params"]["uri"] == "data://x"


async def test_each_stream_hears_under_its_own_id(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, "first", toolsListChanged=True)
        await listen(pipe, 2, toolsListChanged=True)
        server.tool(handler, name="new")
        messages = await pipe.answered()
        assert [message["params"]["_meta"][SUBSCRIPTION] for message in messages] == ["first", 2]


async def test_each_stream_hears_only_what_it_asked_for(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, "tools", toolsListChanged=True)
        await listen(pipe, "x", resourceSubscriptions=["data://x"])
        server.tool(handler, name="new")
        server.resource_updated("data://x")
        messages = await pipe.answered()
        assert [(message["method"], message["params"]["_meta"][SUBSCRIPTION]) for message in messages] == [
            ("notifications/tools/list_changed", "tools"),
            ("notifications/resources/updated", "x"),
        ]


async def test_changes_before_the_stream_are_not_told(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        server.tool(handler, name="new")
        await listen(pipe, toolsListChanged=True)
        await pipe.quiet()


async def test_without_a_stream_nothing_is_told(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await pipe.result("tools/list")
        server.tool(handler, name="new")
        await pipe.quiet()


async def test_changes_come_coalesced_and_from_threads(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, toolsListChanged=True, resourceSubscriptions=["data://x"])

        def change() -> None:
            for number in range(50):
                server.tool(handler, name=f"t{number}")
                server.resource_updated("data://x")

        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
        assert len(await pipe.answered()) == 2


async def test_a_cancelled_stream_ends_without_an_answer(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, "s", toolsListChanged=True)
        await listen(pipe, "t", toolsListChanged=True)
        pipe.cancel("s")
        server.tool(handler, name="new")
        (message,) = await pipe.answered()
        assert message["params"]["_meta"][SUBSCRIPTION] == "t"


async def test_the_id_of_a_cancelled_stream_may_be_used_again(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, "s", toolsListChanged=True)
        pipe.cancel("s")
        assert await listen(pipe, "s", toolsListChanged=True) == {"toolsListChanged": True}


@pytest.mark.parametrize("method", ["subscriptions/listen", "tools/list"])
async def test_the_id_of_an_open_stream_is_taken(server: Server, wire: Wire, method: str) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, "s", toolsListChanged=True)
        pipe.send(pipe.message("s", method, {"notifications": {}}))
        refusal = await pipe.receive()
        assert refusal["error"]["code"] == -32600
        assert "id" not in refusal
        server.tool(handler, name="new")
        assert len(await pipe.answered()) == 1


async def test_a_graceful_end_is_the_result_and_then_nothing(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, "s", toolsListChanged=True)
        server_side = pipe.connection
        await server_side.aclose(graceful=True)
        answer = await pipe.receive()
        assert answer["id"] == "s"
        assert answer["result"]["_meta"][SUBSCRIPTION] == "s"
        assert answer["result"]["resultType"] == "complete"
        assert pipe.out.empty()


async def test_a_dropped_stream_is_cancelled_with_a_reason(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, "s", toolsListChanged=True)
    message = await pipe.receive()
    assert message["method"] == "notifications/cancelled"
    assert message["params"]["requestId"] == "s"
    assert message["params"]["reason"]
    assert pipe.out.empty()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": []},
        {"notifications": {"toolsListChanged": "yes"}},
        {"notifications": {"toolsListChanged": 1}},
        {"notifications": {"resourceSubscriptions": "data://x"}},
        {"notifications": {"resourceSubscriptions": [1]}},
    ],
)
async def test_a_malformed_filter_is_refused_and_opens_nothing(
    server: Server, wire: Wire, params: dict[str, Any]
) -> None:
    async with wire(server, REVISION) as pipe:
        assert (await pipe.error("subscriptions/listen", params))["code"] == -32602
        server.tool(handler, name="new")
        await pipe.quiet()


async def test_members_of_the_filter_that_nobody_knows_are_not_honoured(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        assert await listen(pipe, toolsListChanged=True, weatherChanged=True) == {"toolsListChanged": True}


async def test_the_number_of_streams_is_capped(wire: Wire) -> None:
    server = Server("s", max_running=2)
    server.tool(handler)
    async with wire(server, REVISION) as pipe:
        await listen(pipe, 1, toolsListChanged=True)
        await listen(pipe, 2, toolsListChanged=True)
        pipe.send(pipe.message(3, "subscriptions/listen", {"notifications": {}}))
        assert (await pipe.receive())["error"]["code"] == -32603


async def test_a_stream_does_not_keep_the_connection_from_draining(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, toolsListChanged=True)
        await pipe.quiet()


async def test_both_eras_hear_of_a_change_on_one_pipe(server: Server, wire: Wire) -> None:
    async with wire(server, "2025-06-18") as pipe:
        from tests.helpers.pipe import stateless_meta

        params = {"notifications": {"toolsListChanged": True}, "_meta": stateless_meta()}
        pipe.send({"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen", "params": params})
        assert (await pipe.receive())["method"] == ACKNOWLEDGED
        server.tool(handler, name="new")
        messages = await pipe.answered()
        assert [message.get("params", {}).get("_meta") for message in messages] == [None, {SUBSCRIPTION: "s"}]


async def test_what_a_slow_reader_has_not_taken_is_not_piled_up(server: Server) -> None:
    sent: list[bytes] = []
    room = asyncio.Semaphore(0)

    async def ready() -> None:
        await room.acquire()

    connection = Connection(server, sent.append, ready=ready)
    wanted = {"notifications": {"resourceSubscriptions": [f"data://{n}" for n in range(100)]}}
    for id_ in range(10):
        params = {**wanted, "_meta": stateless_meta()}
        request = {"jsonrpc": "2.0", "id": id_, "method": "subscriptions/listen", "params": params}
        connection.receive(json.dumps(request).encode())
    sent.clear()
    for n in range(100):
        server.resource_updated(f"data://{n}")
    for n in range(4):
        assert len(sent) == 10 * n  # each permit lets one change out, to everybody
        room.release()
        await settle()
    for _ in range(96):
        room.release()
    await settle()
    assert len(sent) == 1000
    await connection.aclose()


async def test_what_changes_while_changes_are_told_is_told_too(server: Server) -> None:
    sent: list[bytes] = []
    room = asyncio.Semaphore(2)

    async def ready() -> None:
        await room.acquire()

    connection = Connection(server, sent.append, ready=ready)
    params = {"notifications": {"resourceSubscriptions": ["data://a", "data://b"]}, "_meta": stateless_meta()}
    request = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    connection.receive(json.dumps(request).encode())
    server.resource_updated("data://a")
    server.resource_updated("data://b")
    await settle()  # a is told, and b waits
    server.resource_updated("data://a")
    for _ in range(3):
        room.release()
    await settle()
    assert [json.loads(line)["params"]["uri"] for line in sent[1:]] == ["data://a", "data://b", "data://a"]
    await connection.aclose()


async def test_the_text_of_a_template_can_be_listened_to(server: Server, wire: Wire) -> None:
    def item(name: str) -> str:
        return name

    server.resource("data://items/{name}")(item)
    async with wire(server, REVISION) as pipe:
        honoured = await listen(pipe, resourceSubscriptions=["data://items/{name}"])
        assert honoured == {"resourceSubscriptions": ["data://items/{name}"]}
        server.resource_updated("data://items/1")
        server.resource_updated("data://x")
        assert [message["params"]["uri"] for message in await pipe.answered()] == ["data://items/1"]


@pytest.mark.parametrize(
    ("uris", "limit"),
    [
        ([f"data://{number}" for number in range(1001)], "at most 1,000 URIs"),
        (["data://x", "data://" + "x" * 2042], "at most 2,048 characters"),
    ],
)
async def test_a_filter_that_asks_for_too_much_is_refused(
    server: Server, wire: Wire, uris: list[str], limit: str
) -> None:
    async with wire(server, REVISION) as pipe:
        error = await pipe.error("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
        assert (error["code"], limit in error["message"]) == (-32602, True)


async def test_a_stream_that_falls_behind_is_ended_with_a_reason_and_others_go_on(server: Server) -> None:
    sent: list[bytes] = []
    room = asyncio.Event()
    connection = Connection(server, sent.append, ready=room.wait)

    def open_stream(id_: str, **wanted: Any) -> None:
        params = {"notifications": wanted, "_meta": stateless_meta()}
        request = {"jsonrpc": "2.0", "id": id_, "method": "subscriptions/listen", "params": params}
        connection.receive(json.dumps(request).encode())

    uris = [f"data://{number}" for number in range(300)]
    open_stream("slow", resourceSubscriptions=uris)
    open_stream("other", resourceSubscriptions=["data://x", uris[-1]])
    sent.clear()
    for uri in (*uris, "data://x"):
        server.resource_updated(uri)
    await settle()
    (message,) = map(json.loads, sent)
    assert message["method"] == "notifications/cancelled"
    assert message["params"]["requestId"] == "slow"
    assert "more than 256 updates wait" in message["params"]["reason"]
    open_stream("slow", toolsListChanged=True)  # its id is free again
    assert json.loads(sent[-1])["method"] == ACKNOWLEDGED
    room.set()
    await settle()
    told = [json.loads(message)["params"] for message in sent[2:]]
    assert [(params["_meta"][SUBSCRIPTION], params["uri"]) for params in told] == [
        ("other", uris[-1]),
        ("other", "data://x"),
    ]
    await connection.aclose()


async def test_what_has_ended_leaves_nothing_behind(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await listen(pipe, "s", toolsListChanged=True, resourceSubscriptions=["data://x"])
        await listen(pipe, "t", toolsListChanged=True)
        assert hearing(server) == 1
        pipe.cancel("s")
        pipe.cancel("t")
        assert hearing(server) == 0
        await listen(pipe, "u", toolsListChanged=True)
    assert hearing(server) == 0
