"""Sessions over HTTP: opening, messages, batches, cancellation and end; failures of `initialize`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcpkit import Context, HttpOptions, Limits, Server
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.storage import Memory
from tests.helpers.pipe import HANDSHAKE
from tests.helpers.raw_client import (
    PING,
    Answer,
    Client,
    Headers,
    Judge,
    Serve,
    initialize,
    log_messages,
    session_keys,
    within,
)
from tests.helpers.waiting import Work

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_version_is_negotiated(revision: str, client: Client) -> None:
    session = await client.initialize(revision)
    assert session.revision == revision
    assert await session.text("envelope") == f"{revision} test"


async def test_session_id_is_unique_visible_ascii(client: Client) -> None:
    long = {"name": "ü" * 5000, "version": "1", "title": "😀" * 500}
    ids = [(await client.initialize(clientInfo=info)).id for info in ({"name": "a", "version": "1"}, long)]
    ids.append((await client.initialize()).id)
    assert len(set(ids)) == 3
    for id_ in ids:
        assert id_ is not None
        assert len(id_) <= 1024
        assert all(0x21 <= ord(character) <= 0x7E for character in id_)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_request_without_session_id_is_bad_request(method: str, client: Client) -> None:
    await client.initialize()
    answer = await send(client, method, None)
    assert (answer.status, answer.error()["code"]) == (400, -32600)
    assert "id" not in answer.json()


@pytest.mark.parametrize("id_", ["unknown", "x" * 2000, "ü"])
@pytest.mark.parametrize("method", ["POST"])
async def test_unknown_session_id_is_not_found(method: str, id_: str, client: Client) -> None:
    answer = await send(client, method, id_)
    assert answer.status == 404
    assert "id" not in answer.json()


async def send(client: Client, method: str, id_: str | None) -> Any:
    headers = {"mcp-session-id": id_, "mcp-protocol-version": HANDSHAKE[-1]}
    if method == "POST":
        return await client.post(PING, headers).whole()
    return await client.open(method, headers=headers).whole()


async def test_deleted_session_is_not_found(client: Client) -> None:
    session, other = await client.initialize(), await client.initialize()
    deleted = await session.delete()
    assert 200 <= (deleted.status or 0) < 300
    assert deleted.body == b""
    for answer in (session.ask("ping"), session.listen()):
        assert (await answer.whole()).status == 404
    assert (await session.delete()).status == 404
    assert await other.text("envelope") == "2025-11-25 test"


async def test_delete_cancels_calls_and_ends_streams(work: Work, client: Client) -> None:
    session = await client.initialize()
    call, stream = session.call_tool("wait"), await session.listen().head()
    await work.started.wait()
    await session.delete()
    await asyncio.wait_for(work.cancelled.wait(), 10)
    await call.whole()
    await stream.whole()
    assert await stream.messages() == []


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25"])
async def test_stateless_option_opens_no_session(revision: str, server: Server, serve: Serve) -> None:
    async with serve(server, stateless=True) as client:
        session = await client.initialize(revision)
        assert session.id is None
        assert session.result["capabilities"]["tools"] == {}
        named = revision if revision >= "2025-06-18" else "2025-03-26"
        assert await session.text("envelope") == f"{named} None"
        assert await log_messages(session) == ["quiet", "loud"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_stateless_option_allows_post_only(method: str, server: Server, serve: Serve) -> None:
    async with serve(server, stateless=True) as client:
        answer = await client.open(method, headers={"mcp-protocol-version": HANDSHAKE[-1]}).whole()
        assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("negotiated", "named"),
    [("2025-11-25", None), ("2025-11-25", "2024-11-05"), ("2025-03-26", "2025-11-25")],
)
async def test_session_keeps_negotiated_version(negotiated: str, named: str | None, client: Client) -> None:
    session = await client.initialize(negotiated)
    answer = session.call_tool("envelope", headers={"mcp-protocol-version": named})
    text = (await answer.response())["result"]["content"][0]["text"]
    assert text == f"{negotiated} test"
    assert (await session.listen(headers={"mcp-protocol-version": named}).head()).status == 200


@pytest.mark.parametrize("named", ["1999-01-01", ""])
async def test_unsupported_version_header_is_bad_request(named: str, client: Client) -> None:
    session = await client.initialize()
    assert (await session.ask("ping", headers={"mcp-protocol-version": named}).whole()).status == 400


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
@pytest.mark.parametrize("revision", ["2025-11-25"])
async def test_invalid_session_message_is_bad_request(
    revision: str, message: Any, code: int, client: Client
) -> None:
    session = await client.initialize(revision)
    answer = await session.post(message).whole()
    assert (answer.status, answer.error()["code"]) == (400, code)


@pytest.mark.parametrize("revision", ["2025-11-25"])
async def test_unknown_session_method_is_error_with_status_200(
    revision: str, server: Server, client: Client
) -> None:
    session = await client.initialize(revision)
    for method in ("unknown/method", "server/discover", "subscriptions/listen"):
        answer = await session.ask(method).whole()
        assert (answer.status, answer.error()["code"]) == (200, -32601)


async def test_duplicate_request_id_is_invalid(work: Work, client: Client) -> None:
    session, other = await client.initialize(), await client.initialize()
    first = session.call_tool("wait", id="same")
    await work.started.wait()
    answer = await session.ask("ping", id="same").whole()
    assert (answer.status, answer.error()["code"]) == (400, -32600)
    assert "id" not in answer.json()
    assert (await other.ask("ping", id="same").whole()).status == 200
    session.judge.expect({"id": "same", "method": "tools/call"})
    work.gate.set()
    assert "result" in await first.response()


async def test_cancellation_by_another_post(work: Work, client: Client) -> None:
    session, other = await client.initialize(), await client.initialize()
    call = session.call_tool("wait", id=9)
    await work.started.wait()
    await other.notify("notifications/cancelled", {"requestId": 9})
    assert not work.cancelled.is_set()
    await session.notify("notifications/cancelled", {"requestId": 9})
    await asyncio.wait_for(work.cancelled.wait(), 10)
    assert await call.messages() == []


@pytest.mark.parametrize("stream_after", [0, 3600])
@pytest.mark.parametrize("revision", ["2025-11-25"])
async def test_dropped_post_does_not_cancel(
    revision: str, stream_after: float, server: Server, work: Work, serve: Serve
) -> None:
    async with serve(server, http=HttpOptions(sse_after=stream_after)) as client:
        session = await client.initialize(revision)
        call = session.call_tool("wait")
        await work.started.wait()
        call.disconnect()
        await call.whole()
        work.gate.set()
        await asyncio.wait_for(work.done.wait(), 10)
        assert not work.cancelled.is_set()


OPENING = initialize(_meta={"progressToken": "opening"}, capabilities={"elicitation": {}})


class GatedStore(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.is_written = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        await super().write(key, changes, ttl)
        self.is_written.set()
        await self.gate.wait()


@pytest.fixture
async def store() -> GatedStore:
    return GatedStore()


@pytest.fixture
def opening_server(store: GatedStore, work: Work) -> Server:
    opening_server = Server(
        "opened",
        secret_key="a secret of sixteen bytes and more",
        storage=store,
        limits=Limits(concurrent_requests=1),
    )

    @opening_server.tool
    async def wait(ctx: Context) -> str:
        await work.wait()
        return "waited"

    return opening_server


def post_initialize(client: Client, headers: Headers | None = None) -> Answer:
    return client.post(OPENING, headers, judge=Judge(client.folder, "2025-11-25"))


@pytest.mark.parametrize("has_reported", [False, True])
async def test_failed_initialize_leaves_no_session(
    opening_server: Server, serve: Serve, store: GatedStore, has_reported: bool
) -> None:
    @opening_server.middleware("initialize")
    async def fail(request: Request, call_next: CallNext) -> Result:
        if has_reported:
            await request.ctx.report_progress(1, 2)
        await call_next(request)
        raise KeyError("afterwards")

    async with serve(opening_server) as client:
        answer = post_initialize(client)
        response = await answer.response()
        assert response["error"]["message"].startswith("Internal error (ref ")
        assert answer.is_stream is has_reported
        assert "mcp-session-id" not in answer.headers
        assert session_keys(store) == []


@pytest.mark.slow
async def test_disconnect_while_session_is_stored_leaves_none(
    opening_server: Server, serve: Serve, store: GatedStore
) -> None:
    store.gate.clear()
    async with serve(opening_server) as client:
        answer = post_initialize(client)
        await within(store.is_written.wait())
        answer.disconnect()
        await answer.whole()
        assert session_keys(store) == []


async def test_stateless_option_log_level_is_per_post(server: Server, serve: Serve) -> None:
    async with serve(server, stateless=True) as client:
        session, other = await client.initialize("2025-03-26"), await client.initialize("2025-03-26")
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "log_levels"}}
        level = {"jsonrpc": "2.0", "id": 0, "method": "logging/setLevel", "params": {"level": "error"}}
        messages = await session.post([level, call]).messages()
        assert [message["params"]["data"] for message in messages if "method" in message] == ["loud"]
        for guest in (session, other):
            assert await log_messages(guest) == ["quiet", "loud"]
