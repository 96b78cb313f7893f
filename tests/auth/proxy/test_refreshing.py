"""Provider tokens of an OAuthProxy: refreshed once when due, and revoked with the login."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from mcpkit._utils.exceptions import LoginNeededError, ProviderUnavailableError
from mcpkit.auth import InvalidTokenError
from mcpkit.auth.authorization_server.grants import CODE_LIFETIME, GRACE
from mcpkit.auth.proxy import upstream_logins
from mcpkit.auth.proxy.upstream_logins import LEASE
from mcpkit.identity.principals_and_scopes import Principal
from mcpkit.storage.memory import Memory
from tests.helpers.oauth_flow import ProxyServer
from tests.helpers.waiting import Clock, until

ADA = "https://id.example.com#sub=ada"


@pytest.fixture
def proxy() -> ProxyServer:
    """A proxy with tokens that outlive those of the provider."""
    clock = Clock()
    return ProxyServer(clock=clock, site_options={"shared": Memory(clock)}, token_lifetime=100_000.0)


@pytest.fixture
def revocations(proxy: ProxyServer) -> list[str | None]:
    """The principals of revocations in the audit log."""
    principals: list[str | None] = []
    proxy.site.audit(lambda event: principals.append(event.principal) if event.name == "revocation" else None)
    return principals


async def error_of(request: Awaitable[httpx2.Response]) -> tuple[int, str]:
    response = await request
    return response.status_code, response.json()["error"]


INVALID_GRANT = (400, "invalid_grant")


@asynccontextmanager
async def during_refresh(proxy: ProxyServer) -> AsyncIterator[None]:
    """Hold refreshes at the provider: run the block when one has begun, and let it go on afterwards."""
    proxy.upstream.open.clear()
    with anyio.fail_after(20):
        await until(lambda: "refresh" in proxy.upstream.asked)
        yield
        proxy.upstream.open.set()


async def test_provider_token_is_refreshed_in_last_minute(proxy, tokens):
    first = await proxy.token_for(tokens)
    proxy.clock.now += 3541
    second = await proxy.token_for(tokens)
    assert second != first
    assert second in proxy.upstream.live
    assert await proxy.token_for(tokens) == second
    assert proxy.upstream.asked.count("refresh") == 1


async def test_concurrent_requests_refresh_once(proxy, tokens):
    proxy.clock.now += 3600
    other = ProxyServer(proxy.upstream, site_options={"shared": proxy.site.storage})
    waiting = [asyncio.ensure_future(each.token_for(tokens)) for each in [proxy, other] * 10]
    async with during_refresh(proxy):
        await asyncio.wait(waiting, timeout=0.1)  # so that each of them has found the refresh
    assert len(set(await asyncio.gather(*waiting))) == 1
    assert proxy.upstream.asked.count("refresh") == 1


async def test_refresh_lease_of_dead_process_expires(proxy, tokens):
    proxy.clock.now += 3600
    grant = (await proxy.granted(tokens)).principal.claims["grant"]
    assert await proxy.site.storage.claim(f"notes/refreshing/{grant}/0", LEASE)  # and the process has ended
    waiting = asyncio.ensure_future(proxy.token_for(tokens))
    await asyncio.wait([waiting], timeout=0.3)
    assert proxy.upstream.asked.count("refresh") == 0
    proxy.clock.now += LEASE
    with anyio.fail_after(20):
        assert await waiting in proxy.upstream.live


async def test_aclose_waits_for_refresh(proxy, tokens):
    proxy.clock.now += 3600
    waiting = [asyncio.ensure_future(proxy.token_for(tokens))]
    async with during_refresh(proxy):
        waiting.append(asyncio.ensure_future(proxy.auth.aclose()))
        await asyncio.wait(waiting, timeout=0.1)
        assert not any(task.done() for task in waiting)
    token, _ = await asyncio.gather(*waiting)
    assert token in proxy.upstream.live
    assert await proxy.token_for(tokens) == token
    assert proxy.upstream.asked.count("refresh") == 1


async def test_grant_revoked_during_refresh_leaves_no_tokens(proxy, flow, tokens):
    proxy.clock.now += 3600
    waiting = asyncio.ensure_future(proxy.token_for(tokens))
    async with during_refresh(proxy):
        await flow.revoked(tokens["refresh_token"])
    with pytest.raises(LoginNeededError):
        await waiting
    assert proxy.upstream.live == {}


async def test_provider_down_at_refresh_is_503(proxy, flow, tokens):
    proxy.clock.now += 3600
    proxy.upstream.down.update({"refresh", "identify"})
    response = await flow.refreshed(tokens)
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
    assert response.headers["retry-after"] == "5"
    with pytest.raises(ProviderUnavailableError, match="Try again later"):
        await proxy.token_for(tokens)
    proxy.upstream.down.clear()
    assert (await flow.refreshed(tokens)).status_code == 200


async def test_login_ended_at_provider_raises_login_needed(proxy, flow, tokens):
    principal = (await proxy.granted(tokens)).principal
    proxy.clock.now += 3600
    proxy.upstream.live.clear()
    for _ in range(2):
        with pytest.raises(LoginNeededError, match=r"has ended. Log in again"):
            await proxy.auth.token_for(principal, "example", proxy.context)
    assert await error_of(flow.refreshed(tokens)) == INVALID_GRANT


async def test_provider_without_refresh_token_ends_at_expiry(proxy, flow):
    proxy.upstream.is_refreshing = False
    tokens = await flow.tokens()
    proxy.clock.now += 3599
    assert await proxy.token_for(tokens) in proxy.upstream.live
    principal = (await proxy.granted(tokens)).principal
    proxy.clock.now += 1
    with pytest.raises(LoginNeededError, match="has ended"):
        await proxy.auth.token_for(principal, "example", proxy.context)
    assert await error_of(flow.refreshed(tokens)) == INVALID_GRANT


async def test_provider_token_of_another_user_ends_login(proxy, flow, tokens):
    proxy.upstream.live = dict.fromkeys(proxy.upstream.live, "eve")
    proxy.clock.now += 600
    assert await error_of(flow.refreshed(tokens)) == INVALID_GRANT
    assert proxy.upstream.live == {}


async def test_revoked_provider_token_is_replaced(proxy, flow, tokens):
    del proxy.upstream.live[await proxy.token_for(tokens)]
    proxy.clock.now += 600
    refreshed = (await flow.refreshed(tokens)).json()
    assert await proxy.token_for(refreshed) in proxy.upstream.live


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_revoke_ends_login_at_provider(proxy, flow, revocations, kind):
    tokens = await flow.tokens()
    for _ in range(2):  # the second time nothing is left to revoke
        assert (await flow.revoked(tokens[kind])).status_code == 200
        assert proxy.upstream.live == {}
        assert revocations == [ADA]
    assert proxy.upstream.asked.count("revoke") == 1


async def test_revoke_with_provider_down_ends_login(proxy, flow, tokens):
    proxy.upstream.down.add("revoke")
    assert (await flow.revoked(tokens["refresh_token"])).status_code == 200
    with pytest.raises(InvalidTokenError):
        await proxy.granted(tokens)


async def test_refresh_reuse_ends_login_at_provider(proxy, flow, revocations):
    tokens = await flow.tokens()
    again = (await flow.refreshed(tokens)).json()
    proxy.clock.now += GRACE
    assert (await flow.refreshed(tokens)).json()["refresh_token"] == again["refresh_token"]
    proxy.clock.now += 1
    assert await error_of(flow.refreshed(tokens)) == INVALID_GRANT
    assert proxy.upstream.live == {}
    assert revocations == [ADA]
    assert await error_of(flow.refreshed(again)) == INVALID_GRANT


async def test_revoke_principal_ends_all_logins(proxy):
    for _ in range(3):
        await proxy.flow().tokens()
    pending = proxy.flow()
    code = await pending.code()
    proxy.upstream.user = "grace"
    grace = proxy.flow()
    tokens = await grace.tokens()
    await proxy.auth.revoke(Principal(ADA), proxy.context)
    assert set(proxy.upstream.live.values()) == {"grace"}
    assert await error_of(pending.redeemed(code)) == INVALID_GRANT
    assert (await grace.refreshed(tokens)).status_code == 200


async def test_code_never_redeemed_is_revoked(proxy, monkeypatch):
    monkeypatch.setattr(upstream_logins, "ABANDONED", 0.2)
    await proxy.flow().tokens()
    code = await proxy.flow().code()
    assert len(proxy.upstream.live) == 4
    proxy.clock.now += CODE_LIFETIME
    await until(lambda: len(proxy.upstream.live) == 2)
    assert await error_of(proxy.flow().redeemed(code)) == INVALID_GRANT
