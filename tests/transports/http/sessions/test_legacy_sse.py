"""The transport of 2024-11-05 ("HTTP with SSE"): one event stream for each session, and POSTs beside it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from mcpkit import Context, Server
from tests.helpers.asgi_answer import Answer, within
from tests.helpers.asgi_client import Client, Serve, initialize
from tests.helpers.pipe import settle
from tests.helpers.stateless_server import text_of
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio

REVISION = "2024-11-05"


@pytest.fixture
def server(work: Work) -> Server:
    server = Server("old", version="1")

    @server.tool
    async def envelope(ctx: Context) -> str:
        return f"{ctx.era} {ctx.revision} {ctx.client.name}"

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.progress(1)
        await work.wait()
        return "waited"

    @server.resource("old://fixed")
    async def fixed() -> str:
        return "fixed"

    return server


class Old:
    """A client of the old transport: its stream, and where it posts."""

    def __init__(self, client: Client, stream: Answer, endpoint: str) -> None:
        self.client = client
        self.stream = stream
        self.endpoint = endpoint

    def post(self, message: Any, **headers: str | None) -> Answer:
        pairs = {name.replace("_", "-"): value for name, value in headers.items()}
        judge = self.stream.judge
        judge.expect(message)
        return self.client.post(message, pairs, path=self.endpoint, judge=judge)

    async def send(self, message: Any) -> None:
        assert (await self.post(message).whole()).status == 202

    async def call(self, name: str, id_: int = 1) -> None:
        params = {"name": name, "_meta": {"progressToken": id_}}
        await self.send({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})


async def connect(client: Client, revision: str = REVISION) -> Old:
    """Open a stream and its session."""
    stream = client.open("GET", "/sse", headers={"accept": "text/event-stream"})
    stream.judge.revision = revision
    event = await stream.event()
    assert event is not None
    old = Old(client, stream, event.data or "")
    await old.send(initialize(revision))
    assert (await stream.message())["result"]["protocolVersion"] == revision
    await old.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return old


@pytest.mark.parametrize("path", ["/sse", "/sse/"])
async def test_the_first_event_says_where_to_post(path: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        stream = client.open("GET", path)
        event = await stream.event()
        assert event is not None
        assert event.type == "endpoint"
        assert re.fullmatch(r"/messages\?session_id=[0-9a-f]{32}", event.data or "")
        assert (stream.status, stream.media_type) == (200, "text/event-stream")
        assert stream.headers["x-accel-buffering"] == "no"


@pytest.mark.parametrize(
    ("root", "path"),
    [("/x", "/x/sse"), ("/x/", "/x/sse"), ("/a/b", "/a/b/sse"), ("/proxy", "/sse"), ("/ü", "/ü/sse")],
)
async def test_the_endpoint_is_below_the_mount_point(
    root: str, path: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        stream = client.open("GET", path, root_path=root, raw_path=None)
        event = await stream.event()
        assert event is not None
        prefix = {"/ü": "/%C3%BC"}.get(root, root.rstrip("/"))
        assert (event.data or "").startswith(f"{prefix}/messages?session_id=")


async def test_answers_come_on_the_stream_as_messages(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        old = await connect(client)
        accepted = await old.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).whole()
        assert accepted.status == 202
        event = await old.stream.event()
        assert event is not None
        assert (event.type, event.id, event.retry) == ("message", None, None)
        assert json.loads(event.data or "") == {"jsonrpc": "2.0", "id": 1, "result": {}}
        await old.call("envelope")
        assert text_of(await old.stream.message()) == f"handshake {REVISION} test"


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_later_revisions_are_spoken_too(revision: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        old = await connect(client, revision)
        await old.call("envelope")
        assert text_of(await old.stream.message()) == f"handshake {revision} test"


async def test_what_a_call_says_first_comes_first(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        old = await connect(client)
        await old.call("wait")
        assert (await old.stream.message())["method"] == "notifications/progress"
        await old.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert (await old.stream.message())["id"] == 2
        work.gate.set()
        assert text_of(await old.stream.message()) == "waited"


async def test_sessions_hear_nothing_of_each_other(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        first, second = await connect(client), await connect(client)
        assert first.endpoint != second.endpoint
        await first.call("envelope", 7)
        assert (await first.stream.message())["id"] == 7
        await settle()
        assert second.stream.waiting() == []


async def test_changes_come_on_the_stream(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        old = await connect(client)
        await old.send(
            {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "old://fixed"}}
        )
        assert (await old.stream.message())["result"] == {}
        server.resource_updated("old://fixed")
        assert (await old.stream.message())["params"] == {"uri": "old://fixed"}
        server.tools.remove("wait")
        assert (await old.stream.message())["method"] == "notifications/tools/list_changed"


async def test_a_cancellation_comes_by_another_post(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        old = await connect(client)
        await old.call("wait", 4)
        await work.started.wait()
        await old.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}})
        await within(work.cancelled.wait())


async def test_what_is_no_message_is_answered_on_the_stream(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        old = await connect(client)
        await old.send(b"{")
        assert (await old.stream.message())["error"]["code"] == -32700
        await old.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
        assert (await old.stream.message())["error"]["code"] == -32600


@pytest.mark.parametrize("query", ["", "?session_id=", "?session_id=unknown", "?other=1", "?session_id=%00"])
async def test_an_unknown_session_is_not_found(query: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        await connect(client)
        answer = await client.post(
            {"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=f"/messages{query}"
        ).whole()
        assert answer.status == 404


async def test_messages_are_as_everywhere(server: Server, serve: Serve) -> None:
    async with serve(server, max_body=1000) as client:
        old = await connect(client)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await old.post(ping, content_type="text/plain").whole()).status == 415
        assert (await old.post(b" " * 1001).whole()).status == 413
        assert (await old.post(ping, host="evil.example.com").whole()).status == 421
        assert (await old.post(ping, origin="https://evil.example.com").whole()).status == 403
        assert old.stream.waiting() == []


async def test_each_endpoint_has_its_method(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for method, path, allowed in (("POST", "/sse", "GET"), ("GET", "/messages", "POST")):
            answer = await client.open(method, path).whole()
            assert (answer.status, answer.headers["allow"]) == (405, allowed)


async def test_a_client_that_goes_cancels_what_runs_and_ends_its_session(
    server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server) as client:
        old = await connect(client)
        await old.call("wait")
        await work.started.wait()
        old.stream.disconnect()
        await within(work.cancelled.wait())
        await old.stream.whole()
        assert (await old.post({"jsonrpc": "2.0", "id": 2, "method": "ping"}).whole()).status == 404
        while server.engine.runtime.running.taken:
            await asyncio.sleep(0)


async def test_a_session_that_has_ended_makes_room(server: Server, serve: Serve) -> None:
    async with serve(server, max_streams=1) as client:
        old = await connect(client)
        refused = await client.open("GET", "/sse").whole()
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1
        old.stream.disconnect()
        await old.stream.whole()
        await connect(client)


async def test_silence_is_filled_with_comments(server: Server, serve: Serve) -> None:
    async with serve(server, keep_alive=0.001) as client:
        old = await connect(client)
        await old.stream.comment()
        await old.stream.comment()


async def test_it_can_be_turned_off(server: Server, serve: Serve) -> None:
    async with serve(server, sse=False) as client:
        assert (await client.open("GET", "/sse").whole()).status == 404
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await client.post(ping, path="/messages?session_id=x").whole()).status == 404


async def test_it_stands_beside_the_endpoint_of_the_other_revisions(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        old, session = await connect(client), await client.initialize()
        assert await session.text("envelope") == "handshake 2025-11-25 test"
        await old.call("envelope")
        assert text_of(await old.stream.message()) == f"handshake {REVISION} test"
        assert text_of(await client.call("envelope").response()) == "stateless 2026-07-28 wire"
