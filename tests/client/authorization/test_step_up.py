"""More is granted when it is needed: in both eras, before a tool runs and in its midst, once, and effects once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpkit import AuthorizationError, Client, Context, Server
from mcpkit import Scope as Granted
from mcpkit.auth import DevAuth
from tests.helpers.logging_in import User
from tests.helpers.serving import in_thread_at

pytestmark = pytest.mark.anyio

ERAS = ["2025-11-25", "2026-07-28"]
READ, WRITE, ADMIN = "notes:read", "notes:write", "notes:admin"


@dataclass
class Notes:
    """A protected server, and what has happened there.

    Attributes:
        url: Where it is.
        challenged: How often the endpoint has answered 403.
        done: What its tools have done.
        seconds: How long the tool `erase` takes before it asks for more.
    """

    url: str = ""
    challenged: Counter[int] = field(default_factory=Counter)
    done: list[str] = field(default_factory=list)
    seconds: float = 0.0


def server_of(notes: Notes) -> Server:
    server = Server(
        "notes",
        secret="a secret of some length",
        auth=DevAuth(users=["ada"]),
        scopes={
            READ: Granted("Read notes", default=True),
            WRITE: Granted("Change notes", implies=[READ]),
            ADMIN: Granted("Everything", implies=[WRITE]),
        },
    )

    @server.tool(scopes=READ)
    async def read() -> str:
        """Read."""
        return "read"

    @server.tool(scopes=WRITE)
    async def write() -> str:
        """Write."""
        notes.done.append("written")
        return "written"

    @server.tool(scopes=WRITE, may_need=ADMIN)
    async def erase(ctx: Context, mode: str = "before") -> str:
        """Erase."""
        await asyncio.sleep(notes.seconds)
        if mode == "told":
            await ctx.progress(1, 2)
        if mode == "once":
            await ctx.once("erase", lambda: notes.done.append("once"))
        ctx.require(ADMIN)
        notes.done.append("erased")
        return "erased"

    return server


@contextmanager
def serving(notes: Notes) -> Iterator[Notes]:
    """Serve it, and count what the endpoint answers."""

    def counting(origin: str) -> ASGIApp:
        notes.url = f"{origin}/mcp"
        app = server_of(notes).asgi(public_url=notes.url)

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            async def note(message: Any) -> None:
                if message["type"] == "http.response.start" and scope["path"] == "/mcp":
                    notes.challenged[message["status"]] += 1
                await send(message)

            await app(scope, receive, note if scope["type"] == "http" else send)

        return counted

    with in_thread_at(counting):
        yield notes


@pytest.fixture
def notes() -> Iterator[Notes]:
    with serving(Notes()) as served:
        yield served


@pytest.mark.parametrize("revision", ERAS)
async def test_each_tool_asks_for_what_it_needs_once(notes: Notes, revision: str) -> None:
    ada = User()
    async with Client(notes.url, auth=ada.auth, revision=revision) as client:
        assert (await client.call("read")).text == "read"
        assert ada.asked == [{READ}]
        assert (await client.call("write")).text == "written"
        assert ada.asked[1:] == [{READ, WRITE}]
        assert (await client.call("erase")).text == "erased"
        assert ada.asked[2:] == [{READ, WRITE, ADMIN}]
        for name in ("read", "write", "erase"):
            assert not (await client.call(name)).is_error
    assert len(ada.asked) == 3
    assert notes.challenged[403] == 2
    assert notes.done == ["written", "erased", "written", "erased"]


@pytest.mark.slow
@pytest.mark.parametrize("revision", ERAS)
async def test_who_has_the_broadest_is_asked_for_nothing(notes: Notes, revision: str) -> None:
    ada = User()
    async with Client(notes.url, auth=ada.auth, revision=revision) as client:
        assert not (await client.call("erase")).is_error
    asked = len(ada.asked)
    async with Client(notes.url, auth=ada.auth, revision=revision) as client:  # with the tokens that are kept
        for name in ("read", "write", "erase"):
            assert not (await client.call(name)).is_error
    assert len(ada.asked) == asked


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("mode", ["told", "once"])
async def test_behind_an_effect_the_result_says_what_is_needed(
    notes: Notes, revision: str, mode: str
) -> None:
    ada = User()
    told: list[object] = []
    async with Client(notes.url, auth=ada.auth, revision=revision) as client:
        await client.call("write")
        notes.done.clear()
        before, challenged = len(ada.asked), notes.challenged[403]
        result = await client.call("erase", {"mode": mode}, progress=lambda *news: told.append(news))
        assert result.is_error
        assert ADMIN in result.text
        assert f'scope="{ADMIN}"' in result.meta["mcp/www_authenticate"][0]
    assert (len(ada.asked), notes.challenged[403]) == (before, challenged)
    assert notes.done == (["once"] if mode == "once" else [])


@pytest.mark.parametrize("revision", ERAS)
async def test_who_is_refused_is_told_so_and_asked_no_more(notes: Notes, revision: str) -> None:
    ada = User()
    async with Client(notes.url, auth=ada.auth, revision=revision) as client:
        await client.call("read")
        ada.name = None
        with pytest.raises(AuthorizationError, match="the user has said no"):
            await client.call("write")
        assert len(ada.asked) == 2
        ada.name = "ada"
        assert (await client.call("read")).text == "read"
    assert notes.done == []


@pytest.mark.long
async def test_a_tool_that_takes_long_challenges_once_all_the_same() -> None:
    async def check(revision: str) -> None:
        ada = User()
        with serving(Notes(seconds=15.0)) as notes:
            async with Client(notes.url, auth=ada.auth, revision=revision) as client:
                assert (await client.call("write")).text == "written"
                before = notes.challenged[403]
                assert (await client.call("erase", timeout=60)).text == "erased"
                assert notes.challenged[403] == before + 1
            assert notes.done == ["written", "erased"]
            assert len(ada.asked) == 3

    await asyncio.gather(*map(check, ERAS))  # at a time, as they wait most of it
