"""`ctx.token_for`: the user's own token at the provider, of a server over HTTP, in tasks, over stdio and elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from mcpkit import AuthorizationError, Client, Context, LoginNeededError, Server
from mcpkit.auth import OAuthProxy, StaticTokens, TokenVerifier
from mcpkit.calls.foreign import ground_of
from mcpkit.state.principal import Principal
from mcpkit.testing import connect
from tests.helpers.proxy_flow import ProxyFlow
from tests.helpers.serving import in_thread_at
from tests.helpers.stand_in import StandIn

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]
STATIC = "a-token-of-a-machine-that-is-long-enough-0123456789"


def served_by(auth: TokenVerifier | Sequence[TokenVerifier] | None) -> Server:
    """A server that shows who asks the end of their token, which no real one may."""
    server = Server("notes", auth=auth, secret="a secret of the tests, long enough")

    @server.tool
    async def token(ctx: Context, provider: str = "example") -> str:
        return await ctx.token_for(provider)

    @server.tool
    def token_in_a_thread(ctx: Context) -> str:
        return ctx.sync.token_for("example")

    @server.tool(task=True)
    async def token_of_a_task(ctx: Context) -> str:
        return await ctx.token_for("example")

    return server


class Served:
    """A server, and who has logged in there."""

    def __init__(self, origin: str, server: Server, upstream: StandIn) -> None:
        self.origin = origin
        self.server = server
        self.upstream = upstream
        self.flow: ProxyFlow
        self.tokens: dict[str, Any] = {}

    async def log_in(self) -> None:
        async with httpx2.AsyncClient(base_url=self.origin) as browser:
            self.flow = ProxyFlow(browser, self.upstream.visit)
            self.tokens = await self.flow.tokens()

    def client(self, revision: str = REVISIONS[-1], token: str | None = None) -> Client:
        return Client(f"{self.origin}/mcp", token=token or self.tokens["access_token"], revision=revision)


@asynccontextmanager
async def serving(*others: TokenVerifier, **options: Any) -> AsyncIterator[Served]:
    upstream = StandIn(time.time)
    proxy = OAuthProxy(upstream, **options)
    server = served_by([proxy, *others] if others else proxy)
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        served = Served(origin, server, upstream)
        await served.log_in()
        yield served


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_tool_has_the_users_own_token(revision: str) -> None:
    async with serving() as served, served.client(revision) as client:
        first = (await client.call("token")).text
        assert served.upstream.live[first] == "ada"
        assert (await client.call("token_in_a_thread")).text == first


async def test_it_is_refreshed_when_it_is_due() -> None:
    async with serving() as served:
        served.upstream.lifetime = 0.0
        await served.log_in()
        async with served.client() as client:
            served.upstream.lifetime = 3600.0
            first = (await client.call("token")).text
            assert (await client.call("token")).text == first
        assert first in served.upstream.live
        assert served.upstream.asked.count("refresh") == 1


async def test_a_provider_that_is_away_is_an_error_of_the_tool() -> None:
    async with serving() as served:
        served.upstream.lifetime = 0.0
        await served.log_in()
        served.upstream.down.add("refresh")
        async with served.client() as client:
            result = await client.call("token")
            assert result.is_error
            assert result.text == "example does not answer just now; try again later"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_who_has_to_log_in_again_is_told_so_by_http(revision: str) -> None:
    async with serving() as served:
        served.upstream.lifetime = 0.0
        await served.log_in()
        async with served.client(revision) as client:
            served.upstream.live.clear()
            with pytest.raises(AuthorizationError) as caught:
                await client.call("token")
    assert caught.value.status == 401
    assert "invalid_token" in caught.value.challenge
    assert served.upstream.handed_out[0] not in str(caught.value)


async def test_an_allow_that_may_block_runs_in_the_servers_own_threads() -> None:
    """Those of the event loop are few, and what hangs there keeps it from resolving names."""
    threads: list[str] = []

    def allow(who: Principal) -> bool:
        threads.append(threading.current_thread().name)
        return True

    async with serving(allow=allow) as served:
        await served.log_in()
    assert [name.partition("-")[0] for name in threads] == ["mcpkit", "mcpkit"]


async def test_a_name_that_no_provider_has_is_the_authors_mistake(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served, served.client() as client:
        result = await client.call("token", {"provider": "exmaple"})
        assert result.is_error
        assert "exmaple" not in result.text
    assert "ctx.token_for('exmaple'): users of this server log in with 'example'" in caplog.text


async def test_who_came_by_another_verifier_has_none() -> None:
    async with serving(StaticTokens({STATIC: "backup"})) as served:
        async with served.client(token=STATIC) as client:
            result = await client.call("token")
            assert result.is_error
            assert result.text == "this takes a login with Example, and whoever asks has none"
        async with served.client() as client:
            assert (await client.call("token")).text in served.upstream.live


async def test_two_providers_of_one_server() -> None:
    first, second = StandIn(time.time), StandIn(time.time, name="other", issuer="https://other.example.com")

    def app(origin: str) -> Any:
        proxies = [OAuthProxy(first), OAuthProxy(second, issuer=f"{origin}/other")]
        return served_by(proxies).asgi(public_url=f"{origin}/mcp")

    with in_thread_at(app) as origin:
        async with httpx2.AsyncClient(base_url=origin) as browser:
            document = (await browser.get("/.well-known/oauth-protected-resource/mcp")).json()
            assert document["authorization_servers"] == [origin, f"{origin}/other"]
            mine = await ProxyFlow(browser, first.visit).tokens()
            other = await ProxyFlow(browser, second.visit, path="/other").tokens()
        async with Client(f"{origin}/mcp", token=mine["access_token"]) as client:
            assert (await client.call("token")).text in first.live
            result = await client.call("token", {"provider": "other"})
            assert result.text == "this takes a login with Other, and whoever asks has none"
        async with Client(f"{origin}/mcp", token=other["access_token"]) as client:
            assert (await client.call("token", {"provider": "other"})).text in second.live


async def test_two_providers_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two providers are called 'example'"):
        served_by([OAuthProxy(StandIn(time.time)), OAuthProxy(StandIn(time.time))])


async def test_a_task_has_it_as_well() -> None:
    async with serving() as served, served.client() as client:
        task = await client.call("token_of_a_task")
        assert task.text in served.upstream.live


async def test_in_process_nobody_has_logged_in() -> None:
    upstream = StandIn(time.time)
    async with connect(served_by(OAuthProxy(upstream))) as client:
        result = await client.call("token")
        assert result.text == "this takes a login with example, and whoever asks has none"
    assert upstream.asked == []


async def test_a_server_without_logins_has_no_tokens_for_anybody(caplog: pytest.LogCaptureFixture) -> None:
    async with connect(served_by(None)) as client:
        assert (await client.call("token")).is_error
    assert "Server(auth=OAuthProxy(Upstream.github(...)))" in caplog.text


async def test_a_claim_of_another_verifier_opens_nothing() -> None:
    async with serving() as served:
        engine = served.server.engine
        assert engine.auth is not None
        ground = ground_of(engine.runtime)
        grant = (await engine.auth.verify(served.tokens["access_token"], f"{served.origin}/mcp")).principal
        assert await engine.auth.token_for(grant, "example", ground) in served.upstream.live
        for claims, subject, client_id in [
            ({"grant": grant.claims["grant"]}, "eve", grant.client_id),
            ({"grant": grant.claims["grant"]}, "ada", "another client"),
            ({"grant": grant.claims["grant"], "iss": grant.issuer}, "ada", grant.client_id),
            ({"grant": "../x"}, "ada", grant.client_id),
            ({}, "ada", grant.client_id),
        ]:
            forged = Principal(
                "any", client_id=client_id, issuer=grant.issuer, subject=subject, claims=claims
            )
            with pytest.raises(LoginNeededError):
                await engine.auth.token_for(forged, "example", ground)
