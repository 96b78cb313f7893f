"""Tokens of a login that comes to nothing, and of a refresh whose rest takes too long."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import Response

from mcpkit.auth import Upstream
from mcpkit.auth.upstream import openid as of_openid
from mcpkit.auth.upstream.errors import UpstreamUnavailableError
from tests.helpers.openid_site import KEYS, USERINFO, OpenIdSite
from tests.helpers.upstream_login import UpstreamLogin
from tests.helpers.upstream_site import CLIENT

pytestmark = pytest.mark.anyio


async def test_a_login_that_is_given_up_in_the_midst_is_revoked(
    provider: OpenIdSite, login: UpstreamLogin
) -> None:
    answer = await login.answered()
    provider.held = USERINFO
    provider.is_open.clear()
    provider.is_asked.clear()
    redeeming = asyncio.ensure_future(login.redeemed(answer))
    assert await asyncio.to_thread(provider.is_asked.wait, 60)
    redeeming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await redeeming
    provider.mend()
    assert len(provider.revoked) == 2


@pytest.mark.parametrize("revokes_all", [True, False])
async def test_a_login_that_fails_ends_no_other_of_the_same_user(
    provider: OpenIdSite, *, revokes_all: bool
) -> None:
    upstream = (Upstream.keycloak if revokes_all else Upstream.openid)(provider.url, *CLIENT)
    login = UpstreamLogin(upstream)
    provider.instead = lambda request: Response(status_code=503) if request.url.path == USERINFO else None
    with pytest.raises(UpstreamUnavailableError, match="userinfo"):
        await login.redeemed()
    assert bool(provider.revoked) is not revokes_all
    await upstream.provider.aclose()


async def test_refreshed_tokens_do_not_wait_for_keys(
    provider: OpenIdSite, login: UpstreamLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_openid, "SAID_AGAIN", 0.2)
    _, tokens = await login.redeemed()
    later = Upstream.openid(provider.url, *CLIENT, timeout=300)  # another process, which has no keys yet
    provider.held = KEYS
    provider.is_open.clear()
    refreshed = await asyncio.wait_for(later.provider.refresh(tokens), 60)
    assert refreshed.access_token != tokens.access_token
    assert refreshed.said == tokens.said
    provider.mend()
    await later.provider.aclose()
