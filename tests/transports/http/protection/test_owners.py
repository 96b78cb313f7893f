"""Owners of sessions, questions and request states; anonymous sessions that a user adopts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Access, Context, Server
from mcpkit.auth import AuditEvent
from mcpkit.storage import Memory
from tests.helpers.engines import make_engine
from tests.helpers.raw_client import DECLARED, Serve, accept, text_of
from tests.helpers.servers.protected import bearer, listening, session_of, status_of

pytestmark = pytest.mark.anyio

ADA, REFRESHED, WIDER = bearer("ada"), bearer("ada/2"), bearer("ada/3", ["notes:write"])
OTHER_CLIENT, EVE = bearer("ada~other"), bearer("eve")
ANONYMOUS: dict[str, str] = {}


@pytest.fixture
def make_open(make: Callable[..., Server]) -> Callable[..., Server]:
    """Factory of servers with a tool that needs no token, and one that asks a question."""

    def make_server(**options: Any) -> Server:
        server = make(**options)
        server.tool(lambda: "open", name="open", access=Access(allow_anonymous=True))

        @server.tool
        async def name(ctx: Context) -> str:
            return (await ctx.elicit("Who?", str)).value

        return server

    return make_server


async def test_session_belongs_to_principal_and_client(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
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


async def test_question_is_answered_by_its_principal(make_open: Callable[..., Server], serve: Serve) -> None:
    async with serve(make_open()) as client:
        session = await session_of(client, ADA, capabilities={"elicitation": {"form": {}}})
        call = session.call_tool("name", headers=ADA)
        answer = {"jsonrpc": "2.0", "id": (await call.message())["id"], "result": accept("Eve")}
        for token in (EVE, OTHER_CLIENT):
            assert (await session.post(answer, token).whole()).status == 404
            own = await session_of(client, token, capabilities={"elicitation": {"form": {}}})
            assert (await own.post(answer, token).whole()).status == 400
        assert (await session.post(answer | {"result": accept("Ada")}, REFRESHED).whole()).status == 202
        assert text_of(await call.response()) == "Ada"


async def test_request_state_belongs_to_principal_and_client(
    make_open: Callable[..., Server], serve: Serve
) -> None:
    async with serve(make_open()) as client:

        async def call(token: dict[str, str], **more: Any) -> Any:
            params = {"name": "name", "arguments": {}, **more}
            return (await client.ask("tools/call", params, headers=token, meta=DECLARED).whole()).json()

        state = (await call(ADA))["result"]["requestState"]
        answers = {"inputResponses": {"#1": accept("Ada")}, "requestState": state}
        for token in (EVE, OTHER_CLIENT):
            assert "it belongs to another request" in (await call(token, **answers))["error"]["message"]
        for token in (REFRESHED, WIDER):
            assert text_of(await call(token, **answers)) == "Ada"


async def test_anonymous_session_is_adopted_by_first_token(
    make_open: Callable[..., Server], serve: Serve
) -> None:
    server = make_open()
    events: list[AuditEvent] = []
    server.on_audit(events.append)
    async with serve(server) as client:
        session = await session_of(client, ANONYMOUS)
        assert await status_of(session, ANONYMOUS) == 200
        assert await status_of(session, bearer("bad")) == 401
        assert await status_of(session, ADA) == 200
        for token in (ANONYMOUS, EVE, OTHER_CLIENT):
            assert await status_of(session, token) == 404
            assert (await session.listen(headers=token).whole()).status == 404
        called = await session.call_tool("whoami", headers=bearer("ada/2", ["mail"])).whole()
        assert text_of(called.json()) == "ada ['mail']"
    adopted = [event.principal for event in events if event.name == "adoption"]
    assert adopted == ["https://id.example.com#sub=ada"]


async def test_concurrent_adoption_has_one_owner(make_open: Callable[..., Server], serve: Serve) -> None:
    names, memory = ["ada", "eve", "bob", "joe"], Memory()
    async with serve(make_open(storage=memory)) as here, serve(make_open(storage=memory)) as there:
        session = await session_of(here, ANONYMOUS)
        places = [session, session.at(there)]
        found = await asyncio.gather(*(status_of(each, bearer(name)) for name in names for each in places))
        statuses = [{*pair} for pair in zip(found[::2], found[1::2], strict=True)]
        assert sorted(map(sorted, statuses)) == [[200], [404], [404], [404]]
        assert {await status_of(place, ANONYMOUS) for place in places} == {404}


async def test_adoption_ends_streams_in_other_process_and_lasts(
    make_open: Callable[..., Server], serve: Serve, tmp_path: Path
) -> None:
    servers = [make_open(storage=make_engine("sqlite", tmp_path)) for _ in range(3)]
    async with serve(servers[0]) as here, serve(servers[1]) as there:
        session = await session_of(here, ANONYMOUS)
        streams = [await listening(session, ANONYMOUS), await listening(session.at(there), ANONYMOUS)]
        assert await status_of(session, ADA) == 200
        for stream in streams:
            assert await stream.messages() == []
        assert await status_of(session.at(there), ADA) == 200
    async with serve(servers[2]) as later:
        for token, status in ((EVE, 404), (ANONYMOUS, 404), (bearer("ada/2", ["mail"]), 200)):
            assert await status_of(session.at(later), token) == status
