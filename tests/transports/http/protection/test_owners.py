"""Owners of sessions, states and streams; anonymous clients; caches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Access, Context, Server
from mcpkit.auth import AuditEvent
from mcpkit.storage import Memory
from tests.helpers.engines import make_engine
from tests.helpers.raw_client import DECLARED, Judge, Serve, accept, text_of
from tests.helpers.servers.protected import bearer, listening, session_of, status_of

pytestmark = pytest.mark.anyio

ADA = bearer("ada")


REFRESHED, WIDER, OTHER_CLIENT, EVE = (
    bearer("ada/2"),
    bearer("ada/3", ["notes:write"]),
    bearer("ada~other"),
    bearer("eve"),
)


@pytest.fixture
def asking_server(make: Callable[..., Server]) -> Server:
    asking_server = make()

    @asking_server.tool
    async def name(ctx: Context) -> str:
        """Ask who it is."""
        return (await ctx.elicit("Who?", str)).value

    return asking_server


async def test_session_belongs_to_principal_and_client(asking_server: Server, serve: Serve) -> None:
    async with serve(asking_server) as client:
        session = await session_of(client, ADA)
        for token in (ADA, REFRESHED, WIDER):
            assert await status_of(session, token) == 200
        for token in (EVE, OTHER_CLIENT):
            assert await status_of(session, token) == 404
            assert (await session.listen(headers=token).whole()).status == 404
            ended = client.open("DELETE", headers=session.headers(token))
            assert (await ended.whole()).status == 404
        assert await status_of(session, ADA) == 200
        called = await session.call_tool("add", headers=WIDER).whole()
        assert text_of(called.json()) == "added"


async def test_request_state_belongs_to_principal_and_client(asking_server: Server, serve: Serve) -> None:
    params = {"name": "name", "arguments": {}}
    async with serve(asking_server) as client:

        async def round_(token: dict[str, str], **more: object) -> dict[str, object]:
            answer = client.ask("tools/call", {**params, **more}, headers=token, meta=DECLARED)
            answer.judge = Judge(client.folder, "2026-07-28")
            answer.judge.expect({"id": 1, "method": "tools/call"})
            return (await answer.whole()).json()

        result = (await round_(ADA))["result"]
        assert isinstance(result, dict)
        brought = {"inputResponses": {"#1": accept("Ada")}, "requestState": result["requestState"]}
        for token in (EVE, OTHER_CLIENT):
            error = (await round_(token, **brought))["error"]
            assert isinstance(error, dict)
            assert "it belongs to another request" in error["message"]
        for token in (REFRESHED, WIDER):
            assert text_of(await round_(token, **brought)) == "Ada"


ANONYMOUS: dict[str, str] = {}


@pytest.fixture
def make_open(make: Callable[..., Server]) -> Callable[..., Server]:
    """Factory of servers with a tool that needs no token."""

    def make_server(**options: Any) -> Server:
        server = make(**options)
        server.tool(lambda: "open", name="open", access=Access(allow_anonymous=True))
        return server

    return make_server


async def test_anonymous_session_is_adopted_by_first_token(
    make_open: Callable[..., Server], serve: Serve
) -> None:
    server = make_open()
    events: list[AuditEvent] = []
    server.on_audit(lambda event: events.append(event))
    async with serve(server) as client:
        session = await session_of(client, ANONYMOUS)
        assert await status_of(session, ANONYMOUS) == 200
        assert await status_of(session, bearer("bad")) == 401
        assert await status_of(session, ADA) == 200
        for token in (ANONYMOUS, EVE, OTHER_CLIENT):
            assert await status_of(session, token) == 404
            assert (await session.listen(headers=token).whole()).status == 404
        assert (
            text_of((await session.call_tool("whoami", headers=bearer("ada/2", ["mail"])).whole()).json())
            == "ada ['mail']"
        )
    assert [event.principal for event in events if event.name == "adoption"] == [
        "https://id.example.com#sub=ada"
    ]


async def test_concurrent_adoption_has_one_owner(make_open: Callable[..., Server], serve: Serve) -> None:
    names = ["ada", "eve", "bob", "joe"]
    async with AsyncExitStack() as stack:
        memory = Memory()
        apps = [await stack.enter_async_context(serve(make_open(storage=memory))) for _ in range(2)]
        session = await session_of(apps[0], ANONYMOUS)
        pending = [(name, session.at(app)) for name in names for app in apps]
        found = await asyncio.gather(*(status_of(each, bearer(name)) for name, each in pending))
        statuses = {
            name: {found[number], found[number + 1]}
            for number, name in zip(range(0, 8, 2), names, strict=True)
        }
        assert sorted(map(sorted, statuses.values())) == [[200], [404], [404], [404]], statuses
        assert {await status_of(session.at(app), ANONYMOUS) for app in apps} == {404}


async def test_adoption_ends_streams_in_other_process_and_lasts(
    make_open: Callable[..., Server], serve: Serve, tmp_path: Path
) -> None:
    async with (
        serve(make_open(storage=make_engine("sqlite", tmp_path))) as here,
        serve(make_open(storage=make_engine("sqlite", tmp_path))) as there,
    ):
        session = await session_of(here, ANONYMOUS)
        streams = [await listening(session, ANONYMOUS), await listening(session.at(there), ANONYMOUS)]
        assert await status_of(session, ADA) == 200
        for stream in streams:
            assert await stream.messages() == []
        assert await status_of(session.at(there), ADA) == 200
    async with serve(make_open(storage=make_engine("sqlite", tmp_path))) as later:
        for token, status in ((EVE, 404), (ANONYMOUS, 404), (bearer("ada/2", ["mail"]), 200)):
            assert await status_of(session.at(later), token) == status
