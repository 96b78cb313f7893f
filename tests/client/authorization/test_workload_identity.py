"""A program that is known by where it runs: its platform's token, shown once and to one authorization server."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.responses import JSONResponse

from mcpkit import AuthorizationError, Client, WorkloadIdentity
from tests.helpers.token_site import TokenSite

pytestmark = pytest.mark.anyio


async def whoami(url: str, auth: WorkloadIdentity, revision: str | None = None) -> str:
    async with Client(url, auth=auth, revision=revision) as client:
        return (await client.call("whoami")).text


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_token_of_the_platform_is_what_is_shown(revision: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of-the-platform\n")
    site = TokenSite(issuer={"token_endpoint_auth_methods_supported": ["none"]})
    with site.running() as url:
        assert await whoami(url, WorkloadIdentity("job", file, issuer=site.origin), revision) == "reports"
    [request] = site.requests
    assert request.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "of-the-platform",
        "client_id": "job",
        "resource": url,
        "scope": "notes:read",
    }


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_scope", "unauthorized_client"])
async def test_what_is_refused_is_not_asked_again_nor_in_another_way(error: str) -> None:
    site = TokenSite()
    site.answer = lambda _: JSONResponse({"error": error, "error_description": "of-the-platform is bad"}, 400)
    with site.running() as url, pytest.raises(AuthorizationError, match=error) as raised:
        await whoami(url, WorkloadIdentity("job", "of-the-platform", issuer=site.origin))
    assert len(site.requests) == 1
    assert "of-the-platform" not in str(raised.value)


async def test_another_authorization_server_does_not_see_it() -> None:
    site = TokenSite()
    with (
        site.running() as url,
        pytest.raises(AuthorizationError, match=r"and not of 'https://id\.example\.com'"),
    ):
        await whoami(url, WorkloadIdentity("job", "of-the-platform", issuer="https://id.example.com"))
    assert site.requests == []


async def test_a_platform_without_a_token_is_named(tmp_path: Path) -> None:
    site = TokenSite()
    with site.running() as url:
        auth = WorkloadIdentity("job", tmp_path / "missing", issuer=site.origin)
        with pytest.raises(ConnectionError, match=r"token cannot be read from .*missing: No such file"):
            async with Client(url, auth=auth, tries=1):
                pass
    assert site.requests == []


def test_nothing_of_it_is_shown() -> None:
    auth = WorkloadIdentity("job", "of-the-platform", issuer="https://id.example.com")
    assert "of-the-platform" not in repr(auth)
    assert repr(auth) == "WorkloadIdentity('job')"
