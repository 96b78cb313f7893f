"""Dynamic client registration."""

from typing import Any

import pytest

from mcpkit.storage.memory import Memory
from tests.helpers.oauth_flow import CALLBACK, AuthServer, Login
from tests.helpers.tables import each_row


async def register(server: AuthServer, metadata: Any = None, **options: Any) -> Any:
    async with server.browser() as client:
        response = await client.post("/register", **(options or {"json": metadata}))
    assert response.headers["cache-control"] == "no-store"
    return response


async def register_error(server: AuthServer, metadata: Any = None, **options: Any) -> tuple[int, str]:
    response = await register(server, metadata, **options)
    return response.status_code, response.json()["error"]


async def test_register_returns_metadata(server):
    expected = {
        "client_name": "Some editor", "redirect_uris": [CALLBACK], "response_types": ["code"],
        "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none",
        "application_type": "native",
    }  # fmt: skip
    sent = {
        **expected, "redirect_uris": [CALLBACK, CALLBACK], "client_name": "Some  editor",
        "grant_types": ["authorization_code", "refresh_token", "implicit"], "contacts": ["a@b.example"],
    }  # fmt: skip
    response = await register(server, sent)
    assert response.status_code == 201
    found = response.json()
    assert found.pop("client_id").isascii()
    assert found == {"client_id_issued_at": int(server.clock.now), **expected}


async def test_register_stores_nothing():
    shared = Memory()
    server = AuthServer(shared=shared)
    ids = {(await server.registered())["client_id"] for _ in range(100)}
    assert len(ids) == 100
    assert len(shared) == 0
    assert await server.tokens(Login(ids.pop()))


@each_row("uri", [
    "http://localhost/", "http://127.0.0.1:33418/", "http://[::1]:1/cb",
    "https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback",
    "https://chatgpt.com/connector_platform_oauth_redirect", "https://vscode.dev/redirect",
    "https://xn--bcher-kva.example/callback", "vscode://vscode.microsoft-authentication/callback",
    "vscode-insiders://vendor.extension/callback",
    "cursor://anysphere.cursor-retrieval/oauth/user-mcp/callback", "com.example.app:/oauth",
])  # fmt: skip
async def test_register_redirect_uris_of_known_clients_are_accepted(server, uri):
    assert await server.tokens(Login((await server.registered(redirect_uris=[uri]))["client_id"], uri))


@each_row("uri", [
    "http://app.example/cb", "javascript:alert(1)", "javascript://app.example/%0aalert(1)",
    "JAVASCRIPT://x", "data:text/html,x", "file:///etc/passwd", "vbscript:/x", "blob:https://x/y",
    "ms-msdt:/id", "search-ms:/query", "web+client://x", "https://claude.ai%2eevil.example/",
    "https://claude.ai%2fx.evil.example/", "https://a,b.example/", "http://127.0.0.1%00.evil.example/",
    "ws://localhost/x", "https://", "https:/cb", "https:///cb", "https://app.example/cb#x",
    "https://app.example/cb#", "https://user@app.example/cb", "https://:pass@app.example/cb",
    "https://app.example\\@evil.example/", "https://app.example:99999/", "https://[::1/",
    "https://app.example/ü", "https://app.example/a b", "https://app.example/\nLocation: x",
    "https://\u0430pple.com/cb", "https://evil\u3002example/cb", "https://example\u2024com/cb",
    "https://\uff41pple.com/cb", "/cb", "cb", "", "app.example:cb", "urn:ietf:wg:oauth:2.0:oob",
    "https://app.example/" + "x" * 2000, 7, None, ["https://app.example/cb"],
])  # fmt: skip
async def test_register_unsafe_redirect_uris_are_rejected(server, uri):
    metadata = {"redirect_uris": ["https://app.example/cb", uri]}
    assert await register_error(server, metadata) == (400, "invalid_redirect_uri")


@each_row(("change", "error"), [
    *(({"redirect_uris": uris}, "invalid_redirect_uri") for uris in (None, [], CALLBACK)),
    ({"application_type": "web"}, "invalid_redirect_uri"),
    *((change, "invalid_client_metadata") for change in (
        {"application_type": "desktop"}, {"application_type": []}, {"client_name": 7},
        {"token_endpoint_auth_method": "private_key_jwt"}, {"token_endpoint_auth_method": ["none"]},
        {"grant_types": ["client_credentials"]}, {"grant_types": "authorization_code"},
        {"response_types": ["token"]},
    )),
])  # fmt: skip
async def test_register_metadata_invalid_is_rejected(server, change, error):
    assert await register_error(server, {"redirect_uris": [CALLBACK], **change}) == (400, error)


@each_row("body", [
    b"", b"[]", b"null", b"{", b'{"a": 1, "a": 2}', b"\xff", b'{"a":' * 5000, b'{"a": NaN}',
    b'{"client_name": "\\ud800", "redirect_uris": ["https://a.example/"]}',
    b'{"redirect_uris": ["https://a.example/"], "a": ' + b"1" * 6000 + b"}",
])  # fmt: skip
async def test_register_body_invalid_is_rejected(server, body):
    headers = {"Content-Type": "application/json; charset=utf-8"}
    status, error = await register_error(server, content=body, headers=headers)
    assert (status, error.partition("_")[0]) == (400, "invalid")


@pytest.mark.limit("form, query or body at `DevAuth`")
async def test_register_long_body_and_form_are_rejected(server):
    long = {"redirect_uris": [CALLBACK], "x": "x" * 40_000}
    assert await register_error(server, long) == (413, "invalid_client_metadata")
    form = {"redirect_uris": CALLBACK}
    assert await register_error(server, data=form) == (400, "invalid_client_metadata")


@pytest.mark.limit("name of a client of `DevAuth`")
@pytest.mark.limit("redirect URIs of a client of `DevAuth`")
async def test_register_limits_name_and_redirect_uris(server):
    longest = "https://app.example/".ljust(1024, "x")
    uris = [longest, *(f"{CALLBACK}/{number}" for number in range(31))]
    await server.registered(client_name="x" * 100, redirect_uris=uris)
    for change, error in (
        ({"client_name": "x" * 101}, "invalid_client_metadata"),
        ({"redirect_uris": [*uris, CALLBACK]}, "invalid_redirect_uri"),
        ({"redirect_uris": [f"{longest}x"]}, "invalid_redirect_uri"),
    ):
        assert await register_error(server, {"redirect_uris": [CALLBACK], **change}) == (400, error)


async def test_client_secret_is_bound_to_client_and_server(server):
    found = await server.registered(token_endpoint_auth_method="client_secret_post")
    client = {name: found[name] for name in ("client_id", "client_secret")}
    form = {"grant_type": "refresh_token", "refresh_token": "x", **client}
    other = AuthServer(secret="quite another secret of a server")
    assert (await server.post("/token", form)).json()["error"] == "invalid_grant"
    assert (await other.post("/token", form)).json()["error"] == "invalid_client"
