"""Requests that are cancelled in the midst, as when a server stops: nothing that a provider gives out is forgotten."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from mcpkit.auth.upstream.tokens import UpstreamTokens
from mcpkit.state.principal import Principal
from tests.helpers.clock import Clock
from tests.helpers.proxied import Proxied
from tests.helpers.stand_in import StandIn

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("may", [True, False])
async def test_a_login_goes_on_when_nobody_waits_for_it_any_more(*, may: bool) -> None:
    is_asked, go_on = asyncio.Event(), asyncio.Event()

    async def allow(who: Principal) -> bool:
        is_asked.set()
        await go_on.wait()
        return may

    here = Proxied(allow=allow)
    logins = list[str]()
    here.site.audit(lambda event: logins.append(event.name) if event.name in {"login", "refusal"} else None)
    flow = here.flow()
    coming = asyncio.ensure_future(flow.back(await flow.at_provider()))
    with anyio.fail_after(60):
        await is_asked.wait()
        assert len(here.upstream.live) == 2
        coming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await coming
        go_on.set()
        while not logins:
            await anyio.sleep(0.01)
    assert logins == ["login" if may else "refusal"]
    assert bool(here.upstream.live) is may


class Slow(StandIn):
    """A provider that takes its time for revocations."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.is_asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def revoke(self, tokens: UpstreamTokens) -> None:
        self.is_asked.set()
        await self.go_on.wait()
        await super().revoke(tokens)


async def test_a_logout_for_which_nobody_waits_any_more_ends_at_the_provider() -> None:
    here = Proxied(provider := Slow())
    flow = here.flow()
    tokens = await flow.tokens()
    leaving = asyncio.ensure_future(flow.revoked(tokens["refresh_token"]))
    with anyio.fail_after(60):
        await provider.is_asked.wait()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        provider.go_on.set()
        while provider.live:
            await anyio.sleep(0.01)
