"""Provider tokens of an OAuthProxy: refreshed when due, once for all, and without losing a login."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpkit.auth.proxy.logins import LEASE
from mcpkit.common.errors import LoginNeededError, ProviderUnavailableError
from mcpkit.state.memory import Memory
from tests.helpers.clock import Clock
from tests.helpers.proxied import Proxied

pytestmark = pytest.mark.anyio


async def logged_in(**options: Any) -> tuple[Proxied, Any, dict[str, Any]]:
    here = Proxied(token_lifetime=100_000.0, **options)
    flow = here.flow()
    return here, flow, await flow.tokens()


async def test_provider_token_is_refreshed_in_last_minute():
    here, _flow, tokens = await logged_in()
    first = await here.token_for(tokens)
    here.clock.now += 3541
    second = await here.token_for(tokens)
    assert second != first
    assert second in here.upstream.live
    assert await here.token_for(tokens) == second
    assert here.upstream.asked.count("refresh") == 1


async def test_provider_token_of_one_minute_is_refreshed_at_half():
    here = Proxied()
    here.upstream.lifetime = 60.0
    tokens = await here.flow().tokens()
    first = await here.token_for(tokens)
    here.clock.now += 29
    assert await here.token_for(tokens) == first
    here.clock.now += 2
    assert await here.token_for(tokens) != first


async def test_concurrent_requests_refresh_once():
    here, _flow, tokens = await logged_in()
    here.clock.now += 3600
    here.upstream.open.clear()
    found: list[str] = []

    async def ask(proxied: Proxied) -> None:
        found.append(await proxied.token_for(tokens))

    other = Proxied(here.upstream, kept={"shared": here.site.shared})
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for each in [here, other] * 10:
                group.start_soon(ask, each)
            while here.upstream.asked.count("refresh") < 1:
                await anyio.sleep(0.01)
            await anyio.sleep(0.1)
            here.upstream.open.set()
    assert len(set(found)) == 1
    assert here.upstream.asked.count("refresh") == 1


async def test_refresh_lease_of_dead_process_expires():
    clock = Clock()
    here, _flow, tokens = await logged_in(clock=clock, kept={"shared": Memory(clock)})
    clock.now += 3600
    grant = (await here.granted(tokens)).principal.claims["grant"]
    assert await here.site.shared.claim(f"notes/refreshing/{grant}/0", LEASE)  # and that was all
    found: list[str] = []

    async def ask() -> None:
        found.append(await here.token_for(tokens))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.sleep(0.3)
            assert here.upstream.asked.count("refresh") == 0
            clock.now += LEASE
    assert found[0] in here.upstream.live


async def test_processes_with_different_clocks_refresh_once():
    here, _flow, tokens = await logged_in()
    early = Proxied(here.upstream, clock=Clock(here.clock.now + 3600), kept={"shared": here.site.shared})
    here.clock.now += 3600 + 45
    here.upstream.open.clear()
    principal, found = (await here.granted(tokens)).principal, list[str]()

    async def ask(proxied: Proxied) -> None:
        found.append(await proxied.proxy.token_for(principal, "example", proxied.ground))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, early)
            while "refresh" not in here.upstream.asked:
                await anyio.sleep(0.01)
            group.start_soon(ask, here)
            await anyio.sleep(0.3)
            here.upstream.open.set()
    assert len(set(found)) == 1
    assert here.upstream.asked.count("refresh") == 1


async def test_aclose_waits_for_refresh():
    here, _flow, tokens = await logged_in()
    here.clock.now += 3600
    here.upstream.open.clear()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(here.token_for, tokens)
            while "refresh" not in here.upstream.asked:
                await anyio.sleep(0.01)
            group.start_soon(here.proxy.aclose)
            await anyio.sleep(0.1)
            here.upstream.open.set()
    assert await here.token_for(tokens) in here.upstream.live
    assert here.upstream.asked.count("refresh") == 1


async def test_client_refresh_also_refreshes_provider_token():
    here, flow, tokens = await logged_in()
    here.clock.now += 3600
    refreshed = (await flow.refreshed(tokens)).json()
    assert here.upstream.asked.count("refresh") == 1
    assert await here.token_for(refreshed) in here.upstream.live


async def test_provider_down_at_refresh_is_503():
    here, flow, tokens = await logged_in()
    here.clock.now += 3600
    here.upstream.down.update({"refresh", "identify"})
    response = await flow.refreshed(tokens)
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
    assert response.headers["retry-after"] == "5"
    with pytest.raises(ProviderUnavailableError, match="try again later"):
        await here.token_for(tokens)
    here.upstream.down.clear()
    assert (await flow.refreshed(tokens)).status_code == 200


async def test_login_ended_at_provider_raises_login_needed():
    here, flow, tokens = await logged_in()
    principal = (await here.granted(tokens)).principal
    here.clock.now += 3600
    here.upstream.live.clear()
    for _ in range(2):
        with pytest.raises(LoginNeededError, match="has ended: log in again"):
            await here.proxy.token_for(principal, "example", here.ground)
    assert (await flow.refreshed(tokens)).status_code == 400


async def test_client_error_at_provider_keeps_login(caplog):
    here, flow, tokens = await logged_in()
    here.clock.now += 3600
    here.upstream.refusing["refresh"] = "unauthorized_client"
    assert (await flow.refreshed(tokens)).status_code == 503
    assert "unauthorized_client" in caplog.text
    here.upstream.refusing.clear()
    assert (await flow.refreshed(tokens)).status_code == 200


async def test_provider_without_refresh_token_ends_at_expiry():
    here = Proxied(token_lifetime=100_000.0)
    here.upstream.is_refreshing = False
    flow = here.flow()
    tokens = await flow.tokens()
    here.clock.now += 3599
    assert await here.token_for(tokens) in here.upstream.live
    principal = (await here.granted(tokens)).principal
    here.clock.now += 1
    with pytest.raises(LoginNeededError, match="has ended"):
        await here.proxy.token_for(principal, "example", here.ground)
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"


async def test_provider_token_without_expiry_is_checked_every_ten_minutes():
    here = Proxied(token_lifetime=100_000.0)
    here.upstream.is_refreshing, here.upstream.lifetime = False, None
    flow = here.flow()
    tokens = await flow.tokens()
    here.clock.now += 599
    tokens = (await flow.refreshed(tokens)).json()
    assert "identify" not in here.upstream.asked
    here.clock.now += 1
    tokens = (await flow.refreshed(tokens)).json()
    tokens = (await flow.refreshed(tokens)).json()
    assert here.upstream.asked.count("identify") == 1

    here.clock.now += 600
    here.upstream.down.add("identify")
    assert (await flow.refreshed(tokens)).status_code == 503
    here.upstream.down.clear()
    here.upstream.live.clear()
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"


async def test_refresh_updates_claims():
    here, flow, tokens = await logged_in()
    here.upstream.claims = {"groups": ["staff"]}
    here.clock.now += 600
    refreshed = (await flow.refreshed(tokens)).json()
    claims = (await here.granted(refreshed)).principal.claims
    assert claims["groups"] == ["staff"]
    assert "login" not in claims


async def test_provider_token_of_another_user_ends_login():
    here, flow, tokens = await logged_in()
    here.upstream.live = dict.fromkeys(here.upstream.live, "eve")
    here.clock.now += 600
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"
    assert here.upstream.live == {}


async def test_revoked_provider_token_is_replaced():
    here, flow, tokens = await logged_in()
    before = await here.token_for(tokens)
    del here.upstream.live[before]
    here.clock.now += 600
    refreshed = (await flow.refreshed(tokens)).json()
    assert await here.token_for(refreshed) in here.upstream.live


async def test_grant_revoked_during_refresh_leaves_no_tokens():
    here, flow, tokens = await logged_in()
    here.clock.now += 3600
    here.upstream.open.clear()
    failed: list[Exception] = []

    async def ask() -> None:
        try:
            await here.token_for(tokens)
        except LoginNeededError as error:
            failed.append(error)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while "refresh" not in here.upstream.asked:
                await anyio.sleep(0.01)
            await flow.revoked(tokens["refresh_token"])
            here.upstream.open.set()
    assert len(failed) == 1
    assert here.upstream.live == {}
