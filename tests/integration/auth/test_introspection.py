"""Token introspection at an issuer, and documents as issuers publish them."""

from __future__ import annotations

import base64
import json
import logging
import os
import random
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from mcpkit.auth import AccessToken, Introspection, InvalidTokenError, Jwt, VerifierUnavailableError
from mcpkit.client.authorization.metadata import authorization_server
from mcpkit.client.authorization.web import Web
from tests.helpers.clock import Clock
from tests.helpers.fake_idp import INTROSPECTION, KEYS, METADATA, OLD, OPENID, KeyIssuer, serve_keys
from tests.helpers.signed_tokens import AUDIENCE, NOW
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

TOKEN = "opaque-token-of-ada"


SECRET = "secret:with/odd&characters%"


def introspected(**changes: Any) -> dict[str, Any]:
    members = {
        "active": True,
        "sub": "ada",
        "client_id": "editor",
        "scope": "notes:read notes:write",
        "aud": AUDIENCE,
        "token_type": "Bearer",
        "exp": NOW + 600,
        "iat": NOW - 60,
        **changes,
    }
    return {name: value for name, value in members.items() if value is not None}


def introspection(issuer: KeyIssuer, **options: Any) -> Introspection:
    options = {"client_id": "notes server", "client_secret": SECRET, "clock": Clock(NOW), **options}
    return Introspection(issuer.url, **options)


async def verify(issuer: KeyIssuer, answer: dict[str, Any], **options: Any) -> AccessToken:
    issuer.tokens[TOKEN] = answer
    verifier = introspection(issuer, **options)
    try:
        return await verifier.verify(TOKEN, AUDIENCE)
    finally:
        await verifier.aclose()


async def test_introspection_returns_principal(issuer):
    grant = await verify(issuer, introspected(org="acme", iss=issuer.url))

    assert grant.principal.id == f"{issuer.url}#sub=ada"
    assert grant.principal.client_id == "editor"
    assert grant.principal.scopes == {"notes:read", "notes:write"}
    assert grant.principal.claims["org"] == "acme"
    assert (grant.expires, grant.issued, grant.fresh_until) == (NOW + 605, NOW - 60, NOW + 30)


async def test_introspection_client_authentication(issuer):
    await verify(issuer, introspected())
    await verify(issuer, introspected(), authentication="post")

    (basic, first), (none, second) = issuer.asked_about
    assert basic is not None
    assert (
        base64.b64decode(basic.removeprefix("Basic ")) == b"notes+server:secret%3Awith%2Fodd%26characters%25"
    )
    assert first == {"token": TOKEN, "token_type_hint": "access_token"}
    assert none is None
    assert second == {**first, "client_id": "notes server", "client_secret": SECRET}


@each_row(
    ("changes", "problem"),
    [
        ({"active": False}, "not active"),
        ({"active": None}, "not active"),
        ({"active": "true"}, "not active"),
        ({"active": 1}, "not active"),
        ({"iss": "https://other.example.com"}, "another issuer"),
        ({"aud": None}, "another audience"),
        ({"aud": "https://other.example.com"}, "another audience"),
        ({"token_type": "DPoP"}, "not a bearer token"),
        ({"token_type": ["Bearer"]}, "not a bearer token"),
        ({"exp": NOW - 5}, "has expired"),
        ({"nbf": NOW + 6}, "not valid yet"),
        ({"exp": "soon"}, "exp, nbf or iat of the token"),
        ({"sub": None, "client_id": None}, "neither sub nor client_id"),
        ({"sub": 7}, "neither sub nor client_id"),
        ({"scope": 7}, "scopes of the token"),
    ],
)
async def test_introspection_response_invalid_is_rejected(issuer, changes, problem):
    with pytest.raises(InvalidTokenError) as caught:
        await verify(issuer, introspected(**changes))

    assert problem in caught.value.description


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "\u00e9", "x" * 16_385])
async def test_introspection_malformed_token_sends_no_request(issuer, token):
    with pytest.raises(InvalidTokenError, match="not active"):
        await introspection(issuer).verify(token, AUDIENCE)

    assert not issuer.asked


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Response(status_code=503), "responded with HTTP 503"),
        (Response(status_code=401), "Check client_id, client_secret and authentication"),
        (Response(status_code=400), "Check client_id, client_secret and authentication"),
        (Response(status_code=302, headers={"Location": "/"}), "responded with HTTP 302"),
        (PlainTextResponse("active"), "not a valid JSON object (text/plain)"),
        (JSONResponse(["active"]), "JSON object"),
        (Response('{"active": true, "active": false}', media_type="application/json"), "JSON object"),
    ],
)
async def test_introspection_error_response_is_unavailable(issuer, answer, problem, caplog):
    issuer.tokens[TOKEN] = introspected()
    issuer.instead = lambda request: answer if request.url.path == INTROSPECTION else None
    verifier = introspection(issuer)
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            with pytest.raises(VerifierUnavailableError) as caught:
                await verifier.verify(TOKEN, AUDIENCE)
            assert problem in caught.value.description
        issuer.mend()
        assert await verifier.verify(TOKEN, AUDIENCE)
    await verifier.aclose()

    ours = [record.getMessage() for record in caplog.records if record.name.startswith("mcpkit")]
    assert len(ours) == 2, "the same is said once"
    assert ours[1].endswith("works again")
    for secret in (TOKEN, SECRET, "secret%3A"):
        assert secret not in caplog.text


async def test_introspection_timeout_and_connection_error():
    with serve_keys() as issuer:
        verifier = introspection(issuer, timeout=0.1, endpoint=issuer.url + INTROSPECTION)
        issuer.is_open.clear()
        with pytest.raises(VerifierUnavailableError, match=r"did not respond within 0\.1 s"):
            await verifier.verify(TOKEN, AUDIENCE)
    with pytest.raises(VerifierUnavailableError, match="cannot connect"):
        await verifier.verify(TOKEN, AUDIENCE)
    await verifier.aclose()


@each_row(
    ("options", "error", "problem"),
    [
        ({"client_id": ""}, TypeError, "client_id must be a non-empty string"),
        ({"client_secret": None}, TypeError, "client_secret must be a non-empty string"),
        ({"authentication": "none"}, ValueError, "authentication must be"),
        ({"endpoint": "http://id.example.com/introspect"}, ValueError, "not encrypted"),
        ({"cache_ttl": 0}, ValueError, "cache_ttl"),
        ({"audience": "a", "accept_tokens_for_any_audience": True}, ValueError, "exclude each other"),
    ],
)
def test_introspection_options_invalid_raise(options, error, problem):
    with pytest.raises(error, match=problem) as caught:
        Introspection("https://id.example.com", **{"client_id": "a", "client_secret": SECRET, **options})
    assert SECRET not in str(caught.value)


EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "50"))


MEDIA_TYPES = (
    "application/json", "application/json;charset=UTF-8", "application/jwk-set+json; charset=utf-8",
    "application/octet-stream", "binary/octet-stream", "text/plain; charset=utf-8", "text/html", "", "none",
)  # fmt: skip


OTHERWISE = ("404", "403", "500", "503", "302", "page", "list", "other issuer", "cut off")


ENDPOINTS = (
    "jwks_uri",
    "introspection_endpoint",
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
)


class DrawnIssuer:
    def __init__(self, draw: random.Random, url: str) -> None:
        self.draw = draw
        self.url = url
        self.places = {METADATA: "document", OPENID: "document"}
        if draw.random() < 0.5:
            self.places[draw.choice([METADATA, OPENID])] = draw.choice(OTHERWISE)
        paths = dict.fromkeys(ENDPOINTS, "/any") | {"jwks_uri": KEYS, "introspection_endpoint": INTROSPECTION}
        members: dict[str, Any] = {name: url + path for name, path in paths.items()}
        members["code_challenge_methods_supported"] = ["S256"]
        self.documents: dict[str, dict[str, Any]] = {place: {"issuer": url} for place in self.places}
        for name, value in members.items():
            for place in draw.choice([[METADATA], [OPENID], [METADATA, OPENID], []]):
                self.documents[place][name] = value
            for document in self.documents.values():
                if name not in document and draw.random() < 0.2:
                    document[name] = None
        self.found = {
            name
            for place, what in self.places.items()
            if what == "document"
            for name, value in self.documents[place].items()
            if value is not None
        }

    def answer(self, request: Request) -> Response | None:
        path = request.url.path
        what = self.places.get(path)
        if what == "document":
            return self._sent(self.documents[path])
        if path == KEYS:
            return self._sent({"keys": [OLD.public()]})
        if path == INTROSPECTION:
            return self._sent({"active": True, "sub": "ada", "aud": AUDIENCE, "exp": NOW + 600})
        if what == "other issuer":
            return self._sent({**self.documents[path], "issuer": "https://other.example"})
        if what == "list":
            return self._sent([])
        if what == "cut off":
            return Response(b'{"issuer": "' + self.url.encode(), media_type="application/json")
        if what == "page":
            return Response("<h1>Log in</h1>", media_type="text/html")
        return Response(status_code=int(what or 404), headers={"Location": "/login"} if what == "302" else {})

    def _sent(self, document: Any) -> Response:
        mark = "\ufeff" if self.draw.random() < 0.1 else ""
        content = (mark + json.dumps(document)).encode()
        media_type = self.draw.choice(MEDIA_TYPES)
        return Response(content, headers={"Content-Type": media_type} if media_type else {})

    def __repr__(self) -> str:
        return f"{self.places} {self.documents}"


async def test_metadata_is_combined_from_both_documents():
    draw = random.Random(44)
    with serve_keys() as issuer:
        async with httpx2.AsyncClient(trust_env=False) as http:
            for _ in range(EXAMPLES // 2):
                drawn = DrawnIssuer(draw, issuer.url)
                issuer.instead = drawn.answer
                jwt = Jwt(issuer.url, clock=Clock(NOW), http_client=http)
                introspection = Introspection(
                    issuer.url, client_id="notes", client_secret="secret", clock=Clock(NOW), http_client=http
                )
                token = OLD.token(iss=issuer.url)
                for verifier, member in ((jwt, "jwks_uri"), (introspection, "introspection_endpoint")):
                    subject, problem = None, None
                    try:
                        subject = (await verifier.verify(token, AUDIENCE)).principal.subject
                    except VerifierUnavailableError as error:
                        problem = error
                    assert subject == ("ada" if member in drawn.found else None), f"{drawn}: {problem}"
                    await verifier.aclose()
                web = Web(http, f"{issuer.url}/mcp", {})
                found = await authorization_server(web, issuer.url, "the metadata")
                for name in (*ENDPOINTS[2:], "code_challenge_methods_supported"):
                    assert found.has(name) == (name in drawn.found), f"{drawn}: {name}"
