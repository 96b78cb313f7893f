"""Streamable HTTP of 2026-07-28: every POST stands alone (basic/transports/streamable-http)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Serve
from tests.helpers.pipe import META, stateless_meta
from tests.helpers.stateless_server import REVISION, standard_headers, text_of
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


async def test_a_request_is_answered_with_one_json_object(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.call("echo", {"text": "hi"}).whole()
        assert (answer.status, answer.media_type) == (200, "application/json")
        assert text_of(answer.json()) == "hi"


async def test_a_request_knows_nothing_of_the_one_before(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        named = {META + "clientInfo": {"name": "other", "version": "1"}}
        assert text_of(await client.call("envelope", meta=named).response()) == f"stateless {REVISION} other"
        assert text_of(await client.call("envelope").response()) == f"stateless {REVISION} wire"
        without = stateless_meta()
        del without[META + "clientInfo"]
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        message["params"] = {"name": "envelope", "_meta": without}
        answer = client.post(message, standard_headers("tools/call", "envelope"))
        assert text_of(await answer.response()) == f"stateless {REVISION} None"


async def test_a_session_id_and_a_last_event_id_are_ignored(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for id_ in ("none-of-ours", (await client.initialize()).id):
            headers = {"mcp-session-id": id_, "last-event-id": "7"}
            answer = await client.call("envelope", headers=headers).whole()
            assert text_of(answer.json()).startswith("stateless")
            assert "mcp-session-id" not in answer.headers


async def test_posts_with_the_same_id_run_side_by_side(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        first, second = client.call("wait", id="same"), client.call("echo", {"text": "2"}, id="same")
        assert text_of(await second.response()) == "2"
        third = client.call("wait", id="same")
        await work.started.wait()
        first.disconnect()
        await work.cancelled.wait()
        work.gate.set()
        assert text_of(await third.response()) == "waited"


async def test_a_slash_at_the_end_is_no_redirect(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": stateless_meta()}}
        answer = client.post(message, standard_headers("tools/list"), path="/mcp/")
        assert "tools" in (await answer.response())["result"]


# Notifications


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "notifications/unknown"},
        {"jsonrpc": "2.0", "method": "notifications/unknown", "params": {"_meta": stateless_meta()}},
        {"jsonrpc": "2.0", "method": "tools/list"},
    ],
)
async def test_a_notification_is_accepted_without_a_body(
    message: dict[str, Any], server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.post(message, {"mcp-protocol-version": REVISION}).whole()
        assert (answer.status, answer.body) == (202, b"")
        assert "content-type" not in answer.headers


async def test_a_posted_cancellation_cancels_nothing(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        waiting = client.call("wait", id=5)
        await work.started.wait()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        assert (await client.post(cancel, standard_headers("notifications/cancelled")).whole()).status == 202
        work.gate.set()
        assert text_of(await waiting.response()) == "waited"


# GET and DELETE


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE"])
async def test_only_posts_are_of_this_revision(method: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for path in ("/mcp", "/mcp/"):
            answer = await client.open(method, path, headers={"mcp-protocol-version": REVISION}).whole()
            assert answer.status == 405
            assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_revision_that_is_unknown_is_a_bad_request_whatever_the_method(
    method: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.open(method, headers={"mcp-protocol-version": "v999.0.0"}).whole()
        assert (answer.status, answer.error()["code"]) == (400, -32022)
