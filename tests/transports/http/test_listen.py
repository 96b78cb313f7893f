"""`subscriptions/listen` over HTTP (basic/patterns/subscriptions, 2026-07-28)."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from mcpkit import Server
from tests.helpers.event_streams import (
    ACCEPT,
    SUBSCRIPTION,
    EventStream,
    Site,
    eventually,
    site,
    stateless_meta,
)
from tests.helpers.listening import hearing
from tests.helpers.serving import Served, from_text

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CANCELLED = "notifications/cancelled"
UPDATED = "notifications/resources/updated"

Params = dict[str, Any]


def handler() -> str:
    return ""


def item(name: str) -> str:
    return name


class Watch:
    """A watch that says whether it runs, and yields when it is told to."""

    def __init__(self) -> None:
        self.running: list[str] = []

    async def __call__(self, name: str) -> AsyncIterator[None]:
        self.running.append(name)
        try:
            yield
            await asyncio.Event().wait()
        finally:
            self.running.remove(name)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def server(watch: Watch) -> Server:
    async def watch_item(name: str) -> AsyncIterator[None]:
        async for update in watch(name):
            yield update

    server = Server("s")
    server.tool(handler)
    server.resource("data://x")(handler)
    server.resource("data://items/{name}", watch=watch_item)(item)
    return server


@pytest.fixture(params=["h11", "httptools"])
def web(server: Server, request: pytest.FixtureRequest) -> Iterator[Site]:
    with site(server, uvicorn={"http": request.param}) as web:
        yield web


def acknowledged(stream: EventStream) -> Params:
    """Read the first message and return the filter that is honoured."""
    message = stream.message()
    assert message["method"] == ACKNOWLEDGED
    return message["params"]["notifications"]


def test_the_acknowledgement_comes_first_and_names_what_is_honoured(web: Site) -> None:
    with web.listen(
        "s", toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=["data://x"]
    ) as stream:
        assert stream.response.status == 200
        assert stream.response.headers["content-type"] == "text/event-stream"
        assert stream.response.headers["x-accel-buffering"] == "no"
        message = stream.message()
        assert message["method"] == ACKNOWLEDGED
        assert message["params"] == {
            "_meta": {SUBSCRIPTION: "s"},
            "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["data://x"]},
        }


def test_only_what_was_asked_for_is_told_under_the_id_of_the_stream(web: Site) -> None:
    with (
        web.listen(7, toolsListChanged=True, resourceSubscriptions=["data://x"]) as one,
        web.listen("7", resourceSubscriptions=["data://items/{name}"]) as other,
    ):
        acknowledged(one)
        acknowledged(other)
        web.server.resource("data://new")(handler)
        web.server.resource_updated("data://y")
        web.server.resource_updated("data://items/1")
        web.server.resource_updated("data://x")
        web.server.tool(handler, name="new")
        assert other.message()["params"] == {"_meta": {SUBSCRIPTION: "7"}, "uri": "data://items/1"}
        assert one.message()["params"] == {"_meta": {SUBSCRIPTION: 7}, "uri": "data://x"}
        tools = one.message()
        assert tools["method"] == "notifications/tools/list_changed"
        assert tools["params"] == {"_meta": {SUBSCRIPTION: 7}}


def test_changes_from_threads_reach_every_stream_coalesced(web: Site) -> None:
    streams = [web.listen(n, toolsListChanged=True, resourceSubscriptions=["data://x"]) for n in range(20)]
    for stream in streams:
        acknowledged(stream)

    def change(number: int) -> None:
        for _ in range(50):
            web.server.resource_updated("data://x")
        web.server.tool(handler, name=f"t{number}")

    def change_all() -> None:  # in the server's loop, so that they all come in one turn of it
        threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    web.in_loop(change_all)
    web.in_loop(web.service.close)
    for stream in streams:
        *told, _ = stream.rest()
        assert sorted(message["method"] for message in told) == [UPDATED, "notifications/tools/list_changed"]
        stream.close()


def test_a_burst_of_more_changes_than_may_wait_reaches_who_reads(web: Site) -> None:
    uris = [f"data://{number}" for number in range(1000)]
    with web.listen(resourceSubscriptions=uris) as stream:
        acknowledged(stream)
        for uri in uris:
            web.server.resource_updated(uri)
        assert [stream.message()["params"]["uri"] for _ in uris] == uris


def test_a_client_that_hangs_up_leaves_nothing_behind(web: Site, watch: Watch) -> None:
    with web.listen(toolsListChanged=True) as first:
        acknowledged(first)
    eventually(lambda: not web.service.listeners)
    before = web.task_count()
    streams = [
        web.listen(n, toolsListChanged=True, resourceSubscriptions=["data://items/a"]) for n in range(5)
    ]
    for stream in streams:
        acknowledged(stream)
    assert (
        streams[0].message()["params"]["uri"] == "data://items/a"
    )  # from the watch, which runs once for all
    assert len(web.service.listeners) == 5
    assert watch.running == ["a"]
    for stream in streams[1:]:
        stream.close()
    eventually(lambda: len(web.service.listeners) == 1)
    assert watch.running == ["a"]
    streams[0].close()
    eventually(lambda: not web.service.listeners)
    eventually(lambda: web.task_count() == before)
    assert watch.running == []
    assert hearing(web.server) == 0
    web.server.tool(handler, name="new")


def test_the_streams_end_with_their_results_when_the_server_ends(web: Site, watch: Watch) -> None:
    streams = [web.listen(n, toolsListChanged=True) for n in range(3)]
    watching = web.listen("w", resourceSubscriptions=["data://items/a"])
    for stream in (*streams, watching):
        acknowledged(stream)
    watching.message()
    web.in_loop(lambda: [web.server.tool(handler, name="last"), web.service.close()])
    for number, stream in enumerate(streams):
        *news, end = stream.rest()
        assert [message["method"] for message in news] in ([], ["notifications/tools/list_changed"])
        assert end["id"] == number
        assert end["result"]["resultType"] == "complete"
        assert end["result"]["_meta"][SUBSCRIPTION] == number
        stream.close()
    assert watching.rest()[-1]["id"] == "w"
    watching.close()
    eventually(lambda: not watch.running)
    assert hearing(web.server) == 0


PROGRAM = """
from mcpkit import Server
server = Server("s")
@server.tool
def tool() -> str:
    return ""
app = server.asgi(grace=3)
"""


@pytest.mark.slow
def test_sigterm_ends_the_streams_with_their_results_and_then_the_process() -> None:
    with Served(from_text(PROGRAM)) as server:
        web = Site(Server("unused"), None, server.origin + "/mcp")
        with web.listen(1, toolsListChanged=True) as stream:
            acknowledged(stream)
            server.signal(signal.SIGTERM)
            (end,) = stream.rest()
            assert end["id"] == 1
        assert server.wait(4) in {0, -signal.SIGTERM, 128 + signal.SIGTERM}


@pytest.mark.slow
def test_a_slow_reader_is_ended_with_a_reason_and_others_hear_all(web: Site) -> None:
    uris = [f"data://{number}/{'x' * 190}" for number in range(300)]
    slow = web.listen("slow", buffer=4096, resourceSubscriptions=uris)
    quick = web.listen("quick", resourceSubscriptions=uris)
    assert acknowledged(slow)
    assert acknowledged(quick)
    rounds = 0
    while len(web.service.listeners) == 2:
        for uri in uris:
            web.server.resource_updated(uri)
        assert [quick.message()["params"]["uri"] for _ in uris] == uris
        rounds += 1
        assert rounds < 1000, "the slow reader has not been ended"
    *told, end = slow.rest()
    assert end["method"] == CANCELLED
    assert end["params"]["requestId"] == "slow"
    assert end["params"]["reason"]
    assert {message["params"]["_meta"][SUBSCRIPTION] for message in told} == {"slow"}
    slow.close()
    web.server.resource_updated(uris[0])
    assert quick.message()["params"]["uri"] == uris[0]
    quick.close()


def test_a_silent_stream_is_kept_alive_with_comments(server: Server) -> None:
    with site(server, keep_alive=0.02) as web, web.listen(toolsListChanged=True) as stream:
        acknowledged(stream)
        timer = threading.Timer(0.3, server.tool, (handler,), {"name": "new"})
        timer.start()
        assert stream.message()["method"] == "notifications/tools/list_changed"
        assert stream.comments >= 2
        timer.join()


def test_the_number_of_streams_is_capped(server: Server) -> None:
    with site(server, max_streams=2) as web:
        with web.listen(1) as one, web.listen(2) as other:
            acknowledged(one)
            acknowledged(other)
            refused = web.listen(3)
            assert refused.response.status == 503
            assert int(refused.response.headers["retry-after"]) >= 1
            assert json.loads(refused.response.read())["error"]["code"] == -32603
            refused.close()
        eventually(lambda: not web.service.listeners)
        with web.listen(3) as another:
            acknowledged(another)


@pytest.mark.parametrize(
    ("params", "accept", "status"),
    [
        ({}, "*/*", 400),
        ({"notifications": []}, "*/*", 400),
        ({"notifications": {"toolsListChanged": "yes"}}, "*/*", 400),
        ({"notifications": {"resourceSubscriptions": ["x" * 2049]}}, "*/*", 200),
        ({"notifications": {}}, "application/json", 400),
    ],
)
def test_what_cannot_be_listened_to_is_refused_and_leaves_nothing(
    web: Site, params: Params, accept: str, status: int
) -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "subscriptions/listen",
        "params": {"_meta": stateless_meta(), **params},
    }
    headers = {
        "Accept": accept,
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "subscriptions/listen",
    }
    answer = httpx2.post(web.url, json=message, headers=ACCEPT | headers)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == -32602
    assert not web.service.listeners
    assert hearing(web.server) == 0


def test_a_session_keeps_its_watch_until_it_is_deleted(web: Site, watch: Watch) -> None:
    client = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    with httpx2.Client(headers=ACCEPT) as http:

        def post(method: str, id_: int | None = 1, **params: Any) -> httpx2.Response:
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            return http.post(web.url, json=message if id_ is None else message | {"id": id_})

        opened = post("initialize", **client)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        http.headers.update(session)
        post("notifications/initialized", None)
        assert post("resources/subscribe", uri="data://items/a").json()["result"] == {}
        for _ in range(2):  # the client drops the stream, and comes back
            with EventStream(web.url, "GET", None, session) as stream:
                web.server.resource_updated("data://items/a")
                assert stream.message()["params"] == {"uri": "data://items/a"}
            assert watch.running == ["a"]
        http.delete(web.url)
        eventually(lambda: not watch.running)
        assert hearing(web.server) == 0
