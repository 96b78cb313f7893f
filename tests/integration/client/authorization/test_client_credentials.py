"""Tokens for programs: client credentials, workload identity, enterprise grants and DPoP-bound tokens."""

from __future__ import annotations

import json
import logging
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, import_key
from starlette.responses import JSONResponse, Response

from mcpkit import Client
from mcpkit.client import ClientCredentials, EnterpriseManaged, MemoryTokens, WorkloadIdentity
from mcpkit.exceptions import AuthorizationError
from tests.helpers.authorization_server import TokenRequest, TokenSite

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t+of/the client"
KEY = ECKey.generate_key("P-256")
REVISIONS = ["2025-11-25", "2026-07-28"]


async def whoami(url: str, auth: Any, times: int = 1, **options: Any) -> str:
    async with Client(url, auth=auth, **options) as client:
        for _ in range(times):
            output = (await client.call_tool("whoami")).text
        return output


@pytest.mark.parametrize("revision", REVISIONS)
async def test_client_credentials_secret_in_header_and_token_reused(revision: str) -> None:
    site = TokenSite()
    with site.running() as url:
        auth = ClientCredentials("re:ports", SECRET, issuer=site.origin)
        assert await whoami(url, auth, 3, protocol_version=revision) == "reports"
    [request] = site.requests
    assert request.form == {"grant_type": "client_credentials", "resource": url, "scope": "notes:read"}
    assert (
        request.headers["authorization"]
        == "Basic " + b64encode(b"re%3Aports:s3cr3t%2Bof%2Fthe%20client").decode()
    )


async def test_client_credentials_private_key() -> None:
    site = TokenSite(issuer={"token_endpoint_auth_methods_supported": ["private_key_jwt"]})
    with site.running() as url:
        await whoami(
            url, ClientCredentials("reports", private_key=KEY.as_dict(private=True), scopes=["a", "b"])
        )
    [request] = site.requests
    token = jwt.decode(request.form["client_assertion"], KEY, algorithms=["ES256"])
    assert (token.claims["sub"], token.claims["aud"]) == ("reports", site.origin)
    assert set(request.form["scope"].split()) >= {"a", "b"}


@pytest.mark.parametrize("revision", REVISIONS[:1])
async def test_client_credentials_refusal_has_no_secret(
    revision: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    site = TokenSite()
    site.answer = lambda request: JSONResponse(
        {"error": "invalid_client", "error_description": f"not {SECRET} but another"}, 401
    )
    caplog.set_level(logging.DEBUG)
    with site.running() as url:
        auth = ClientCredentials("reports", SECRET, issuer=site.origin)
        with pytest.raises(AuthorizationError, match="invalid_client") as raised:
            await whoami(url, auth, protocol_version=revision)
    assert len(site.requests) == 1
    assert "SECRET" not in repr(auth)
    assert SECRET not in f"{caplog.text} {auth!r} {vars(auth)!r} {raised.value}"
    assert raised.value.status == 401


async def whoami_of_workload(url: str, auth: WorkloadIdentity, revision: str | None = None) -> str:
    async with Client(url, auth=auth, protocol_version=revision) as client:
        return (await client.call_tool("whoami")).text


@pytest.mark.parametrize("revision", ["2026-07-28"])
async def test_workload_identity_sends_platform_token(revision: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of-the-platform\n")
    site = TokenSite(issuer={"token_endpoint_auth_methods_supported": ["none"]})
    with site.running() as url:
        assert (
            await whoami_of_workload(url, WorkloadIdentity("job", file, issuer=site.origin), revision)
            == "reports"
        )
    [request] = site.requests
    assert request.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "of-the-platform",
        "client_id": "job",
        "resource": url,
        "scope": "notes:read",
    }


TYPES = "urn:ietf:params:oauth:token-type:"
GRANT = {"access_token": "the-grant", "issued_token_type": TYPES + "id-jag", "token_type": "N_A"}


def granting(**changes: Any) -> Callable[[TokenRequest], Response]:
    return lambda _: JSONResponse({**GRANT, **changes})


def managed(site: TokenSite, **options: Any) -> EnterpriseManaged:
    given: dict[str, Any] = {
        "secret": "the-secret",
        "issuer": site.origin,
        "idp": f"{site.origin}/idp",
        "idp_client_id": "our-client",
        "identity": "the-identity",
        "storage": MemoryTokens(),
    }
    return EnterpriseManaged("notes-client", **{**given, **options})


async def whoami_of_user(url: str, auth: Any, **options: Any) -> str:
    async with Client(url, auth=auth, **options) as client:
        return (await client.call_tool("whoami")).text


@pytest.mark.parametrize("revision", ["2025-11-25"])
async def test_enterprise_grant_is_exchanged_for_token(revision: str) -> None:
    site = TokenSite(exchange=granting())
    with site.running() as url:
        assert await whoami_of_user(url, managed(site), protocol_version=revision) == "reports"
    exchange, grant = site.requests
    assert (exchange.path, exchange.form) == (
        "/idp/token",
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": TYPES + "id-jag",
            "audience": site.origin,
            "resource": url,
            "scope": "notes:read",
            "subject_token": "the-identity",
            "subject_token_type": TYPES + "id_token",
            "client_id": "our-client",
        },
    )
    assert "authorization" not in exchange.headers
    assert grant.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert grant.form["assertion"] == "the-grant"
    assert grant.headers["authorization"].startswith("Basic ")


class Proven:
    """A token endpoint that binds tokens to keys, and a server that wants each request to be proven."""

    def __init__(self, *, wants_nonces: bool = False) -> None:
        self.wants_nonces = wants_nonces
        self.site = TokenSite(wraps=self._wrapped)
        self.site.answer = self._token
        self.keys: dict[str, str] = {}
        self.proofs: list[str] = []
        self.challenged: list[str] = []
        self.nonce = 0

    def _token(self, request: TokenRequest) -> Response:
        key = self._checked(request.headers.get("dpop", ""), "POST", f"{self.site.origin}/token", None)
        if key is None:
            headers = {"DPoP-Nonce": self._next_nonce("token")}
            return JSONResponse({"error": "use_dpop_nonce"}, 400, headers)
        answer = self.site.token(token_type="DPoP")
        self.keys[[*self.site.issued][-1]] = key
        return answer

    def _wrapped(self, app: Any) -> Any:
        async def proven(scope: Any, receive: Any, send: Any) -> None:
            headers = {name.decode(): value.decode() for name, value in scope.get("headers", ())}
            authorization = headers.get("authorization")
            if scope["type"] != "http" or authorization is None:
                return await app(scope, receive, send)
            scheme, _, token = authorization.partition(" ")
            assert scheme == "DPoP"
            url = self.site.origin + scope["path"]
            key = self._checked(headers["dpop"], scope["method"], url, token)
            if key is None:
                challenge = b'DPoP error="use_dpop_nonce"'
                nonce = self._next_nonce("server").encode()
                sent = [(b"www-authenticate", challenge), (b"dpop-nonce", nonce), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 401, "headers": sent})
                return await send({"type": "http.response.body"})
            assert key == self.keys[token]
            others = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
            bearer = (b"authorization", f"Bearer {token}".encode())
            return await app({**scope, "headers": [*others, bearer]}, receive, send)

        return proven

    def _next_nonce(self, who: str) -> str:
        self.challenged.append(who)
        self.nonce += 1
        return f"nonce-{self.nonce}-of-{who}"

    def _checked(self, proof: str, method: str, url: str, token: str | None) -> str | None:
        """Return the thumbprint of the key that has signed a proof; None where it wants a nonce."""
        first = proof.split(".", maxsplit=1)[0]
        key = import_key(json.loads(urlsafe_b64decode(first + "=" * (-len(first) % 4)))["jwk"], "EC")
        claims = jwt.decode(proof, key, algorithms=["ES256"]).claims
        assert proof not in self.proofs
        self.proofs.append(proof)
        assert (claims["htm"], claims["htu"]) == (method, url)
        hashed = (
            None
            if token is None
            else urlsafe_b64encode(sha256(token.encode()).digest()).rstrip(b"=").decode()
        )
        assert claims.get("ath") == hashed
        who = "token" if token is None else "server"
        if self.wants_nonces and not str(claims.get("nonce")).endswith(f"-of-{who}"):
            return None
        return key.thumbprint()


@pytest.mark.parametrize(("revision", "wants_nonces"), [("2025-11-25", False), ("2026-07-28", True)])
async def test_dpop_each_request_has_proof(revision: str, wants_nonces: bool) -> None:
    proven = Proven(wants_nonces=wants_nonces)
    with proven.site.running() as url:
        auth = ClientCredentials("reports", "secret", issuer=proven.site.origin, dpop=True)
        async with Client(url, auth=auth, protocol_version=revision) as client:
            for _ in range(3):
                assert (await client.call_tool("whoami")).text == "reports"
    assert len(proven.keys) == 1
    assert proven.challenged == (["token", "server"] if wants_nonces else [])
