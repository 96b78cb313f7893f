"""check_authorization: each fault of a server or authorization server is found by its code."""

import re
from typing import Any

import httpx2
from starlette.responses import RedirectResponse, Response

from mcpkit.cli.doctor.check_authorization import check_authorization
from mcpkit.cli.findings import SEVERITIES
from tests.helpers.authorization_server import ISSUER_PATH, RESOURCE_PATH, Site
from tests.helpers.serving import in_thread
from tests.helpers.tables import each_row

METADATA = f"{RESOURCE_PATH}/mcp"


async def test_check_correct_server_has_no_findings() -> None:
    site = Site()
    with in_thread(site.app()) as origin:
        assert await check_authorization(f"{origin}/mcp") == []
    assert {method for method, path, _ in site.seen if path == "/mcp"} == {"POST"}


def resource(**changes: Any) -> Site:
    return Site(resource=changes)


def issuer(**changes: Any) -> Site:
    return Site(issuer=changes)


def challenged(text: str, metadata: str = "{origin}" + METADATA) -> Site:
    return Site(challenge=text.replace("{metadata}", f'resource_metadata="{metadata}"'))


def metadata(
    status: int = 200, media_type: str = "application/json", body: str = "{}", **members: Any
) -> Site:
    return Site(answer={METADATA: lambda: Response(body, status, media_type=media_type)}, **members)


def redirecting(path: str, status: int) -> Site:
    return Site(answer={path: lambda: RedirectResponse("/mcp/", status)})


FOREIGN_METADATA = "http://127.0.0.1:1/.well-known/oauth-protected-resource"
REALM = "{origin}/realm"


@each_row(("site", "expected"), [
    (Site(first=403), ["first-is-no-401"]),
    (Site(first=404, bad=404), ["first-is-no-401"]),
    (Site(bad=500), ["bad-token-is-no-401"]),
    (Site(bad=403), ["bad-token-is-no-401"]),
    (Site(bad=200), ["any-token"]),
    (Site(first=200), ["anonymous"]),
    (Site(first=200, bad=200), ["anonymous", "bad-token-passes"]),
    (redirecting("/mcp", 307), ["redirect-kept"]),
    (redirecting("/mcp", 302), ["redirect"]),
    (Site(challenge=None), ["no-challenge"]),
    (challenged('Basic realm="a"'), ["no-challenge"]),
    (challenged('Bearer scope="notes:read"'), ["challenge-without-metadata"]),
    (challenged("Bearer {metadata}"), ["challenge-without-scope"]),
    (challenged('Bearer error="invalid_token", scope="a", {metadata}'), ["challenge-with-error"]),
    (challenged('Bearer scope="a offline_access", {metadata}'), ["offline-access"]),
    (challenged('Bearer {metadata}, scope="a"', FOREIGN_METADATA), ["metadata-origin", "metadata-unusable"]),
    (challenged('Bearer {metadata}, scope="a"', "/elsewhere"), ["metadata-origin"]),
    (Site(resource_at=(), challenge=None), ["no-metadata", "no-challenge"]),
    (Site(resource_at=(RESOURCE_PATH,), resource={"resource": "{origin}"}), ["metadata-unusable", "resource-wide"]),
    (metadata(401), ["metadata-protected", "no-metadata"]),
    (metadata(401, challenge=None), ["metadata-protected", "no-metadata", "no-challenge"]),
    (metadata(200, "text/html", "<p>"), ["metadata-unusable", "no-metadata"]),
    (metadata(body="[]"), ["metadata-unusable", "no-metadata"]),
    (metadata(body=" " * 2_000_000), ["metadata-unusable", "no-metadata"]),
    (redirecting(METADATA, 302), ["metadata-unusable", "no-metadata"]),
    (resource(resource=None), ["no-resource"]),
    (resource(resource="{origin}/mcp/"), ["resource-slash"]),
    (resource(resource="{origin}"), ["resource-wide"]),
    (resource(resource="{origin}/sse"), ["resource-mismatch"]),
    (resource(resource="mcp.example.com"), ["resource-mismatch"]),
    (resource(resource="https://internal.example/mcp"), ["resource-origin"]),
    (resource(resource="https://127.0.0.1/mcp"), ["resource-origin"]),
    (resource(authorization_servers=[]), ["no-issuer"]),
    (resource(bearer_methods_supported=["header", "query"]), ["token-in-query"]),
    (resource(bearer_methods_supported=["body"]), ["token-not-in-header"]),
    (resource(scopes_supported=["notes:read", "offline_access"]), ["offline-access"]),
    (resource(authorization_servers=["http://id.example.com"]), ["issuer-unusable"]),
    (Site(issuer_at=()), ["issuer-metadata", "march-foreign-issuer"]),
    (issuer(issuer="https://id.example.com"), ["issuer-mismatch"]),
    (issuer(issuer="{origin}/"), ["issuer-slash"]),
    *[(Site(resource={"authorization_servers": [REALM]}, issuer={"issuer": REALM}, issuer_at=(path,)),
       ["march-foreign-issuer"]) for path in (f"{ISSUER_PATH}/realm", "/realm/.well-known/openid-configuration")],
    (issuer(token_endpoint=None), ["no-endpoint"]),
    (issuer(authorization_endpoint="http://id.example.com/authorize"), ["no-endpoint"]),
    (issuer(response_types_supported=["token"]), ["no-code"]),
    (issuer(grant_types_supported=["client_credentials"]), ["no-code"]),
    (issuer(code_challenge_methods_supported=None), ["no-pkce"]),
    (issuer(code_challenge_methods_supported=["plain"]), ["no-pkce"]),
    (issuer(client_id_metadata_document_supported=None, registration_endpoint=None), ["no-registration"]),
    (issuer(client_id_metadata_document_supported=False), ["no-client-documents"]),
    (issuer(registration_endpoint=None), ["documents-alone"]),
    (issuer(token_endpoint_auth_methods_supported=["client_secret_basic"]), ["no-public-clients"]),
    (issuer(token_endpoint_auth_methods_supported=None), ["no-public-clients"]),
    (issuer(authorization_response_iss_parameter_supported=None), ["no-iss"]),
    (issuer(grant_types_supported=["authorization_code"]), ["no-refresh"]),
    (issuer(scopes_supported=["openid"]), ["unknown-scopes"]),
    (Site(pages=False), ["cors"]),
    (resource(authorization_servers="x", scopes_supported={}, bearer_methods_supported=1), ["no-issuer"]),
    (issuer(response_types_supported=1, grant_types_supported={}, token_endpoint=[],
            code_challenge_methods_supported="S256", scopes_supported=[1]), ["no-endpoint", "no-pkce"]),
])  # fmt: skip
async def test_check_finds_each_fault(site: Site, expected: list[str]) -> None:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(site.app())) as client:
        findings = await check_authorization("http://127.0.0.1:8000/mcp", http_client=client)
    assert sorted({each.code for each in findings}) == sorted(expected)
    order = [SEVERITIES.index(each.severity) for each in findings]
    assert order == sorted(order)
    for each in findings:
        assert not re.search(r"[{}]", each.why + each.cure)
        assert str(each).startswith(f"{each.severity} {each.code}: http://127.0.0.1")
        assert "  Fix: " in str(each)


async def test_check_does_not_request_local_issuer_of_remote_server() -> None:
    url = "https://mcp.example.com/mcp"
    challenge = 'Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
    hosts: set[str] = set()

    def answer(request: Any) -> Any:
        hosts.add(request.url.host)
        if request.url.path == "/mcp":
            return httpx2.Response(401, headers={"WWW-Authenticate": challenge})
        return httpx2.Response(200, json={"resource": url, "authorization_servers": ["https://127.0.0.1:9"]})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        findings = await check_authorization(url, http_client=client)
        assert not client.is_closed
    assert hosts == {"mcp.example.com"}
    [missing] = [each for each in findings if each.code == "issuer-unreachable"]
    assert "loopback address" in missing.why
