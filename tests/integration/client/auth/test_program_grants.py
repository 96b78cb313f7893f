"""Tokens of programs without a user at a browser: enterprise-managed, workload identity, keys and assertions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from starlette.responses import JSONResponse, Response

from mcpkit import Client, Retries
from mcpkit.client import ClientCredentials, EnterpriseManaged, MemoryTokens, WorkloadIdentity
from mcpkit.exceptions import AuthorizationError, TransportError
from tests.helpers.authorization_server import TokenRequest, TokenSite
from tests.helpers.tables import each_row

TYPES = "urn:ietf:params:oauth:token-type:"
GRANT = {"access_token": "the-grant", "issued_token_type": TYPES + "id-jag", "token_type": "N_A"}
OTHER_ISSUER = r"not 'https://id\.example\.com'"
KEY = ECKey.generate_key("P-256")


def granting(**changes: Any) -> Callable[[TokenRequest], Response]:
    return lambda _: JSONResponse({**GRANT, **changes})


def managed(site: TokenSite, **options: Any) -> EnterpriseManaged:
    defaults: dict[str, Any] = {
        "secret": "the-secret", "issuer": site.origin, "idp": f"{site.origin}/idp",
        "idp_client_id": "our-client", "identity": "the-identity", "storage": MemoryTokens(),
    }  # fmt: skip
    return EnterpriseManaged("notes-client", **{**defaults, **options})


async def whoami(url: str, auth: Any, **options: Any) -> str:
    async with Client(url, auth=auth, **options) as client:
        return (await client.call_tool("whoami")).text


async def test_enterprise_managed_exchanges_identity_for_grant_and_token(revision: str) -> None:
    site = TokenSite(exchange=granting())
    with site.running() as url:
        assert await whoami(url, managed(site), protocol_version=revision) == "reports"
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


async def test_enterprise_managed_saml_secret_and_known_endpoint() -> None:
    site = TokenSite(exchange=granting())
    with site.running() as url:
        options: dict[str, Any] = {
            "identity_type": "saml2",
            "identity": lambda: "saml",
            "idp_secret": "idp's",
        }
        known = {"idp": "https://acme.idp.example", "idp_token_endpoint": f"{site.origin}/idp/token"}
        assert await whoami(url, managed(site, **options, **known)) == "reports"
    exchange = site.requests[0]
    assert (exchange.form["subject_token_type"], exchange.form["subject_token"]) == (TYPES + "saml2", "saml")
    assert exchange.headers["authorization"].startswith("Basic ")


async def test_enterprise_managed_users_have_tokens_of_their_own() -> None:
    site = TokenSite(exchange=granting())
    with site.running() as url:
        for identity in ("ada's", "bob's"):
            await whoami(url, managed(site, identity=identity, storage=None))
    exchanges = [request.form for request in site.requests if request.path == "/idp/token"]
    assert [form["subject_token"] for form in exchanges] == ["ada's", "bob's"]


REFUSED = {"error": "invalid_grant", "error_description": "the-identity has ended"}


@each_row(("exchange", "message"), [
    (lambda _: JSONResponse(REFUSED, 400), "the identity provider .*: 'invalid_grant"),
    (granting(issued_token_type=TYPES + "access_token"), "HTTP 200"),
    (granting(issued_token_type=None), "HTTP 200"),
    (granting(access_token=5), "HTTP 200"),
    (lambda _: Response("<p>", media_type="text/html"), "HTTP 200"),
])  # fmt: skip
async def test_enterprise_managed_invalid_grant_is_not_presented(exchange: Any, message: str) -> None:
    site = TokenSite(exchange=exchange)
    with site.running() as url, pytest.raises(AuthorizationError, match=message) as raised:
        await whoami(url, managed(site))
    assert [each.path for each in site.requests] == ["/idp/token"]
    assert "the-identity" not in str(raised.value)


async def test_enterprise_managed_provider_down_is_transport_error() -> None:
    site = TokenSite(exchange=lambda _: Response(status_code=503))
    with site.running() as url, pytest.raises(TransportError, match="HTTP 503") as raised:
        await whoami(url, managed(site), retries=Retries(attempts=1))
    assert not isinstance(raised.value, AuthorizationError)


async def test_enterprise_managed_metadata_of_another_issuer_sends_nothing() -> None:
    site = TokenSite(issuer={"issuer": "https://other.example"})
    with site.running() as url, pytest.raises(AuthorizationError, match="issuer"):
        await whoami(url, managed(site))
    assert site.requests == []


@each_row("make", [
    lambda: managed(TokenSite(), issuer="https://id.example.com", idp="https://idp.example.com"),
    lambda: WorkloadIdentity("job", "platform-token", issuer="https://id.example.com"),
    lambda: ClientCredentials("reports", "secret", issuer="https://id.example.com"),
])  # fmt: skip
async def test_program_sends_nothing_to_another_issuer(make: Callable[[], Any]) -> None:
    site = TokenSite(exchange=granting())
    with site.running() as url, pytest.raises(AuthorizationError, match=OTHER_ISSUER):
        await whoami(url, make())
    assert site.requests == []


@each_row(("options", "problem"), [
    ({"identity_type": "jwt"}, "identity_type"),
    ({"secret": None}, "secret="),
    ({"idp": "http://idp.example.com"}, "not encrypted"),
])  # fmt: skip
def test_enterprise_managed_invalid_options_are_refused(options: dict[str, Any], problem: str) -> None:
    site = TokenSite()
    site.origin = "https://id.example.com"
    assert "the-identity" not in repr(managed(site))
    with pytest.raises(ValueError, match=problem):
        managed(site, **options)


async def test_workload_identity_presents_platform_token(revision: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("platform-token\n")
    site = TokenSite(issuer={"token_endpoint_auth_methods_supported": ["none"]})
    with site.running() as url:
        auth = WorkloadIdentity("job", file, issuer=site.origin)
        assert await whoami(url, auth, protocol_version=revision) == "reports"
    [request] = site.requests
    assert request.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "platform-token",
        "client_id": "job",
        "resource": url,
        "scope": "notes:read",
    }


@each_row("error", ["invalid_grant", "invalid_scope", "unauthorized_client"])
async def test_workload_identity_refusal_is_final_and_not_quoted(error: str) -> None:
    site = TokenSite()
    site.answer = lambda _: JSONResponse({"error": error, "error_description": "platform-token is bad"}, 400)
    with site.running() as url, pytest.raises(AuthorizationError, match=error) as raised:
        await whoami(url, WorkloadIdentity("job", "platform-token", issuer=site.origin))
    assert len(site.requests) == 1
    assert (
        "platform-token"
        not in f"{raised.value} {WorkloadIdentity('job', 'platform-token', issuer=site.origin)!r}"
    )


async def test_workload_identity_missing_token_file_is_named(tmp_path: Path) -> None:
    site = TokenSite()
    with site.running() as url:
        auth = WorkloadIdentity("job", tmp_path / "missing", issuer=site.origin)
        with pytest.raises(ConnectionError, match=r"missing: No such file"):
            await whoami(url, auth, retries=Retries(attempts=1))
    assert site.requests == []


async def test_client_credentials_key_signs_assertion_for_issuer() -> None:
    site = TokenSite()
    with site.running() as url:
        auth = ClientCredentials("reports", private_key=KEY.as_dict(private=True), scopes=["a", "b"])
        assert await whoami(url, auth) == "reports"
    [request] = site.requests
    token = jwt.decode(request.form["client_assertion"], KEY, algorithms=["ES256"])
    assert (token.claims["iss"], token.claims["sub"], token.claims["aud"]) == (
        "reports",
        "reports",
        site.origin,
    )
    assert set(request.form["scope"].split()) >= {"a", "b"}


async def test_client_credentials_assertion_is_read_for_each_token(tmp_path: Path) -> None:
    site, file = TokenSite(), tmp_path / "token"
    file.write_text("first")
    with site.running() as url:
        async with Client(
            url, auth=ClientCredentials("reports", assertion=file, issuer=site.origin)
        ) as client:
            await client.call_tool("whoami")
            file.write_text("second")
            site.live.clear()
            await client.call_tool("whoami")
    assert [each.form["client_assertion"] for each in site.requests] == ["first", "second"]
    assert {each.form["grant_type"] for each in site.requests} == {"client_credentials"}


@each_row(("options", "problem"), [
    ({}, "secret="),
    ({"secret": "a", "private_key": KEY.as_dict(private=True)}, "secret="),
    ({"secret": "a", "assertion": "b"}, "secret="),
    ({"secret": "a"}, "issuer="),
    ({"assertion": "a"}, "issuer="),
    ({"private_key": KEY.as_dict(private=True), "audience": "https://id.example.com/token"}, "issuer="),
    ({"secret": "a", "issuer": "https://id.example.com", "algorithm": "ES256"}, "private_key="),
    ({"secret": "a", "issuer": "http://id.example.com"}, "not encrypted"),
    ({"private_key": "SECRET"}, "private_key="),
    ({"private_key": KEY.as_dict(private=False)}, "private_key="),
    ({"private_key": OctKey.generate_key(256).as_dict(private=True)}, "private_key="),
    ({"private_key": KEY.as_dict(private=True), "algorithm": "RS256"}, "ES256"),
])  # fmt: skip
def test_client_credentials_invalid_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        ClientCredentials("reports", **options)
    assert "SECRET" not in str(raised.value)


async def test_bound_token_without_dpop_is_refused() -> None:
    site = TokenSite()
    site.answer = lambda _: JSONResponse({**site.issued("notes:read"), "token_type": "DPoP"})
    with site.running() as url, pytest.raises(AuthorizationError, match="DPoP"):
        await whoami(url, ClientCredentials("reports", "secret", issuer=site.origin))


async def test_dpop_proof_is_sent_where_server_issues_bearer_tokens() -> None:
    site = TokenSite()
    with site.running() as url:
        auth = ClientCredentials("reports", "secret", issuer=site.origin, dpop=True)
        assert await whoami(url, auth) == "reports"
    assert site.requests[0].headers["dpop"].count(".") == 2
