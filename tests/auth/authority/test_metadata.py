"""The metadata of an authorization server, in each place where clients look for it."""

from __future__ import annotations

import pytest

from mcpkit.auth.discovery import AuthorizationServerMetadata, authorization_server_urls
from tests.helpers.authority_site import ORIGIN, Here

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("issuer", [ORIGIN, f"{ORIGIN}/", f"{ORIGIN}/login", f"{ORIGIN}/a/b/"])
async def test_it_is_the_same_wherever_clients_look(issuer: str) -> None:
    here = Here(issuer=issuer)
    async with here.browser() as client:
        answers = [await client.get(url) for url in authorization_server_urls(issuer)]
    assert len(answers) == (2 if issuer.rstrip("/") == ORIGIN else 3)
    found = [answer.json() for answer in answers]
    assert found == [here.authority.metadata()] * len(answers)
    read = AuthorizationServerMetadata.read(found[0], issuer)
    for name in ("authorization", "token", "registration", "revocation"):
        assert read.endpoint(f"{name}_endpoint").startswith(f"{issuer.rstrip('/')}/")


async def test_it_is_nowhere_else() -> None:
    here = Here(issuer=f"{ORIGIN}/login")
    async with here.browser() as client:
        for path in (
            "/.well-known/oauth-authorization-server",
            "/.well-known/openid-configuration",
            "/login/.well-known/oauth-authorization-server",
            "/.well-known/oauth-authorization-server/other",
            "/authorize",
        ):
            assert (await client.get(path)).status_code == 404


async def test_it_has_what_clients_and_both_specifications_want() -> None:
    found = Here().authority.metadata()
    required = {
        "issuer", "authorization_endpoint", "token_endpoint", "jwks_uri", "response_types_supported",
        "subject_types_supported", "id_token_signing_alg_values_supported",
    }  # fmt: skip
    assert required <= set(found)
    assert "none" in found["token_endpoint_auth_methods_supported"]  # type: ignore[operator]  # a list
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["client_id_metadata_document_supported"] is True
    assert "offline_access" not in found["scopes_supported"]  # type: ignore[operator]  # a list
