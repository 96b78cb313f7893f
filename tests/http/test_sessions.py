"""Sessions of the handshake era over HTTP ("Session Management", "Sending Messages", basic/transports)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asgi_client import Client, Serve, Session, initialize
from mcpkit import Context, Server
from wire.pipe import HANDSHAKE

pytestmark = pytest.mark.anyio

SESSIONS = [revision for revision in HANDSHAKE if revision != "2024-11-05"]
SECRET = "a secret of sixteen bytes and more"


class Work:
    """What the tools below tell the test, and wait for."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.done = asyncio.Event()


@pytest.fixture
def work() -> Work:
    return Work()


def make_server(work: Work, name: str = "weather", secret: str = SECRET) -> Server:
    server = Server(name, version="1", secret=secret)

    @server.tool
    async def envelope(ctx: Context) -> str:
        return f"{ctx.era} {ctx.revision} {ctx.client.name}"

    @server.tool
    async def wait() -> str:
        work.started.set()
        try:
            await work.gate.wait()
        except asyncio.CancelledError:
            work.cancelled.set()
            raise
        work.done.set()
        return "waited"

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.log("info", "quietly")
        await ctx.log("error", "loudly")
        return "spoken"

    @server.resource("weather://fixed")
    async def fixed() -> str:
        return "fixed"

    return server


@pytest.fixture
def server(work: Work) -> Server:
    return make_server(work)


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


# Opening


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_each_revision_is_negotiated(revision: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize(revision)
        assert session.revision == revision
        assert await session.text("envelope") == f"handshake {revision} test"
        tools = (await session.ask("tools/list").whole()).json()["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["envelope", "wait", "speak"]


@pytest.mark.parametrize("wanted", ["2099-01-01", "", "2026-07-28"])
async def test_another_revision_is_answered_with_the_newest(
    wanted: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        assert (await client.initialize(wanted)).revision == HANDSHAKE[-1]


async def test_an_id_is_visible_ascii_and_no_other_has_it(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        long = {"name": "ü" * 5000, "version": "1", "title": "😀" * 500}
        ids = [
            (await client.initialize(clientInfo=info)).id for info in ({"name": "a", "version": "1"}, long)
        ]
        ids.append((await client.initialize()).id)
        assert len(set(ids)) == 3
        for id_ in ids:
            assert id_ is not None
            assert len(id_) <= 1024
            assert all(0x21 <= ord(character) <= 0x7E for character in id_)


@pytest.mark.parametrize(
    ("params", "code"),
    [({"protocolVersion": 7}, -32602), ({"capabilities": []}, -32602), ({"clientInfo": {}}, -32602)],
)
async def test_a_malformed_initialize_opens_nothing(
    params: dict[str, Any], code: int, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.post(initialize(**params)).whole()
        assert answer.error()["code"] == code
        assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("change", [{"jsonrpc": "1.0"}, {"jsonrpc": None}, {"id": None}, {"id": 1.5}])
async def test_an_initialize_that_is_no_request_opens_nothing(
    change: dict[str, Any], server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.post(initialize() | change).whole()
        assert (answer.status, answer.error()["code"]) == (400, -32600)
        assert "mcp-session-id" not in answer.headers


async def test_initialize_inside_a_session_opens_another(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize("2025-06-18")
        answer = await session.post(initialize("2025-11-25")).whole()
        assert answer.headers["mcp-session-id"] != session.id
        assert await session.text("envelope") == "handshake 2025-06-18 test"


# Which session


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_without_an_id_it_is_a_bad_request(method: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        await client.initialize()
        answer = await any_request(client, method, None)
        assert (answer.status, answer.error()["code"]) == (400, -32600)
        assert "id" not in answer.json()


@pytest.mark.parametrize("id_", ["unknown", "x" * 2000, "ü", "a, b", "."])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_an_id_that_is_none_is_not_found(method: str, id_: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await any_request(client, method, id_)
        assert answer.status == 404
        assert "id" not in answer.json()


async def any_request(client: Client, method: str, id_: str | None) -> Any:
    headers = {"mcp-session-id": id_, "mcp-protocol-version": HANDSHAKE[-1]}
    if method == "POST":
        return await client.post(PING, headers).whole()
    return await client.open(method, headers=headers).whole()


@pytest.mark.parametrize("other", [{"name": "another"}, {"secret": "another secret of sixteen bytes"}])
async def test_a_session_of_another_server_is_not_found(
    other: dict[str, str], server: Server, work: Work, serve: Serve
) -> None:
    async with serve(server) as here, serve(make_server(work, **other)) as there:
        session = (await here.initialize()).at(there)
        assert (await session.ask("ping").whole()).status == 404


async def test_a_session_outlives_its_process(server: Server, work: Work, serve: Serve) -> None:
    async with serve(server) as before:
        session = await before.initialize("2025-06-18")
    async with serve(make_server(work)) as after:
        assert await session.at(after).text("envelope") == "handshake 2025-06-18 test"


async def test_a_deleted_session_is_not_found(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session, other = await client.initialize(), await client.initialize()
        deleted = await session.delete()
        assert 200 <= (deleted.status or 0) < 300
        assert deleted.body == b""
        for answer in (session.ask("ping"), session.listen()):
            assert (await answer.whole()).status == 404
        assert (await session.delete()).status == 404
        assert await other.text("envelope") == "handshake 2025-11-25 test"


async def test_deleting_cancels_what_runs_and_ends_the_streams(
    server: Server, work: Work, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        call, stream = session.call("wait"), await session.listen().head()
        await work.started.wait()
        await session.delete()
        await asyncio.wait_for(work.cancelled.wait(), 10)
        await call.whole()
        await stream.whole()
        assert await stream.messages() == []


async def test_a_session_that_is_not_used_ends(server: Server, serve: Serve) -> None:
    async with serve(server, session_ttl=0.01) as client:
        session = await client.initialize()
        while (await session.ask("ping").whole()).status == 200:
            await asyncio.sleep(0.02)
        assert (await session.ask("ping").whole()).status == 404


async def test_too_many_sessions_are_put_off(server: Server, serve: Serve) -> None:
    async with serve(server, max_sessions=1) as client:
        session = await client.initialize()
        refused = await client.post(initialize()).whole()
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1
        await session.delete()
        await client.initialize()


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
async def test_notifications_and_responses_are_accepted_without_a_body(
    revision: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await client.initialize(revision)
        for message in (
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "unknown"}},
            {"jsonrpc": "2.0", "id": 77, "result": {}},
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
    ],
)
@pytest.mark.parametrize("revision", SESSIONS)
async def test_what_is_no_message_is_a_bad_request(
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


@pytest.mark.parametrize(
    "batch",
    [
        [{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}] * 2,
        [{"jsonrpc": "2.0", "id": 7, "result": {}}] * 2,
    ],
)
async def test_a_batch_without_requests_is_accepted(batch: Any, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize("2025-03-26")
        answer = await session.post(batch).whole()
        assert (answer.status, answer.body) == (202, b"")


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


# What a session remembers


async def test_the_log_level_is_of_the_session(server: Server, work: Work, serve: Serve) -> None:
    async with serve(server) as client:
        session, other = await client.initialize(), await client.initialize()
        assert (await session.ask("logging/setLevel", {"level": "error"}).whole()).json()["result"] == {}
        assert await said(session) == ["loudly"]
        assert await said(other) == ["quietly", "loudly"]
        silent = await client.call("speak").whole()
        assert silent.media_type == "application/json"


async def said(session: Session) -> list[str]:
    *messages, response = await session.call("speak").messages()
    assert "result" in response
    return [message["params"]["data"] for message in messages]


async def test_subscriptions_are_of_the_session(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session, other = await client.initialize(), await client.initialize()
        mine, theirs = await session.listen().head(), await other.listen().head()
        await session.ask("resources/subscribe", {"uri": "weather://fixed"}).whole()
        server.resource_updated("weather://fixed")
        assert (await mine.message())["params"]["uri"] == "weather://fixed"
        await session.ask("resources/unsubscribe", {"uri": "weather://fixed"}).whole()
        server.resource_updated("weather://fixed")
        server.tools.remove("wait")  # whatever comes before this has come
        assert (await mine.message())["method"] == "notifications/tools/list_changed"
        assert (await theirs.message())["method"] == "notifications/tools/list_changed"


async def test_a_stateless_request_with_its_id_leaves_a_session_alone(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        answer = client.call("envelope", headers={"mcp-session-id": session.id})
        assert (await answer.response())["result"]["content"][0]["text"] == "stateless 2026-07-28 wire"
        assert await session.text("envelope") == "handshake 2025-11-25 test"


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


# Without sessions


@pytest.mark.parametrize("revision", SESSIONS)
async def test_a_server_may_have_no_sessions(revision: str, server: Server, serve: Serve) -> None:
    async with serve(server, stateless=True) as client:
        session = await client.initialize(revision)
        assert session.id is None
        assert session.result["capabilities"]["tools"] == {}
        named = revision if revision >= "2025-06-18" else "2025-03-26"
        assert await session.text("envelope") == f"handshake {named} None"
        assert await said(session) == ["quietly", "loudly"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_without_sessions_there_is_neither_get_nor_delete(
    method: str, server: Server, serve: Serve
) -> None:
    async with serve(server, stateless=True) as client:
        answer = await client.open(method, headers={"mcp-protocol-version": HANDSHAKE[-1]}).whole()
        assert (answer.status, answer.headers["allow"]) == (405, "POST")


async def test_without_sessions_nothing_can_be_subscribed_to(server: Server, serve: Serve) -> None:
    async with serve(server, stateless=True) as client:
        session = await client.initialize()
        answer = await session.ask("resources/subscribe", {"uri": "weather://fixed"}).whole()
        assert answer.error()["code"] == -32601


async def test_without_sessions_a_log_level_holds_for_one_post(server: Server, serve: Serve) -> None:
    async with serve(server, stateless=True) as client:
        session, other = await client.initialize("2025-03-26"), await client.initialize("2025-03-26")
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "speak"}}
        level = {"jsonrpc": "2.0", "id": 0, "method": "logging/setLevel", "params": {"level": "error"}}
        messages = await session.post([level, call]).messages()
        assert [message["params"]["data"] for message in messages if "method" in message] == ["loudly"]
        for guest in (session, other):
            assert await said(guest) == ["quietly", "loudly"]


async def test_without_sessions_a_dropped_post_cancels(server: Server, work: Work, serve: Serve) -> None:
    """Nobody could come back for it."""
    async with serve(server, stateless=True) as client:
        session = await client.initialize()
        call = session.call("wait")
        await work.started.wait()
        call.disconnect()
        await asyncio.wait_for(work.cancelled.wait(), 10)
