"""Messages of a session over HTTP ("Sending Messages", "Protocol Version Header", basic/transports)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Serve
from tests.helpers.pipe import HANDSHAKE
from tests.helpers.session_server import PING, SESSIONS, make_server
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(work: Work) -> Server:
    return make_server(work)


# The version header


@pytest.mark.parametrize("negotiated", SESSIONS)
@pytest.mark.parametrize("named", [None, *HANDSHAKE])
async def test_a_session_is_served_by_what_it_negotiated(
    negotiated: str, named: str | None, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await client.initialize(negotiated)
        answer = session.call("envelope", headers={"mcp-protocol-version": named})
        text = (await answer.response())["result"]["content"][0]["text"]
        assert text == f"handshake {negotiated} test"
        assert (await session.listen(headers={"mcp-protocol-version": named}).head()).status == 200


@pytest.mark.parametrize("named", ["1999-01-01", "nonsense", ""])
async def test_an_unsupported_version_is_a_bad_request(named: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        assert (await session.ask("ping", headers={"mcp-protocol-version": named}).whole()).status == 400


# Messages


@pytest.mark.parametrize("revision", SESSIONS)
async def test_notifications_are_accepted_without_a_body(revision: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize(revision)
        for message in (
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "unknown"}},
            {"jsonrpc": "2.0", "method": "notifications/unknown"},
        ):
            answer = await session.post(message).whole()
            assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"{", -32700),
        (7, -32600),
        ({}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 77, "result": {}}, -32600),
        ({"jsonrpc": "2.0", "id": "77", "error": {"code": -1, "message": "no"}}, -32600),
    ],
)
@pytest.mark.parametrize("revision", SESSIONS)
async def test_what_is_no_message_or_answers_nothing_is_a_bad_request(
    revision: str, message: Any, code: int, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await client.initialize(revision)
        answer = await session.post(message).whole()
        assert (answer.status, answer.error()["code"]) == (400, code)


@pytest.mark.parametrize("revision", SESSIONS)
async def test_an_unknown_method_is_an_error_and_no_status(
    revision: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await client.initialize(revision)
        for method in ("unknown/method", "server/discover", "subscriptions/listen"):
            answer = await session.ask(method).whole()
            assert (answer.status, answer.error()["code"]) == (200, -32601)


async def test_a_batch_is_answered_with_a_batch(server: Server, work: Work, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize("2025-03-26")
        call = {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "envelope"}}
        batch = [PING, {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}, call]
        answer = await session.post(batch).whole()
        assert answer.status == 200
        assert {each["id"] for each in answer.json()} == {1, "b"}


async def test_a_batch_without_requests_is_accepted(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize("2025-03-26")
        batch = [{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}] * 2
        answer = await session.post(batch).whole()
        assert (answer.status, answer.body) == (202, b"")


async def test_an_answer_to_nothing_is_refused_in_a_batch_too(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize("2025-03-26")
        answer = await session.post([{"jsonrpc": "2.0", "id": 7, "result": {}}, PING]).whole()
        assert answer.status == 200
        assert sorted(each.get("error", {}).get("code", 0) for each in answer.json()) == [-32600, 0]


async def test_a_batch_on_a_stream_ends_when_all_is_answered(
    server: Server, work: Work, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await client.initialize("2025-03-26")
        calls = [
            {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": {"name": name}}
            for name in ("speak", "wait")
        ]
        answer = session.post(calls)
        assert (await answer.message())["params"]["data"] == "quietly"
        await work.started.wait()
        work.gate.set()
        *_, last = await answer.messages()
        responses = last if isinstance(last, list) else [last]
        assert {each["id"] for each in responses} == {"speak", "wait"}


@pytest.mark.parametrize("revision", [revision for revision in HANDSHAKE if revision != "2025-03-26"])
async def test_other_revisions_have_no_batches(revision: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize(revision)
        answer = await session.post([PING]).whole()
        assert (answer.status, answer.error()["code"]) == (400, -32600)


async def test_an_empty_batch_is_invalid(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize("2025-03-26")
        assert (await session.post([]).whole()).status == 400


async def test_a_request_with_the_id_of_one_that_runs_is_invalid(
    server: Server, work: Work, serve: Serve
) -> None:
    async with serve(server) as client:
        session, other = await client.initialize(), await client.initialize()
        first = session.call("wait", id="same")
        await work.started.wait()
        answer = await session.ask("ping", id="same").whole()
        assert (answer.status, answer.error()["code"]) == (400, -32600)
        assert "id" not in answer.json()
        assert (await other.ask("ping", id="same").whole()).status == 200
        session.judge.expect({"id": "same", "method": "tools/call"})
        work.gate.set()
        assert "result" in await first.response()


# Cancellation


async def test_a_cancellation_comes_by_another_post(server: Server, work: Work, serve: Serve) -> None:
    async with serve(server) as client:
        session, other = await client.initialize(), await client.initialize()
        call = session.call("wait", id=9)
        await work.started.wait()
        await other.notify("notifications/cancelled", {"requestId": 9})
        assert not work.cancelled.is_set()
        await session.notify("notifications/cancelled", {"requestId": 9})
        await asyncio.wait_for(work.cancelled.wait(), 10)
        assert await call.messages() == []


@pytest.mark.parametrize("stream_after", [0, 3600])
@pytest.mark.parametrize("revision", SESSIONS)
async def test_a_dropped_post_does_not_cancel(
    revision: str, stream_after: float, server: Server, work: Work, serve: Serve
) -> None:
    async with serve(server, stream_after=stream_after) as client:
        session = await client.initialize(revision)
        call = session.call("wait")
        await work.started.wait()
        call.disconnect()
        await call.whole()
        work.gate.set()
        await asyncio.wait_for(work.done.wait(), 10)
        assert not work.cancelled.is_set()


# Accept


async def test_json_alone_never_streams(server: Server, work: Work, serve: Serve) -> None:
    async with serve(server, stream_after=0) as client:
        session = await client.initialize()
        answer = await session.call("speak", headers={"accept": "application/json"}).whole()
        assert answer.media_type == "application/json"
        assert answer.json()["result"]["content"][0]["text"] == "spoken"


@pytest.mark.parametrize(("accept", "status"), [("application/json", 406), (None, 200), ("*/*", 200)])
async def test_a_get_takes_an_event_stream(
    accept: str | None, status: int, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        assert (await session.listen(headers={"accept": accept}).head()).status == status
