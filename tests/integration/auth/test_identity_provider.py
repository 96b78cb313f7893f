"""Verifiers, client credentials, proofs and checks with a real authorization server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey

from mcpkit import Client, Context, Scope, Server
from mcpkit.auth import (
    AccessToken,
    Introspection,
    InvalidTokenError,
    Jwt,
    TokenVerifier,
    VerifierUnavailableError,
)
from mcpkit.client import ClientCredentials, FileTokens, LocalCallbackServer, OAuth
from mcpkit.client.authorization.dpop import Proofs
from mcpkit.doctor import check_authorization
from tests.helpers.clock import Clock
from tests.helpers.identity_provider import SERVICE, providing
from tests.helpers.serving import in_thread_at
from tests.helpers.signed_tokens import NOW

pytestmark = pytest.mark.anyio

RESOURCE = "https://mcp.example.com/mcp"


HOUR = 3600.0


async def rejection(verifier: Jwt | Introspection, token: str) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        await verifier.verify(token, RESOURCE)
    return caught.value.description


def identity_of(grant: AccessToken) -> tuple[str | None, str | None, set[str]]:
    return grant.principal.subject, grant.principal.client_id, set(grant.principal.scopes)


async def test_jwt_of_real_issuer_with_key_rotation_and_downtime():
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
        assert identity_of(await jwt.verify(new, RESOURCE))[0] == "bob"
        assert "no key of the issuer verifies" in await rejection(jwt, old)

        for how in ("refusing", "failing", "hanging"):
            clock.now += HOUR
            with provider.down(how):
                assert await jwt.verify(new, RESOURCE)
                with pytest.raises(VerifierUnavailableError):
                    await Jwt(provider.issuer, timeout=0.5).verify(new, RESOURCE)
        clock.now += HOUR
        assert await jwt.verify(new, RESOURCE)
        await jwt.aclose()


REVISIONS = ["2025-11-25", "2026-07-28"]


KEYS: dict[str, Any] = {"ES256": ECKey.generate_key("P-256"), "EdDSA": OKPKey.generate_key("Ed25519")}


@contextmanager
def serve_whoami(issuer: str) -> Iterator[str]:
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
    async with Client(url, auth=auth, protocol_version=revision) as client:
        return (await client.call_tool("whoami")).text


@pytest.mark.parametrize("algorithm", KEYS)
async def test_client_credentials_with_private_key(algorithm):
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
    with providing(clients=[known]) as provider, serve_whoami(provider.issuer) as url:
        pem = key.as_pem(private=True).decode()
        assert (
            await whoami(url, ClientCredentials("signer", private_key=pem), REVISIONS[1])
            == "signer may notes:read"
        )


DPOP_RESOURCE = "http://127.0.0.1:8000/mcp"


@pytest.mark.parametrize("dpop_nonces", [False, True])
async def test_dpop_proof_binds_token(dpop_nonces):
    proofs = Proofs()
    with providing(dpop_nonces=dpop_nonces) as provider:
        endpoint = f"{provider.issuer}/token"
        form = {"grant_type": "client_credentials", "resource": DPOP_RESOURCE, "scope": "notes:read"}
        async with httpx2.AsyncClient(auth=SERVICE) as web:
            answer = await web.post(endpoint, data=form, headers={"DPoP": proofs.proof("POST", endpoint)})
            if dpop_nonces:
                assert (answer.status_code, answer.json()["error"]) == (400, "use_dpop_nonce")
                proofs.set_nonce(endpoint, answer.headers["dpop-nonce"])
                answer = await web.post(endpoint, data=form, headers={"DPoP": proofs.proof("POST", endpoint)})
            keys = KeySet.import_key_set((await web.get(f"{provider.issuer}/jwks")).json())
    assert answer.json()["token_type"] == "DPoP"
    claims = jwt.decode(answer.json()["access_token"], keys, algorithms=["RS256"]).claims
    assert claims["cnf"] == {"jkt": ECKey.import_key(proofs.key).thumbprint()}


class NoToken(TokenVerifier):
    def __init__(self, issuer: str) -> None:
        self.issuers = (issuer,)

    async def verify(self, token: str, audience: str) -> Any:
        raise InvalidTokenError("nobody has issued it")


@contextmanager
def serve_no_token(issuer: str) -> Iterator[str]:
    scopes = {"notes:read": Scope("Read notes", default=True)}
    server = Server("notes", auth=NoToken(issuer), scopes=scopes)
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        yield f"{origin}/mcp"


async def finding_codes(url: str) -> dict[str, str]:
    return {each.code: each.severity for each in await check_authorization(url)}


async def test_check_authorization_of_mcpkit_server(identity_provider):
    with serve_no_token(identity_provider.issuer) as url:
        findings = await check_authorization(url)
    assert [each.code for each in findings if each.severity == "error"] == []
    assert {each.code for each in findings} <= {"march-foreign-issuer", "cors"}
    # Of web pages it is the provider alone that keeps them out: pages register nowhere there.
    assert [each.why.partition(" at: ")[2] for each in findings if each.code == "cors"] == [
        "the registration_endpoint."
    ]


async def test_check_authorization_issuer_down_or_without_metadata():
    with providing() as provider:
        with serve_no_token(provider.issuer) as url, provider.down("refusing"):
            assert (await finding_codes(url))["issuer-unreachable"] == "error"
        with serve_no_token(f"{provider.issuer}/nobody") as url:
            assert (await finding_codes(url))["issuer-metadata"] == "error"


AGAIN = """
import asyncio, sys
from mcpkit import Client
from mcpkit.client import LocalCallbackServer
from mcpkit.client import FileTokens, OAuth

def show(url):
    raise AssertionError("nobody is to log in again")

async def main():
    auth = OAuth(storage=FileTokens(sys.argv[2]), browser=LocalCallbackServer(open_browser=show))
    async with Client(sys.argv[1], auth=auth) as client:
        print((await client.call_tool("whoami")).text)

asyncio.run(main())
"""


async def test_file_tokens_are_refreshed_by_one_process(browser, tmp_path):
    path = tmp_path / "folder" / "tokens"
    with providing() as provider, serve_whoami(provider.issuer) as url, browser.profile() as page:
        storage = FileTokens(path)
        login = LocalCallbackServer(open_browser=lambda login: page.log_in(login, "ada"))
        async with Client(url, auth=OAuth(storage=storage, browser=login)) as client:
            await client.call_tool("whoami")
        stored = await storage.get_tokens(url)
        assert stored is not None
        await storage.set_tokens(replace(stored, access_token="has-ended", expires=1.0))
        command = [sys.executable, "-c", AGAIN, url, str(path)]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        outputs = [process.communicate(timeout=60)[0] for process in processes]
        refreshed = [
            each for each in provider.seen("/token") if each.params.get("grant_type") == "refresh_token"
        ]
    assert outputs == ["ada may notes:read\n"] * 4
    assert [each.status for each in refreshed] == [200]
