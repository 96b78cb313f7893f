"""check_authorization: each fault of a server or authorization server is found by its code."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from starlette.responses import RedirectResponse, Response

from mcpkit.client.authorization.checking.catalogue import SEVERITIES
from mcpkit.client.authorization.checking.check import check_authorization
from mcpkit.client.authorization.checking.finding import Finding
from tests.helpers.authorization_server import ISSUER_PATH, RESOURCE_PATH, Site
from tests.helpers.serving import in_thread

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

AT_PATH = f"{RESOURCE_PATH}/mcp"


async def check(site: Site, path: str = "/mcp", **options: Any) -> list[Finding]:
    with in_thread(site.app()) as origin:
        return await check_authorization(origin + path, **options)


async def test_check_correct_server_has_no_findings() -> None:
    site = Site()
    assert await check(site) == []
    assert {method for method, path, _ in site.seen if path == "/mcp"} == {"POST"}


def answering(status: int, media_type: str = "application/json", body: str = "{}") -> Callable[[], Response]:
    return lambda: Response(body, status, media_type=media_type)


def redirecting(status: int) -> Callable[[], Response]:
    return lambda: RedirectResponse("/mcp/", status)


OTHER = 'Bearer resource_metadata="{}", scope="a"'
WRONG: dict[str, tuple[Site, list[str]]] = {
    "a 403 at first": (Site(first=403), ["first-is-no-401"]),
    "a 404 at first, with metadata": (Site(first=404, bad=404), ["first-is-no-401"]),
    "a 500 for a bad token": (Site(bad=500), ["bad-token-is-no-401"]),
    "a 403 for a bad token": (Site(bad=403), ["bad-token-is-no-401"]),
    "any token is good": (Site(bad=200), ["any-token"]),
    "anonymous, and a bad token is refused": (Site(first=200), ["anonymous"]),
    "anonymous, and a bad token is not": (Site(first=200, bad=200), ["anonymous", "bad-token-passes"]),
    "a redirect that keeps the method": (Site(answer={"/mcp": redirecting(307)}), ["redirect-kept"]),
    "a redirect that does not": (Site(answer={"/mcp": redirecting(302)}), ["redirect"]),
    "no challenge": (Site(challenge=None), ["no-challenge"]),
    "another challenge": (Site(challenge='Basic realm="a"'), ["no-challenge"]),
    "a challenge without metadata": (Site(challenge='Bearer scope="notes:read"'), ["challenge-without-metadata"]),
    "a challenge without scope":
        (Site(challenge='Bearer resource_metadata="{origin}' + AT_PATH + '"'), ["challenge-without-scope"]),
    "a challenge with an error":
        (Site(challenge='Bearer error="invalid_token", scope="a", resource_metadata="{origin}' + AT_PATH + '"'),
            ["challenge-with-error"]),
    "a challenge that asks for refresh tokens":
        (Site(challenge='Bearer scope="a offline_access", resource_metadata="{origin}' + AT_PATH + '"'),
            ["offline-access"]),
    "metadata of another origin":
        (Site(challenge=OTHER.format("http://127.0.0.1:1/.well-known/oauth-protected-resource")),
            ["metadata-origin", "metadata-unusable"]),
    "metadata that is no URL": (Site(challenge=OTHER.format("/elsewhere")), ["metadata-origin"]),
    "no metadata": (Site(resource_at=(), challenge=None), ["no-metadata", "no-challenge"]),
    "metadata that the challenge names is missing":
        (Site(resource_at=(RESOURCE_PATH,), resource={"resource": "{origin}"}), ["metadata-unusable", "resource-wide"]),
    "metadata that wants a token": (Site(answer={AT_PATH: answering(401)}), ["metadata-protected", "no-metadata"]),
    "metadata that wants a token, and no challenge":
        (Site(answer={AT_PATH: answering(401)}, challenge=None), ["metadata-protected", "no-metadata",
            "no-challenge"]),
    "metadata that is a page":
        (Site(answer={AT_PATH: answering(200, "text/html", "<p>")}), ["metadata-unusable", "no-metadata"]),
    "metadata that is an array":
        (Site(answer={AT_PATH: answering(200, body="[]")}), ["metadata-unusable", "no-metadata"]),
    "metadata that is huge":
        (Site(answer={AT_PATH: answering(200, body=" " * 2_000_000)}), ["metadata-unusable", "no-metadata"]),
    "metadata that redirects": (Site(answer={AT_PATH: redirecting(302)}), ["metadata-unusable", "no-metadata"]),
    "no resource": (Site(resource={"resource": None}), ["no-resource"]),
    "a resource with a slash": (Site(resource={"resource": "{origin}/mcp/"}), ["resource-slash"]),
    "a resource above": (Site(resource={"resource": "{origin}"}), ["resource-wide"]),
    "another path": (Site(resource={"resource": "{origin}/sse"}), ["resource-mismatch"]),
    "a resource that is no URL": (Site(resource={"resource": "mcp.example.com"}), ["resource-mismatch"]),
    "another host": (Site(resource={"resource": "https://internal.example/mcp"}), ["resource-origin"]),
    "another scheme": (Site(resource={"resource": "https://127.0.0.1/mcp"}), ["resource-origin"]),
    "no authorization server": (Site(resource={"authorization_servers": []}), ["no-issuer"]),
    "tokens in the query": (Site(resource={"bearer_methods_supported": ["header", "query"]}), ["token-in-query"]),
    "tokens in the body": (Site(resource={"bearer_methods_supported": ["body"]}), ["token-not-in-header"]),
    "refresh tokens": (Site(resource={"scopes_supported": ["notes:read", "offline_access"]}), ["offline-access"]),
    "an issuer that is not encrypted":
        (Site(resource={"authorization_servers": ["http://id.example.com"]}), ["issuer-unusable"]),
    "an issuer without metadata": (Site(issuer_at=()), ["issuer-metadata", "march-foreign-issuer"]),
    "another issuer": (Site(issuer={"issuer": "https://id.example.com"}), ["issuer-mismatch"]),
    "an issuer with a slash": (Site(issuer={"issuer": "{origin}/"}), ["issuer-slash"]),
    "an issuer below a path":
        (Site(resource={"authorization_servers": ["{origin}/realm"]}, issuer={"issuer": "{origin}/realm"},
            issuer_at=(f"{ISSUER_PATH}/realm",)), ["march-foreign-issuer"]),
    "an issuer by OpenID Connect":
        (Site(resource={"authorization_servers": ["{origin}/realm"]}, issuer={"issuer": "{origin}/realm"},
            issuer_at=("/realm/.well-known/openid-configuration",)), ["march-foreign-issuer"]),
    "no token endpoint": (Site(issuer={"token_endpoint": None}), ["no-endpoint"]),
    "an endpoint that is not encrypted":
        (Site(issuer={"authorization_endpoint": "http://id.example.com/authorize"}), ["no-endpoint"]),
    "no code flow": (Site(issuer={"response_types_supported": ["token"]}), ["no-code"]),
    "programs alone": (Site(issuer={"grant_types_supported": ["client_credentials"]}), ["no-code"]),
    "no PKCE": (Site(issuer={"code_challenge_methods_supported": None}), ["no-pkce"]),
    "plain PKCE": (Site(issuer={"code_challenge_methods_supported": ["plain"]}), ["no-pkce"]),
    "no registration":
        (Site(issuer={"client_id_metadata_document_supported": None, "registration_endpoint": None}),
            ["no-registration"]),
    "registration alone": (Site(issuer={"client_id_metadata_document_supported": False}), ["no-client-documents"]),
    "documents alone": (Site(issuer={"registration_endpoint": None}), ["documents-alone"]),
    "no public clients":
        (Site(issuer={"token_endpoint_auth_methods_supported": ["client_secret_basic"]}), ["no-public-clients"]),
    "methods are not said": (Site(issuer={"token_endpoint_auth_methods_supported": None}), ["no-public-clients"]),
    "no iss": (Site(issuer={"authorization_response_iss_parameter_supported": None}), ["no-iss"]),
    "no refresh tokens": (Site(issuer={"grant_types_supported": ["authorization_code"]}), ["no-refresh"]),
    "scopes that it does not know": (Site(issuer={"scopes_supported": ["openid"]}), ["unknown-scopes"]),
    "no pages": (Site(pages=False), ["cors"]),
    "metadata of odd types":
        (Site(resource={"authorization_servers": "x", "scopes_supported": {}, "bearer_methods_supported": 1}),
            ["no-issuer"]),
    "an issuer of odd types":
        (Site(issuer={"response_types_supported": 1, "grant_types_supported": {}, "token_endpoint": [],
            "code_challenge_methods_supported": "S256", "scopes_supported": [1]}), ["no-endpoint", "no-pkce"]),
}  # fmt: skip


@pytest.mark.parametrize("part", range(5))
async def test_check_finds_each_fault(part: int) -> None:
    faults = []
    for name, (site, expected) in list(WRONG.items())[part::5]:
        findings = await check(replace(site, seen=[]))
        codes = sorted({each.code for each in findings})
        order = [SEVERITIES.index(each.severity) for each in findings]
        if codes != sorted(expected) or order != sorted(order):
            faults.append(f"{name}: {codes}, not {sorted(expected)}; severities {order}")
        for each in findings:
            is_filled_in = re.search(r"\{|\}", each.why + each.cure) is None
            has_place = str(each).startswith(f"{each.severity} {each.code}: http://127.0.0.1")
            if not (is_filled_in and has_place and "What to change: " in str(each)):
                faults.append(f"{name}: {each}")
    assert not faults, "\n".join(faults)


async def test_check_does_not_request_local_issuer_of_remote_server() -> None:
    asked: list[str] = []

    def answer(request: Any) -> Any:
        asked.append(request.url.host)
        challenge = (
            'Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
        )
        if request.url.path == "/mcp":
            return httpx2.Response(401, headers={"WWW-Authenticate": challenge})
        document = {
            "resource": "https://mcp.example.com/mcp",
            "authorization_servers": ["https://127.0.0.1:9"],
        }
        return httpx2.Response(200, json=document)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        findings = await check_authorization("https://mcp.example.com/mcp", http_client=client)
        assert not client.is_closed
    assert set(asked) == {"mcp.example.com"}
    [missing] = [each for each in findings if each.code == "issuer-unreachable"]
    assert "loopback address" in missing.why
