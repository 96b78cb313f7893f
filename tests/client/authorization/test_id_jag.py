"""A user of an enterprise: its identity provider grants what the client may do, and nobody is asked anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keyring
import pytest
from starlette.responses import JSONResponse, Response

from mcpkit import AuthorizationError, Client, EnterpriseManaged, MemoryTokens, TransportError
from tests.helpers.memory_keyring import MemoryKeyring
from tests.helpers.token_site import TokenRequest, TokenSite

pytestmark = pytest.mark.anyio

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


async def whoami(url: str, auth: Any, **options: Any) -> str:
    async with Client(url, auth=auth, **options) as client:
        return (await client.call("whoami")).text


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_the_identity_provider_grants_gets_a_token(revision: str) -> None:
    site = TokenSite(exchange=granting())
    with site.running() as url:
        assert await whoami(url, managed(site), revision=revision) == "reports"
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


async def test_two_users_of_one_client_have_tokens_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = MemoryKeyring()
    monkeypatch.setattr(keyring, "get_keyring", lambda: kept)
    site = TokenSite(exchange=granting())
    with site.running() as url:
        for identity in ("ada's", "bob's"):
            await whoami(url, managed(site, identity=identity, storage=None))
    exchanges = [request for request in site.requests if request.path == "/idp/token"]
    assert [request.form["subject_token"] for request in exchanges] == ["ada's", "bob's"]


async def test_a_saml_assertion_and_a_secret_at_the_identity_provider() -> None:
    site = TokenSite(exchange=granting())
    with site.running() as url:
        await whoami(
            url, managed(site, identity_type="saml2", identity=lambda: "saml", idp_secret="at-the-idp")
        )
    exchange = site.requests[0]
    assert exchange.form["subject_token_type"] == TYPES + "saml2"
    assert exchange.form["subject_token"] == "saml"
    assert exchange.headers["authorization"].startswith("Basic ")


async def test_a_token_endpoint_that_is_known_needs_no_metadata() -> None:
    site = TokenSite(exchange=granting())
    with site.running() as url:
        known = managed(site, idp="https://acme.idp.example", idp_token_endpoint=f"{site.origin}/idp/token")
        assert await whoami(url, known) == "reports"


@pytest.mark.parametrize(
    ("exchange", "message"),
    [
        (
            lambda _: JSONResponse(
                {"error": "invalid_grant", "error_description": "the-identity has ended"}, 400
            ),
            "the identity provider .* refuses: 'invalid_grant",
        ),
        (granting(issued_token_type=TYPES + "access_token"), "HTTP 200, and no grant"),
        (granting(issued_token_type=None), "no grant"),
        (granting(access_token=5), "no grant"),
        (lambda _: Response("<p>", media_type="text/html"), "no grant"),
    ],
)
async def test_what_is_no_grant_goes_no_further(exchange: Any, message: str) -> None:
    site = TokenSite(exchange=exchange)
    with site.running() as url, pytest.raises(AuthorizationError, match=message) as raised:
        await whoami(url, managed(site))
    assert [each.path for each in site.requests] == ["/idp/token"]
    assert "the-identity" not in str(raised.value)


async def test_an_identity_provider_that_is_down_may_be_up_the_next_time() -> None:
    site = TokenSite(exchange=lambda _: Response(status_code=503))
    with site.running() as url, pytest.raises(TransportError, match="HTTP 503, and no grant"):
        await whoami(url, managed(site), tries=1)


async def test_an_identity_provider_that_says_it_is_another_gets_nothing() -> None:
    site = TokenSite(issuer={"issuer": "https://other.example"})
    with site.running() as url, pytest.raises(AuthorizationError, match="is of another issuer"):
        await whoami(url, managed(site))
    assert site.requests == []


async def test_another_authorization_server_gets_no_grant() -> None:
    site = TokenSite(exchange=granting())
    with (
        site.running() as url,
        pytest.raises(AuthorizationError, match=r"and not of 'https://id\.example\.com'"),
    ):
        await whoami(url, managed(site, issuer="https://id.example.com"))
    assert site.requests == []


def test_what_does_not_fit_is_refused_and_nothing_is_shown() -> None:
    site = TokenSite(origin="https://id.example.com")
    with pytest.raises(ValueError, match="identity_type is 'id_token' or 'saml2', not 'jwt'"):
        managed(site, identity_type="jwt")
    with pytest.raises(ValueError, match="give either secret=, private_key="):
        managed(site, secret=None)
    with pytest.raises(ValueError, match="idp= is not encrypted"):
        managed(site, idp="http://idp.example.com")
    assert repr(managed(site)) == "EnterpriseManaged('notes-client', idp='https://id.example.com/idp')"
