"""A session that was opened without an access token is the first one's who comes with one, and nobody else's ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Memory, Principal, Server
from mcpkit.auth import AuditEvent
from tests.helpers.asgi_client import Serve
from tests.helpers.asking_server import DECLARED, accept
from tests.helpers.engines import ENGINES, make_engine
from tests.helpers.protected import Lenient, listening, old_of, session_of, status_of
from tests.helpers.stateless_server import text_of
from tests.helpers.verified import bearer

pytestmark = pytest.mark.anyio

NOBODY: dict[str, str] = {}
ADA, ADA_AGAIN, EVE, OTHER_CLIENT = (
    bearer("ada"),
    bearer("ada/2", ["mail"]),
    bearer("eve"),
    bearer("ada~other"),
)
OPEN = "news://today"


class Place:
    """A server, and what its functions wait for."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.started = asyncio.Event()
        self.released = asyncio.Event()


@pytest.fixture
def open_to_all(make: Callable[..., Server]) -> Callable[..., Place]:
    """Make a server with something that is open to anybody."""

    def place(**options: object) -> Place:
        made = Place(make(**options))
        server = made.server

        @server.tool(anonymous=True)
        async def name(ctx: Context) -> str:
            """Ask who it is."""
            return (await ctx.elicit("Who?", str)).value

        @server.tool(anonymous=True)
        async def wait(ctx: Context) -> str:
            """Wait."""
            await ctx.progress(1, 2)
            made.started.set()
            await made.released.wait()
            return f"waited for {ctx.principal.subject}"

        @server.resource(OPEN, anonymous=True)
        def news() -> str:
            """What anybody may read."""
            return "news"

        return made

    return place


async def test_the_first_who_comes_with_a_token_has_it(
    open_to_all: Callable[..., Place], serve: Serve
) -> None:
    server = open_to_all().server
    events: list[AuditEvent] = []
    server.on_audit(lambda event: events.append(event))
    async with serve(server) as client:
        session = await session_of(client, NOBODY)
        assert await status_of(session, NOBODY) == 200
        assert await status_of(session, bearer("bad")) == 401
        assert await status_of(session, ADA) == 200
        for token in (NOBODY, EVE, OTHER_CLIENT):
            assert await status_of(session, token) == 404
            assert (await session.listen(headers=token).whole()).status == 404
        assert text_of((await session.call("whoami", headers=ADA_AGAIN).whole()).json()) == "ada ['mail']"
    assert [event.principal for event in events if event.name == "adoption"] == [
        "https://id.example.com#sub=ada"
    ]


@pytest.mark.parametrize("engine", ENGINES)
async def test_of_all_who_come_at_once_in_two_processes_one_has_it(
    open_to_all: Callable[..., Place], serve: Serve, engine: str, tmp_path: Path
) -> None:
    names = ["ada", "eve", "bob", "joe"]
    async with AsyncExitStack() as stack:
        memory = Memory()
        shared = [memory, memory] if engine == "memory" else [make_engine(engine, tmp_path) for _ in range(2)]
        apps = [await stack.enter_async_context(serve(open_to_all(shared=each).server)) for each in shared]
        session = await session_of(apps[0], NOBODY)
        asked = [(name, session.at(app)) for name in names for app in apps]
        found = await asyncio.gather(*(status_of(each, bearer(name)) for name, each in asked))
        statuses = {
            name: {found[number], found[number + 1]}
            for number, name in zip(range(0, 8, 2), names, strict=True)
        }
        assert sorted(map(sorted, statuses.values())) == [[200], [404], [404], [404]], statuses
        assert {await status_of(session.at(app), NOBODY) for app in apps} == {404}


async def test_streams_elsewhere_end_and_a_restart_changes_nothing(
    open_to_all: Callable[..., Place], serve: Serve, tmp_path: Path
) -> None:
    async with (
        serve(open_to_all(shared=make_engine("sqlite", tmp_path)).server) as here,
        serve(open_to_all(shared=make_engine("sqlite", tmp_path)).server) as there,
    ):
        session = await session_of(here, NOBODY)
        streams = [await listening(session, NOBODY), await listening(session.at(there), NOBODY)]
        assert await status_of(session, ADA) == 200
        for stream in streams:
            assert await stream.messages() == []
        assert await status_of(session.at(there), ADA) == 200
    async with serve(open_to_all(shared=make_engine("sqlite", tmp_path)).server) as later:
        for token, status in ((EVE, 404), (NOBODY, 404), (ADA_AGAIN, 200)):
            assert await status_of(session.at(later), token) == status


async def test_what_was_begun_before_is_answered_where_it_was_asked(
    open_to_all: Callable[..., Place], serve: Serve
) -> None:
    place = open_to_all()
    async with serve(place.server) as client:
        session = await session_of(client, NOBODY)
        call = session.call("wait", headers=NOBODY)
        primed = await call.event()
        await place.started.wait()
        assert await status_of(session, ADA) == 200
        # What it says is for who has begun it: whoever has the session now cannot come back for it, nor can others.
        assert primed is not None
        for token, status in ((ADA, 400), (NOBODY, 404)):
            assert (await session.listen(primed.id, headers=token).whole()).status == status
        place.released.set()
        assert text_of(await call.response()) == "waited for None"


async def test_what_was_asked_before_is_asked_no_more(
    open_to_all: Callable[..., Place], serve: Serve
) -> None:
    async with serve(open_to_all().server) as client:
        session = await session_of(client, NOBODY, capabilities={"elicitation": {"form": {}}})
        call = session.call("name", headers=NOBODY)
        question = await call.message()
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": accept("Ada")}
        assert (await session.post(answer, ADA).whole()).status == 400
        withdrawn, response = await call.messages()
        assert withdrawn["method"] == "notifications/cancelled"
        assert response["result"]["isError"]


async def test_what_it_listens_to_goes_over(open_to_all: Callable[..., Place], serve: Serve) -> None:
    server = open_to_all().server

    @server.resource("diary://today")
    def diary() -> str:
        """What takes a token."""
        return "diary"

    async with serve(server) as client:
        session = await session_of(client, NOBODY)
        asked = await session.ask("resources/subscribe", {"uri": OPEN}, headers=NOBODY).whole()
        assert asked.status == 200
        before = await listening(session, NOBODY)
        # Of what it hears now nothing is for nobody any more.
        assert (
            await session.ask("resources/subscribe", {"uri": "diary://today"}, headers=ADA).whole()
        ).status == 200
        stream = await listening(session, ADA)
        server.resource_updated("diary://today")
        server.resource_updated(OPEN)
        assert [(await stream.message())["params"]["uri"] for _ in range(2)] == ["diary://today", OPEN]
        assert await before.messages() == []


async def test_what_was_asked_of_nobody_is_answered_by_nobody(
    open_to_all: Callable[..., Place], serve: Serve
) -> None:
    """In the stateless era: who logs in between two rounds makes the request again."""
    params = {"name": "name", "arguments": {}}
    async with serve(open_to_all().server) as client:

        async def round_(token: dict[str, str], **more: Any) -> Any:
            answer = client.ask("tools/call", {**params, **more}, headers=token, meta=DECLARED)
            answer.judge = Lenient(client)
            return (await answer.whole()).json()

        for mine, others in ((NOBODY, ADA), (ADA, NOBODY)):
            state = (await round_(mine))["result"]["requestState"]
            brought = {"inputResponses": {"#1": accept("Ada")}, "requestState": state}
            assert "it belongs to another request" in (await round_(others, **brought))["error"]["message"]
            assert text_of(await round_(mine, **brought)) == "Ada"


async def test_a_session_that_is_somebodys_is_never_nobodys(
    open_to_all: Callable[..., Place], serve: Serve
) -> None:
    async with serve(open_to_all().server) as client:
        session = await session_of(client, ADA)
        assert await status_of(session, NOBODY) == 404
        assert await status_of(session, EVE) == 404
        assert await status_of(session, ADA) == 200


async def test_a_pipe_of_nobodys_stays_nobodys(open_to_all: Callable[..., Place], serve: Serve) -> None:
    async with serve(open_to_all().server) as client:
        old = await old_of(client, NOBODY)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await old.post(ping, ADA).whole()).status == 404
        assert "result" in await old.ask("ping", {}, NOBODY)


async def test_where_no_tokens_are_taken_nothing_is_adopted(serve: Serve) -> None:
    def find(scope: object) -> Principal | None:
        assert isinstance(scope, dict)
        return Principal("ada") if (b"authorization", b"Bearer ada") in scope["headers"] else None

    async with serve(Server("s"), principal=find, public_url=None) as client:
        session = await session_of(client, NOBODY)
        assert await status_of(session, ADA) == 404
        assert await status_of(session, NOBODY) == 200
