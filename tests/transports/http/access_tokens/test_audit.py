"""Audit events, startup messages, metadata documents, and routes that need a token."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from mcpkit import Access, Context, HttpOptions, Server
from mcpkit.auth import AccessToken, AuditEvent, InvalidTokenError, TokenVerifier
from mcpkit.identity.principals_and_scopes import user
from mcpkit.transports.http import run
from tests.helpers.raw_client import Client, Serve, initialize
from tests.helpers.servers.protected import ISSUER, Table, bearer

URL = "https://mcp.example.com/mcp"
METADATA_PATH = "/.well-known/oauth-protected-resource"
METADATA = {
    "resource": URL, "authorization_servers": [ISSUER], "scopes_supported": ["notes:read"],
    "bearer_methods_supported": ["header"], "resource_name": "Notes",
}  # fmt: skip


async def test_audit_has_logins_and_refusals_with_reason(server: Server, serve: Serve, table: Table) -> None:
    events: list[dict[str, Any]] = []
    server.on_audit(lambda event: events.append({k: v for k, v in event._asdict().items() if v}))
    eve = {"client": ("203.0.113.7", 50000)}
    async with serve(server) as client:
        for token in (bearer("ada"), bearer("ada"), bearer("bob", ["mail"]), bearer("ada")):
            assert (await client.call_tool("whoami", headers=token).whole()).status == 200
        ada = {
            "name": "login", "principal": f"{ISSUER}#sub=ada", "client_id": "client", "issuer": ISSUER,
            "resource": URL,
        }  # fmt: skip
        assert events == [ada, {**ada, "principal": f"{ISSUER}#sub=bob", "scopes": ("mail",)}]
        events.clear()
        for headers, status in (({}, 401), (bearer("bad"), 401), ({"authorization": "Bearer a b"}, 400)):
            assert (await client.post(initialize(), headers, **eve).whole()).status == status
        table.is_down = True
        assert (await client.post(initialize(), bearer("new"), **eve).whole()).status == 503
    assert {(event["name"], event["caller"], event["resource"]) for event in events} == {
        ("refusal", "address 203.0.113.7", URL)
    }
    assert [(event["status"], event["reason"], event.get("detail")) for event in events] == [
        (401, "no_token", None),
        (401, "invalid_token", "The access token has expired"),
        (400, "invalid_request", "the Authorization header does not contain a Bearer token"),
        (503, "unavailable", "the table is locked"),
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
        ctx.require_scopes("mail")
        return text

    async with serve(server) as client:
        for header in (
            "Bearer tokensecret", "Bearer forgedsecret", "Bearer broken secret", "Basic basicsecret",
        ):  # fmt: skip
            arguments = {"text": "argumentsecret"}
            await client.call_tool("repeat", arguments, headers={"authorization": header}).whole()
    assert [(event.name, event.status) for event in events] == [
        ("login", None), ("refusal", 403), ("refusal", 401), ("refusal", 400), ("refusal", 401),
    ]  # fmt: skip
    for text in (str(events), caplog.text, str([vars(record) for record in caplog.records])):
        assert "secret" not in text
        assert "ada@example.com" not in text


@pytest.fixture
def startup_messages(caplog, monkeypatch) -> Callable[[], list[tuple[str, str]]]:
    uvicorn = logging.getLogger("uvicorn")  # another test, or pytest, may have configured it
    monkeypatch.setattr(uvicorn, "handlers", [])
    monkeypatch.setattr(uvicorn, "propagate", True)
    names = ("mcpkit.transports", "uvicorn.error")
    for name in names:
        caplog.set_level(logging.INFO, name)
    return lambda: [
        (each.levelname, each.getMessage()) for each in caplog.records if each.name.startswith(names)
    ]


async def test_startup_warns_of_unencrypted_url(make, serve, startup_messages, caplog) -> None:
    for url, is_warned in (
        ("http://mcp.example.com/mcp", True), ("http://10.0.0.7:8000/mcp", True),
        ("http://localhost.example.com/mcp", True), ("http://localhost:8000/mcp", False),
        ("http://127.0.0.1:8000/mcp", False), ("http://[::1]:8000/mcp", False),
        ("https://mcp.example.com/mcp", False),
    ):  # fmt: skip
        caplog.clear()
        async with serve(make(), public_url=url) as client:
            await client.call_tool("whoami").whole()
        warnings = [text for level, text in startup_messages() if level == "WARNING"]
        assert any("does not use TLS" in text for text in warnings) is is_warned, url


async def test_metadata_is_of_each_endpoint_and_ignores_forwarded_headers(client: Client) -> None:
    forged = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "http", "x-forwarded-prefix": "/evil"}
    for path, resource in (("/mcp", URL), ("/sse", URL[:-3] + "sse"), ("", URL)):
        answer = await client.open("GET", METADATA_PATH + path, headers=forged).whole()
        assert answer.status == 200
        assert json.loads(answer.body) == {**METADATA, "resource": resource}
    answer = await client.call_tool("whoami", headers=forged).whole()
    assert "evil" not in answer.headers["www-authenticate"]
    evil = await client.call_tool("whoami", headers={"host": "evil.example", **bearer("ada")}).whole()
    assert evil.status == 421


async def test_metadata_is_readable_by_any_page(client: Client) -> None:
    path = f"{METADATA_PATH}/mcp"
    page = {"origin": "https://anywhere.example", "access-control-request-method": "GET"}
    answer = await client.open("GET", path, headers=page).whole()
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")
    preflight = {**page, "access-control-request-headers": "mcp-protocol-version"}
    answer = await client.open("OPTIONS", path, headers=preflight).whole()
    assert (answer.status, answer.headers["access-control-allow-headers"]) == (204, "mcp-protocol-version")
    assert (await client.open("HEAD", path).whole()).status == 200
    assert (await client.open("POST", path).whole()).status == 405


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


async def test_startup_lists_open_routes_and_apps(routed, schema_dir, startup_messages) -> None:
    http = HttpOptions(sse=False, readiness_path="/health")
    app = routed.asgi(public_url=URL, http=http, allowed_hosts=["localhost"])
    app.mount("/other", Starlette())
    client = Client(app, schema_dir)
    await client.open("POST").whole()
    await client.aclose()
    listed = "route /open, app mounted at /other"
    assert startup_messages() == [
        ("INFO", f"Access tokens issued by {ISSUER} are accepted at {URL}"),
        ("INFO", f"Open without an access token, as they have no scopes=: {listed}"),
    ]


def test_run_sets_public_url_on_loopback_and_requires_it_elsewhere(server, monkeypatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(run, "run_app", lambda app, *rest: started.append((app, rest[-1])))
    server.run("http", port=0)
    [(app, listening)] = started
    assert app.settings.public_url == f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    listening.close()
    for options in ({"host": "0.0.0.0"}, {"ssl_certfile": "x"}):
        with pytest.raises(ValueError, match="needs the public URL of the server"):
            server.run("http", **options)
