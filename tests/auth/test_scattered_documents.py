"""Providers as there are: documents of any media type, members in one of two, something else at one of the places.

What is in one document at least is found: by `Jwt`, `Introspection`, and clients that log in.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response

from mcpkit import Server
from mcpkit.auth import Introspection, InvalidTokenError, Jwt, VerifierUnavailableError
from mcpkit.auth.issuer_metadata import IssuerMetadata
from mcpkit.client.authorization.metadata import authorization_server
from mcpkit.client.authorization.web import Web
from tests.helpers.clock import Clock
from tests.helpers.provider import INTROSPECTION, KEYS, METADATA, OPENID, providing
from tests.helpers.signed_tokens import AUDIENCE, NOW
from tests.helpers.taken import OLD

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))
MEDIA_TYPES = (
    "application/json",
    "application/json;charset=UTF-8",
    "application/jwk-set+json; charset=utf-8",
    "application/octet-stream",
    "binary/octet-stream",
    "text/plain; charset=utf-8",
    "text/html",
    "",
    "none",
)
OTHERWISE = ("404", "403", "500", "503", "302", "page", "list", "other issuer", "cut off")
ENDPOINTS = (
    "jwks_uri",
    "introspection_endpoint",
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
)


class Drawn:
    """One provider: what is at its two places, and how."""

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


async def test_what_one_document_says_is_found_whatever_there_is_at_the_other_place() -> None:
    draw = random.Random(44)
    with providing() as provider:
        async with httpx2.AsyncClient(trust_env=False) as http:
            for _ in range(EXAMPLES // 2):
                drawn = Drawn(draw, provider.url)
                provider.instead = drawn.answer
                jwt = Jwt(provider.url, clock=Clock(NOW), http_client=http)
                introspection = Introspection(
                    provider.url,
                    client_id="notes",
                    client_secret="secret",
                    clock=Clock(NOW),
                    http_client=http,
                )
                token = OLD.token(iss=provider.url)
                for verifier, member in ((jwt, "jwks_uri"), (introspection, "introspection_endpoint")):
                    subject, problem = None, None
                    try:
                        subject = (await verifier.verify(token, AUDIENCE)).principal.subject
                    except VerifierUnavailableError as error:
                        problem = error
                    assert subject == ("ada" if member in drawn.found else None), f"{drawn}: {problem}"
                    await verifier.aclose()
                web = Web(http, f"{provider.url}/mcp", {})
                found = await authorization_server(web, provider.url, "the metadata")
                for name in (*ENDPOINTS[2:], "code_challenge_methods_supported"):
                    assert found.has(name) == (name in drawn.found), f"{drawn}: {name}"


INSIDE = "http://id.auth.svc.cluster.local:8080/realms/notes"


async def test_metadata_that_is_fetched_while_another_document_is_read_is_kept() -> None:
    issuer = "https://id.example.com"
    clock = Clock(NOW)
    version = 0

    async def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal version
        if request.url.path == OPENID:
            clock.now += 24 * 3600  # what is kept is too old by now
            await metadata.read()
            return httpx2.Response(200, json={"issuer": issuer, "jwks_uri": f"{issuer}/keys"})
        version += 1
        return httpx2.Response(200, json={"issuer": issuer, "token_endpoint": f"{issuer}/token/{version}"})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http_client:
        metadata = IssuerMetadata(issuer, timeout=5, http_client=http_client, clock=clock)
        assert await metadata.endpoint("jwks_uri") == f"{issuer}/keys"
        assert await metadata.endpoint("token_endpoint") == f"{issuer}/token/2"


async def test_plain_http_to_another_machine_is_for_an_operator_to_accept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answered(request: httpx2.Request) -> httpx2.Response:
        url = str(request.url)
        if url == f"{INSIDE}/keys":
            return httpx2.Response(200, json={"keys": [OLD.public()]})
        if url == f"{INSIDE}/introspect":
            return httpx2.Response(200, json={"active": True, "sub": "ada", "aud": AUDIENCE})
        if not url.endswith(OPENID):
            return httpx2.Response(404)
        endpoints = {"jwks_uri": f"{INSIDE}/keys", "introspection_endpoint": f"{INSIDE}/introspect"}
        return httpx2.Response(200, json={"issuer": INSIDE, **endpoints})

    as_client = {"client_id": "notes", "client_secret": "secret"}
    for refused in (lambda: Jwt(INSIDE), lambda: Introspection(INSIDE, **as_client)):
        with pytest.raises(ValueError, match=r"is not encrypted.* set accept_plain_http=True"):
            refused()
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answered)) as http:
        more: dict[str, Any] = {"accept_plain_http": True, "http_client": http, "clock": Clock(NOW)}
        for verifier in (Jwt(INSIDE, **more), Introspection(INSIDE, **as_client, **more)):
            caplog.clear()
            Server("notes", auth=verifier).asgi(public_url=AUDIENCE)
            assert "notes: accept_plain_http=True: requests to http://id.auth.svc" in caplog.text
            grant = await verifier.verify(OLD.token(iss=INSIDE), AUDIENCE)
            assert grant.principal.subject == "ada"


async def test_id_tokens_are_for_an_operator_to_accept(caplog: pytest.LogCaptureFixture) -> None:
    issuer, keys = "https://id.example.com", {"keys": [OLD.public()]}
    token = OLD.token(header={"typ": "JWT"}, iss=issuer, nonce="n")
    with pytest.raises(InvalidTokenError, match="ID token"):
        await Jwt(issuer, keys=keys, clock=Clock(NOW)).verify(token, AUDIENCE)
    verifier = Jwt(issuer, keys=keys, clock=Clock(NOW), accept_id_tokens=True)
    assert (await verifier.verify(token, AUDIENCE)).principal.subject == "ada"
    Server("notes", auth=verifier).asgi(public_url=AUDIENCE)
    assert f"notes: accept_id_tokens=True: ID tokens of {issuer} are taken" in caplog.text
