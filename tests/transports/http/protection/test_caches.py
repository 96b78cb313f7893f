"""Who may keep what a protected server says: what somebody has got by a token is for them alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Cache, Principal, Server
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.testing import connect
from tests.helpers.asgi_client import Client, Serve
from tests.helpers.protected import Lenient
from tests.helpers.verified import bearer

pytestmark = pytest.mark.anyio

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "discover": ("server/discover", {}),
    "tools": ("tools/list", {}),
    "resources": ("resources/list", {}),
    "templates": ("resources/templates/list", {}),
    "prompts": ("prompts/list", {}),
    "resource": ("resources/read", {"uri": "news://today"}),
    "included": ("resources/read", {"uri": "news://other/today"}),
    "entry": ("resources/read", {"uri": "news://archive/1"}),
}
METHODS = {method for method, _ in REQUESTS.values()}


def add_news(server: Server) -> None:
    @server.resource("news://today", anonymous=True, cache=Cache(60))
    def news() -> str:
        """What anybody may read."""
        return "news"

    @server.resource("news://archive/{id}", anonymous=True, cache=Cache(60))
    def archive(id: str) -> str:
        """What was new."""
        return id


@pytest.fixture
def news(make: Callable[..., Server]) -> Server:
    server = make(cache={method: Cache(60) for method in METHODS})
    add_news(server)
    other = Server("other")
    add_news(other)
    server.include(other, prefix="other")
    return server


async def scope_of(client: Client, name: str, token: dict[str, str]) -> str:
    method, params = REQUESTS[name]
    result = (await client.ask(method, params, headers=token).whole()).json()["result"]
    assert result["ttlMs"] == 60_000
    return str(result["cacheScope"])


@pytest.mark.parametrize("name", REQUESTS)
async def test_only_what_is_served_to_anybody_is_public(news: Server, serve: Serve, name: str) -> None:
    ada, eve, nobody = bearer("ada"), bearer("eve"), dict[str, str]()
    async with serve(news) as client:
        for token, scope in ((nobody, "public"), (ada, "private"), (eve, "private"), (nobody, "public")):
            assert await scope_of(client, name, token) == scope


async def test_what_middleware_has_changed_keeps_who_may_have_it(news: Server, serve: Serve) -> None:
    @news.middleware("tools/list")
    async def shorten(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        result["tools"] = result["tools"][:1]
        return result

    async with serve(news) as client:
        assert await scope_of(client, "tools", bearer("ada")) == "private"
        assert await scope_of(client, "tools", {}) == "public"


async def test_a_method_of_ones_own_is_private_too(news: Server, serve: Serve) -> None:
    @news.method("example/weather", anonymous=True, cache=Cache(60))
    def weather() -> dict[str, Any]:
        return {"sun": True}

    async with serve(news) as client:
        for token, scope in ((bearer("ada"), "private"), ({}, "public")):
            answer = client.ask("example/weather", headers=token)
            answer.judge = Lenient(client)
            assert (await answer.whole()).json()["result"]["cacheScope"] == scope


async def test_without_protection_lists_are_public_whoever_asks() -> None:
    server = Server("s")
    add_news(server)
    async with connect(server, revision="2026-07-28", principal=Principal("ada")) as client:
        assert (await client.request("resources/list", {}))["cacheScope"] == "public"
