"""Token introspection at an issuer, and metadata that an issuer publishes in two documents."""

import base64
import json
import logging
from contextlib import aclosing
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from mcpkit.auth import AccessToken, Introspection, InvalidTokenError, Jwt, VerifierUnavailableError
from mcpkit.client.auth.authorization_server_client import (
    AuthorizationServerClient,
    authorization_server_metadata,
)
from tests.helpers.fake_idp import INTROSPECTION, KEYS, METADATA, OLD, OPENID, KeyIssuer, is_verified
from tests.helpers.signed_tokens import AUDIENCE, NOW
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock

TOKEN = "opaque-token-of-ada"
SECRET = "secret:with/odd&characters%"
CLIENT = {"client_id": "notes server", "client_secret": SECRET}


def introspected(**changes: Any) -> dict[str, Any]:
    members = {
        "active": True, "sub": "ada", "client_id": "editor", "scope": "notes:read notes:write",
        "aud": AUDIENCE, "token_type": "Bearer", "exp": NOW + 600, "iat": NOW - 60, **changes,
    }  # fmt: skip
    return {name: value for name, value in members.items() if value is not None}


def introspection(url: str, **options: Any) -> Any:
    return aclosing(Introspection(url, **{**CLIENT, "clock": Clock(NOW), **options}))


async def verify(issuer: KeyIssuer, response: dict[str, Any], **options: Any) -> AccessToken:
    issuer.tokens[TOKEN] = response
    async with introspection(issuer.url, **options) as verifier:
        return await verifier.verify(TOKEN, AUDIENCE)


async def test_introspection_returns_principal(issuer):
    token = await verify(issuer, introspected(org="acme", iss=issuer.url))
    assert token.principal.id == f"{issuer.url}#sub=ada"
    assert token.principal.client_id == "editor"
    assert token.principal.scopes == {"notes:read", "notes:write"}
    assert token.principal.claims["org"] == "acme"
    assert (token.expires, token.issued, token.fresh_until) == (NOW + 605, NOW - 60, NOW + 30)


async def test_introspection_client_authentication(issuer):
    await verify(issuer, introspected())
    await verify(issuer, introspected(), authentication="post")
    (basic, first), (none, second) = issuer.asked_about
    assert basic is not None
    credentials = base64.b64decode(basic.removeprefix("Basic "))
    assert credentials == b"notes%20server:secret%3Awith%2Fodd%26characters%25"
    assert first == {"token": TOKEN, "token_type_hint": "access_token"}
    assert none is None
    assert second == {**first, **CLIENT}


@each_row(("changes", "problem"), [
    *(({"active": value}, "not active") for value in (False, None, "true", 1)),
    ({"iss": "https://other.example.com"}, "another issuer"),
    *(({"aud": value}, "another audience") for value in (None, "https://other.example.com")),
    *(({"token_type": value}, "not a bearer token") for value in ("DPoP", ["Bearer"])),
    *(({"cnf": value}, "bound to a key") for value in ({"jkt": "x" * 43}, {"x5t#S256": "x" * 43})),
    ({"exp": NOW - 5}, "has expired"),
    ({"nbf": NOW + 6}, "not valid yet"),
    ({"exp": "soon"}, "exp, nbf or iat of the token"),
    ({"sub": None, "client_id": None}, "neither sub nor client_id"),
    ({"sub": 7}, "neither sub nor client_id"),
    ({"scope": 7}, "scopes of the token"),
])  # fmt: skip
async def test_introspection_response_invalid_is_rejected(issuer, changes, problem):
    with pytest.raises(InvalidTokenError) as caught:
        await verify(issuer, introspected(**changes))
    assert problem in caught.value.description


@each_row("token", ["", "a b", "a\nb", "\u00e9", "x" * 16_385])
async def test_introspection_malformed_token_sends_no_request(token):
    async with introspection("https://id.example.com") as verifier:
        with pytest.raises(InvalidTokenError, match="not active"):
            await verifier.verify(token, AUDIENCE)


@each_row(("response", "problem"), [
    (Response(status_code=503), "responded with HTTP 503"),
    (Response(status_code=401), "Check client_id, client_secret and authentication"),
    (Response(status_code=302, headers={"Location": "/"}), "responded with HTTP 302"),
    (PlainTextResponse("active"), "not a valid JSON object (text/plain)"),
    (Response('{"active": true, "active": false}', media_type="application/json"), "JSON object"),
])  # fmt: skip
async def test_introspection_error_response_is_unavailable(issuer, response, problem, caplog):
    caplog.clear()
    issuer.tokens[TOKEN] = introspected()
    issuer.instead = lambda request: response if request.url.path == INTROSPECTION else None
    async with introspection(issuer.url) as verifier:
        with caplog.at_level(logging.DEBUG):
            for _ in range(3):
                with pytest.raises(VerifierUnavailableError) as caught:
                    await verifier.verify(TOKEN, AUDIENCE)
                assert problem in caught.value.description
            issuer.repair()
            assert await verifier.verify(TOKEN, AUDIENCE)
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("mcpkit")]
    assert len(messages) == 2, "each problem is logged once"
    assert messages[1].endswith("works again")
    for secret in (TOKEN, SECRET, "secret%3A"):
        assert secret not in caplog.text


@each_row(("options", "error", "problem"), [
    ({"client_id": ""}, TypeError, "client_id must be a non-empty string"),
    ({"client_secret": None}, TypeError, "client_secret must be a non-empty string"),
    ({"authentication": "none"}, ValueError, "authentication must be"),
    ({"endpoint": "http://id.example.com/introspect"}, ValueError, "not encrypted"),
    ({"cache_ttl": 0}, ValueError, "cache_ttl"),
    ({"audience": "a", "accept_tokens_for_any_audience": True}, ValueError, "exclude each other"),
])  # fmt: skip
def test_introspection_options_invalid_raise(options, error, problem):
    with pytest.raises(error, match=problem) as caught:
        Introspection("https://id.example.com", **{**CLIENT, **options})
    assert SECRET not in str(caught.value)


ENDPOINTS = {
    "jwks_uri": KEYS,
    "introspection_endpoint": INTROSPECTION,
    "authorization_endpoint": "/any",
    "token_endpoint": "/any",
}
ALL = set(ENDPOINTS)
OTHER = dict.fromkeys(ENDPOINTS, "https://other.example/any")
HALF = {"jwks_uri", "token_endpoint"}


@each_row(("documents", "found"), [
    ({METADATA: ALL}, ALL),
    ({OPENID: ALL}, ALL),
    ({METADATA: HALF, OPENID: ALL - HALF}, ALL),
    ({METADATA: HALF, OPENID: HALF}, HALF),
    ({METADATA: set(), OPENID: ALL - HALF}, ALL - HALF),
    ({METADATA: HALF, OPENID: Response('{"issuer": "', media_type="application/json")}, HALF),
    ({METADATA: HALF, OPENID: JSONResponse({**OTHER, "issuer": "https://other.example"})}, HALF),
    *(({METADATA: HALF, OPENID: Response(status_code=status)}, HALF) for status in (302, 403, 500, 503)),
    ({METADATA: JSONResponse([]), OPENID: ALL}, ALL),
    ({METADATA: HTMLResponse("<h1>Log in</h1>"), OPENID: HALF}, HALF),
])  # fmt: skip
async def test_metadata_is_combined_from_both_documents(issuer, documents, found):
    def respond(request: Request) -> Response | None:
        content = documents.get(request.url.path, Response(status_code=404))
        if request.url.path == INTROSPECTION:
            return JSONResponse(introspected())
        if request.url.path == KEYS:
            return None
        if isinstance(content, Response):
            return content
        members = {name: issuer.url + path if name in content else None for name, path in ENDPOINTS.items()}
        text = json.dumps({"issuer": issuer.url, **members})
        if request.url.path == METADATA:
            return Response(text, media_type="application/json")
        return Response(f"\ufeff{text}", media_type="text/plain")  # a byte order mark is allowed

    issuer.instead = respond
    token = OLD.token(iss=issuer.url)
    clock = Clock(NOW)
    async with httpx2.AsyncClient(trust_env=False) as http:
        jwt = Jwt(issuer.url, clock=clock, http_client=http)
        introspection = Introspection(issuer.url, **CLIENT, clock=clock, http_client=http)
        for verifier, member in ((jwt, "jwks_uri"), (introspection, "introspection_endpoint")):
            async with aclosing(verifier):
                if member in found:
                    assert await is_verified(verifier, token)
                else:
                    with pytest.raises(VerifierUnavailableError):
                        await verifier.verify(token, AUDIENCE)
        read = await authorization_server_metadata(
            AuthorizationServerClient(http, f"{issuer.url}/mcp", {}), issuer.url, "the metadata"
        )
        assert {name for name in ENDPOINTS if read.has(name)} == found
