"""Revocation through an OAuthProxy, at the provider and in the audit log."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpkit.auth import AuditEvent, InvalidTokenError
from mcpkit.auth.authority.grants import CODE_LIFETIME, GRACE
from mcpkit.auth.proxy import logins
from mcpkit.state.memory import Memory
from mcpkit.state.principal import Principal
from mcpkit.state.store import Stored
from tests.helpers.oauth_flow import ProxyServer

pytestmark = pytest.mark.anyio

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
    await proxy.auth.revoke(Principal(ADA), proxy.ground)
    assert set(proxy.upstream.live.values()) == {"grace"}
    assert (await pending.redeemed(code)).json()["error"] == "invalid_grant"
    assert (await grace.refreshed(theirs)).status_code == 200


async def test_revoke_principal_from_another_process():
    proxy = ProxyServer(kept={"secret": "the first secret of the tests"})
    flow = proxy.flow()
    tokens = await flow.tokens()
    secrets = ["the second secret of the tests", "the first secret of the tests"]
    other = ProxyServer(proxy.upstream, kept={"shared": proxy.site.shared, "secret": secrets})
    fresh: Any = type(other.proxy)(proxy.upstream, clock=proxy.clock)
    await fresh.revoke(Principal(ADA), other.ground)
    assert proxy.upstream.live == {}
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"


class LossyMemory(Memory):
    deletions = 0

    async def delete(self, key: str, *, version: str) -> bool:
        self.deletions += 1
        if self.deletions == 2:
            raise OSError("the store does not answer")
        return await super().delete(key, version=version)


async def test_revoke_principal_with_failing_store_can_be_repeated():
    proxy = ProxyServer(kept={"shared": LossyMemory()})
    for _ in range(3):
        await proxy.flow().tokens()
    with pytest.raises(OSError, match="does not answer"):
        await proxy.auth.revoke(Principal(ADA), proxy.ground)
    assert len(proxy.upstream.live) == 2, "tokens of the login that is not revoked yet"
    await proxy.auth.revoke(Principal(ADA), proxy.ground)
    assert proxy.upstream.live == {}


async def test_revoke_at_provider_that_ends_all_waits_for_last_login(proxy):
    proxy.upstream.revokes_all = True
    first, second = proxy.flow(), proxy.flow()
    one, other = await first.tokens(), await second.tokens()
    await first.revoked(one["refresh_token"])
    assert "revoke" not in proxy.upstream.asked
    assert await proxy.token_for(other) in proxy.upstream.live
    await second.revoked(other["refresh_token"])
    assert proxy.upstream.live == {}


async def test_revoke_principal_at_provider_that_ends_all(proxy):
    proxy.upstream.revokes_all = True
    for _ in range(2):
        await proxy.flow().tokens()
    await proxy.auth.revoke(Principal(ADA), proxy.ground)
    assert proxy.upstream.live == {}


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


class Away(Memory):
    is_away = False

    async def get(self, key: str) -> Stored | None:
        if self.is_away:
            raise OSError("the store does not answer")
        return await super().get(key)


async def test_revoke_of_abandoned_login_failure_is_logged(monkeypatch, caplog):
    monkeypatch.setattr(logins, "ABANDONED", 0.2)
    proxy = ProxyServer(kept={"shared": (store := Away())})
    await proxy.flow().code()
    store.is_away = True
    with anyio.fail_after(60):
        while "cannot be ended: 'the store does not answer'" not in caplog.text:
            await anyio.sleep(0.05)


async def test_audit_denied_by_allow():
    proxy = ProxyServer(allow=lambda who: False)
    events = record_events(proxy)
    await proxy.flow().back()
    [refused] = [event for event in events if event.name == "refusal"]
    assert (refused.principal, refused.detail) == (ADA, "allow= does not let them in")


async def test_revoke_unknown_principal_ends_nothing(proxy):
    await proxy.flow().tokens()
    await proxy.auth.revoke(Principal("https://id.example.com#sub=ad"), proxy.ground)
    assert len(proxy.upstream.live) == 2
