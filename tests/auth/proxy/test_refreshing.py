"""Provider tokens of an OAuthProxy: refreshed once when due, and revoked with the login."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpkit.auth import AuditEvent, InvalidTokenError
from mcpkit.auth.authority.grants import CODE_LIFETIME, GRACE
from mcpkit.auth.proxy import logins
from mcpkit.auth.proxy.logins import LEASE
from mcpkit.common.errors import LoginNeededError, ProviderUnavailableError
from mcpkit.state.memory import Memory
from mcpkit.state.principal import Principal
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


async def test_concurrent_requests_refresh_once():
    proxy, _flow, tokens = await logged_in()
    proxy.clock.now += 3600
    proxy.upstream.open.clear()
    found: list[str] = []

    async def ask(proxied: ProxyServer) -> None:
        found.append(await proxied.token_for(tokens))

    other = ProxyServer(proxy.upstream, kept={"shared": proxy.site.storage})
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
    assert await proxy.site.storage.claim(f"notes/refreshing/{grant}/0", LEASE)  # and that was all
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


async def test_provider_down_at_refresh_is_503():
    proxy, flow, tokens = await logged_in()
    proxy.clock.now += 3600
    proxy.upstream.down.update({"refresh", "identify"})
    response = await flow.refreshed(tokens)
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
    assert response.headers["retry-after"] == "5"
    with pytest.raises(ProviderUnavailableError, match="Try again later"):
        await proxy.token_for(tokens)
    proxy.upstream.down.clear()
    assert (await flow.refreshed(tokens)).status_code == 200


async def test_login_ended_at_provider_raises_login_needed():
    proxy, flow, tokens = await logged_in()
    principal = (await proxy.granted(tokens)).principal
    proxy.clock.now += 3600
    proxy.upstream.live.clear()
    for _ in range(2):
        with pytest.raises(LoginNeededError, match=r"has ended. Log in again"):
            await proxy.auth.token_for(principal, "example", proxy.context)
    assert (await flow.refreshed(tokens)).status_code == 400


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
        await proxy.auth.token_for(principal, "example", proxy.context)
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"


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


ADA = "https://id.example.com#sub=ada"


def record_events(proxy: ProxyServer) -> list[AuditEvent]:
    events: list[AuditEvent] = []
    proxy.site.audit(events.append)
    return events


def revocations(events: list[AuditEvent]) -> list[str | None]:
    return [event.principal for event in events if event.name == "revocation"]


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_revoke_ends_login_at_provider(proxy, kind):
    events = record_events(proxy)
    flow = proxy.flow()
    tokens = await flow.tokens()
    assert (await flow.revoked(tokens[kind])).status_code == 200
    assert proxy.upstream.live == {}
    assert revocations(events) == [ADA]
    assert (await flow.revoked(tokens[kind])).status_code == 200
    assert proxy.upstream.asked.count("revoke") == 1


async def test_revoke_with_provider_down_ends_login(proxy):
    proxy.upstream.down.add("revoke")
    flow = proxy.flow()
    tokens = await flow.tokens()
    assert (await flow.revoked(tokens["refresh_token"])).status_code == 200
    with pytest.raises(InvalidTokenError):
        await proxy.granted(tokens)


async def test_refresh_reuse_ends_login_at_provider(proxy):
    events = record_events(proxy)
    flow = proxy.flow()
    tokens = await flow.tokens()
    again = (await flow.refreshed(tokens)).json()
    proxy.clock.now += GRACE
    assert (await flow.refreshed(tokens)).json()["refresh_token"] == again["refresh_token"]
    proxy.clock.now += 1
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"
    assert proxy.upstream.live == {}
    assert revocations(events) == [ADA]
    assert (await flow.refreshed(again)).json()["error"] == "invalid_grant"


async def test_revoke_principal_ends_all_logins(proxy):
    flows = [proxy.flow() for _ in range(3)]
    for flow in flows:
        await flow.tokens()
    pending = proxy.flow()
    code = await pending.code()
    proxy.upstream.user = "grace"
    grace = proxy.flow()
    theirs = await grace.tokens()
    await proxy.auth.revoke(Principal(ADA), proxy.context)
    assert set(proxy.upstream.live.values()) == {"grace"}
    assert (await pending.redeemed(code)).json()["error"] == "invalid_grant"
    assert (await grace.refreshed(theirs)).status_code == 200


async def test_revoke_principal_from_another_process():
    proxy = ProxyServer(kept={"secret": "the first secret of the tests"})
    flow = proxy.flow()
    tokens = await flow.tokens()
    secrets = ["the second secret of the tests", "the first secret of the tests"]
    other = ProxyServer(proxy.upstream, kept={"shared": proxy.site.storage, "secret": secrets})
    fresh: Any = type(other.auth)(proxy.upstream, clock=proxy.clock)
    await fresh.revoke(Principal(ADA), other.context)
    assert proxy.upstream.live == {}
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"


async def test_code_never_redeemed_is_revoked(monkeypatch):
    monkeypatch.setattr(logins, "ABANDONED", 0.2)
    proxy = ProxyServer()
    fetched = proxy.flow()
    await fetched.tokens()
    code = await proxy.flow().code()
    assert len(proxy.upstream.live) == 4
    proxy.clock.now += CODE_LIFETIME
    with anyio.fail_after(20):
        while len(proxy.upstream.live) == 4:
            await anyio.sleep(0.05)
    assert len(proxy.upstream.live) == 2
    assert (await proxy.flow().redeemed(code)).json()["error"] == "invalid_grant"
