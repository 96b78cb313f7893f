"""ctx.upstream_token: the user's own provider token in tools, tasks and threads."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.routing import Route

from mcpkit import Client, Context, Server
from mcpkit.auth import AccessToken, DevUser, OAuthProxy, ProtectedResource, StaticTokens, TokenVerifier
from mcpkit.auth.authority.client_documents import ClientDocuments
from mcpkit.auth.authority.dev_auth import made
from mcpkit.auth.authority.look import Look
from mcpkit.auth.proxy.edge import at_the_edge
from mcpkit.auth.proxy.limits import Limits
from mcpkit.exceptions import AuthorizationError
from mcpkit.testing import connect
from tests.helpers.oauth_flow import FakeUpstream, ProxyFlow
from tests.helpers.serving import in_thread_at

STATIC = "a-token-of-a-machine-that-is-long-enough-0123456789"

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


def make_server(auth: TokenVerifier | Sequence[TokenVerifier] | None) -> Server:
    server = Server("notes", auth=auth, secret_key="a secret of the tests, long enough")

    @server.tool
    async def token(ctx: Context, provider: str = "example") -> str:
        return await ctx.upstream_token(provider)

    @server.tool
    def token_in_a_thread(ctx: Context) -> str:
        return ctx.sync.upstream_token("example")

    @server.tool(task=True)
    async def token_of_a_task(ctx: Context) -> str:
        return await ctx.upstream_token("example")

    return server


class ProxyServer:
    def __init__(self, origin: str, server: Server, upstream: FakeUpstream) -> None:
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
        return Client(
            f"{self.origin}/mcp", token=token or self.tokens["access_token"], protocol_version=revision
        )


@asynccontextmanager
async def serving(*others: TokenVerifier, **options: Any) -> AsyncIterator[ProxyServer]:
    upstream = FakeUpstream(time.time)
    proxy = OAuthProxy(upstream, **options)
    server = make_server([proxy, *others] if others else proxy)
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        proxy_server = ProxyServer(origin, server, upstream)
        await proxy_server.log_in()
        yield proxy_server


@pytest.mark.parametrize("revision", REVISIONS)
async def test_token_for_in_tool_and_thread(revision):
    async with serving() as proxy_server, proxy_server.client(revision) as client:
        first = (await client.call_tool("token")).text
        assert proxy_server.upstream.live[first] == "ada"
        assert (await client.call_tool("token_in_a_thread")).text == first


async def test_token_for_refreshes_due_token():
    async with serving() as proxy_server:
        proxy_server.upstream.lifetime = 0.0
        await proxy_server.log_in()
        async with proxy_server.client() as client:
            proxy_server.upstream.lifetime = 3600.0
            first = (await client.call_tool("token")).text
            assert (await client.call_tool("token")).text == first
        assert first in proxy_server.upstream.live
        assert proxy_server.upstream.asked.count("refresh") == 1


async def test_token_for_with_provider_down_is_tool_error():
    async with serving() as proxy_server:
        proxy_server.upstream.lifetime = 0.0
        await proxy_server.log_in()
        proxy_server.upstream.down.add("refresh")
        async with proxy_server.client() as client:
            result = await client.call_tool("token")
            assert result.is_error
            assert result.text == "example does not respond. Try again later"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_token_for_with_ended_login_is_401(revision):
    async with serving() as proxy_server:
        proxy_server.upstream.lifetime = 0.0
        await proxy_server.log_in()
        async with proxy_server.client(revision) as client:
            proxy_server.upstream.live.clear()
            with pytest.raises(AuthorizationError) as caught:
                await client.call_tool("token")
    assert caught.value.status == 401
    assert "invalid_token" in caught.value.challenge
    assert proxy_server.upstream.handed_out[0] not in str(caught.value)


async def test_token_for_in_task():
    async with serving() as proxy_server, proxy_server.client() as client:
        task = await client.call_tool("token_of_a_task")
        assert task.text in proxy_server.upstream.live


async def test_token_for_in_process_is_error():
    upstream = FakeUpstream(time.time)
    async with connect(make_server(OAuthProxy(upstream))) as client:
        result = await client.call_tool("token")
        assert result.text == "this request needs a login with example. Log in there first"
    assert upstream.asked == []


class Public(TokenVerifier):
    def bind(self, site: ProtectedResource) -> None:
        issuer = site.public_url.removesuffix("/mcp")
        self.issuers = (issuer,)
        self.authority = made(issuer, site, {"ada": DevUser("ada")}, (), 600.0, ClientDocuments())
        self._limits = Limits(site.storage, site.name, site.audit, Look())

    async def verify(self, token: str, audience: str) -> AccessToken:
        return await self.authority.verify(token, audience)

    def routes(self) -> Sequence[Route]:
        return at_the_edge(self.authority.routes(), self._limits)


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    server = Server("notes", auth=Public())
    with in_thread_at(lambda url: server.asgi(public_url=f"{url}/mcp")) as url:
        yield url


async def test_token_for_principal_of_another_verifier():
    async with serving(StaticTokens({STATIC: "backup"})) as proxy_server:
        async with proxy_server.client(token=STATIC) as client:
            result = await client.call_tool("token")
            assert result.is_error
            assert result.text == "this request needs a login with Example. Log in there first"
        async with proxy_server.client() as client:
            assert (await client.call_tool("token")).text in proxy_server.upstream.live


async def test_token_for_without_proxy_is_logged(caplog):
    async with connect(make_server(None)) as client:
        assert (await client.call_tool("token")).is_error
    assert "Server(auth=OAuthProxy(UpstreamProvider.github(...)))" in caplog.text


async def test_two_providers_of_one_name_raise():
    with pytest.raises(ValueError, match="two providers have the name 'example'"):
        make_server([OAuthProxy(FakeUpstream(time.time)), OAuthProxy(FakeUpstream(time.time))])
