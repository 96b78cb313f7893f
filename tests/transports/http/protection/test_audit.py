"""Audit events, startup messages and metadata documents."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from mcpkit import Access, Context, HttpOptions, Server
from mcpkit.auth import (
    AccessToken,
    AuditEvent,
    InvalidTokenError,
    TokenVerifier,
)
from mcpkit.state.principal import user
from tests.helpers.raw_client import Client, Serve, initialize
from tests.helpers.servers.protected import ISSUER, Table, bearer

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"


EVE: dict[str, Any] = {"client": ("203.0.113.7", 50000)}


RESOURCE = {"resource": URL}


ADA = {"principal": f"{ISSUER}#sub=ada", "client_id": "client", "issuer": ISSUER, **RESOURCE}


@pytest.fixture
def audit_events(server: Server) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []

    @server.on_audit
    def hear(event: AuditEvent) -> None:
        events.append({name: value for name, value in event._asdict().items() if value})

    return events


async def test_audit_login(server: Server, serve: Serve, audit_events: list[dict[str, Any]]) -> None:
    async with serve(server) as client:
        for token in (bearer("ada"), bearer("ada"), bearer("bob", ["mail"]), bearer("ada")):
            assert (await client.call_tool("whoami", headers=token).whole()).status == 200
    assert audit_events == [
        {"name": "login", **ADA},
        {"name": "login", **ADA, "principal": f"{ISSUER}#sub=bob", "scopes": ("mail",)},
    ]


async def test_audit_refusal_with_reason(
    server: Server, serve: Serve, table: Table, audit_events: list[dict[str, Any]]
) -> None:
    async with serve(server) as client:
        assert (await client.post(initialize(), **EVE).whole()).status == 401
        assert (await client.post(initialize(), bearer("bad"), **EVE).whole()).status == 401
        assert (await client.post(initialize(), {"authorization": "Bearer a b"}, **EVE).whole()).status == 400
        table.is_down = True
        assert (await client.post(initialize(), bearer("ada"), **EVE).whole()).status == 503
    caller = {"name": "refusal", "caller": "address 203.0.113.7", **RESOURCE}
    assert audit_events == [
        {**caller, "status": 401, "reason": "no_token"},
        {**caller, "status": 401, "reason": "invalid_token", "detail": "The access token has expired"},
        {
            **caller,
            "status": 400,
            "reason": "invalid_request",
            "detail": "the Authorization header does not contain a Bearer token",
        },
        {**caller, "status": 503, "reason": "unavailable", "detail": "the table is locked"},
    ]


class SingleToken(TokenVerifier):
    async def verify(self, token: str, audience: str) -> AccessToken:
        if token != "tokensecret":
            raise InvalidTokenError("The access token is none of this server's")
        return AccessToken(user(ISSUER, "ada@example.com", ["notes:read"], claims={"name": "claimsecret"}))


async def test_audit_contains_no_secrets(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server("notes", auth=SingleToken())
    events: list[AuditEvent] = []
    server.on_audit(events.append)

    @server.tool(access=Access(optional_scopes="mail"))
    async def repeat(text: str, ctx: Context) -> str:
        """Say something."""
        ctx.require_scopes("mail")
        return text

    async with serve(server) as client:
        arguments = {"text": "argumentsecret"}
        for header in (
            "Bearer tokensecret",
            "Bearer forgedsecret",
            "Bearer broken secret",
            "Basic basicsecret",
        ):
            await client.call_tool("repeat", arguments, headers={"authorization": header}).whole()
    assert [(event.name, event.status) for event in events] == [
        ("login", None), ("refusal", 403), ("refusal", 401), ("refusal", 400), ("refusal", 401),
    ]  # fmt: skip
    for text in (str(events), caplog.text, str([vars(record) for record in caplog.records])):
        assert "secret" not in text
        assert "ada@example.com" not in text


@pytest.fixture
def startup_messages(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[tuple[str, str]]]:
    uvicorn = logging.getLogger(
        "uvicorn"
    )  # as a test before this one may have left it, or pytest has set it up
    monkeypatch.setattr(uvicorn, "handlers", [])
    monkeypatch.setattr(uvicorn, "propagate", True)
    names = ("mcpkit.transports", "uvicorn.error")
    for name in names:
        caplog.set_level(logging.INFO, name)
    return lambda: [
        (each.levelname, each.getMessage()) for each in caplog.records if each.name.startswith(names)
    ]


@pytest.mark.parametrize(
    ("url", "is_warned"),
    [
        ("http://mcp.example.com/mcp", True), ("http://10.0.0.7:8000/mcp", True),
        ("http://localhost.example.com/mcp", True), ("http://localhost:8000/mcp", False),
        ("http://127.0.0.1:8000/mcp", False), ("http://[::1]:8000/mcp", False),
        ("https://mcp.example.com/mcp", False),
    ],
)  # fmt: skip
async def test_startup_warns_of_unencrypted_url(
    server: Server, serve: Serve, startup_messages: Callable[[], Any], url: str, is_warned: bool
) -> None:
    async with serve(server, public_url=url) as client:
        await client.call_tool("whoami").whole()
    assert (
        any(level == "WARNING" and "does not use TLS" in text for level, text in startup_messages())
        is is_warned
    )


METADATA_PATH = "/.well-known/oauth-protected-resource"


METADATA = {
    "resource": URL, "authorization_servers": [ISSUER], "scopes_supported": ["notes:read"],
    "bearer_methods_supported": ["header"], "resource_name": "Notes",
}  # fmt: skip


async def test_metadata_of_each_endpoint(client: Client) -> None:
    for path, resource in (
        (f"{METADATA_PATH}/mcp", URL),
        (f"{METADATA_PATH}/sse", URL[:-3] + "sse"),
        (METADATA_PATH, URL),
    ):
        answer = await client.open("GET", path).whole()
        assert answer.status == 200
        assert json.loads(answer.body) == {**METADATA, "resource": resource}


async def test_metadata_is_readable_by_any_page(client: Client) -> None:
    page = {"origin": "https://anywhere.example", "access-control-request-method": "GET"}
    answer = await client.open("GET", f"{METADATA_PATH}/mcp", headers=page).whole()
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")
    pending = {**page, "access-control-request-headers": "mcp-protocol-version"}
    answer = await client.open("OPTIONS", f"{METADATA_PATH}/mcp", headers=pending).whole()
    assert answer.status == 204
    assert answer.headers["access-control-allow-headers"] == "mcp-protocol-version"
    assert (await client.open("HEAD", f"{METADATA_PATH}/mcp").whole()).status == 200
    assert (await client.open("POST", f"{METADATA_PATH}/mcp").whole()).status == 405


async def test_metadata_ignores_forwarded_headers(server: Server, serve: Serve) -> None:
    forged = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "http", "x-forwarded-prefix": "/evil"}
    async with serve(server) as client:
        assert (
            json.loads((await client.open("GET", f"{METADATA_PATH}/mcp", headers=forged).whole()).body)
            == METADATA
        )
        answer = await client.call_tool("whoami", headers=forged).whole()
        assert "evil" not in answer.headers["www-authenticate"]
        evil = await client.call_tool("whoami", headers={"host": "evil.example", **bearer("ada")}).whole()
        assert evil.status == 421


@pytest.fixture
def routed(server: Server) -> Server:
    @server.route("/open")
    def open_(request: Request) -> Response:
        return PlainTextResponse("open")

    @server.route("/mine", scopes=())
    def mine(request: Request) -> Response:
        return PlainTextResponse(request.state.principal.subject)

    @server.route("/export", scopes="notes:read", methods=["POST"])
    async def export(request: Request) -> Response:
        return PlainTextResponse("exported")

    return server


async def test_route_scopes_require_token(routed: Server, serve: Serve) -> None:
    async with serve(routed) as client:
        assert (await client.open("GET", "/open").whole()).body == b"open"
        assert (await client.open("GET", "/mine").whole()).status == 401
        assert (await client.open("GET", "/mine", headers=bearer("ada")).whole()).body == b"ada"
        answer = await client.open("POST", "/export", headers=bearer("ada")).whole()
        assert answer.status == 403
        assert 'scope="notes:read"' in answer.headers["www-authenticate"]
        answer = await client.open("POST", "/export", headers=bearer("ada", ["notes:admin"])).whole()
        assert answer.body == b"exported"


def test_run_elsewhere_requires_public_url(server: Server) -> None:
    with pytest.raises(ValueError, match="needs the public URL of the server"):
        server.run("http", host="0.0.0.0")
    with pytest.raises(ValueError, match="needs the public URL of the server"):
        server.run("http", ssl_certfile="x")


async def test_startup_lists_open_routes_and_apps(
    server: Server, schema_dir: Path, startup_messages: Callable[[], Any]
) -> None:
    def answer(request: Request) -> Response:
        return PlainTextResponse("x")

    server.route("/open")(answer)
    server.route("/hook", methods=["POST"])(answer)
    server.route("/mine", scopes=())(answer)
    app = server.asgi(
        public_url=URL, http=HttpOptions(sse=False, readiness_path="/health"), allowed_hosts=["localhost"]
    )
    app.mount("/other", Starlette())
    client = Client(app, schema_dir)
    await client.open("POST").whole()
    await client.aclose()
    assert startup_messages() == [
        ("INFO", f"Access tokens issued by {ISSUER} are accepted at {URL}"),
        (
            "INFO",
            "Open without an access token, as they have no scopes=: route /open, route /hook, app mounted at /other",
        ),
    ]


@pytest.mark.parametrize("options", [{"port": 0}])
def test_run_sets_public_url_on_loopback(
    server: Server, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import mcpkit.transports.http.run as running

    seen: list[Any] = []
    monkeypatch.setattr(running, "run_app", lambda app, *rest: seen.append((app, rest[-1])))
    server.run("http", **options)
    app, listening = seen[0]
    port = 8000 if listening is None else listening.getsockname()[1]
    assert app.settings.public_url == f"http://127.0.0.1:{port}/mcp"
    if listening is not None:
        listening.close()
