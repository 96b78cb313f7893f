"""HTTP apps of a server, asked as web servers ask them; prints the answers."""

import asyncio
import contextlib
import json
import warnings
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.fastmcp import Context, FastMCP
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route

warnings.simplefilter("ignore")
said: dict[str, Any] = {}

JSON = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "host": "127.0.0.1:8000",
}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


async def ask(app, method, path, headers=JSON, body=None, root_path=""):
    """Ask an ASGI app, and return the status, some headers, and the body."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": root_path,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
    inbox: asyncio.Queue = asyncio.Queue()
    inbox.put_nowait({"type": "http.request", "body": content, "more_body": False})
    answer: dict[str, Any] = {"body": b""}

    async def send(message):
        if message["type"] == "http.response.start":
            answer["status"] = message["status"]
            answer["headers"] = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        else:
            answer["body"] += message.get("body", b"")

    await asyncio.wait_for(app(scope, inbox.get, send), 20)
    return answer


def plain(answer, *headers):
    """Return what has been answered: JSON, also out of an event stream, or text."""
    body = answer["body"].decode()
    if "text/event-stream" in answer["headers"].get("content-type", ""):
        events = [line[6:] for line in body.splitlines() if line.startswith("data: ")]
        body = [json.loads(each) for each in events if each]
    elif "json" in answer["headers"].get("content-type", ""):
        body = [json.loads(body)]
    return [answer["status"], body, {name: answer["headers"].get(name) for name in headers}]


def request(method, params=None, id=1):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


async def session(app, path, headers=JSON, **more):
    """Begin a session, and return the headers of its requests."""
    answer = await ask(app, "POST", path, headers, request("initialize", CLIENT), **more)
    assert answer["status"] == 200, answer
    headers = {**headers, "mcp-protocol-version": "2025-11-25"}
    if "mcp-session-id" in answer["headers"]:
        headers["mcp-session-id"] = answer["headers"]["mcp-session-id"]
    await ask(app, "POST", path, headers, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **more)
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


async def streamable():
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
        async with app.router.lifespan_context(app):
            said[f"{name} initialize"] = plain(
                await ask(app, "POST", path, JSON, request("initialize", CLIENT))
            )
            headers = await session(app, path)
            said[f"{name} session"] = "mcp-session-id" in headers
            answer = plain(await ask(app, "POST", path, {**headers, "x-own": "me"}, WHERE))
            said[f"{name} call"] = [answer[0], answer[1][-1]]
            said[f"{name} list"] = plain(await ask(app, "POST", path, headers, request("tools/list")))
            said[f"{name} subscribe"] = plain(
                await ask(app, "POST", path, headers, request("resources/subscribe", {"uri": "x://y"}))
            )
            said[f"{name} health"] = plain(await ask(app, "GET", "/health", headers))
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
                answer = await ask(app, method, target, {**headers, **changed}, body)
                said[f"{name} {case}"] = answer["status"]
            said[f"{name} type"] = (
                await ask(app, "POST", path, {**headers, "content-type": "text/plain"}, WHERE)
            )["status"] in (400, 415)
            if "mcp-session-id" in headers:
                said[f"{name} delete"] = (await ask(app, "DELETE", path, headers))["status"] in (200, 204)
                said[f"{name} after"] = (await ask(app, "POST", path, headers, WHERE))["status"]
        try:
            async with mcp.session_manager.run():
                pass
        except RuntimeError as error:
            said[f"{name} again"] = type(error).__name__


async def mounted():
    first, second = server(), server(stateless_http=True, json_response=True, streamable_http_path="/")

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(first.session_manager.run())
            await stack.enter_async_context(second.session_manager.run())
            yield

    async def home(request):
        return PlainTextResponse("home")

    class Marking(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next):
            response = await call_next(request)
            response.headers["x-marked"] = "yes"
            return response

    inner = first.streamable_http_app()
    inner.add_middleware(Marking)
    inner.router.routes.append(Route("/added", home))
    app = Starlette(
        routes=[Route("/", home), Mount("/first", inner), Mount("/second", second.streamable_http_app())],
        lifespan=lifespan,
    )
    try:
        answer = await ask(app, "POST", "/first/mcp", JSON, request("initialize", CLIENT))
        said["mounted, not run"] = answer["status"]
    except RuntimeError as error:
        said["mounted, not run"] = type(error).__name__
    async with app.router.lifespan_context(app):
        for path in ("/first/mcp", "/second/"):
            headers = await session(app, path)
            answer = plain(await ask(app, "POST", path, headers, WHERE), "x-marked")
            said[f"mounted {path}"] = [answer[0], answer[1][-1], answer[2]]
        said["mounted added"] = plain(await ask(app, "GET", "/first/added"), "x-marked")
        said["mounted home"] = plain(await ask(app, "GET", "/"))
        said["mounted health"] = plain(await ask(app, "GET", "/first/health"))


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
        if token not in TOKENS:
            return None
        client_id, scopes, resource, expires_at = TOKENS[token]
        return AccessToken(
            token=token, client_id=client_id, scopes=scopes, resource=resource, expires_at=expires_at
        )


async def protected():
    for name, more in {
        "strict": {
            "resource_server_url": "https://example.com/mcp",
            "validate_token_resource": True,
            "required_scopes": ["read"],
        },
        "loose": {"resource_server_url": "https://example.com", "validate_token_resource": False},
        "bare": {"resource_server_url": None, "required_scopes": ["read"]},
    }.items():
        auth = AuthSettings(issuer_url="https://issuer.example.com", **more)
        mcp = server(auth=auth, token_verifier=Verifier(), json_response=True)
        app = mcp.streamable_http_app()
        said[f"{name} routes"] = routes(app)
        async with app.router.lifespan_context(app):
            for path in (
                "/.well-known/oauth-protected-resource/mcp",
                "/.well-known/oauth-protected-resource",
            ):
                answer = plain(
                    await ask(app, "GET", path, {**JSON, "origin": "https://a.example.com"}),
                    "access-control-allow-origin",
                )
                said[f"{name} {path}"] = answer if answer[0] == 200 else answer[0]
            for token in (None, "good", "few", "old", "elsewhere", "nowhere", "bad", ""):
                headers = JSON if token is None else {**JSON, "authorization": f"Bearer {token}"}
                answer = plain(
                    await ask(app, "POST", "/mcp", headers, request("initialize", CLIENT)), "www-authenticate"
                )
                said[f"{name} {token}"] = answer if answer[0] != 200 else 200
            headers = await session(app, "/mcp", {**JSON, "authorization": "bearer good"})
            said[f"{name} call"] = plain(await ask(app, "POST", "/mcp", headers, WHERE))
            said[f"{name} health"] = plain(await ask(app, "GET", "/health", headers))
            said[f"{name} health without"] = plain(await ask(app, "GET", "/health"))
            others = {**headers, "authorization": "Bearer other"}
            again = {**headers, "authorization": "Bearer few again"}
            said[f"{name} call with another token"] = plain(await ask(app, "POST", "/mcp", again, WHERE))
            said[f"{name} session of another"] = (await ask(app, "POST", "/mcp", others, WHERE))["status"]
        sse = mcp.sse_app()
        said[f"{name} sse routes"] = routes(sse)
        said[f"{name} sse"] = plain(await ask(sse, "GET", "/sse"), "www-authenticate")
        said[f"{name} messages"] = plain(await ask(sse, "POST", "/messages/", body=WHERE), "www-authenticate")


async def sse():
    for name, options in {
        "sse": {},
        "sse paths": {"sse_path": "/events", "message_path": "/post/"},
        "sse mounted": {"mount_path": "/github"},
    }.items():
        mcp = server(**options)
        app = mcp.sse_app() if name != "sse paths" else mcp.sse_app(mount_path="/x/")
        said[f"{name} routes"] = [routes(app), mcp.settings.mount_path]
        said[f"{name} nobody"] = (
            await ask(app, "POST", f"{mcp.settings.message_path}?session_id={'0' * 32}", body=WHERE)
        )["status"]
        said[f"{name} put"] = (await ask(app, "PUT", mcp.settings.sse_path))["status"]


async def main():
    await streamable()
    await mounted()
    await protected()
    await sse()


asyncio.run(main())
print(json.dumps(said), flush=True)
