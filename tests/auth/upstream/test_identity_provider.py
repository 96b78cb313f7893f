"""A real provider, npm's oidc-provider, that knows no registration: users log in, refresh, and are revoked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcpkit.auth import Upstream
from mcpkit.auth.upstream.errors import UpstreamRefusedError, UpstreamUnavailableError
from tests.helpers.identity_provider import CONFIDENTIAL, IdentityProvider, confidential, providing
from tests.helpers.upstream_login import CALLBACK, UpstreamLogin

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["RS256", "ES256"])
def real(request: pytest.FixtureRequest) -> Iterator[IdentityProvider]:
    client = {**confidential(CALLBACK), "id_token_signed_response_alg": request.param}
    with providing(
        users={"ada": {"email": "ada@example.com"}, "bob": {}},
        clients=[client],
        identity_claims={"email": ["email"]},
        registers=False,
        reads_documents=False,
    ) as serving:
        yield serving


async def test_the_whole_of_a_login(real: IdentityProvider) -> None:
    upstream = Upstream.openid(real.issuer, *CONFIDENTIAL, scopes=["openid", "email", "offline_access"])
    login = UpstreamLogin(upstream)
    identity, tokens = await login.redeemed()
    assert identity.subject == "ada"
    assert identity.claims["email"] == "ada@example.com"

    renewed = await upstream.provider.refresh(tokens)
    assert renewed.refresh_token not in {None, tokens.refresh_token}
    assert (await upstream.provider.identify(renewed)).subject == "ada"
    with pytest.raises(UpstreamRefusedError) as used:
        await upstream.provider.refresh(tokens)
    assert used.value.error == "invalid_grant"
    with pytest.raises(UpstreamRefusedError) as over:
        await upstream.provider.refresh(renewed)  # as the old one was used again
    assert over.value.error == "invalid_grant"

    _, again = await UpstreamLogin(upstream, user="bob").redeemed()
    await upstream.provider.revoke(again)
    with pytest.raises(UpstreamRefusedError) as revoked:
        await upstream.provider.identify(again)
    assert revoked.value.error == "invalid_token"
    assert [each.status for each in real.seen("/token/revocation")] == [200, 200]

    with pytest.raises(UpstreamRefusedError) as denied:
        await login.redeemed(await login.answered("deny"))
    assert denied.value.error == "access_denied"
    await upstream.provider.aclose()


async def test_a_secret_that_was_changed_is_no_users_fault(real: IdentityProvider) -> None:
    upstream = Upstream.openid(real.issuer, CONFIDENTIAL[0], "the old secret")
    with pytest.raises(UpstreamUnavailableError, match="look at client_id, client_secret"):
        await UpstreamLogin(upstream).redeemed()
    await upstream.provider.aclose()
