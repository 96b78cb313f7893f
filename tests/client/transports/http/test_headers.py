"""The headers of the specification, as they leave."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.protocol.client import Outgoing
from tests.helpers.heard import Heard
from tests.helpers.scripted_http import Asked, Reply, scripted

pytestmark = pytest.mark.anyio

STATELESS = "2026-07-28"


async def done(asked: Asked, reply: Reply) -> None:
    if asked.body and "id" in asked.message:
        await reply.result({}, {"Mcp-Session-Id": "not-asked-for"})
    else:
        await reply.send(202)


async def sent(heard: Heard, *messages: Outgoing) -> list[Asked]:
    """Return the requests that messages have become."""
    async with scripted(done) as server:
        transport = HttpTransport(server.url)
        await transport.open(heard)
        for message in messages:
            await transport.send(message)
        await transport.close()
        return server.asked


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", STATELESS])
async def test_every_post_says_what_it_has_and_takes(revision: str) -> None:
    heard = Heard(revision)
    for asked in await sent(
        heard, heard.wire.request("tools/list"), heard.wire.notification("notifications/x")
    ):
        assert asked.headers["content-type"] == "application/json"
        assert asked.headers["accept"] == "application/json, text/event-stream"
        assert asked.headers["mcp-protocol-version"] == revision


async def test_initialize_names_no_revision_in_its_headers() -> None:
    heard = Heard("2025-11-25")
    [asked] = [each for each in await sent(heard, heard.wire.request("initialize")) if each.method == "POST"]
    assert "mcp-protocol-version" not in asked.headers


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/list", {}, None),
        ("tools/call", {"name": "a-tool"}, "a-tool"),
        ("prompts/get", {"name": "a prompt"}, "a prompt"),
        ("resources/read", {"uri": "file:///a%20b.txt"}, "file:///a%20b.txt"),
        ("tools/call", {"name": "værktøj"}, "=?base64?dsOmcmt0w7hq?="),
        ("tools/call", {"name": "a\r\nX-Other: 1"}, "=?base64?YQ0KWC1PdGhlcjogMQ==?="),
        ("tools/call", {"name": ""}, ""),
        ("tools/call", {"name": 5}, None),
        ("completion/complete", {"name": "x", "uri": "y"}, None),
    ],
)
async def test_stateless_requests_say_method_and_name(
    method: str, params: dict[str, Any], name: str | None
) -> None:
    heard = Heard(STATELESS)
    [asked] = await sent(heard, heard.wire.request(method, params))
    assert asked.headers["mcp-method"] == method
    assert asked.headers.get("mcp-name") == name
    assert "x-other" not in asked.headers


async def test_revisions_before_say_neither() -> None:
    heard = Heard("2025-11-25")
    [asked] = await sent(heard, heard.wire.request("tools/call", {"name": "x"}))
    assert {"mcp-method", "mcp-name"}.isdisjoint(asked.headers)


async def test_arguments_that_are_repeated_are_sent_as_headers() -> None:
    heard = Heard(STATELESS)
    texts = {"mcp-param-a": "north", "mcp-param-b": "", "mcp-param-c": " ø\n", "mcp-param-d": "42"}
    [asked] = await sent(heard, heard.wire.request("tools/call", {"name": "x"}, headers=texts))
    told = {name: value for name, value in asked.headers.items() if name.startswith("mcp-param-")}
    assert told == texts | {"mcp-param-c": "=?base64?IMO4Cg==?="}


async def test_the_stateless_era_knows_no_session_and_no_notification_of_cancelled_calls() -> None:
    heard = Heard(STATELESS)
    request = heard.wire.request("tools/list")
    asked = await sent(
        heard,
        request,
        heard.wire.request("tools/list"),
        heard.wire.notification("notifications/cancelled", {"requestId": request.id}),
    )
    assert [(each.method, each.rpc) for each in asked] == [("POST", "tools/list")] * 2
    assert all("mcp-session-id" not in each.headers for each in asked)
