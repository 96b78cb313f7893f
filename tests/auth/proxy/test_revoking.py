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
from tests.helpers.proxied import Proxied

pytestmark = pytest.mark.anyio

ADA = "https://id.example.com#sub=ada"


def record_events(here: Proxied) -> list[AuditEvent]:
    events: list[AuditEvent] = []
    here.site.audit(events.append)
    return events


def revocations(events: list[AuditEvent]) -> list[str | None]:
    return [event.principal for event in events if event.name == "revocation"]


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_revoke_ends_login_at_provider(kind):
    here = Proxied()
    events = record_events(here)
    flow = here.flow()
    tokens = await flow.tokens()
    assert (await flow.revoked(tokens[kind])).status_code == 200
    assert here.upstream.live == {}
    assert revocations(events) == [ADA]
    assert (await flow.revoked(tokens[kind])).status_code == 200
    assert here.upstream.asked.count("revoke") == 1


async def test_revoke_with_provider_down_ends_login():
    here = Proxied()
    here.upstream.down.add("revoke")
    flow = here.flow()
    tokens = await flow.tokens()
    assert (await flow.revoked(tokens["refresh_token"])).status_code == 200
    with pytest.raises(InvalidTokenError):
        await here.granted(tokens)


async def test_refresh_reuse_ends_login_at_provider():
    here = Proxied()
    events = record_events(here)
    flow = here.flow()
    tokens = await flow.tokens()
    again = (await flow.refreshed(tokens)).json()
    here.clock.now += GRACE
    assert (await flow.refreshed(tokens)).json()["refresh_token"] == again["refresh_token"]
    here.clock.now += 1
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"
    assert here.upstream.live == {}
    assert revocations(events) == [ADA]
    assert (await flow.refreshed(again)).json()["error"] == "invalid_grant"


async def test_code_reuse_ends_login_at_provider():
    here = Proxied()
    flow = here.flow()
    code = await flow.code()
    tokens = (await flow.redeemed(code)).json()
    here.clock.now += GRACE + 1
    assert (await flow.redeemed(code)).json()["error"] == "invalid_grant"
    assert here.upstream.live == {}
    with pytest.raises(InvalidTokenError):
        await here.granted(tokens)


async def test_revoke_principal_ends_all_logins():
    here = Proxied()
    flows = [here.flow() for _ in range(3)]
    for flow in flows:
        await flow.tokens()
    pending = here.flow()
    code = await pending.code()
    here.upstream.user = "grace"
    grace = here.flow()
    theirs = await grace.tokens()
    await here.proxy.revoke(Principal(ADA), here.ground)
    assert set(here.upstream.live.values()) == {"grace"}
    assert (await pending.redeemed(code)).json()["error"] == "invalid_grant"
    assert (await grace.refreshed(theirs)).status_code == 200


async def test_revoke_principal_from_another_process():
    here = Proxied(kept={"secret": "the first secret of the tests"})
    flow = here.flow()
    tokens = await flow.tokens()
    secrets = ["the second secret of the tests", "the first secret of the tests"]
    other = Proxied(here.upstream, kept={"shared": here.site.shared, "secret": secrets})
    fresh: Any = type(other.proxy)(here.upstream, clock=here.clock)
    await fresh.revoke(Principal(ADA), other.ground)
    assert here.upstream.live == {}
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"


class LossyMemory(Memory):
    deletions = 0

    async def delete(self, key: str, *, version: str) -> bool:
        self.deletions += 1
        if self.deletions == 2:
            raise OSError("the store does not answer")
        return await super().delete(key, version=version)


async def test_revoke_principal_with_failing_store_can_be_repeated():
    here = Proxied(kept={"shared": LossyMemory()})
    for _ in range(3):
        await here.flow().tokens()
    with pytest.raises(OSError, match="does not answer"):
        await here.proxy.revoke(Principal(ADA), here.ground)
    assert len(here.upstream.live) == 2, "of the login that is still here"
    await here.proxy.revoke(Principal(ADA), here.ground)
    assert here.upstream.live == {}


async def test_revoke_at_provider_that_ends_all_waits_for_last_login():
    here = Proxied()
    here.upstream.revokes_all = True
    first, second = here.flow(), here.flow()
    one, other = await first.tokens(), await second.tokens()
    await first.revoked(one["refresh_token"])
    assert "revoke" not in here.upstream.asked
    assert await here.token_for(other) in here.upstream.live
    await second.revoked(other["refresh_token"])
    assert here.upstream.live == {}


async def test_revoke_principal_at_provider_that_ends_all():
    here = Proxied()
    here.upstream.revokes_all = True
    for _ in range(2):
        await here.flow().tokens()
    await here.proxy.revoke(Principal(ADA), here.ground)
    assert here.upstream.live == {}


async def test_code_never_redeemed_is_revoked(monkeypatch):
    monkeypatch.setattr(logins, "ABANDONED", 0.2)
    here = Proxied()
    fetched = here.flow()
    await fetched.tokens()
    code = await here.flow().code()
    assert len(here.upstream.live) == 4
    here.clock.now += CODE_LIFETIME
    with anyio.fail_after(20):
        while len(here.upstream.live) == 4:
            await anyio.sleep(0.05)
    assert len(here.upstream.live) == 2
    assert (await here.flow().redeemed(code)).json()["error"] == "invalid_grant"


class Away(Memory):
    is_away = False

    async def get(self, key: str) -> Stored | None:
        if self.is_away:
            raise OSError("the store does not answer")
        return await super().get(key)


async def test_revoke_of_abandoned_login_failure_is_logged(monkeypatch, caplog):
    monkeypatch.setattr(logins, "ABANDONED", 0.2)
    here = Proxied(kept={"shared": (store := Away())})
    await here.flow().code()
    store.is_away = True
    with anyio.fail_after(60):
        while "cannot be ended: 'the store does not answer'" not in caplog.text:
            await anyio.sleep(0.05)


async def test_audit_denied_by_allow():
    here = Proxied(allow=lambda who: False)
    events = record_events(here)
    await here.flow().back()
    [refused] = [event for event in events if event.name == "refusal"]
    assert (refused.principal, refused.detail) == (ADA, "allow= does not let them in")


async def test_revoke_unknown_principal_ends_nothing():
    here = Proxied()
    await here.flow().tokens()
    await here.proxy.revoke(Principal("https://id.example.com#sub=ad"), here.ground)
    assert len(here.upstream.live) == 2
