"""Tokens that are bound to a key: each request is proven, at the token endpoint and at the server, also by a nonce."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import import_key
from starlette.responses import JSONResponse, Response

from mcpkit import AuthorizationError, Client, ClientCredentials, FileTokens
from tests.helpers.token_site import TokenRequest, TokenSite

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


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


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("wants_nonces", [False, True])
async def test_each_request_is_proven(revision: str, wants_nonces: bool) -> None:
    proven = Proven(wants_nonces=wants_nonces)
    with proven.site.running() as url:
        auth = ClientCredentials("reports", "secret", issuer=proven.site.origin, dpop=True)
        async with Client(url, auth=auth, revision=revision) as client:
            for _ in range(3):
                assert (await client.call("whoami")).text == "reports"
    assert len(proven.keys) == 1
    assert proven.challenged == (["token", "server"] if wants_nonces else [])


async def test_a_key_that_is_kept_proves_the_tokens_that_are_kept(tmp_path: Path) -> None:
    proven = Proven()
    with proven.site.running() as url:
        for _ in range(2):
            storage = FileTokens(tmp_path / "folder" / "tokens")
            auth = ClientCredentials(
                "reports", "secret", issuer=proven.site.origin, dpop=True, storage=storage
            )
            async with Client(url, auth=auth) as client:
                assert (await client.call("whoami")).text == "reports"
    assert len(proven.site.requests) == 1


async def test_tokens_of_anybody_are_taken_where_the_authorization_server_binds_none() -> None:
    site = TokenSite()
    with site.running() as url:
        async with Client(
            url, auth=ClientCredentials("reports", "secret", issuer=site.origin, dpop=True)
        ) as client:
            assert (await client.call("whoami")).text == "reports"
    assert "dpop" in site.requests[0].headers


async def test_a_bound_token_that_nobody_has_asked_for_is_not_used() -> None:
    site = TokenSite()
    site.answer = lambda _: site.token(token_type="DPoP")
    with (
        site.running() as url,
        pytest.raises(AuthorizationError, match=r"bound to a key \(DPoP\), though none was named"),
    ):
        async with Client(url, auth=ClientCredentials("reports", "secret", issuer=site.origin)):
            pass
