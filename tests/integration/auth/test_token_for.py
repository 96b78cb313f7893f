"""ctx.upstream_token: the user's own provider token in tools, tasks and threads."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from mcpkit import Client, Context, Server
from mcpkit.auth import OAuthProxy, StaticTokens, TokenVerifier
from mcpkit.exceptions import AuthorizationError
from mcpkit.testing import connect
from tests.helpers.oauth_flow import SECRET, FakeUpstream, ProxyFlow
from tests.helpers.serving import in_thread_at

STATIC = "a-token-of-a-machine-that-is-long-enough-0123456789"
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"


def make_server(auth: TokenVerifier | Sequence[TokenVerifier] | None) -> Server:
    server = Server("notes", auth=auth, secret_key=SECRET)

    @server.tool
    async def token(ctx: Context) -> str:
        return await ctx.upstream_token("example")

    @server.tool
    def token_in_a_thread(ctx: Context) -> str:
        return ctx.sync.upstream_token("example")

    @server.tool(task=True)
    async def token_of_a_task(ctx: Context) -> str:
        return await ctx.upstream_token("example")

    return server


@asynccontextmanager
async def logged_in(
    revision: str = STATELESS, *others: TokenVerifier, token: str | None = None, lifetime: float = 3600.0
) -> AsyncIterator[tuple[FakeUpstream, Client]]:
    """Log a user in with a provider token of this lifetime; gives the provider and the user's client."""
    upstream = FakeUpstream(time.time)
    upstream.lifetime = lifetime
    proxy = OAuthProxy(upstream)
    server = make_server([proxy, *others] if others else proxy)
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        async with httpx2.AsyncClient(base_url=origin) as browser:
            tokens: dict[str, Any] = await ProxyFlow(browser, upstream.visit).tokens()
        upstream.lifetime = 3600.0
        token = token or tokens["access_token"]
        async with Client(f"{origin}/mcp", token=token, protocol_version=revision) as client:
            yield upstream, client


async def test_token_for_in_tool_thread_and_task(revision):
    async with logged_in(revision) as (upstream, client):
        first = (await client.call_tool("token")).text
        assert upstream.live[first] == "ada"
        for tool in ("token_in_a_thread", "token_of_a_task"):
            assert (await client.call_tool(tool)).text == first


async def test_token_for_with_provider_down_is_tool_error():
    async with logged_in(lifetime=0.0) as (upstream, client):
        upstream.down.add("refresh")
        result = await client.call_tool("token")
        assert result.is_error
        assert result.text == "example does not respond. Try again later"


async def test_token_for_with_ended_login_is_401(revision):
    async with logged_in(revision, lifetime=0.0) as (upstream, client):
        upstream.live.clear()
        with pytest.raises(AuthorizationError) as caught:
            await client.call_tool("token")
    assert caught.value.status == 401
    assert "invalid_token" in caught.value.challenge
    assert upstream.handed_out[0] not in str(caught.value)


async def test_token_for_in_process_is_error():
    upstream = FakeUpstream(time.time)
    async with connect(make_server(OAuthProxy(upstream))) as client:
        result = await client.call_tool("token")
        assert result.text == "this request needs a login with example. Log in there first"
    assert upstream.asked == []


async def test_token_for_principal_of_another_verifier():
    async with logged_in(STATELESS, StaticTokens({STATIC: "backup"}), token=STATIC) as (_, client):
        result = await client.call_tool("token")
        assert result.is_error
        assert result.text == "this request needs a login with Example. Log in there first"


async def test_token_for_without_proxy_is_logged(caplog):
    async with connect(make_server(None)) as client:
        assert (await client.call_tool("token")).is_error
    assert "Server(auth=OAuthProxy(UpstreamProvider.github(...)))" in caplog.text


async def test_two_providers_of_one_name_raise():
    with pytest.raises(ValueError, match="two providers have the name 'example'"):
        make_server([OAuthProxy(FakeUpstream(time.time)), OAuthProxy(FakeUpstream(time.time))])
