"""A program that asks for itself: how it says who it is, to whom, and how often."""

from __future__ import annotations

import logging
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.responses import JSONResponse, Response

from mcpkit import AuthorizationError, Client, ClientCredentials, TransportError
from mcpkit.client.authorization.storage import MemoryTokens
from tests.helpers.token_site import TokenSite

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t+of/the client"
KEY = ECKey.generate_key("P-256")
REVISIONS = ["2025-11-25", "2026-07-28"]


async def whoami(url: str, auth: Any, times: int = 1, **options: Any) -> str:
    async with Client(url, auth=auth, **options) as client:
        for _ in range(times):
            said = (await client.call("whoami")).text
        return said


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_secret_goes_into_the_header_once_for_all_requests(revision: str) -> None:
    site = TokenSite()
    with site.running() as url:
        auth = ClientCredentials("re:ports", SECRET, issuer=site.origin)
        assert await whoami(url, auth, 3, revision=revision) == "reports"
    [request] = site.requests
    assert request.form == {"grant_type": "client_credentials", "resource": url, "scope": "notes:read"}
    assert (
        request.headers["authorization"]
        == "Basic " + b64encode(b"re%3Aports:s3cr3t%2Bof%2Fthe%20client").decode()
    )


async def test_a_secret_goes_into_the_form_where_the_server_wants_it_there() -> None:
    site = TokenSite(issuer={"token_endpoint_auth_methods_supported": ["client_secret_post"]})
    with site.running() as url:
        await whoami(url, ClientCredentials("reports", SECRET, issuer=site.origin))
    [request] = site.requests
    assert (request.form["client_id"], request.form["client_secret"]) == ("reports", SECRET)
    assert "authorization" not in request.headers


async def test_a_key_signs_for_the_issuer_that_the_server_names() -> None:
    site = TokenSite(issuer={"token_endpoint_auth_methods_supported": ["private_key_jwt"]})
    with site.running() as url:
        await whoami(
            url, ClientCredentials("reports", private_key=KEY.as_dict(private=True), scopes=["a", "b"])
        )
    [request] = site.requests
    token = jwt.decode(request.form["client_assertion"], KEY, algorithms=["ES256"])
    assert (token.claims["sub"], token.claims["aud"]) == ("reports", site.origin)
    assert set(request.form["scope"].split()) >= {"a", "b"}


async def test_what_a_platform_vouches_is_read_anew_for_each_token(tmp_path: Path) -> None:
    site, file = TokenSite(), tmp_path / "token"
    file.write_text("first")
    with site.running() as url:
        async with Client(
            url, auth=ClientCredentials("reports", assertion=file, issuer=site.origin)
        ) as client:
            await client.call("whoami")
            file.write_text("second")
            site.issued.clear()
            await client.call("whoami")
    assert [each.form["client_assertion"] for each in site.requests] == ["first", "second"]


async def test_a_token_that_has_ended_is_asked_for_again_and_no_refresh_token_is_used() -> None:
    site = TokenSite()
    site.answer = lambda _: site.token(refresh_token="refresh")
    with site.running() as url:
        async with Client(url, auth=ClientCredentials("reports", SECRET, issuer=site.origin)) as client:
            await client.call("whoami")
            site.issued.clear()
            assert (await client.call("whoami")).text == "reports"
    assert [each.form["grant_type"] for each in site.requests] == ["client_credentials"] * 2


@pytest.mark.parametrize("revision", REVISIONS)
async def test_more_scopes_are_asked_for_when_a_tool_wants_them(revision: str) -> None:
    site = TokenSite()
    with site.running() as url:
        auth = ClientCredentials("reports", SECRET, issuer=site.origin)
        async with Client(url, auth=auth, revision=revision) as client:
            assert (await client.call("add_note")).text == "added"
            assert (await client.call("whoami")).text == "reports"
    assert [set(each.form["scope"].split()) for each in site.requests] == [
        {"notes:read"},
        {"notes:read", "notes:write"},
    ]


async def test_a_server_that_names_another_issuer_gets_nothing() -> None:
    site = TokenSite()
    with site.running() as url:
        auth = ClientCredentials("reports", SECRET, issuer="https://id.example.com")
        with pytest.raises(AuthorizationError, match=r"and not of 'https://id\.example\.com'"):
            await whoami(url, auth)
    assert site.requests == []


@pytest.mark.parametrize("revision", [None, *REVISIONS])
async def test_a_refusal_is_said_without_the_secret_and_not_asked_again(
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
            await whoami(url, auth, revision=revision)
    assert len(site.requests) == 1
    assert "SECRET" not in repr(auth)
    assert SECRET not in f"{caplog.text} {auth!r} {vars(auth)!r} {raised.value}"
    assert raised.value.status == 401


async def test_a_token_endpoint_that_is_down_may_be_up_the_next_time() -> None:
    site = TokenSite()
    site.answer = lambda _: Response(status_code=503) if len(site.requests) == 1 else site.token()
    with site.running() as url:
        auth = ClientCredentials("reports", SECRET, issuer=site.origin)
        with pytest.raises(TransportError, match="HTTP 503"):
            await whoami(url, auth, tries=1)
        assert await whoami(url, auth) == "reports"


async def test_tokens_are_kept_in_memory_unless_a_storage_is_given() -> None:
    assert isinstance(
        ClientCredentials("reports", SECRET, issuer="https://id.example.com").storage, MemoryTokens
    )
    site, storage = TokenSite(), MemoryTokens()
    with site.running() as url:
        for _ in range(2):
            await whoami(url, ClientCredentials("reports", SECRET, issuer=site.origin, storage=storage))
        assert (await storage.tokens(url, "reports")) is not None
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either secret=, private_key= or assertion="),
        ({"secret": "a", "private_key": KEY.as_dict(private=True)}, "give either"),
        ({"secret": "a", "assertion": "b"}, "give either"),
        ({"secret": "a"}, "issuer= is missing"),
        ({"assertion": "a"}, "issuer= is missing"),
        (
            {"private_key": KEY.as_dict(private=True), "audience": "https://id.example.com/token"},
            "issuer= is missing",
        ),
        ({"secret": "a", "issuer": "https://id.example.com", "algorithm": "ES256"}, "are for private_key="),
        ({"secret": "a", "issuer": "http://id.example.com"}, "is not encrypted"),
        ({"private_key": "none"}, "private_key= is a private key"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClientCredentials("reports", **arguments)


def test_a_client_without_an_id_is_refused() -> None:
    with pytest.raises(ValueError, match="client_id is empty"):
        ClientCredentials("", "a", issuer="https://id.example.com")
