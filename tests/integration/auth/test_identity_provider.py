"""A verifier, client credentials and shared tokens with real authorization servers."""

from __future__ import annotations

import subprocess
import sys
from contextlib import aclosing
from dataclasses import replace

import pytest
from joserfc.jwk import ECKey, OKPKey

from mcpkit import Client
from mcpkit.auth import InvalidTokenError, Jwt, VerifierUnavailableError
from mcpkit.client import ClientCredentials, FileTokens
from tests.helpers.identity_provider import providing
from tests.helpers.oauth_flow import User
from tests.helpers.waiting import Clock
from tests.integration.auth.servers import serve_dev_auth, serve_jwt

pytestmark = pytest.mark.anyio

RESOURCE = "https://mcp.example.com/mcp"
HOUR = 3600.0


async def test_jwt_of_real_issuer_with_key_rotation_and_downtime():
    with providing(token_seconds=1e9) as provider:
        old = provider.token("ada", "", RESOURCE)
        async with aclosing(Jwt(provider.issuer)) as jwt:
            clock = Clock((await jwt.verify(old, RESOURCE)).issued or 0)
        async with aclosing(Jwt(provider.issuer, clock=clock, timeout=0.5)) as jwt:
            assert await jwt.verify(old, RESOURCE)
            provider.rotate(keeps_old=False)
            new = provider.token("bob", "", RESOURCE)
            assert (await jwt.verify(new, RESOURCE)).principal.subject == "bob"
            with pytest.raises(InvalidTokenError, match="no key of the issuer verifies"):
                await jwt.verify(old, RESOURCE)

            for how in ("refusing", "failing", "hanging"):
                clock.now += HOUR
                with provider.down(how):
                    assert await jwt.verify(new, RESOURCE)
                    async with aclosing(Jwt(provider.issuer, timeout=0.5)) as without_keys:
                        with pytest.raises(VerifierUnavailableError):
                            await without_keys.verify(new, RESOURCE)
            clock.now += HOUR
            assert await jwt.verify(new, RESOURCE)


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [("ES256", ECKey.generate_key("P-256")), ("EdDSA", OKPKey.generate_key("Ed25519"))],
    ids=["ES256", "EdDSA"],
)
async def test_client_credentials_with_private_key(algorithm, key):
    known = {
        "client_id": "signer",
        "grant_types": ["client_credentials"],
        "response_types": [],
        "redirect_uris": [],
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": algorithm,
        "jwks": {"keys": [key.as_dict(private=False)]},
    }
    with providing(clients=[known]) as provider, serve_jwt(provider.issuer) as server:
        auth = ClientCredentials("signer", private_key=key.as_pem(private=True).decode())
        async with Client(server.url, auth=auth) as client:
            result = await client.call_tool("whoami")
    assert result.structured_content == {"subject": None, "scopes": ["notes:read"]}


CALL = """
import asyncio, sys
from mcpkit import Client
from mcpkit.client import FileTokens, LocalCallbackServer, OAuth

def show(url):
    raise AssertionError("no second login is needed")

async def main():
    auth = OAuth(storage=FileTokens(sys.argv[2]), browser=LocalCallbackServer(open_browser=show))
    async with Client(sys.argv[1], auth=auth) as client:
        print((await client.call_tool("whoami")).structured_content["subject"])

asyncio.run(main())
"""


async def test_file_tokens_are_refreshed_by_one_process(tmp_path):
    path = tmp_path / "folder" / "tokens"
    user = User()
    user.storage = storage = FileTokens(path)
    with serve_dev_auth() as server:
        async with Client(server.url, auth=user.auth) as client:
            await client.call_tool("whoami")
        stored = await storage.get_tokens(server.url)
        assert stored is not None
        await storage.set_tokens(replace(stored, access_token="has-ended", expires=1.0))
        command = [sys.executable, "-c", CALL, server.url, str(path)]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        outputs = [process.communicate(timeout=60)[0] for process in processes]
        forms = [each for each in server.exchanges if each.path == "/token"]
    assert outputs == ["ada\n"] * 3
    refreshes = [each.status for each in forms if each.asked["grant_type"] == "refresh_token"]
    assert refreshes == [200]
