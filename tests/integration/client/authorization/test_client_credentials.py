"""Tokens for programs: client credentials, workload identity, enterprise grants and DPoP-bound tokens."""

from __future__ import annotations

import logging
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse

from mcpkit import Client
from mcpkit.client import ClientCredentials, EnterpriseManaged, MemoryTokens, WorkloadIdentity
from mcpkit.exceptions import AuthorizationError
from tests.helpers.authorization_server import TokenSite

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t+of/the client"


async def whoami(url: str, auth: Any, times: int = 1, **options: Any) -> str:
    async with Client(url, auth=auth, **options) as client:
        for _ in range(times):
            output = (await client.call_tool("whoami")).text
        return output


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_client_credentials_secret_in_header_and_token_reused(revision: str) -> None:
    site = TokenSite()
    with site.running() as url:
        auth = ClientCredentials("re:ports", SECRET, issuer=site.origin)
        assert await whoami(url, auth, 3, protocol_version=revision) == "reports"
    [request] = site.requests
    assert request.form == {"grant_type": "client_credentials", "resource": url, "scope": "notes:read"}
    credentials = b64encode(b"re%3Aports:s3cr3t%2Bof%2Fthe%20client").decode()
    assert request.headers["authorization"] == f"Basic {credentials}"


async def test_client_credentials_refusal_has_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    site = TokenSite()
    refusal = {"error": "invalid_client", "error_description": f"not {SECRET} but another"}
    site.answer = lambda request: JSONResponse(refusal, 401)
    caplog.set_level(logging.DEBUG)
    with site.running() as url:
        auth = ClientCredentials("reports", SECRET, issuer=site.origin)
        with pytest.raises(AuthorizationError, match="invalid_client") as raised:
            await whoami(url, auth, protocol_version="2025-11-25")
    assert len(site.requests) == 1
    assert SECRET not in f"{caplog.text} {auth!r} {vars(auth)!r} {raised.value}"
    assert raised.value.status == 401


async def test_workload_identity_sends_platform_token(tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text("of-the-platform\n")
    site = TokenSite(issuer={"token_endpoint_auth_methods_supported": ["none"]})
    with site.running() as url:
        auth = WorkloadIdentity("job", file, issuer=site.origin)
        assert await whoami(url, auth, protocol_version="2026-07-28") == "reports"
    [request] = site.requests
    assert request.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "of-the-platform",
        "client_id": "job",
        "resource": url,
        "scope": "notes:read",
    }


TYPES = "urn:ietf:params:oauth:token-type:"


async def test_enterprise_grant_is_exchanged_for_token() -> None:
    answer = {"access_token": "the-grant", "issued_token_type": TYPES + "id-jag", "token_type": "N_A"}
    site = TokenSite(exchange=lambda _: JSONResponse(answer))
    with site.running() as url:
        auth = EnterpriseManaged(
            "notes-client",
            secret="the-secret",
            issuer=site.origin,
            idp=f"{site.origin}/idp",
            idp_client_id="our-client",
            identity="the-identity",
            storage=MemoryTokens(),
        )
        assert await whoami(url, auth, protocol_version="2025-11-25") == "reports"
    exchange, grant = site.requests
    assert exchange.path == "/idp/token"
    assert exchange.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": TYPES + "id-jag",
        "audience": site.origin,
        "resource": url,
        "scope": "notes:read",
        "subject_token": "the-identity",
        "subject_token_type": TYPES + "id_token",
        "client_id": "our-client",
    }
    assert "authorization" not in exchange.headers
    assert grant.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert grant.form["assertion"] == "the-grant"
    assert grant.headers["authorization"].startswith("Basic ")
