"""Streams end with their access token; revocation ends tokens, sessions, streams and calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Principal, Server
from mcpkit.state.revocations import MOST_HEARD, Revocations
from mcpkit.storage import Memory
from mcpkit.transports.http.protection import leases
from mcpkit.transports.http.protection.leases import Leases
from tests.helpers.clock import Clock
from tests.helpers.engines import LossyMemory, make_engine
from tests.helpers.raw_client import Answer, Client, Serve, text_of
from tests.helpers.servers.protected import ISSUER, Table, bearer, listening, old_of, session_of, status_of
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

ADA_TOKEN, PHONE_TOKEN = bearer("ada"), bearer("ada~phone")
LATER_TOKEN, EVE_TOKEN = bearer("ada/later"), bearer("eve")


ADA_ID = f"{ISSUER}#sub=ada"


REVOKED = 'error="invalid_token", error_description="The access token has been revoked"'


BEFORE, AFTER = 1000.0, 9e9


@pytest.fixture(autouse=True)
def issued(table: Table) -> None:
    table.issued = BEFORE


class SlowServer:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.running = 0
        self.released = asyncio.Event()

        @server.tool
        async def wait(ctx: Context, notify: bool = False) -> str:
            """Wait."""
            if notify:
                await ctx.report_progress(1, 2)
            self.running += 1
            try:
                await self.released.wait()
            finally:
                self.running -= 1
            return "waited"


@pytest.fixture
def make_slow(make: Callable[..., Server]) -> Callable[..., SlowServer]:
    return lambda **options: SlowServer(make(**options))


async def listen(client: Client, token: dict[str, str]) -> Answer:
    stream = client.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, headers=token)
    assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    return stream


async def test_revocation_ends_everything_in_all_processes(
    make_slow: Callable[..., SlowServer], serve: Serve, table: Table
) -> None:
    memory = Memory()
    async with AsyncExitStack() as stack:
        slow_servers = [make_slow(storage=memory) for _ in range(2)]
        apps = [await stack.enter_async_context(serve(slow.server)) for slow in slow_servers]
        session, phone, other = [
            await session_of(apps[0], token) for token in (ADA_TOKEN, PHONE_TOKEN, EVE_TOKEN)
        ]
        streams = [
            await listening(each, token)
            for each, token in ((session, ADA_TOKEN), (phone.at(apps[1]), PHONE_TOKEN))
        ]
        listeners = [await listen(app, ADA_TOKEN) for app in apps]
        remaining = [await listening(other, EVE_TOKEN), await listen(apps[1], EVE_TOKEN)]
        plain = [
            apps[0].call_tool("wait", headers=ADA_TOKEN),
            apps[1].call_tool("wait", headers=PHONE_TOKEN),
            session.call_tool("wait", headers=ADA_TOKEN),
        ]
        actual = apps[1].call_tool("wait", {"notify": True}, headers=ADA_TOKEN, meta={"progressToken": 1})
        others = apps[1].call_tool("wait", headers=EVE_TOKEN)
        await until(lambda: [slow.running for slow in slow_servers] == [2, 3])

        await slow_servers[0].server.revoke(Principal(ADA_ID))
        for each in streams:
            assert await each.messages() == []
        for each in listeners:
            assert [message["result"]["resultType"] for message in await each.messages()] == ["complete"]
        for each in plain:
            assert (await each.whole()).status == 401
            assert REVOKED in each.headers["www-authenticate"]
        assert (await actual.messages())[-1]["error"]["message"] == "The access token has been revoked"
        await until(lambda: [slow.running for slow in slow_servers] == [0, 1])

        for app in apps:
            for token in (ADA_TOKEN, PHONE_TOKEN):
                refused = await app.call_tool("whoami", headers=token).whole()
                assert refused.status == 401
                assert REVOKED in refused.headers["www-authenticate"]
        table.issued = AFTER
        for app in apps:  # a later login: of what there was before nothing is left
            assert text_of((await app.call_tool("whoami", headers=LATER_TOKEN).whole()).json()) == "ada []"
            assert await status_of(session.at(app), LATER_TOKEN) == 404
        assert await status_of(await session_of(apps[1], LATER_TOKEN), LATER_TOKEN) == 200
        slow_servers[1].released.set()
        assert text_of((await others.whole()).json()) == "waited"
        for slow, each in zip(slow_servers, remaining, strict=True):
            slow.server.catalog.tools.disable("whoami")
            assert (await each.message())["method"] == "notifications/tools/list_changed"


async def test_revocation_lasts_for_later_processes_without_names(
    make_slow: Callable[..., SlowServer], serve: Serve, table: Table, tmp_path: Path
) -> None:
    async with serve(make_slow(storage=make_engine("sqlite", tmp_path)).server) as client:
        session = await session_of(client, ADA_TOKEN)
    (tmp_path / "new").mkdir()
    for folder in (tmp_path, tmp_path / "new"):  # in the new one there is no session of hers
        await make_slow(storage=make_engine("sqlite", folder)).server.revoke(ADA_ID)
    assert not any(ADA_ID.encode() in file.read_bytes() for file in (tmp_path / "new").iterdir())
    async with serve(make_slow(storage=make_engine("sqlite", tmp_path)).server) as later:
        assert (await later.call_tool("whoami", headers=ADA_TOKEN).whole()).status == 401
        table.issued = AFTER
        assert await status_of(session.at(later), LATER_TOKEN) == 404  # it was opened before
        assert await status_of(await session_of(later, LATER_TOKEN), LATER_TOKEN) == 200


async def test_revocation_refuses_request_in_transit(
    make_slow: Callable[..., SlowServer], serve: Serve
) -> None:
    slow = make_slow()
    async with serve(slow.server) as client:
        headers = {"content-type": "application/json", **ADA_TOKEN}
        transit = client.open("POST", headers=headers, body=None)
        transit.feed(b'{"jsonrpc": "2.0", ', more=True)
        bodies = client.app.door()._begin().bodies
        await until(lambda: bodies._shares.taken > 0)
        await slow.server.revoke(ADA_ID)
        transit.feed(b'"id": 1, "method": "ping"}')
        assert (await transit.whole()).status == 401


async def test_revocation_store_failure_is_503(
    make_slow: Callable[..., SlowServer], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Memory()
    slow = make_slow(storage=shared)

    async def broken(*_: object, **__: object) -> Any:
        raise ConnectionError("the store is gone")

    async with serve(slow.server) as client:
        with monkeypatch.context() as patch:
            patch.setattr(shared, "get", broken)
            answer = await client.call_tool("whoami", headers=ADA_TOKEN).whole()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert "www-authenticate" not in answer.headers
            patch.setattr(shared, "put", broken)
            with pytest.raises(ConnectionError):
                await slow.server.revoke(ADA_ID)
        assert (await client.call_tool("whoami", headers=ADA_TOKEN).whole()).status == 200


@pytest.mark.slow
@pytest.mark.limit("revocations that a process remembers")
async def test_revocation_memory_is_bounded() -> None:
    memory = Memory()
    revocations = Revocations(memory, "s")
    for number in range(MOST_HEARD + 10):
        await revocations.revoke(str(number), 60)
    assert len(revocations._heard) == MOST_HEARD
    assert await revocations.covers(Principal("0"), 1.0)  # the store knows


async def test_revocation_is_found_after_lost_message(
    make: Callable[..., Server], serve: Serve, table: Table
) -> None:
    table.issued = 1000.0
    shared = LossyMemory()
    here, there = make(storage=shared), make(storage=shared)
    async with serve(here), serve(there) as app:
        session, other = [await session_of(app, token) for token in (ADA_TOKEN, EVE_TOKEN)]
        stream, remaining = await listening(session, ADA_TOKEN), await listening(other, EVE_TOKEN)
        shared.loses_messages = True
        await here.revoke(Principal(f"{ISSUER}#sub=ada"))
        assert (
            await app.call_tool("whoami", headers=ADA_TOKEN).whole()
        ).status == 200  # the message was lost
        shared.report_gap()
        lists = {f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")}
        assert {each["method"] for each in await stream.messages()} <= lists  # and then it has ended
        assert (await app.call_tool("whoami", headers=ADA_TOKEN).whole()).status == 401
        assert {(await remaining.message())["method"] for _ in lists} == lists
        there.catalog.tools.disable("whoami")
        assert (await remaining.message())["method"] == "notifications/tools/list_changed"


async def test_revocation_refuses_token_without_issue_time(
    make_slow: Callable[..., SlowServer], serve: Serve, table: Table
) -> None:
    clock = Clock()
    slow = make_slow(storage=Memory(clock))
    revocations = slow.server.engine.revocations
    assert revocations is not None
    revocations._clock = clock
    table.issued = None
    async with serve(slow.server) as client:
        assert (await client.call_tool("whoami", headers=ADA_TOKEN).whole()).status == 200
        await slow.server.revoke(ADA_ID, ttl=60)
        clock.now += 59
        for token in (ADA_TOKEN, LATER_TOKEN):
            assert (await client.call_tool("whoami", headers=token).whole()).status == 401
        clock.now += 2
        assert (await client.call_tool("whoami", headers=ADA_TOKEN).whole()).status == 200


@pytest.mark.parametrize(
    ("principal", "options", "error"),
    [
        (Principal(), {}, ValueError), ("", {}, ValueError), (7, {}, TypeError),
        (ADA_ID, {"ttl": 0}, ValueError), (ADA_ID, {"ttl": "long"}, TypeError),
    ],
)  # fmt: skip
async def test_revoke_checks_arguments(
    make_slow: Callable[..., SlowServer], principal: Any, options: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await make_slow().server.revoke(principal, **options)


async def test_revoke_requires_auth() -> None:
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


ADA, LATER = bearer("ada"), bearer("ada/later")


SOON = 0.3


def leases_of(client: Client) -> Leases:
    waiting = client.app.door()._begin().environment.leases
    assert waiting is not None
    return waiting


async def test_stream_ends_with_its_token(server: Server, serve: Serve, table: Table) -> None:
    async with serve(server) as client:
        session = await session_of(client, LATER)
        table.expires = time.time() + SOON
        ending = [await listening(session, ADA), await listen(client, ADA)]
        table.expires = None
        remaining = [await listening(session, LATER), await listen(client, LATER)]
        ended, result = [await each.messages() for each in ending]
        assert ended == []
        assert [each["result"]["resultType"] for each in result] == ["complete"]
        server.catalog.tools.disable("whoami")
        for each in remaining:
            assert (await each.message())["method"] == "notifications/tools/list_changed"


@pytest.fixture
def short_lived(table: Table) -> Table:
    table.fresh = 0.05
    return table


async def test_token_of_streams_is_reverified_once(server: Server, serve: Serve, short_lived: Table) -> None:
    async with serve(server) as client:
        session = await session_of(client, ADA)
        streams = [await listening(session, ADA), *[await listen(client, ADA) for _ in range(5)]]
        assert len(leases_of(client)._tokens) == 1  # and not one for each
        before = len(short_lived.asked)
        await until(lambda: len(short_lived.asked) >= before + 3)
        server.catalog.tools.disable("whoami")
        for each in streams:
            assert (await each.message())["method"] == "notifications/tools/list_changed"
        short_lived.revoked.add("ada")
        for each in streams:
            assert [message.get("id") for message in await each.messages()] in ([], [1])


@pytest.mark.limit("stream whose access token nobody can verify again")
async def test_stream_survives_verifier_outage_for_grace_period(
    server: Server,
    serve: Serve,
    short_lived: Table,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(leases, "AGAIN", 0.02)
    async with serve(server) as client:
        stream = await listening(await session_of(client, ADA), ADA)
        short_lived.is_down = True
        before = len(short_lived.asked)
        await until(lambda: len(short_lived.asked) > before + 3)
        short_lived.is_down = False
        before = len(short_lived.asked)
        await until(lambda: len(short_lived.asked) > before + 3)
        server.catalog.tools.disable("whoami")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        monkeypatch.setattr(leases, "GRACE", 0.1)
        short_lived.is_down = True
        assert await stream.messages() == []
        assert "their access token could not be verified again" in caplog.text


def let_pass(client: Client, seconds: float) -> None:
    leases_of(client)._clock = lambda: time.time() + seconds
    leases_of(client)._look()


async def test_sse_stream_lasts_for_latest_token(server: Server, serve: Serve, table: Table) -> None:
    async with serve(server) as client:
        table.expires = time.time() + 3600
        old = await old_of(client, ADA)
        table.expires += 3600
        await old.ask("ping", {}, LATER)
        table.expires -= 5400
        await old.ask("ping", {}, bearer("ada/sooner"))
        let_pass(client, 3601)
        assert "result" in await old.ask("ping", {}, LATER)
        let_pass(client, 7201)
        assert await old.stream.messages() == []
