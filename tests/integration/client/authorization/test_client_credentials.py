"""Tokens for programs: client credentials, workload identity, enterprise grants and DPoP-bound tokens."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
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
