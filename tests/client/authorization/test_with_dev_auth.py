"""Clients log in at `DevAuth`: over each transport, in this process, in several loops, after restarts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest

from mcpkit import AuthorizationError, Client, MemoryTokens, OAuth, SyncClient
from mcpkit.auth import DevAuth
from mcpkit.client.transports.http.sse import SseTransport
from tests.helpers.authority_site import Forms
from tests.helpers.granting import notes
from tests.helpers.logging_in import User
from tests.helpers.serving import in_thread_at

pytestmark = pytest.mark.anyio


def served() -> Any:
    return in_thread_at(
        lambda origin: notes(DevAuth(users=["ada", "grace"])).asgi(public_url=f"{origin}/mcp")
    )


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_users_log_in_in_every_revision_and_are_asked_for_more(revision: str) -> None:
    ada = User("ada")
    with served() as origin:
        async with Client(f"{origin}/mcp", auth=ada.auth, revision=revision) as client:
            assert (await client.call("whoami")).text == "ada: notes:read"
            assert (await client.call("add_note", {"text": "milk"})).text == "added milk"
            assert (await client.call("whoami")).text == "ada: notes:read notes:write"
    assert ada.asked == [{"notes:read"}, {"notes:read", "notes:write"}]


async def test_http_with_sse_is_a_resource_of_its_own() -> None:
    ada = User("ada")
    with served() as origin:
        async with Client(SseTransport(f"{origin}/sse", auth=ada.auth), revision="2024-11-05") as client:
            assert (await client.call("whoami")).text == "ada: notes:read"
            result = await client.call("add_note", {"text": "milk"})
            assert (result.is_error, "notes:write" in result.text) == (
                True,
                True,
            )  # the stream cannot be a 403
    assert ada.asked == [{"notes:read"}]


async def test_who_does_not_allow_it_is_not_asked_again_at_once() -> None:
    nobody = User(None)
    with served() as origin, pytest.raises(AuthorizationError, match="refuses: 'access_denied"):
        async with Client(f"{origin}/mcp", auth=nobody.auth):
            pass
    assert len(nobody.asked) == 1


async def test_a_server_that_has_forgotten_everybody_logs_them_in_again() -> None:
    ada = User("ada")
    apps: list[Any] = []

    def make(origin: str) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await apps[-1](scope, receive, send)

        apps.append(notes(DevAuth(users=["ada"])).asgi(public_url=f"{origin}/mcp"))
        return app

    with in_thread_at(make, lifespan="off") as origin:
        for _ in range(2):  # each time with a secret of its own, by which nothing of the other one is known
            async with Client(f"{origin}/mcp", auth=ada.auth) as client:
                assert (await client.call("whoami")).text == "ada: notes:read"
            apps.append(notes(DevAuth(users=["ada"])).asgi(public_url=f"{origin}/mcp"))
    assert len(ada.asked) == 2


async def test_two_users_of_one_program_have_tokens_of_their_own() -> None:
    ada, grace = User("ada"), User("grace")
    with served() as origin:
        async with (
            Client(f"{origin}/mcp", auth=ada.auth) as first,
            Client(f"{origin}/mcp", auth=grace.auth) as second,
        ):
            results = await asyncio.gather(
                *(each.call("whoami") for each in (first, second) for _ in range(5))
            )
    assert [result.text for result in results] == ["ada: notes:read"] * 5 + ["grace: notes:read"] * 5


@pytest.mark.slow
def test_one_authorization_serves_threads_with_loops_of_their_own() -> None:
    ada = User("ada")
    auth = ada.auth
    said: list[str] = []

    def call(url: str) -> None:
        with SyncClient(url, auth=auth) as client:
            said.append(client.call("whoami").text)

    with served() as origin:
        threads = [threading.Thread(target=call, args=(f"{origin}/mcp",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert said == ["ada: notes:read"] * 4
    assert len(ada.asked) == 1


class InApp:
    """A browser that asks an app in this process."""

    redirect_uri = "http://127.0.0.1:3999/callback"

    def __init__(self, app: Any) -> None:
        self._app = app

    @asynccontextmanager
    async def landing(self, registered: Sequence[str] = ()) -> AsyncIterator[InApp]:
        yield self

    async def visit(self, url: str, state: str) -> Mapping[str, str]:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(self._app)) as browser:
            page = await browser.get(url)
            [form] = [form for form in Forms(page.text).forms if form.get("user") == "ada"]
            answer = await browser.post(url, data=form)
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_an_app_in_this_process_is_its_own_authorization_server(revision: str) -> None:
    app = notes(DevAuth(users=["ada"])).asgi(public_url="http://127.0.0.1:8000/mcp")
    auth = OAuth(browser=InApp(app), storage=MemoryTokens())
    async with Client(app, auth=auth, revision=revision) as client:
        assert (await client.call("whoami")).text == "ada: notes:read"
        assert (await client.call("add_note", {"text": "milk"})).text == "added milk"
