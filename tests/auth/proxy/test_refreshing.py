"""Provider tokens of an OAuthProxy: refreshed when due, once for all, and without losing a login."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpkit.auth.proxy.logins import LEASE
from mcpkit.common.errors import LoginNeededError, ProviderUnavailableError
from mcpkit.state.memory import Memory
from tests.helpers.clock import Clock
from tests.helpers.oauth_flow import ProxyServer

pytestmark = pytest.mark.anyio


async def logged_in(**options: Any) -> tuple[ProxyServer, Any, dict[str, Any]]:
    proxy = ProxyServer(token_lifetime=100_000.0, **options)
    flow = proxy.flow()
    return proxy, flow, await flow.tokens()


async def test_provider_token_is_refreshed_in_last_minute():
    proxy, _flow, tokens = await logged_in()
    first = await proxy.token_for(tokens)
    proxy.clock.now += 3541
    second = await proxy.token_for(tokens)
    assert second != first
    assert second in proxy.upstream.live
    assert await proxy.token_for(tokens) == second
    assert proxy.upstream.asked.count("refresh") == 1


async def test_provider_token_of_one_minute_is_refreshed_at_half(proxy):
    proxy.upstream.lifetime = 60.0
    tokens = await proxy.flow().tokens()
    first = await proxy.token_for(tokens)
    proxy.clock.now += 29
    assert await proxy.token_for(tokens) == first
    proxy.clock.now += 2
    assert await proxy.token_for(tokens) != first


async def test_concurrent_requests_refresh_once():
    proxy, _flow, tokens = await logged_in()
    proxy.clock.now += 3600
    proxy.upstream.open.clear()
    found: list[str] = []

    async def ask(proxied: ProxyServer) -> None:
        found.append(await proxied.token_for(tokens))

    other = ProxyServer(proxy.upstream, kept={"shared": proxy.site.shared})
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for each in [proxy, other] * 10:
                group.start_soon(ask, each)
            while proxy.upstream.asked.count("refresh") < 1:
                await anyio.sleep(0.01)
            await anyio.sleep(0.1)
            proxy.upstream.open.set()
    assert len(set(found)) == 1
    assert proxy.upstream.asked.count("refresh") == 1


async def test_refresh_lease_of_dead_process_expires():
    clock = Clock()
    proxy, _flow, tokens = await logged_in(clock=clock, kept={"shared": Memory(clock)})
    clock.now += 3600
    grant = (await proxy.granted(tokens)).principal.claims["grant"]
    assert await proxy.site.shared.claim(f"notes/refreshing/{grant}/0", LEASE)  # and that was all
    found: list[str] = []

    async def ask() -> None:
        found.append(await proxy.token_for(tokens))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.sleep(0.3)
            assert proxy.upstream.asked.count("refresh") == 0
            clock.now += LEASE
    assert found[0] in proxy.upstream.live


async def test_aclose_waits_for_refresh():
    proxy, _flow, tokens = await logged_in()
    proxy.clock.now += 3600
    proxy.upstream.open.clear()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(proxy.token_for, tokens)
            while "refresh" not in proxy.upstream.asked:
                await anyio.sleep(0.01)
            group.start_soon(proxy.auth.aclose)
            await anyio.sleep(0.1)
            proxy.upstream.open.set()
    assert await proxy.token_for(tokens) in proxy.upstream.live
    assert proxy.upstream.asked.count("refresh") == 1


async def test_client_refresh_also_refreshes_provider_token():
    proxy, flow, tokens = await logged_in()
    proxy.clock.now += 3600
    refreshed = (await flow.refreshed(tokens)).json()
    assert proxy.upstream.asked.count("refresh") == 1
    assert await proxy.token_for(refreshed) in proxy.upstream.live


async def test_provider_down_at_refresh_is_503():
    proxy, flow, tokens = await logged_in()
    proxy.clock.now += 3600
    proxy.upstream.down.update({"refresh", "identify"})
    response = await flow.refreshed(tokens)
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
    assert response.headers["retry-after"] == "5"
    with pytest.raises(ProviderUnavailableError, match="try again later"):
        await proxy.token_for(tokens)
    proxy.upstream.down.clear()
    assert (await flow.refreshed(tokens)).status_code == 200


async def test_login_ended_at_provider_raises_login_needed():
    proxy, flow, tokens = await logged_in()
    principal = (await proxy.granted(tokens)).principal
    proxy.clock.now += 3600
    proxy.upstream.live.clear()
    for _ in range(2):
        with pytest.raises(LoginNeededError, match="has ended: log in again"):
            await proxy.auth.token_for(principal, "example", proxy.ground)
    assert (await flow.refreshed(tokens)).status_code == 400


async def test_client_error_at_provider_keeps_login(caplog):
    proxy, flow, tokens = await logged_in()
    proxy.clock.now += 3600
    proxy.upstream.refusing["refresh"] = "unauthorized_client"
    assert (await flow.refreshed(tokens)).status_code == 503
    assert "unauthorized_client" in caplog.text
    proxy.upstream.refusing.clear()
    assert (await flow.refreshed(tokens)).status_code == 200


async def test_provider_without_refresh_token_ends_at_expiry():
    proxy = ProxyServer(token_lifetime=100_000.0)
    proxy.upstream.is_refreshing = False
    flow = proxy.flow()
    tokens = await flow.tokens()
    proxy.clock.now += 3599
    assert await proxy.token_for(tokens) in proxy.upstream.live
    principal = (await proxy.granted(tokens)).principal
    proxy.clock.now += 1
    with pytest.raises(LoginNeededError, match="has ended"):
        await proxy.auth.token_for(principal, "example", proxy.ground)
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"


async def test_provider_token_without_expiry_is_checked_every_ten_minutes():
    proxy = ProxyServer(token_lifetime=100_000.0)
    proxy.upstream.is_refreshing, proxy.upstream.lifetime = False, None
    flow = proxy.flow()
    tokens = await flow.tokens()
    proxy.clock.now += 599
    tokens = (await flow.refreshed(tokens)).json()
    assert "identify" not in proxy.upstream.asked
    proxy.clock.now += 1
    tokens = (await flow.refreshed(tokens)).json()
    tokens = (await flow.refreshed(tokens)).json()
    assert proxy.upstream.asked.count("identify") == 1

    proxy.clock.now += 600
    proxy.upstream.down.add("identify")
    assert (await flow.refreshed(tokens)).status_code == 503
    proxy.upstream.down.clear()
    proxy.upstream.live.clear()
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"


async def test_refresh_updates_claims():
    proxy, flow, tokens = await logged_in()
    proxy.upstream.claims = {"groups": ["staff"]}
    proxy.clock.now += 600
    refreshed = (await flow.refreshed(tokens)).json()
    claims = (await proxy.granted(refreshed)).principal.claims
    assert claims["groups"] == ["staff"]
    assert "login" not in claims


async def test_provider_token_of_another_user_ends_login():
    proxy, flow, tokens = await logged_in()
    proxy.upstream.live = dict.fromkeys(proxy.upstream.live, "eve")
    proxy.clock.now += 600
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"
    assert proxy.upstream.live == {}


async def test_revoked_provider_token_is_replaced():
    proxy, flow, tokens = await logged_in()
    before = await proxy.token_for(tokens)
    del proxy.upstream.live[before]
    proxy.clock.now += 600
    refreshed = (await flow.refreshed(tokens)).json()
    assert await proxy.token_for(refreshed) in proxy.upstream.live


async def test_grant_revoked_during_refresh_leaves_no_tokens():
    proxy, flow, tokens = await logged_in()
    proxy.clock.now += 3600
    proxy.upstream.open.clear()
    failed: list[Exception] = []

    async def ask() -> None:
        try:
            await proxy.token_for(tokens)
        except LoginNeededError as error:
            failed.append(error)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while "refresh" not in proxy.upstream.asked:
                await anyio.sleep(0.01)
            await flow.revoked(tokens["refresh_token"])
            proxy.upstream.open.set()
    assert len(failed) == 1
    assert proxy.upstream.live == {}
