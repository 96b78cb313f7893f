"""Whoever is sent away is so in all processes: tokens, sessions, streams and calls; a later login is let in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from mcpkit import Context, Memory, Principal, Server
from mcpkit.middleware import CallNext, Request
from mcpkit.state.revocations import MOST_HEARD, Revocations
from mcpkit.transports import OpenQuestions
from tests.helpers.asgi_answer import Answer
from tests.helpers.asgi_client import Client, Serve
from tests.helpers.clock import Clock
from tests.helpers.engines import ENGINES, make_engine
from tests.helpers.protected import listening, old_of, session_of, status_of
from tests.helpers.stateless_server import text_of
from tests.helpers.verified import ISSUER, Table, bearer
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

ADA, PHONE, LATER, EVE = bearer("ada"), bearer("ada~phone"), bearer("ada/later"), bearer("eve")
WHO = f"{ISSUER}#sub=ada"
REVOKED = 'error="invalid_token", error_description="The access token has been revoked"'
BEFORE, AFTER = 1000.0, 9e9


@pytest.fixture(autouse=True)
def issued(table: Table) -> None:
    table.issued = BEFORE


class Place:
    """A server with a slow tool, which says when it is called, and when it is cancelled."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.running = 0
        self.released = asyncio.Event()

        @server.tool
        async def wait(ctx: Context, tell: bool = False) -> str:
            """Wait."""
            if tell:
                await ctx.progress(1, 2)
            self.running += 1
            try:
                await self.released.wait()
            finally:
                self.running -= 1
            return "waited"


@pytest.fixture
def at(make: Callable[..., Server]) -> Callable[..., Place]:
    return lambda **options: Place(make(**options))


async def listen(client: Client, token: dict[str, str]) -> Answer:
    """Open a stream of the stateless era."""
    stream = client.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, headers=token)
    assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    return stream


@pytest.mark.parametrize("engine", ENGINES)
async def test_all_that_somebody_has_ends_in_all_processes(
    at: Callable[..., Place], serve: Serve, table: Table, engine: str, tmp_path: Path
) -> None:
    memory = Memory()
    shares = [memory, memory] if engine == "memory" else [make_engine(engine, tmp_path) for _ in range(2)]
    async with AsyncExitStack() as stack:
        places = [at(shared=each) for each in shares]
        apps = [await stack.enter_async_context(serve(place.server)) for place in places]
        session, phone, other = [await session_of(apps[0], token) for token in (ADA, PHONE, EVE)]
        streams = [
            await listening(each, token) for each, token in ((session, ADA), (phone.at(apps[1]), PHONE))
        ]
        listeners = [await listen(app, ADA) for app in apps]
        kept = [await listening(other, EVE), await listen(apps[1], EVE)]
        plain = [
            apps[0].call("wait", headers=ADA),
            apps[1].call("wait", headers=PHONE),
            session.call("wait", headers=ADA),
        ]
        told = apps[1].call("wait", {"tell": True}, headers=ADA, meta={"progressToken": 1})
        others = apps[1].call("wait", headers=EVE)
        await until(lambda: [place.running for place in places] == [2, 3])

        await places[0].server.revoke(Principal(WHO))
        for each in streams:
            assert await each.messages() == []
        for each in listeners:
            assert [message["result"]["resultType"] for message in await each.messages()] == ["complete"]
        for each in plain:
            assert (await each.whole()).status == 401
            assert REVOKED in each.headers["www-authenticate"]
        assert (await told.messages())[-1]["error"]["message"] == "The access token has been revoked"
        await until(lambda: [place.running for place in places] == [0, 1])

        for app in apps:
            for token in (ADA, PHONE):
                refused = await app.call("whoami", headers=token).whole()
                assert refused.status == 401
                assert REVOKED in refused.headers["www-authenticate"]
        table.issued = AFTER
        for app in apps:  # a later login: of what there was before nothing is left
            assert text_of((await app.call("whoami", headers=LATER).whole()).json()) == "ada []"
            assert await status_of(session.at(app), LATER) == 404
        assert await status_of(await session_of(apps[1], LATER), LATER) == 200
        places[1].released.set()
        assert text_of((await others.whole()).json()) == "waited"
        for place, each in zip(places, kept, strict=True):
            place.server.tools.disable("whoami")
            assert (await each.message())["method"] == "notifications/tools/list_changed"
        await apps[0].aclose()
        await until(lambda: not apps[0].app.door()._begin().environment.tasks)


async def test_a_process_that_starts_later_knows_of_it(
    at: Callable[..., Place], serve: Serve, table: Table, tmp_path: Path
) -> None:
    async with serve(at(shared=make_engine("sqlite", tmp_path)).server) as client:
        session = await session_of(client, ADA)
    await at(shared=make_engine("sqlite", tmp_path)).server.revoke(WHO)
    async with serve(at(shared=make_engine("sqlite", tmp_path)).server) as later:
        assert (await later.call("whoami", headers=ADA).whole()).status == 401
        table.issued = AFTER
        assert await status_of(session.at(later), LATER) == 404  # it was opened before
        assert await status_of(await session_of(later, LATER), LATER) == 200


@pytest.mark.parametrize("name", ["ada@example.com", WHO])
async def test_the_store_has_no_names(at: Callable[..., Place], tmp_path: Path, name: str) -> None:
    await at(shared=make_engine("sqlite", tmp_path)).server.revoke(name)
    assert not any(name.encode() in file.read_bytes() for file in tmp_path.iterdir())


async def test_a_token_that_does_not_say_when_it_was_issued_is_refused_as_long_as_that_is_kept(
    at: Callable[..., Place], serve: Serve, table: Table
) -> None:
    clock = Clock()
    place = at(shared=Memory(clock))
    revocations = place.server.engine.revocations
    assert revocations is not None
    revocations._clock = clock
    table.issued = None
    async with serve(place.server) as client:
        assert (await client.call("whoami", headers=ADA).whole()).status == 200
        await place.server.revoke(WHO, keep=60)
        clock.now += 59
        for token in (ADA, LATER):
            assert (await client.call("whoami", headers=token).whole()).status == 401
        clock.now += 2
        assert (await client.call("whoami", headers=ADA).whole()).status == 200


async def test_a_pipe_ends_too(at: Callable[..., Place], serve: Serve) -> None:
    place = at()
    async with serve(place.server) as client:
        old, other = await old_of(client, ADA), await old_of(client, EVE)
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "wait"}}
        await old.post(call, ADA).whole()
        await until(lambda: place.running == 1)
        await place.server.revoke(WHO)
        [told] = await old.stream.messages()
        assert (told["id"], told["error"]["message"]) == (7, "The access token has been revoked")
        assert (await old.post(call, ADA).whole()).status == 401
        assert "result" in await other.ask("ping", {}, EVE)


async def test_a_call_that_goes_on_alone_ends_too(at: Callable[..., Place], serve: Serve) -> None:
    place = at()

    class Letterbox:
        """Where a call says what nobody waits for."""

        def __init__(self, request: Request) -> None:
            channel = request.ctx.call.channel
            self.principal, self.caller = channel.principal, channel.caller
            self.request_headers = channel.request_headers
            self.is_local = channel.is_local
            self.questions = OpenQuestions()

        def send(self, message: bytes) -> None: ...

        async def ready(self) -> None: ...

        async def close(self) -> None: ...

    @place.server.middleware("tools/call")
    async def send_off(request: Request, call_next: CallNext) -> Any:
        request.detach(call_next, Letterbox(request))  # type: ignore[arg-type]  # it need not know of challenges
        return {"content": []}

    async with serve(place.server) as client:
        for token in (ADA, EVE):
            assert (await client.call("wait", headers=token).whole()).status == 200
        await until(lambda: place.running == 2)
        await place.server.revoke(WHO)
        await until(lambda: place.running == 1)
        place.released.set()
        await until(lambda: place.running == 0)


async def test_a_request_whose_body_is_still_on_its_way_is_refused(
    at: Callable[..., Place], serve: Serve
) -> None:
    place = at()
    async with serve(place.server) as client:
        headers = {"content-type": "application/json", **ADA}
        slow = client.open("POST", headers=headers, body=None)
        slow.feed(b'{"jsonrpc": "2.0", ', more=True)
        bodies = client.app.door()._begin().bodies
        await until(lambda: bodies._shares.taken > 0)
        await place.server.revoke(WHO)
        slow.feed(b'"id": 1, "method": "ping"}')
        assert (await slow.whole()).status == 401


async def test_a_token_that_was_being_verified_is_refused(
    at: Callable[..., Place], serve: Serve, table: Table
) -> None:
    place = at()
    asked, go = asyncio.Event(), asyncio.Event()
    verify = table.verify

    async def slowly(token: str, audience: str) -> Any:
        asked.set()
        await go.wait()
        return await verify(token, audience)

    table.verify = slowly  # type: ignore[method-assign]
    async with serve(place.server) as client:
        answer = client.call("whoami", headers=ADA)
        await asked.wait()
        await place.server.revoke(WHO)
        go.set()
        assert (await answer.whole()).status == 401


async def test_a_token_that_was_good_when_the_store_was_asked_is_refused(
    at: Callable[..., Place], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = at()
    revocations = place.server.engine.revocations
    assert revocations is not None
    ask = revocations.covers

    @place.server.route("/own", scopes=[])
    async def own(request: Any) -> PlainTextResponse:
        return PlainTextResponse("served")

    async def late(principal: Principal, issued: float | None) -> bool:
        told = await ask(principal, issued)
        await place.server.revoke(WHO)
        return told

    async with serve(place.server) as client:
        with monkeypatch.context() as patched:
            patched.setattr(revocations, "covers", late)
            assert (await client.open("GET", "/own", headers=ADA).whole()).status == 401
        assert (await client.open("GET", "/own", headers=ADA).whole()).status == 401


async def test_while_the_store_does_not_answer_nobody_can_tell(
    at: Callable[..., Place], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Memory()
    place = at(shared=shared)

    async def broken(*_: object, **__: object) -> Any:
        raise ConnectionError("the store is gone")

    async with serve(place.server) as client:
        with monkeypatch.context() as patch:
            patch.setattr(shared, "get", broken)
            answer = await client.call("whoami", headers=ADA).whole()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert "www-authenticate" not in answer.headers
            patch.setattr(shared, "put", broken)
            with pytest.raises(ConnectionError):
                await place.server.revoke(WHO)
        assert (await client.call("whoami", headers=ADA).whole()).status == 200


async def test_it_is_told_to_the_audit(at: Callable[..., Place]) -> None:
    place, events = at(), list[Any]()
    place.server.on_audit(lambda event: events.append(event))
    await place.server.revoke(WHO)
    assert [(event.name, event.principal) for event in events] == [("revocation", WHO)]


async def test_whoever_was_sent_away_logs_in_anew_and_their_old_token_never_does(
    at: Callable[..., Place], serve: Serve, table: Table
) -> None:
    memory, events = Memory(), list[Any]()
    for number in range(2):  # the second one is a process that starts later
        server = at(shared=memory).server
        server.on_audit(lambda event: events.append((event.name, event.status, event.principal)))
        async with serve(server) as client:
            if number == 0:
                await client.ask("tools/list", headers=ADA).whole()
                await server.revoke(WHO)
            await client.ask("tools/list", headers=ADA).whole()
            table.issued = AFTER
            await client.ask("tools/list", headers=PHONE).whole()
            table.issued = BEFORE
    refused, login = ("refusal", 401, WHO), ("login", None, WHO)
    assert events == [login, ("revocation", None, WHO), refused, login, refused, login]


@pytest.mark.parametrize(
    ("principal", "options", "error"),
    [
        (Principal(), {}, ValueError),
        ("", {}, ValueError),
        (7, {}, TypeError),
        (WHO, {"keep": 0}, ValueError),
        (WHO, {"keep": "long"}, TypeError),
    ],
)
async def test_nobody_cannot_be_sent_away(
    at: Callable[..., Place], principal: Any, options: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await at().server.revoke(principal, **options)


async def test_a_server_that_verifies_no_tokens_refuses_to() -> None:
    with pytest.raises(RuntimeError, match="auth="):
        await Server("s").revoke("ada")


async def test_what_others_publish_is_heard_once_and_garbage_never(caplog: pytest.LogCaptureFixture) -> None:
    memory, heard = Memory(), list[Any]()
    here, there = Revocations(memory, "s"), Revocations(memory, "s")
    end = here.listen(heard.append)
    await there.revoke("ada", 60)
    for message in ("{", "[]", "7", '{"who": 1}', '{"who": "x", "at": "y", "until": 1}'):
        await memory.publish("s/revoked", message)
    assert [each.means(Principal("ada")) for each in heard] == [True]
    assert caplog.text.count("something else than a revocation") == 5
    await here.revoke("eve", 60)
    assert len(heard) == 2
    end()
    await there.revoke("bob", 60)
    assert len(heard) == 2


@pytest.mark.slow
@pytest.mark.limit("revocations that a process remembers")
async def test_what_a_process_remembers_has_an_end() -> None:
    memory = Memory()
    revocations = Revocations(memory, "s")
    for number in range(MOST_HEARD + 10):
        await revocations.revoke(str(number), 60)
    assert len(revocations._heard) == MOST_HEARD
    assert await revocations.covers(Principal("0"), 1.0)  # the store knows
