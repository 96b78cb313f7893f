"""Streams end with their access token; revocation ends tokens, sessions, streams and calls."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Context, Principal, Server
from mcpkit.identity.audit_and_revocation import MAX_CACHED_REVOCATIONS, Revocations
from mcpkit.storage import Memory
from mcpkit.transports.http import protected_resource
from mcpkit.transports.http.protected_resource import StreamExpiry
from tests.helpers.engines import LossyMemory, make_engine
from tests.helpers.raw_client import Answer, Client, Serve, text_of
from tests.helpers.servers.protected import ISSUER, Table, bearer, listening, old_of, session_of, status_of
from tests.helpers.waiting import Clock, until

ADA, PHONE, LATER, EVE = bearer("ada"), bearer("ada~phone"), bearer("ada/later"), bearer("eve")
ADA_ID = f"{ISSUER}#sub=ada"
REVOKED = 'error="invalid_token", error_description="The access token has been revoked"'
BEFORE, AFTER = 1000.0, 9e9
LIST_CHANGED = "notifications/tools/list_changed"


@pytest.fixture(autouse=True)
def issued(table: Table) -> None:
    table.issued = BEFORE


class SlowServer:
    """Server with a tool that waits."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.running = 0
        self.released = asyncio.Event()

        @server.tool
        async def wait(ctx: Context, notify: bool = False) -> str:
            if notify:
                await ctx.report_progress(1, 2)
            self.running += 1
            try:
                await self.released.wait()
            finally:
                self.running -= 1
            return "waited"


async def listen(client: Client, token: dict[str, str]) -> Answer:
    stream = client.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, headers=token)
    assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    return stream


async def whoami(client: Client, token: dict[str, str]) -> Answer:
    return await client.call_tool("whoami", headers=token).whole()


async def expect_list_change(server: Server, *streams: Answer) -> None:
    server.catalog.tools.disable("whoami")
    for stream in streams:
        assert (await stream.message())["method"] == LIST_CHANGED


async def test_revocation_ends_everything_in_all_processes(make, serve, table) -> None:
    memory = Memory()
    one, two = (SlowServer(make(storage=memory)) for _ in range(2))
    async with serve(one.server) as here, serve(two.server) as there:
        session, phone, other = [await session_of(here, token) for token in (ADA, PHONE, EVE)]
        streams = [await listening(session, ADA), await listening(phone.at(there), PHONE)]
        listeners = [await listen(here, ADA), await listen(there, ADA)]
        remaining = [await listening(other, EVE), await listen(there, EVE)]
        plain = [
            here.call_tool("wait", headers=ADA),
            there.call_tool("wait", headers=PHONE),
            session.call_tool("wait", headers=ADA),
        ]
        streamed = there.call_tool("wait", {"notify": True}, headers=ADA, meta={"progressToken": 1})
        others = there.call_tool("wait", headers=EVE)
        await until(lambda: (one.running, two.running) == (2, 3))

        await one.server.revoke(Principal(ADA_ID))
        for each in streams:
            assert await each.messages() == []
        for each in listeners:
            assert [message["result"]["resultType"] for message in await each.messages()] == ["complete"]
        for each in plain:
            assert (await each.whole()).status == 401
            assert REVOKED in each.headers["www-authenticate"]
        assert (await streamed.messages())[-1]["error"]["message"] == "The access token has been revoked"
        await until(lambda: (one.running, two.running) == (0, 1))
        for app in (here, there):
            for token in (ADA, PHONE):
                refused = await whoami(app, token)
                assert (refused.status, REVOKED in refused.headers["www-authenticate"]) == (401, True)

        table.issued = AFTER
        for app in (here, there):  # a later login does not bring the session back
            assert text_of((await whoami(app, LATER)).json()) == "ada []"
            assert await status_of(session.at(app), LATER) == 404
        assert await status_of(await session_of(there, LATER), LATER) == 200
        two.released.set()
        assert text_of((await others.whole()).json()) == "waited"
        await expect_list_change(one.server, remaining[0])
        await expect_list_change(two.server, remaining[1])


async def test_revocation_lasts_for_later_processes_without_names(make, serve, table, tmp_path) -> None:
    async with serve(make(storage=make_engine("sqlite", tmp_path))) as client:
        session = await session_of(client, ADA)
    (tmp_path / "new").mkdir()
    for folder in (tmp_path, tmp_path / "new"):  # the new one has no session of hers
        await make(storage=make_engine("sqlite", folder)).revoke(ADA_ID)
    assert not any(ADA_ID.encode() in file.read_bytes() for file in (tmp_path / "new").iterdir())
    async with serve(make(storage=make_engine("sqlite", tmp_path))) as later:
        assert (await whoami(later, ADA)).status == 401
        table.issued = AFTER
        assert await status_of(session.at(later), LATER) == 404  # it was opened before
        assert await status_of(await session_of(later, LATER), LATER) == 200


async def test_revocation_refuses_request_in_transit(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        headers = {"content-type": "application/json", **ADA}
        transit = client.open("POST", headers=headers, body=None)
        transit.feed(b'{"jsonrpc": "2.0", ', more=True)
        bodies = client.app.router()._service().bodies
        await until(lambda: bodies._shares.taken > 0)
        await server.revoke(ADA_ID)
        transit.feed(b'"id": 1, "method": "ping"}')
        assert (await transit.whole()).status == 401


async def test_revocation_store_failure_is_503(make, serve, monkeypatch) -> None:
    shared = Memory()
    server = make(storage=shared)

    async def broken(*_: object, **__: object) -> Any:
        raise ConnectionError("the store is gone")

    async with serve(server) as client:
        with monkeypatch.context() as patch:
            patch.setattr(shared, "get", broken)
            answer = await whoami(client, ADA)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert "www-authenticate" not in answer.headers
            patch.setattr(shared, "put", broken)
            with pytest.raises(ConnectionError):
                await server.revoke(ADA_ID)
        assert (await whoami(client, ADA)).status == 200


@pytest.mark.slow
@pytest.mark.limit("revocations that a process remembers")
async def test_revocation_memory_is_bounded() -> None:
    revocations = Revocations(Memory(), "s")
    for number in range(MAX_CACHED_REVOCATIONS + 10):
        await revocations.revoke(str(number), 60)
    assert len(revocations._cache) == MAX_CACHED_REVOCATIONS
    assert await revocations.covers(Principal("0"), 1.0), "the store has it"


async def test_revocation_is_found_after_lost_message(make: Callable[..., Server], serve: Serve) -> None:
    shared = LossyMemory()
    here, there = make(storage=shared), make(storage=shared)
    async with serve(here), serve(there) as app:
        stream = await listening(await session_of(app, ADA), ADA)
        remaining = await listening(await session_of(app, EVE), EVE)
        shared.loses_messages = True
        await here.revoke(Principal(ADA_ID))
        assert (await whoami(app, ADA)).status == 200, "the message was lost"
        shared.report_gap()
        lists = {f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")}
        assert {each["method"] for each in await stream.messages()} <= lists, "and then it has ended"
        assert (await whoami(app, ADA)).status == 401
        assert {(await remaining.message())["method"] for _ in lists} == lists
        await expect_list_change(there, remaining)


async def test_revocation_refuses_token_without_issue_time(make, serve, table) -> None:
    clock = Clock()
    server = make(storage=Memory(clock))
    assert server.engine.revocations is not None
    server.engine.revocations._clock = clock
    table.issued = None
    async with serve(server) as client:
        assert (await whoami(client, ADA)).status == 200
        await server.revoke(ADA_ID, ttl=60)
        clock.now += 59
        assert [(await whoami(client, token)).status for token in (ADA, LATER)] == [401, 401]
        clock.now += 2
        assert (await whoami(client, ADA)).status == 200


async def test_revoke_checks_arguments_and_requires_auth(server: Server) -> None:
    cases: list[tuple[Any, dict[str, Any], type[Exception]]] = [
        (Principal(), {}, ValueError), ("", {}, ValueError), (7, {}, TypeError),
        (ADA_ID, {"ttl": 0}, ValueError), (ADA_ID, {"ttl": "long"}, TypeError),
    ]  # fmt: skip
    for principal, options, error in cases:
        with pytest.raises(error):
            await server.revoke(principal, **options)
    with pytest.raises(RuntimeError, match="auth="):
        await Server("s").revoke("ada")


async def test_revocation_messages_are_validated(caplog: pytest.LogCaptureFixture) -> None:
    memory, received = Memory(), list[Any]()
    here, there = Revocations(memory, "s"), Revocations(memory, "s")
    end = here.listen(received.append)
    await there.revoke("ada", 60)
    for message in ("{", "[]", "7", '{"who": 1}', '{"who": "x", "at": "y", "until": 1}'):
        await memory.publish("s/revoked", message)
    assert [each.means(Principal("ada")) for each in received] == [True]
    assert caplog.text.count("that is not a revocation") == 5
    await here.revoke("eve", 60)
    assert len(received) == 2
    end()
    await there.revoke("bob", 60)
    assert len(received) == 2


def expiry_of(client: Client) -> StreamExpiry:
    found = client.app.router()._service().loop_state.stream_expiry
    assert found is not None
    return found


async def test_stream_ends_with_its_token(server: Server, serve: Serve, table: Table) -> None:
    async with serve(server) as client:
        session = await session_of(client, LATER)
        table.expires = time.time() + 0.3
        ending = [await listening(session, ADA), await listen(client, ADA)]
        table.expires = None
        remaining = [await listening(session, LATER), await listen(client, LATER)]
        ended, result = [await each.messages() for each in ending]
        assert ended == []
        assert [each["result"]["resultType"] for each in result] == ["complete"]
        await expect_list_change(server, *remaining)


async def test_token_of_streams_is_reverified_once(server: Server, serve: Serve, table: Table) -> None:
    table.fresh = 0.05
    async with serve(server) as client:
        session = await session_of(client, ADA)
        streams = [await listening(session, ADA), *[await listen(client, ADA) for _ in range(5)]]
        assert len(expiry_of(client)._tokens) == 1, "not one for each stream"
        before = len(table.asked)
        await until(lambda: len(table.asked) >= before + 3)
        await expect_list_change(server, *streams)
        table.revoked.add("ada")
        for each in streams:
            assert [message.get("id") for message in await each.messages()] in ([], [1])


@pytest.mark.limit("stream with an access token that can no longer be verified")
async def test_stream_survives_verifier_outage_for_grace_period(server, serve, table, monkeypatch, caplog):
    monkeypatch.setattr(protected_resource, "RETRY_INTERVAL", 0.02)
    table.fresh = 0.05
    async with serve(server) as client:
        stream = await listening(await session_of(client, ADA), ADA)
        for is_down in (True, False):
            table.is_down = is_down
            before = len(table.asked)
            await until(lambda before=before: len(table.asked) > before + 3)
        await expect_list_change(server, stream)
        monkeypatch.setattr(protected_resource, "GRACE", 0.1)
        table.is_down = True
        assert await stream.messages() == []
        assert "their access token could not be verified again" in caplog.text


async def test_sse_stream_lasts_for_latest_token(server, serve, table, monkeypatch) -> None:
    async with serve(server) as client:
        waiting = expiry_of(client)
        now = time.time()
        table.expires = now + 3600
        old = await old_of(client, ADA)
        for token, expires in ((LATER, now + 7200), (bearer("ada/sooner"), now + 1800)):
            table.expires = expires
            await old.ask("ping", {}, token)
        monkeypatch.setattr(time, "time", lambda: now + 3601)
        for watched in tuple(waiting._tokens.values()):
            waiting._check(watched)
        monkeypatch.undo()
        assert "result" in await old.ask("ping", {}, LATER)
        monkeypatch.setattr(time, "time", lambda: now + 7201)
        for watched in tuple(waiting._tokens.values()):
            waiting._check(watched)
        monkeypatch.undo()
        assert await old.stream.messages() == []
