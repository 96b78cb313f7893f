"""What ends here ends at the provider, and whoever watches hears of it."""

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


def watched(here: Proxied) -> list[AuditEvent]:
    """The events from now on."""
    events: list[AuditEvent] = []
    here.site.audit(events.append)
    return events


def revocations(events: list[AuditEvent]) -> list[str | None]:
    """Whose grants have ended."""
    return [event.principal for event in events if event.name == "revocation"]


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_a_client_logs_out(kind: str) -> None:
    here = Proxied()
    events = watched(here)
    flow = here.flow()
    tokens = await flow.tokens()
    assert (await flow.revoked(tokens[kind])).status_code == 200
    assert here.upstream.live == {}
    assert revocations(events) == [ADA]
    assert (await flow.revoked(tokens[kind])).status_code == 200
    assert here.upstream.asked.count("revoke") == 1


async def test_a_provider_that_is_away_keeps_nobody_from_logging_out() -> None:
    here = Proxied()
    here.upstream.down.add("revoke")
    flow = here.flow()
    tokens = await flow.tokens()
    assert (await flow.revoked(tokens["refresh_token"])).status_code == 200
    with pytest.raises(InvalidTokenError):
        await here.granted(tokens)


async def test_a_refresh_token_that_comes_again_later_ends_the_login_everywhere() -> None:
    here = Proxied()
    events = watched(here)
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


async def test_a_code_that_comes_again_later_ends_the_login_everywhere() -> None:
    here = Proxied()
    flow = here.flow()
    code = await flow.code()
    tokens = (await flow.redeemed(code)).json()
    here.clock.now += GRACE + 1
    assert (await flow.redeemed(code)).json()["error"] == "invalid_grant"
    assert here.upstream.live == {}
    with pytest.raises(InvalidTokenError):
        await here.granted(tokens)


async def test_somebody_who_is_sent_away_has_no_login_left_by_whichever_client() -> None:
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


async def test_somebody_is_sent_away_by_a_process_that_serves_nothing_and_under_any_secret() -> None:
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
    """A store that fails at one of its deletions."""

    deletions = 0

    async def delete(self, key: str, *, version: str) -> bool:
        self.deletions += 1
        if self.deletions == 2:
            raise OSError("the store does not answer")
        return await super().delete(key, version=version)


async def test_what_ends_while_the_store_fails_ends_at_the_provider_as_well() -> None:
    here = Proxied(kept={"shared": LossyMemory()})
    for _ in range(3):
        await here.flow().tokens()
    with pytest.raises(OSError, match="does not answer"):
        await here.proxy.revoke(Principal(ADA), here.ground)
    assert len(here.upstream.live) == 2, "of the login that is still here"
    await here.proxy.revoke(Principal(ADA), here.ground)
    assert here.upstream.live == {}


async def test_where_the_end_of_one_login_is_the_end_of_all_the_last_one_is_told() -> None:
    here = Proxied()
    here.upstream.revokes_all = True
    first, second = here.flow(), here.flow()
    one, other = await first.tokens(), await second.tokens()
    await first.revoked(one["refresh_token"])
    assert "revoke" not in here.upstream.asked
    assert await here.token_for(other) in here.upstream.live
    await second.revoked(other["refresh_token"])
    assert here.upstream.live == {}


async def test_somebody_who_is_sent_away_is_told_of_where_one_login_is_all() -> None:
    here = Proxied()
    here.upstream.revokes_all = True
    for _ in range(2):
        await here.flow().tokens()
    await here.proxy.revoke(Principal(ADA), here.ground)
    assert here.upstream.live == {}


async def test_what_a_client_never_fetches_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
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
    """A store that can be away."""

    is_away = False

    async def get(self, key: str) -> Stored | None:
        if self.is_away:
            raise OSError("the store does not answer")
        return await super().get(key)


async def test_what_cannot_be_let_go_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logins, "ABANDONED", 0.2)
    here = Proxied(kept={"shared": (store := Away())})
    await here.flow().code()
    store.is_away = True
    with anyio.fail_after(60):
        while "cannot be ended: 'the store does not answer'" not in caplog.text:
            await anyio.sleep(0.05)


async def test_whoever_is_not_let_in_is_told_of() -> None:
    here = Proxied(allow=lambda who: False)
    events = watched(here)
    await here.flow().back()
    [refused] = [event for event in events if event.name == "refusal"]
    assert (refused.principal, refused.detail) == (ADA, "allow= does not let them in")


async def test_of_nobody_nothing_ends() -> None:
    here = Proxied()
    await here.flow().tokens()
    await here.proxy.revoke(Principal("https://id.example.com#sub=ad"), here.ground)
    assert len(here.upstream.live) == 2
