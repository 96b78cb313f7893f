"""Sessions of the handshake era over HTTP ("Session Management", basic/transports)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Client, Serve, initialize
from tests.helpers.pipe import HANDSHAKE
from tests.helpers.session_server import PING, SESSIONS, make_server, said
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(work: Work) -> Server:
    return make_server(work)


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


@pytest.mark.slow
async def test_a_session_that_is_not_used_ends(server: Server, serve: Serve) -> None:
    async with serve(server, session_ttl=1.0) as client:
        session = await client.initialize()
        while (await session.ask("ping").whole()).status == 200:
            await asyncio.sleep(1.1)
        assert (await session.ask("ping").whole()).status == 404


async def test_too_many_sessions_are_put_off(server: Server, serve: Serve) -> None:
    async with serve(server, max_sessions=1) as client:
        session = await client.initialize()
        refused = await client.post(initialize()).whole()
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1
        await session.delete()
        await client.initialize()


# What a session remembers


async def test_the_log_level_is_of_the_session(server: Server, work: Work, serve: Serve) -> None:
    async with serve(server) as client:
        session, other = await client.initialize(), await client.initialize()
        assert (await session.ask("logging/setLevel", {"level": "error"}).whole()).json()["result"] == {}
        assert await said(session) == ["loudly"]
        assert await said(other) == ["quietly", "loudly"]
        silent = await client.call("speak").whole()
        assert silent.media_type == "application/json"


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


@pytest.mark.slow
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
