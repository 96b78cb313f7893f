"""Metadata, challenges and answers of untrusted servers and authorization servers: refused with a reason."""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from mcpkit import Client
from mcpkit.auth.urls_and_discovery import MetadataError
from mcpkit.client.auth.authorization_server_client import (
    AuthorizationFailedError,
    AuthorizationServerClient,
    discover,
)
from mcpkit.exceptions import AuthorizationError
from tests.helpers.authorization_server import RESOURCE_METADATA, Granting, clicking

ELSEWHERE = "https://evil.example"


async def login_error(server: Granting) -> str:
    with pytest.raises(AuthorizationError) as raised:
        await Client(server.url, auth=clicking()).__aenter__()
    return str(raised.value)


async def endless() -> AsyncIterator[bytes]:
    yield b'{"resource": "'
    for _ in range(1000):
        yield b"x" * 65536


@pytest.mark.parametrize(("answer", "problem"), [
    (lambda: StreamingResponse(endless(), media_type="application/json"), "more than the maximum of 524,288 bytes"),
    (lambda: RedirectResponse(f"{ELSEWHERE}/metadata"), r"redirects \(HTTP 307\), and the client does not follow"),
    (lambda: HTMLResponse("<html>"), "is missing at the URL in the challenge"),
    (lambda: Response(status_code=404), "is missing at the URL in the challenge .*: .* HTTP 404"),
    (lambda: JSONResponse([1]), "is missing at the URL in the challenge"),
    (lambda: Response('{"resource": 1, "resource": 2}', media_type="application/json"), "not a valid JSON object"),
    (lambda: JSONResponse({"resource": f"{ELSEWHERE}/mcp", "authorization_servers": [ELSEWHERE]}),
     "has another `resource`, 'https://evil.example/mcp'"),
    (lambda: JSONResponse({"resource": "{url}"}), "has another `resource`"),
])  # fmt: skip
async def test_resource_metadata_unusable_is_refused(server, answer, problem) -> None:
    server.answers[RESOURCE_METADATA] = [answer()]
    assert re.search(problem, await login_error(server))
    assert server.asked == []


@pytest.mark.parametrize(("named", "problem"), [
    (f"{ELSEWHERE}/metadata", "which is on another origin"),
    ("http://192.0.2.1/metadata", "not encrypted"),
    ("file:///etc/passwd", "not a valid https URL"),
    ("", "not a valid https URL"),
])  # fmt: skip
async def test_challenge_with_foreign_metadata_url_is_not_followed(server, named, problem) -> None:
    challenge = f'Bearer resource_metadata="{named}"'
    server.answers["/mcp"] = [Response(status_code=401, headers={"WWW-Authenticate": challenge})]
    assert problem in await login_error(server)


@pytest.mark.parametrize(("changes", "problem"), [
    ({"issuer": ELSEWHERE}, "has another `issuer`, 'https://evil.example'"),
    ({"issuer": None}, "has no `issuer` string"),
    ({"code_challenge_methods_supported": None}, "Microsoft Entra ID and Amazon Cognito"),
    ({"code_challenge_methods_supported": ["plain"]}, "its metadata lists 'plain'"),
    ({"token_endpoint": "http://192.0.2.1/token"}, "token_endpoint .* is not encrypted"),
    ({"token_endpoint": None}, "has no token_endpoint"),
    ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint .* is not a valid https URL"),
    ({"registration_endpoint": "ftp://192.0.2.1/"}, "is not a valid https URL"),
    ({"scopes_supported": "notes:read"}, "not a list of strings"),
])  # fmt: skip
async def test_issuer_metadata_unusable_is_refused(server, changes, problem) -> None:
    server.metadata = changes
    assert re.search(problem, await login_error(server))
    assert server.of("authorize") == server.of("token") == []


@pytest.mark.parametrize(("advertised", "changes", "problem"), [
    (True, {"iss": None}, "has no `iss`"), (True, {"iss": ELSEWHERE}, "has `iss` 'https://evil.example'"),
    (None, {"iss": ELSEWHERE}, "has `iss` 'https://evil.example'"),
    (True, {"iss": "{origin}/"}, "but the login was at"), (None, {"iss": "{upper}"}, "but the login was at"),
    (True, {"state": None}, "wrong `state`"), (True, {"state": "another"}, "wrong `state`"),
])  # fmt: skip
async def test_authorization_response_of_other_issuer_or_state_is_refused(
    server: Granting, advertised: bool | None, changes: dict[str, str | None], problem: str
) -> None:
    server.metadata = {"authorization_response_iss_parameter_supported": advertised}
    origins = {"origin": server.origin, "upper": server.origin.upper()}

    def back(params: dict[str, str]) -> dict[str, str]:
        changed = {**params, **changes}.items()
        return {name: text if name == "code" else text.format(**origins) for name, text in changed if text}

    server.back = back
    assert problem in await login_error(server)
    assert server.of("token") == []


@pytest.mark.parametrize(("answer", "problem"), [
    (lambda: JSONResponse({}), "without a valid access token"),
    (lambda: HTMLResponse("<html>welcome"), "HTTP 200 without a valid access token"),
    (lambda: JSONResponse({"access_token": "a\r\nX-Evil: 1", "token_type": "Bearer"}), "without a valid access token"),
    (lambda: JSONResponse({"access_token": "ä", "token_type": "Bearer"}), "without a valid access token"),
    (lambda: JSONResponse({"access_token": "abc", "token_type": "mac"}), "of type 'mac'"),
    (lambda: JSONResponse({"access_token": "abc", "token_type": "DPoP"}), "a DPoP-bound token"),
    (lambda: RedirectResponse(f"{ELSEWHERE}/token"), "redirects (HTTP 307), and the client does not follow redirects"),
    (lambda: JSONResponse({"error": "invalid_grant", "error_description": "\x1b[31mno"}, 400), "' [31mno"),
])  # fmt: skip
async def test_token_response_malformed_is_refused(server, answer, problem) -> None:
    server.answers["token"] = [answer()]
    output = await login_error(server)
    assert problem.strip("'") in output
    assert "\x1b" not in output


async def find_error(url: str, answer: Callable[[httpx2.Request], httpx2.Response], **options: Any) -> str:
    """Return why the authorization server of a remote server is not found."""
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer), **options) as client:
        with pytest.raises((AuthorizationFailedError, MetadataError)) as failed:
            await discover(
                AuthorizationServerClient(client, url, {"X-Gateway-Key": "secret"}), url, None, None, None
            )
    return str(failed.value)


URL, ISSUER = "https://mcp.example.com/mcp", "https://id.example.com"


@pytest.mark.parametrize(
    "issuer", ["http://localhost:8080", "https://127.1:8443", "https://[::ffff:127.0.0.1]"]
)
async def test_metadata_of_remote_server_does_not_lead_to_this_machine(issuer: str) -> None:
    requested: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requested.append(str(request.url))
        return httpx2.Response(200, json={"resource": URL, "authorization_servers": [issuer]})

    assert "is on this machine" in await find_error(URL, answer)
    assert requested == ["https://mcp.example.com/.well-known/oauth-protected-resource/mcp"]


async def test_headers_are_sent_to_server_origin_only() -> None:
    keys: list[tuple[str, str | None]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        keys.append((request.url.host, request.headers.get("x-gateway-key")))
        assert "authorization" not in request.headers
        if request.url.host != "mcp.example.com":
            return httpx2.Response(404)
        return httpx2.Response(200, json={"resource": URL, "authorization_servers": [ISSUER]})

    own = {"headers": {"X-Default": "1"}, "auth": ("user", "password")}
    assert "was not found" in await find_error(URL, answer, **own)
    assert keys == [("mcp.example.com", "secret"), ("id.example.com", None), ("id.example.com", None)]


async def test_pkce_unannounced_needs_option(server: Granting, caplog: pytest.LogCaptureFixture) -> None:
    server.metadata = {"code_challenge_methods_supported": None}
    auth = clicking(accept_unannounced_pkce=True)
    assert "OAuth: accept_unannounced_pkce=True: the client logs in at authorization servers" in caplog.text
    async with Client(server.url, auth=auth) as client:
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
    assert server.of("authorize")[0]["code_challenge_method"] == "S256"
    server.metadata = {"code_challenge_methods_supported": ["plain"]}
    with pytest.raises(AuthorizationError, match="its metadata lists 'plain'"):
        await Client(server.url, auth=clicking(accept_unannounced_pkce=True)).__aenter__()


async def test_plain_http_needs_option(caplog: pytest.LogCaptureFixture) -> None:
    inside = "http://notes.team.svc/mcp"
    with pytest.raises(ValueError, match=r"is not encrypted.* set accept_plain_http=True"):
        clicking().authorizer(inside)
    auth = clicking(accept_plain_http=True, issuer="http://id.team.svc")
    assert auth.authorizer(inside).url == inside
    assert "OAuth: accept_plain_http=True: requests to http://id.team.svc may be unencrypted" in caplog.text

    issuers = ["http://broken.team.svc", "http://id.team.svc"]
    issuer = {"issuer": issuers[1], "token_endpoint": "http://id.team.svc/token"}
    documents = {
        "http://notes.team.svc/.well-known/oauth-protected-resource/mcp": {
            "resource": inside, "authorization_servers": issuers,
        },
        "http://id.team.svc/.well-known/openid-configuration": issuer,
    }  # fmt: skip

    def answered(request: httpx2.Request) -> httpx2.Response:
        document = documents.get(str(request.url))
        return httpx2.Response(302) if document is None else httpx2.Response(200, json=document)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answered)) as http:
        found = await discover(
            AuthorizationServerClient(http, inside, {}, accepts_http=True), inside, None, None, None
        )
        assert found.server.endpoint("token_endpoint") == "http://id.team.svc/token"
