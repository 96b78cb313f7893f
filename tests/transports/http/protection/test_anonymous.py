"""Requests without a token: components, subscriptions and caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcpkit import Cache, Context, Server
from tests.helpers.protected import Lenient, listening, session_of
from tests.helpers.raw_client import Answer, Client, Serve
from tests.helpers.verified import bearer

pytestmark = pytest.mark.anyio

ANONYMOUS: dict[str, str] = {}


READER = bearer("ada", ["notes:read"])


OPEN, CLOSED = "news://today", "diary://today"


SCOPED = "notes://1"


@pytest.fixture
def open_server(make: Callable[..., Server]) -> Server:
    open_server = make(offers=["completions"])
    jobs = open_server.extension("com.example/jobs")
    jobs.topic("jobIds", "notifications/jobs")

    @open_server.tool(anonymous=True)
    async def hello(ctx: Context) -> str:
        """Say hello."""
        await ctx.progress(1, 2)
        return "hello"

    @open_server.resource(OPEN, anonymous=True)
    def news() -> str:
        """What anybody may read."""
        return "news"

    @open_server.resource(CLOSED)
    def diary() -> str:
        """What takes a token."""
        return "diary"

    @open_server.resource("secret://{id}", visible=lambda who: who.subject == "eve")
    def secret(id: str) -> str:
        """What is hidden."""
        return id

    @open_server.prompt(anonymous=True)
    def greet(whom: str = "") -> str:
        """Greet."""
        return f"Hello {whom}"

    @open_server.method("example/open", anonymous=True)
    def open_method() -> dict[str, Any]:
        return {}

    @open_server.method("example/closed")
    def closed_method() -> dict[str, Any]:
        return {}

    return open_server


USES: dict[str, tuple[str, dict[str, Any], int]] = {
    "open tool": ("tools/call", {"name": "hello"}, 200),
    "closed tool": ("tools/call", {"name": "whoami"}, 401),
    "scoped tool": ("tools/call", {"name": "add"}, 401),
    "open resource": ("resources/read", {"uri": OPEN}, 200),
    "closed resource": ("resources/read", {"uri": CLOSED}, 401),
    "scoped template": ("resources/read", {"uri": SCOPED}, 401),
    "open prompt": ("prompts/get", {"name": "greet"}, 200),
    "scoped prompt": ("prompts/get", {"name": "send", "arguments": {"text": "x"}}, 401),
    "open method": ("example/open", {}, 200),
    "closed method": ("example/closed", {}, 401),
    "scoped completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "send"}, "argument": {"name": "text", "value": ""}},
        401,
    ),
    "tools": ("tools/list", {}, 200),
}


async def test_anonymous_request_needs_anonymous_component(open_server: Server, serve: Serve) -> None:
    async with serve(open_server) as client:
        for name, (method, params, status) in USES.items():
            answer = client.ask(method, params)
            answer.judge = Lenient(client)
            assert (await answer.whole()).status == status, name
            session = await session_of(client, ANONYMOUS)
            pending = session.ask(method, params)
            assert (await pending.whole()).status == status, name
            assert ("www-authenticate" in pending.headers) == (status == 401)


async def listen(client: Client, token: Mapping[str, str], *uris: str, **more: Any) -> Answer:
    expected = {"resourceSubscriptions": list(uris), "toolsListChanged": True, **more}
    return await client.ask("subscriptions/listen", {"notifications": expected}, headers=token).head()


def update_all(open_server: Server) -> None:
    for uri in (CLOSED, SCOPED, "secret://1", "nowhere://1", OPEN):
        open_server.resource_updated(uri)


async def test_anonymous_subscription_needs_anonymous_resource(open_server: Server, serve: Serve) -> None:
    async with serve(open_server) as client:
        session = await session_of(client, ANONYMOUS)
        for uri in (CLOSED, SCOPED, "notes://{id}"):
            refused = await listen(client, ANONYMOUS, OPEN, uri)
            assert (refused.status, refused.headers["www-authenticate"].split()[0]) == (401, "Bearer")
            pending = await session.ask("resources/subscribe", {"uri": uri}).whole()
            assert (pending.status, "www-authenticate" in pending.headers) == (401, True)
        jobs = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"com.example/jobs": {}}}}
        params = {"notifications": {"jobIds": ["1"]}}
        answer = await client.ask("subscriptions/listen", params, meta=jobs).head()
        assert answer.status == 401
        answer = await client.ask("subscriptions/listen", params, meta=jobs, headers=READER).head()
        assert answer.status == 200


async def test_anonymous_listener_gets_lists_and_open_resources(open_server: Server, serve: Serve) -> None:
    # One does not exist and one is hidden: both subscriptions are accepted.
    uris = (OPEN, "nowhere://1", "secret://1")
    async with serve(open_server) as client:
        stream = await listen(client, ANONYMOUS, *uris)
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        session = await session_of(client, ANONYMOUS)
        for uri in uris:
            assert (await session.ask("resources/subscribe", {"uri": uri}).whole()).status == 200
        received = await listening(session, ANONYMOUS)
        update_all(open_server)
        assert (await stream.message())["params"]["uri"] == OPEN
        assert (await received.message())["params"]["uri"] == OPEN
        open_server.tools.disable("hello")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        assert (await received.message())["method"] == "notifications/tools/list_changed"


CACHED_REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools": ("tools/list", {}),
    "resource": ("resources/read", {"uri": "news://today"}),
    "included": ("resources/read", {"uri": "news://other/today"}),
}


def add_news(server: Server) -> None:
    server.resource("news://today", name="news", anonymous=True, cache=Cache(60))(lambda: "news")


@pytest.fixture
def news_server(make: Callable[..., Server]) -> Server:
    server = make(cache={"tools/list": Cache(60)})
    add_news(server)
    other = Server("other")
    add_news(other)
    server.include(other, prefix="other")
    return server


async def cache_scope_of(client: Client, name: str, token: dict[str, str]) -> str:
    method, params = CACHED_REQUESTS[name]
    result = (await client.ask(method, params, headers=token).whole()).json()["result"]
    assert result["ttlMs"] == 60_000
    return str(result["cacheScope"])


@pytest.mark.parametrize("name", CACHED_REQUESTS)
async def test_cache_scope_is_public_for_anonymous_request_only(
    news_server: Server, serve: Serve, name: str
) -> None:
    ada, eve, anonymous = bearer("ada"), bearer("eve"), dict[str, str]()
    async with serve(news_server) as client:
        for token, scope in (
            (anonymous, "public"),
            (ada, "private"),
            (eve, "private"),
            (anonymous, "public"),
        ):
            assert await cache_scope_of(client, name, token) == scope
