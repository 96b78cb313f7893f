"""HTTP with SSE (2024-11-05)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcpkit import HttpOptions, Limits, Server
from tests.helpers.raw_client import (
    PING,
    Answer,
    Client,
    Serve,
    first_event,
    initialize,
    message_of,
    text_of,
    within,
)
from tests.helpers.waiting import Work, until

pytestmark = pytest.mark.anyio


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

    async def call(self, name: str) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}
        assert (await self.post(message).whole()).status == 202


async def connect_sse(client: Client, path: str = "/sse") -> SseClient:
    stream = client.open("GET", path, headers={"accept": "text/event-stream"})
    stream.judge.revision = "2024-11-05"
    event = await first_event(stream)
    assert event.type == "endpoint"
    assert re.fullmatch(r"/messages\?session_id=[0-9a-f]{32}", event.data or "")
    sse = SseClient(client, stream, event.data or "")
    await sse.post(initialize("2024-11-05")).whole()
    assert (await stream.message())["result"]["protocolVersion"] == "2024-11-05"
    await sse.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).whole()
    return sse


async def test_sse_responses_are_message_events(client: Client) -> None:
    sse = await connect_sse(client, "/sse/")
    assert (sse.stream.status, sse.stream.headers["x-accel-buffering"]) == (200, "no")
    assert (await sse.post(PING).whole()).status == 202
    event = await first_event(sse.stream)
    assert (event.type, event.id, event.retry) == ("message", None, None)
    assert message_of(event) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    await sse.call("envelope")
    assert text_of(await sse.stream.message()) == "2024-11-05 test"


async def test_sse_post_is_checked(server: Server, serve: Serve) -> None:
    async with serve(server, limits=Limits(max_request_body_size=1000)) as client:
        sse = await connect_sse(client)
        assert (await sse.post(PING, content_type="text/plain").whole()).status == 415
        assert (await sse.post(b" " * 1001).whole()).status == 413
        assert (await sse.post(PING, host="evil.example.com").whole()).status == 421
        assert (await sse.post(PING, origin="https://evil.example.com").whole()).status == 403
        for query in ("", "?session_id=unknown"):
            assert (await client.post(PING, path=f"/messages{query}").whole()).status == 404
        assert sse.stream.waiting() == []


async def test_sse_disconnect_ends_session(server: Server, client: Client, work: Work) -> None:
    sse = await connect_sse(client)
    await sse.call("wait")
    await work.started.wait()
    sse.stream.disconnect()
    await within(work.cancelled.wait())
    await sse.stream.whole()
    assert (await sse.post(PING).whole()).status == 404
    await until(lambda: not server.engine.runtime.running.taken)


async def test_sse_option_disables_endpoints(server: Server, serve: Serve) -> None:
    async with serve(server, http=HttpOptions(sse=False)) as client:
        assert (await client.open("GET", "/sse").whole()).status == 404
        assert (await client.post(PING, path="/messages?session_id=x").whole()).status == 404
