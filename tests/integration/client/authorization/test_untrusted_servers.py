"""Metadata, challenges and answers of untrusted servers and authorization servers: refused with a reason."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from mcpkit import Client
from mcpkit.auth.urls import MetadataError
from mcpkit.client.authorization import web
from mcpkit.client.authorization.errors import AuthorizationFailedError
from mcpkit.client.authorization.metadata import find
from mcpkit.exceptions import AuthorizationError
from tests.helpers.authorization_server import RESOURCE_METADATA, Granting, clicking

pytestmark = pytest.mark.anyio

ELSEWHERE = "https://evil.example"


async def refused(server: Granting) -> str:
    """Log in, and return why that does not work; nothing secret has gone anywhere."""
    with pytest.raises(AuthorizationError) as error:
        async with Client(server.url, auth=clicking()):
            pass
    return str(error.value)


async def endless() -> AsyncIterator[bytes]:
    yield b'{"resource": "'
    for _ in range(1000):
        yield b"x" * 65536


def challenged(**parameters: str) -> Response:
    value = ", ".join(f'{name}="{text}"' for name, text in parameters.items())
    return Response(status_code=401, headers={"WWW-Authenticate": f"Bearer {value}"})


@pytest.mark.parametrize(("answer", "wrong"), [
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
async def test_resource_metadata_unusable_is_refused(
    server: Granting, answer: Callable[[], Response], wrong: str
) -> None:
    server.answers[RESOURCE_METADATA] = [answer()]
    with pytest.raises(AuthorizationError, match=wrong):
        async with Client(server.url, auth=clicking()):
            pass
    assert server.asked == []


@pytest.mark.parametrize(("named", "wrong"), [
    (f"{ELSEWHERE}/metadata", "which is on another origin"),
    ("http://192.0.2.1/metadata", "not encrypted"),
    ("file:///etc/passwd", "not a valid https URL"),
    ("", "not a valid https URL"),
])  # fmt: skip
async def test_challenge_with_foreign_metadata_url_is_not_followed(
    server: Granting, named: str, wrong: str
) -> None:
    server.answers["/mcp"] = [challenged(resource_metadata=named)]
    assert wrong in await refused(server)


@pytest.mark.parametrize(("changes", "wrong"), [
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
async def test_issuer_metadata_unusable_is_refused(
    server: Granting, changes: dict[str, Any], wrong: str
) -> None:
    server.metadata = changes
    with pytest.raises(AuthorizationError, match=wrong):
        async with Client(server.url, auth=clicking()):
            pass
    assert server.of("authorize") == server.of("token") == []


@pytest.mark.parametrize(("advertised", "iss", "wrong"), [
    (True, None, "has no `iss`"),
    (True, ELSEWHERE, "has `iss` 'https://evil.example'"),
    (None, ELSEWHERE, "has `iss` 'https://evil.example'"),
    (True, "slash", "but the login was at"),
    (None, "upper", "but the login was at"),
])  # fmt: skip
async def test_authorization_response_of_other_issuer_is_refused(
    server: Granting, advertised: bool | None, iss: str | None, wrong: str
) -> None:
    server.metadata = {"authorization_response_iss_parameter_supported": advertised}
    own = {"slash": server.origin + "/", "upper": server.origin.upper()}
    output = own.get(iss, iss) if iss else None

    def back(reported: dict[str, str]) -> dict[str, str]:
        rest = {name: text for name, text in reported.items() if name != "iss"}
        return rest if output is None else {**rest, "iss": output}

    server.back = back
    assert wrong in await refused(server)
    assert server.of("token") == []


@pytest.mark.parametrize("state", [None, "another"])
async def test_authorization_response_with_wrong_state_is_refused(
    server: Granting, state: str | None
) -> None:
    server.back = lambda reported: {
        **{name: text for name, text in reported.items() if name != "state"},
        **({} if state is None else {"state": state}),
    }
    assert "wrong `state`" in await refused(server)
    assert server.of("token") == []


@pytest.mark.parametrize(("answer", "wrong"), [
    (lambda: JSONResponse({}), "without a valid access token"),
    (lambda: HTMLResponse("<html>welcome"), "HTTP 200 without a valid access token"),
    (lambda: JSONResponse({"access_token": "a\r\nX-Evil: 1", "token_type": "Bearer"}), "without a valid access token"),
    (lambda: JSONResponse({"access_token": "ä", "token_type": "Bearer"}), "without a valid access token"),
    (lambda: JSONResponse({"access_token": "abc", "token_type": "mac"}), "of type 'mac'"),
    (lambda: JSONResponse({"access_token": "abc", "token_type": "DPoP"}), "a DPoP-bound token"),
    (lambda: RedirectResponse(f"{ELSEWHERE}/token"), "redirects (HTTP 307), and the client does not follow redirects"),
    (lambda: JSONResponse({"error": "invalid_grant", "error_description": "\x1b[31mno"}, 400), "' [31mno"),
])  # fmt: skip
async def test_token_response_malformed_is_refused(
    server: Granting, answer: Callable[[], Response], wrong: str
) -> None:
    server.answers["token"] = [answer()]
    output = await refused(server)
    assert wrong.strip("'") in output
    assert "\x1b" not in output


class Asked:
    """What a server elsewhere in the world would be asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.urls: list[str] = []
        self._answers = answers

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.urls.append(str(request.url))
        answer = self._answers.get(str(request.url))
        return httpx2.Response(404) if answer is None else httpx2.Response(200, json=answer)


async def found(url: str, answers: dict[str, Any]) -> list[str]:
    asked = Asked(answers)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(asked)) as client:
        with pytest.raises((AuthorizationFailedError, MetadataError)) as failed:
            await find(web.Web(client, url, {}), url, None, None, None)
    return [str(failed.value), *asked.urls]


@pytest.mark.parametrize(
    "issuer", ["http://localhost:8080", "https://127.1:8443", "https://[::ffff:127.0.0.1]"]
)
async def test_metadata_of_remote_server_does_not_lead_to_this_machine(issuer: str) -> None:
    url = "https://mcp.example.com/mcp"
    near = {"resource": url, "authorization_servers": [issuer]}
    output, *asked = await found(
        url, {"https://mcp.example.com/.well-known/oauth-protected-resource/mcp": near}
    )
    assert "is on this machine" in output
    assert asked == ["https://mcp.example.com/.well-known/oauth-protected-resource/mcp"]


async def test_headers_are_sent_to_server_origin_only() -> None:
    url = "https://mcp.example.com/mcp"
    keys: list[tuple[str, str | None]] = []

    async def answer(request: httpx2.Request) -> httpx2.Response:
        keys.append((request.url.host, request.headers.get("x-gateway-key")))
        assert "authorization" not in request.headers
        if request.url.host == "mcp.example.com":
            return httpx2.Response(
                200, json={"resource": url, "authorization_servers": ["https://id.example.com"]}
            )
        return httpx2.Response(404)

    own = {"headers": {"X-Default": "1"}, "auth": ("user", "password")}
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer), **own) as client:
        with pytest.raises(AuthorizationFailedError, match="was not found"):
            await find(web.Web(client, url, {"X-Gateway-Key": "secret"}), url, None, None, None)
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
        async with Client(server.url, auth=clicking(accept_unannounced_pkce=True)):
            pass


async def test_plain_http_needs_option(caplog: pytest.LogCaptureFixture) -> None:
    inside = "http://notes.team.svc/mcp"
    with pytest.raises(ValueError, match=r"is not encrypted.* set accept_plain_http=True"):
        clicking().authorizer(inside)
    auth = clicking(accept_plain_http=True, issuer="http://id.team.svc")
    assert auth.authorizer(inside).url == inside
    assert "OAuth: accept_plain_http=True: requests to http://id.team.svc may be unencrypted" in caplog.text

    def answered(request: httpx2.Request) -> httpx2.Response:
        documents = {
            "http://notes.team.svc/.well-known/oauth-protected-resource/mcp": {
                "resource": inside,
                "authorization_servers": ["http://broken.team.svc", "http://id.team.svc"],
            },
            "http://id.team.svc/.well-known/openid-configuration": {
                "issuer": "http://id.team.svc",
                "token_endpoint": "http://id.team.svc/token",
            },
        }
        document = documents.get(str(request.url))
        return httpx2.Response(302) if document is None else httpx2.Response(200, json=document)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answered)) as http:
        found = await find(web.Web(http, inside, {}, accepts_http=True), inside, None, None, None)
        assert found.server.endpoint("token_endpoint") == "http://id.team.svc/token"
