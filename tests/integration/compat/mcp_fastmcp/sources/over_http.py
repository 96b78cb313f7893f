"""HTTP apps of a server, requested without a network; prints the responses."""

import contextlib
import json
import warnings
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.fastmcp import Context, FastMCP
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

warnings.simplefilter("ignore")
said: dict[str, Any] = {}

JSON = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "host": "127.0.0.1:8000",
}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def client_of(app, **options):
    return TestClient(app, base_url="http://127.0.0.1:8000", follow_redirects=False, **options)


def ask(http, method, path, headers=JSON, body=None):
    """Request a path, and return the response."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.request(method, path, content=content, headers=headers)


def plain(response, *headers):
    """Return the parts of a response: JSON, also out of an event stream, or text."""
    kind, body = response.headers.get("content-type", ""), response.text
    if "text/event-stream" in kind:
        body = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ") and line[6:]]
    elif "json" in kind:
        body = [response.json()]
    return [response.status_code, body, {name: response.headers.get(name) for name in headers}]


def request(method, params=None, id=1):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def session(http, path, headers=JSON):
    """Begin a session, and return the headers of its requests."""
    response = ask(http, "POST", path, headers, request("initialize", CLIENT))
    assert response.status_code == 200, response.text
    headers = {**headers, "mcp-protocol-version": "2025-11-25"}
    if "mcp-session-id" in response.headers:
        headers["mcp-session-id"] = response.headers["mcp-session-id"]
    ask(http, "POST", path, headers, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    return headers


def server(**options):
    mcp = FastMCP("web", **options)
    mcp._mcp_server.version = "1"

    @mcp.tool()
    async def where(ctx: Context) -> str:
        request = ctx.request_context.request
        await ctx.info("looking")
        token = get_access_token()
        asked = [request.method, request.headers.get("x-own"), type(request).__name__]
        return json.dumps([*asked, token and [token.client_id, token.scopes]])

    @mcp.custom_route("/health", methods=["GET"], name="health")
    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"ok": True, "token": (token := get_access_token()) and token.client_id})

    return mcp


def routes(app):
    return [
        [type(each).__name__, each.path, sorted(each.methods or []) if isinstance(each, Route) else None]
        for each in app.routes
    ]


WHERE = request("tools/call", {"name": "where", "arguments": {}}, 2)


def streamable():
    for name, options in {
        "plain": {},
        "json": {"json_response": True},
        "stateless": {"stateless_http": True, "json_response": True},
        "path": {"streamable_http_path": "/some/where/", "debug": True},
    }.items():
        mcp = server(**options)
        app = mcp.streamable_http_app()
        path = mcp.settings.streamable_http_path
        said[f"{name} routes"] = routes(app)
        with client_of(app) as http:
            said[f"{name} initialize"] = plain(ask(http, "POST", path, JSON, request("initialize", CLIENT)))
            headers = session(http, path)
            said[f"{name} session"] = "mcp-session-id" in headers
            answer = plain(ask(http, "POST", path, {**headers, "x-own": "me"}, WHERE))
            said[f"{name} call"] = [answer[0], answer[1][-1]]
            said[f"{name} list"] = plain(ask(http, "POST", path, headers, request("tools/list")))
            subscribe = request("resources/subscribe", {"uri": "x://y"})
            said[f"{name} subscribe"] = plain(ask(http, "POST", path, headers, subscribe))
            said[f"{name} health"] = plain(ask(http, "GET", "/health", headers))
            slash = path.rstrip("/") + ("" if path.endswith("/") else "/")
            for case, method, target, changed, body in (
                ("nowhere", "GET", "/nowhere", {}, None),
                ("slash", "POST", slash, {}, WHERE),
                ("host", "POST", path, {"host": "evil.example.com"}, WHERE),
                ("origin", "POST", path, {"origin": "https://evil.example.com"}, WHERE),
                ("other", "POST", path, {"mcp-session-id": "0" * 32}, WHERE),
                ("large", "POST", path, {}, b" " * 5_000_000),
                ("put", "PUT", path, {}, WHERE),
            ):
                said[f"{name} {case}"] = ask(http, method, target, {**headers, **changed}, body).status_code
            text = {**headers, "content-type": "text/plain"}
            said[f"{name} type"] = ask(http, "POST", path, text, WHERE).status_code in (400, 415)
            if "mcp-session-id" in headers:
                said[f"{name} delete"] = ask(http, "DELETE", path, headers).status_code in (200, 204)
                said[f"{name} after"] = ask(http, "POST", path, headers, WHERE).status_code
        try:
            with client_of(app):
                pass
        except RuntimeError as error:
            said[f"{name} again"] = type(error).__name__


def mounted():
    first, second = server(), server(stateless_http=True, json_response=True, streamable_http_path="/")

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with first.session_manager.run(), second.session_manager.run():
            yield

    async def home(request):
        return PlainTextResponse("home")

    inner = first.streamable_http_app()
    inner.add_middleware(CORSMiddleware, allow_origins=["*"])
    inner.router.routes.append(Route("/added", home))
    app = Starlette(
        routes=[Route("/", home), Mount("/first", inner), Mount("/second", second.streamable_http_app())],
        lifespan=lifespan,
    )
    try:
        said["mounted, not run"] = ask(
            client_of(app), "POST", "/first/mcp", JSON, request("initialize", CLIENT)
        ).status_code
    except RuntimeError as error:
        said["mounted, not run"] = type(error).__name__
    with client_of(app) as http:
        for path in ("/first/mcp", "/second/"):
            answer = plain(ask(http, "POST", path, session(http, path), WHERE))
            said[f"mounted {path}"] = [answer[0], answer[1][-1]]
        said["mounted added"] = plain(
            ask(http, "GET", "/first/added", {"origin": "https://a.example.com"}),
            "access-control-allow-origin",
        )
        said["mounted home"] = plain(ask(http, "GET", "/"))
        said["mounted health"] = plain(ask(http, "GET", "/first/health"))


TOKENS = {
    "good": ("ada", ["read", "write"], "https://EXAMPLE.com/mcp/", None),
    "other": ("bob", ["read"], "https://example.com/mcp", None),
    "few": ("eve", ["write"], "https://example.com/mcp", None),
    "few again": ("ada", ["read"], "https://example.com/mcp", None),
    "old": ("ada", ["read"], "https://example.com/mcp", 1),
    "elsewhere": ("ada", ["read"], "https://other.example.com", None),
    "nowhere": ("ada", ["read"], None, None),
}


class Verifier(TokenVerifier):
    async def verify_token(self, token: str) -> AccessToken | None:
        names = ("client_id", "scopes", "resource", "expires_at")
        return AccessToken(token=token, **dict(zip(names, TOKENS[token]))) if token in TOKENS else None


def protected():
    resource = "https://example.com/mcp"
    strict = {"resource_server_url": resource, "validate_token_resource": True, "required_scopes": ["read"]}
    for name, more in {
        "strict": strict,
        "loose": {"resource_server_url": "https://example.com", "validate_token_resource": False},
        "bare": {"resource_server_url": None, "required_scopes": ["read"]},
    }.items():
        auth = AuthSettings(issuer_url="https://issuer.example.com", **more)
        mcp = server(auth=auth, token_verifier=Verifier(), json_response=True)
        app = mcp.streamable_http_app()
        said[f"{name} routes"] = routes(app)
        with client_of(app) as http:
            for path in ("", "/mcp"):
                path = f"/.well-known/oauth-protected-resource{path}"
                response = ask(http, "GET", path, {**JSON, "origin": "https://a.example.com"})
                answer = plain(response, "access-control-allow-origin")
                said[f"{name} {path}"] = answer if answer[0] == 200 else answer[0]
            for token in (None, "good", "few", "old", "elsewhere", "nowhere", "bad", ""):
                headers = JSON if token is None else {**JSON, "authorization": f"Bearer {token}"}
                response = ask(http, "POST", "/mcp", headers, request("initialize", CLIENT))
                answer = plain(response, "www-authenticate")
                said[f"{name} {token}"] = answer if answer[0] != 200 else 200
            headers = session(http, "/mcp", {**JSON, "authorization": "bearer good"})
            said[f"{name} call"] = plain(ask(http, "POST", "/mcp", headers, WHERE))
            said[f"{name} health"] = plain(ask(http, "GET", "/health", headers))
            said[f"{name} health without"] = plain(ask(http, "GET", "/health"))
            again, other = (
                {**headers, "authorization": f"Bearer {token}"} for token in ("few again", "other")
            )
            said[f"{name} call with another token"] = plain(ask(http, "POST", "/mcp", again, WHERE))
            said[f"{name} session of another"] = ask(http, "POST", "/mcp", other, WHERE).status_code
        sse_app = mcp.sse_app()
        said[f"{name} sse routes"] = routes(sse_app)
        http = client_of(sse_app)
        said[f"{name} sse"] = plain(ask(http, "GET", "/sse"), "www-authenticate")
        said[f"{name} messages"] = plain(ask(http, "POST", "/messages/", body=WHERE), "www-authenticate")


def sse():
    for name, options in {
        "sse": {},
        "sse paths": {"sse_path": "/events", "message_path": "/post/"},
        "sse mounted": {"mount_path": "/github"},
    }.items():
        mcp = server(**options)
        app = mcp.sse_app() if name != "sse paths" else mcp.sse_app(mount_path="/x/")
        said[f"{name} routes"] = [routes(app), mcp.settings.mount_path]
        http, path = client_of(app), f"{mcp.settings.message_path}?session_id={'0' * 32}"
        said[f"{name} nobody"] = ask(http, "POST", path, body=WHERE).status_code
        said[f"{name} put"] = ask(http, "PUT", mcp.settings.sse_path).status_code


streamable()
mounted()
protected()
sse()
print(json.dumps(said), flush=True)
