"""What verifies access tokens, held against those of a real authorization server."""

from __future__ import annotations

import httpx2
import pytest

from mcpkit.auth import Grant, Introspection, InvalidTokenError, Jwt, VerifierUnavailableError
from tests.helpers.clock import Clock
from tests.helpers.identity_provider import RESOURCE_SERVER, SERVICE, IdentityProvider, providing
from tests.helpers.signed_tokens import NOW

pytestmark = pytest.mark.anyio

RESOURCE = "https://mcp.example.com/mcp"
HOUR = 3600.0


def introspection(provider: IdentityProvider, **options: str) -> Introspection:
    id_, secret = RESOURCE_SERVER
    return Introspection(provider.issuer, **{"client_id": id_, "client_secret": secret, **options})


async def refusal(verifier: Jwt | Introspection, token: str) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        await verifier.verify(token, RESOURCE)
    return caught.value.description


def of_service(provider: IdentityProvider) -> str:
    form = {"grant_type": "client_credentials", "scope": "notes:read", "resource": RESOURCE}
    answer = httpx2.post(f"{provider.issuer}/token", data=form, auth=SERVICE)
    return str(answer.raise_for_status().json()["access_token"])


def whose(grant: Grant) -> tuple[str | None, str | None, set[str]]:
    return grant.principal.subject, grant.principal.client_id, set(grant.principal.scopes)


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
async def test_its_tokens_are_taken_for_what_they_are(algorithm: str) -> None:
    with providing(algorithm=algorithm, path="/realms/one") as provider:
        jwt = Jwt(provider.issuer)
        ada = provider.token("ada", "notes:read notes:write", RESOURCE)

        grant = await jwt.verify(ada, RESOURCE)
        assert whose(grant) == ("ada", "public", {"notes:read", "notes:write"})
        assert grant.expires is not None
        assert grant.issued is not None
        assert whose(await jwt.verify(of_service(provider), RESOURCE)) == (None, "service", {"notes:read"})

        assert "expired" in await refusal(jwt, provider.token("ada", "notes:read", RESOURCE, seconds=-60))
        other = provider.token("ada", "notes:read", "https://other.example.com/mcp")
        assert "another audience" in await refusal(jwt, other)
        with providing(algorithm=algorithm) as another:
            assert "another issuer" in await refusal(jwt, another.token("ada", "notes:read", RESOURCE))


async def test_it_changes_its_keys_and_goes_down_and_comes_back() -> None:
    clock = Clock(NOW)
    with providing(token_seconds=1e9) as provider:
        clock.now = (
            await Jwt(provider.issuer).verify(provider.token("ada", "", RESOURCE), RESOURCE)
        ).issued or 0
        jwt = Jwt(provider.issuer, clock=clock, timeout=0.5)
        old = provider.token("ada", "", RESOURCE)
        assert await jwt.verify(old, RESOURCE)

        provider.rotate(keeps_old=False)
        new = provider.token("bob", "", RESOURCE)
        assert whose(await jwt.verify(new, RESOURCE))[0] == "bob"
        assert "by none of the keys" in await refusal(jwt, old)

        for how in ("refusing", "failing", "hanging"):
            clock.now += HOUR
            with provider.down(how):
                assert await jwt.verify(new, RESOURCE)
                with pytest.raises(VerifierUnavailableError):
                    await Jwt(provider.issuer, timeout=0.5).verify(new, RESOURCE)
        clock.now += HOUR
        assert await jwt.verify(new, RESOURCE)
        await jwt.aclose()


async def test_it_is_asked_about_tokens_that_only_it_can_read() -> None:
    with providing(opaque=True) as provider:
        asking = introspection(provider)
        ada = provider.token("ada", "notes:read", RESOURCE)
        assert "." not in ada

        assert whose(await asking.verify(ada, RESOURCE)) == ("ada", "public", {"notes:read"})
        assert whose(await asking.verify(of_service(provider), RESOURCE)) == (None, "service", {"notes:read"})
        other = provider.token("ada", "notes:read", "https://other.example.com/mcp")
        assert "another audience" in await refusal(asking, other)
        assert "not active" in await refusal(asking, provider.token("ada", "", RESOURCE, seconds=-60))
        assert "not active" in await refusal(asking, "nothing")

        provider.revoke("ada")
        assert "not active" in await refusal(asking, ada)

        for how in ("refusing", "failing", "hanging"):
            with provider.down(how), pytest.raises(VerifierUnavailableError):
                await introspection(provider, timeout=0.5).verify(ada, RESOURCE)
        wrong = introspection(provider, client_secret="another")
        with pytest.raises(VerifierUnavailableError, match="look at client_id, client_secret"):
            await wrong.verify(ada, RESOURCE)
        for verifier in (asking, wrong):
            await verifier.aclose()
