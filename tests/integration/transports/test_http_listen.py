"""`subscriptions/listen` and reports over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.pipe import hearing
from tests.helpers.process_client import SUBSCRIPTION, EventStream, Site, eventually, site

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


CANCELLED = "notifications/cancelled"


Params = dict[str, Any]


def empty_text() -> str:
    return ""


def read_item(name: str) -> str:
    return name


class RecordingWatch:
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
def watch() -> RecordingWatch:
    return RecordingWatch()


@pytest.fixture
def server(watch: RecordingWatch) -> Server:
    async def watch_item(name: str) -> AsyncIterator[None]:
        async for update in watch(name):
            yield update

    server = Server("s")
    server.tool(empty_text)
    server.resource("data://x")(empty_text)
    server.resource("data://items/{name}", watch=watch_item)(read_item)
    return server


@pytest.fixture
def web(server: Server) -> Iterator[Site]:
    with site(server, uvicorn={"http": "httptools"}) as web:
        yield web


def read_acknowledgement(stream: EventStream) -> Params:
    message = stream.message()
    assert message["method"] == ACKNOWLEDGED
    return message["params"]["notifications"]


def test_listen_sends_requested_changes_with_stream_id(web: Site) -> None:
    with (
        web.listen(7, toolsListChanged=True, resourceSubscriptions=["data://x"]) as one,
        web.listen("7", resourceSubscriptions=["data://items/{name}"]) as other,
    ):
        read_acknowledgement(one)
        read_acknowledgement(other)
        web.server.resource("data://new")(empty_text)
        web.server.notify_resource_updated("data://y")
        web.server.notify_resource_updated("data://items/1")
        web.server.notify_resource_updated("data://x")
        web.server.tool(empty_text, name="new")
        assert other.message()["params"] == {"_meta": {SUBSCRIPTION: "7"}, "uri": "data://items/1"}
        assert one.message()["params"] == {"_meta": {SUBSCRIPTION: 7}, "uri": "data://x"}
        tools = one.message()
        assert tools["method"] == "notifications/tools/list_changed"
        assert tools["params"] == {"_meta": {SUBSCRIPTION: 7}}


def test_listen_disconnect_leaves_nothing(web: Site, watch: RecordingWatch) -> None:
    with web.listen(toolsListChanged=True) as first:
        read_acknowledgement(first)
    eventually(lambda: not web.service.listeners)
    before = web.task_count()
    streams = [
        web.listen(n, toolsListChanged=True, resourceSubscriptions=["data://items/a"]) for n in range(5)
    ]
    for stream in streams:
        read_acknowledgement(stream)
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
    web.server.tool(empty_text, name="new")


@pytest.mark.slow
def test_listen_ends_slow_reader_with_reason(web: Site) -> None:
    uris = [f"data://{number}/{'x' * 190}" for number in range(300)]
    slow = web.listen("slow", buffer=4096, resourceSubscriptions=uris)
    quick = web.listen("quick", resourceSubscriptions=uris)
    assert read_acknowledgement(slow)
    assert read_acknowledgement(quick)
    rounds = 0
    while len(web.service.listeners) == 2:
        for uri in uris:
            web.server.notify_resource_updated(uri)
        assert [quick.message()["params"]["uri"] for _ in uris] == uris
        rounds += 1
        assert rounds < 1000, "the slow reader has not been ended"
    *actual, end = slow.rest()
    assert end["method"] == CANCELLED
    assert end["params"]["requestId"] == "slow"
    assert end["params"]["reason"]
    assert {message["params"]["_meta"][SUBSCRIPTION] for message in actual} == {"slow"}
    slow.close()
    web.server.notify_resource_updated(uris[0])
    assert quick.message()["params"]["uri"] == uris[0]
    quick.close()
