"""HTTP with SSE (2024-11-05)."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from mcpkit import Context, HttpOptions, Limits, Server
from tests.helpers.raw_client import Answer, Client, Serve, initialize, text_of, within
from tests.helpers.waiting import Work

pytestmark = pytest.mark.anyio

REVISION = "2024-11-05"


@pytest.fixture
def sse_server(work: Work) -> Server:
    sse_server = Server("old", version="1")

    @sse_server.tool
    async def envelope(ctx: Context) -> str:
        return f"{ctx.protocol_version} {ctx.client.name}"

    @sse_server.tool
    async def wait(ctx: Context) -> str:
        await ctx.report_progress(1)
        await work.wait()
        return "waited"

    @sse_server.resource("old://fixed")
    async def fixed() -> str:
        return "fixed"

    return sse_server


class SseClient:
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


async def connect_sse(client: Client, revision: str = REVISION) -> SseClient:
    stream = client.open("GET", "/sse", headers={"accept": "text/event-stream"})
    stream.judge.revision = revision
    event = await stream.event()
    assert event is not None
    sse = SseClient(client, stream, event.data or "")
    await sse.send(initialize(revision))
    assert (await stream.message())["result"]["protocolVersion"] == revision
    await sse.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return sse


@pytest.mark.parametrize("path", ["/sse/"])
async def test_sse_first_event_names_endpoint(path: str, sse_server: Server, serve: Serve) -> None:
    async with serve(sse_server) as client:
        stream = client.open("GET", path)
        event = await stream.event()
        assert event is not None
        assert event.type == "endpoint"
        assert re.fullmatch(r"/messages\?session_id=[0-9a-f]{32}", event.data or "")
        assert (stream.status, stream.media_type) == (200, "text/event-stream")
        assert stream.headers["x-accel-buffering"] == "no"


async def test_sse_responses_are_message_events(sse_server: Server, serve: Serve) -> None:
    async with serve(sse_server) as client:
        sse = await connect_sse(client)
        accepted = await sse.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).whole()
        assert accepted.status == 202
        event = await sse.stream.event()
        assert event is not None
        assert (event.type, event.id, event.retry) == ("message", None, None)
        assert json.loads(event.data or "") == {"jsonrpc": "2.0", "id": 1, "result": {}}
        await sse.call("envelope")
        assert text_of(await sse.stream.message()) == f"{REVISION} test"


@pytest.mark.parametrize("query", ["", "?session_id=unknown"])
async def test_sse_unknown_session_is_not_found(query: str, sse_server: Server, serve: Serve) -> None:
    async with serve(sse_server) as client:
        await connect_sse(client)
        answer = await client.post(
            {"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=f"/messages{query}"
        ).whole()
        assert answer.status == 404


async def test_sse_post_is_checked(sse_server: Server, serve: Serve) -> None:
    async with serve(sse_server, limits=Limits(max_request_body_size=1000)) as client:
        sse = await connect_sse(client)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await sse.post(ping, content_type="text/plain").whole()).status == 415
        assert (await sse.post(b" " * 1001).whole()).status == 413
        assert (await sse.post(ping, host="evil.example.com").whole()).status == 421
        assert (await sse.post(ping, origin="https://evil.example.com").whole()).status == 403
        assert sse.stream.waiting() == []


async def test_sse_disconnect_ends_session(sse_server: Server, serve: Serve, work: Work) -> None:
    async with serve(sse_server) as client:
        sse = await connect_sse(client)
        await sse.call("wait")
        await work.started.wait()
        sse.stream.disconnect()
        await within(work.cancelled.wait())
        await sse.stream.whole()
        assert (await sse.post({"jsonrpc": "2.0", "id": 2, "method": "ping"}).whole()).status == 404
        while sse_server.engine.runtime.running.taken:
            await asyncio.sleep(0)


async def test_sse_option_disables_endpoints(sse_server: Server, serve: Serve) -> None:
    async with serve(sse_server, http=HttpOptions(sse=False)) as client:
        assert (await client.open("GET", "/sse").whole()).status == 404
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await client.post(ping, path="/messages?session_id=x").whole()).status == 404
