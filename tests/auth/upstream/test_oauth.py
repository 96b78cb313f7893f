"""Providers of OAuth alone, by their endpoints."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.auth import Upstream
from mcpkit.auth.upstream.errors import UpstreamRefusedError, UpstreamUnavailableError
from tests.helpers.openid_site import METADATA, OpenIdSite
from tests.helpers.upstream_login import UpstreamLogin
from tests.helpers.upstream_site import CLIENT

pytestmark = pytest.mark.anyio


def by_hand(provider: OpenIdSite, **options: Any) -> Upstream:
    endpoints = {
        "authorization_endpoint": f"{provider.url}/authorize",
        "token_endpoint": f"{provider.url}/token",
        "userinfo_endpoint": f"{provider.url}/userinfo",
    }
    return Upstream.oauth("https://chat.example.com", *CLIENT, **{**endpoints, **options})


async def test_the_whole_of_a_login(provider: OpenIdSite) -> None:
    provider.users["ada"] = {"id": 7}
    upstream = by_hand(
        provider,
        revocation_endpoint=f"{provider.url}/revoke",
        scopes=["chat"],
        name="chat",
        subject_claim="id",
    )
    login = UpstreamLogin(upstream)
    identity, tokens = await login.redeemed()
    renewed = await upstream.provider.refresh(tokens)
    again = await upstream.provider.identify(renewed)
    await upstream.provider.revoke(renewed)
    with pytest.raises(UpstreamRefusedError, match="invalid_token"):
        await upstream.provider.identify(renewed)
    url = await login.url()
    await upstream.provider.aclose()

    assert (upstream.name, upstream.title, upstream.issuer) == (
        "chat",
        "chat.example.com",
        "https://chat.example.com",
    )
    assert again == identity
    assert (identity.subject, identity.claims) == ("7", {"id": 7, "name": "Ada"})
    assert (tokens.scopes, tokens.said) == (("chat",), {})
    assert provider.revoked == [renewed.refresh_token, renewed.access_token]
    assert METADATA not in provider.asked
    assert "nonce" not in url


@pytest.mark.parametrize("id_", [None, True, 1.5, "", [], {"id": 1}, "a\nb"])
async def test_who_has_no_id_is_nobody(provider: OpenIdSite, id_: object) -> None:
    provider.told = lambda claims: {**claims, "id": id_}
    upstream = by_hand(provider, subject_claim="id")
    with pytest.raises(UpstreamUnavailableError, match="does not say who has logged in"):
        await UpstreamLogin(upstream).redeemed()
    await upstream.provider.aclose()


async def test_where_tokens_cannot_be_revoked_nobody_is_asked(provider: OpenIdSite) -> None:
    upstream = by_hand(provider)
    _, tokens = await UpstreamLogin(upstream).redeemed()
    before = provider.asked.copy()
    await upstream.provider.revoke(tokens)
    await upstream.provider.aclose()

    assert provider.asked == before


def test_endpoints_that_may_not_be_asked_are_refused(provider: OpenIdSite) -> None:
    for name in ("authorization", "token", "userinfo", "revocation"):
        with pytest.raises(ValueError, match=f"{name}_endpoint is not encrypted"):
            by_hand(provider, **{f"{name}_endpoint": "http://chat.example.com/"})
