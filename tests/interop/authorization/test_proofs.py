"""Proofs of possession, judged by a real authorization server: it binds tokens to the key, and wants its nonce."""

from __future__ import annotations

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from mcpkit.client.authorization.dpop import Proofs
from tests.helpers.identity_provider import SERVICE, providing

pytestmark = pytest.mark.anyio

RESOURCE = "http://127.0.0.1:8000/mcp"


@pytest.mark.parametrize("dpop_nonces", [False, True])
async def test_a_provider_binds_tokens_to_the_key_of_the_proofs(dpop_nonces: bool) -> None:
    proofs = Proofs()
    with providing(dpop_nonces=dpop_nonces) as provider:
        endpoint = f"{provider.issuer}/token"
        form = {"grant_type": "client_credentials", "resource": RESOURCE, "scope": "notes:read"}
        async with httpx2.AsyncClient(auth=SERVICE) as web:
            answer = await web.post(endpoint, data=form, headers={"DPoP": proofs.proof("POST", endpoint)})
            if dpop_nonces:
                assert (answer.status_code, answer.json()["error"]) == (400, "use_dpop_nonce")
                proofs.heard(endpoint, answer.headers["dpop-nonce"])
                answer = await web.post(endpoint, data=form, headers={"DPoP": proofs.proof("POST", endpoint)})
            keys = KeySet.import_key_set((await web.get(f"{provider.issuer}/jwks")).json())
    assert answer.json()["token_type"] == "DPoP"
    claims = jwt.decode(answer.json()["access_token"], keys, algorithms=["RS256"]).claims
    assert claims["cnf"] == {"jkt": ECKey.import_key(proofs.key).thumbprint()}
