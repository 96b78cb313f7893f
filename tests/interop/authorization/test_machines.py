"""Programs that ask for themselves at a real authorization server, for a server of mcpkit that verifies its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey

from mcpkit import AuthorizationError, Client, ClientCredentials, Context, Scope, Server
from mcpkit.auth import Jwt
from tests.helpers.identity_provider import SERVICE, IdentityProvider, providing
from tests.helpers.serving import in_thread_at

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]
KEYS: dict[str, Any] = {
    "RS256": RSAKey.generate_key(2048),
    "ES256": ECKey.generate_key("P-256"),
    "EdDSA": OKPKey.generate_key("Ed25519"),
}


@contextmanager
def served(issuer: str) -> Iterator[str]:
    """Run a server that says who asks, and give its URL."""
    server = Server("notes", auth=Jwt(issuer), scopes={"notes:read": Scope("Read notes", default=True)})

    @server.tool
    def whoami(ctx: Context) -> str:
        """Say who asks."""
        assert ctx.principal is not None
        return (
            f"{ctx.principal.subject or ctx.principal.client_id} may {' '.join(sorted(ctx.principal.scopes))}"
        )

    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        yield f"{origin}/mcp"


async def whoami(url: str, auth: ClientCredentials, revision: str) -> str:
    async with Client(url, auth=auth, revision=revision) as client:
        return (await client.call("whoami")).text


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_service_with_a_secret(identity_provider: IdentityProvider, revision: str) -> None:
    client_id, secret = SERVICE
    with served(identity_provider.issuer) as url:
        auth = ClientCredentials(client_id, secret, issuer=identity_provider.issuer)
        assert await whoami(url, auth, revision) == "service may notes:read"


async def test_a_wrong_secret_is_refused_in_words(identity_provider: IdentityProvider) -> None:
    with served(identity_provider.issuer) as url:
        auth = ClientCredentials(SERVICE[0], "guessed-secret", issuer=identity_provider.issuer)
        with pytest.raises(AuthorizationError, match="invalid_client") as raised:
            await whoami(url, auth, REVISIONS[1])
    assert "guessed" not in str(raised.value)


@pytest.mark.parametrize("algorithm", KEYS)
async def test_a_service_with_a_key(algorithm: str) -> None:
    key = KEYS[algorithm]
    known = {
        "client_id": "signer",
        "grant_types": ["client_credentials"],
        "response_types": [],
        "redirect_uris": [],
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": algorithm,
        "jwks": {"keys": [key.as_dict(private=False)]},
    }
    with providing(clients=[known]) as provider, served(provider.issuer) as url:
        pem = key.as_pem(private=True).decode()
        assert (
            await whoami(url, ClientCredentials("signer", private_key=pem), REVISIONS[1])
            == "signer may notes:read"
        )
