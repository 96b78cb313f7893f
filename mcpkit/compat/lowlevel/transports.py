"""The transports of `mcp` for low-level servers, implemented by those of mcpkit."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

from ...options import HttpOptions, Limits, Timeouts
from ...protocol.jsonrpc import Json
from ...server import Server as Native
from ...transports.http.app_options import Settings
from ...transports.http.asgi import HttpApp
from .. import shared_models_and_settings as mcp_shared
from ..shared_models_and_settings import TransportSecuritySettings, log_difference
from .lowlevel_session import http_request

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from .lowlevel_server import AnyServer

_UNLIMITED = 10**9
"""A number of seconds or sessions that is never reached."""
_ENDPOINT = re.compile(rb"^data: (.*\?session_id=(\w+))$", re.MULTILINE)


class Stream:
    """A placeholder for a message stream. It carries no messages, as `Server.run` calls `serve`."""

    def __init__(self, serve: Callable[[Native], Awaitable[None]]) -> None:
        self.serve = serve

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"this stream has no attribute {name!r}. Pass the stream to Server.run()")


@asynccontextmanager
async def stdio_server(stdin: object = None, stdout: object = None) -> AsyncGenerator[tuple[Stream, Stream]]:
    """Yield the streams with which `Server.run` serves over stdio."""
    if stdin is not None or stdout is not None:
        raise NotImplementedError(
            "mcpkit.compat does not support other streams in stdio_server(). Omit stdin= and stdout="
        )
    from ...transports.stdio import serve_stdio

    yield (stream := Stream(serve_stdio)), stream


def _app(
    server: Native,
    security: TransportSecuritySettings | None,
    limits: Limits,
    timeouts: Timeouts | None = None,
    *,
    sse: bool = True,
    stateless: bool = False,
) -> HttpApp:
    hosts, origins = ["*"], ["*"]
    if security is not None and security.enable_dns_rebinding_protection:
        hosts, origins = security.allowed_hosts, security.allowed_origins
    http = HttpOptions(cors=False, sse=sse)
    options: Json = {"allowed_hosts": hosts, "allowed_origins": origins, "stateless": stateless}
    return HttpApp(server.engine, Settings(limits, timeouts, http=http, **options))


async def _serve(app: HttpApp, path: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request at a path of the app, independent of its own path."""
    from starlette.requests import Request

    token = http_request.set(Request(scope))
    try:
        await app({**scope, "path": path, "raw_path": path.encode(), "root_path": ""}, receive, send)
    finally:
        http_request.reset(token)


@dataclass
class StreamableHTTPSessionManager:
    """Serves a low-level server with mcpkit's HTTP app, at any path where `handle_request` is mounted."""

    app: AnyServer
    event_store: object = None
    json_response: bool = False
    stateless: bool = False
    security_settings: TransportSecuritySettings | None = None
    retry_interval: int | None = None
    session_idle_timeout: float | None = mcp_shared.DEFAULT_SESSION_IDLE_TIMEOUT
    max_request_body_size: int = mcp_shared.DEFAULT_MAX_REQUEST_BODY_SIZE
    max_sessions: int | None = mcp_shared.DEFAULT_MAX_SESSIONS

    def __post_init__(self) -> None:
        """Create the app."""
        if self.event_store is not None or self.retry_interval is not None:
            text = "event_store= and retry_interval= are ignored: mcpkit stores events itself"
            log_difference("event_store", text)
        limits = Limits(
            max_request_body_size=self.max_request_body_size, max_sessions=self.max_sessions or _UNLIMITED
        )
        idle = self.session_idle_timeout or _UNLIMITED
        timeouts = Timeouts(session_max_age=_UNLIMITED, session_idle=idle)
        self._app = _app(
            self.app.served, self.security_settings, limits, timeouts, sse=False, stateless=self.stateless
        )
        self._has_started = self._is_running = False

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve within the block. It can be entered once."""
        if self._has_started:
            raise RuntimeError("a StreamableHTTPSessionManager can run only once. Create a new one")
        self._has_started = True
        from ...client.http.asgi_lifespan import AppLifespan

        async with AppLifespan(self._app):
            self._is_running = True
            try:
                yield
            finally:
                self._is_running = False

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, as an ASGI app."""
        if not self._is_running:
            raise RuntimeError("Task group is not initialized. Make sure to use run().")
        if self.json_response and scope["method"] == "POST":
            headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"accept"]
            scope = {**scope, "headers": [*headers, (b"accept", b"application/json")]}
        await _serve(self._app, "/mcp", scope, receive, send)


@dataclass
class SseServerTransport:
    """Serves low-level servers over HTTP+SSE, the transport of 2024-11-05, in an app of the author."""

    endpoint: str
    security_settings: TransportSecuritySettings | None = None
    max_request_body_size: int = mcp_shared.DEFAULT_MAX_REQUEST_BODY_SIZE

    def __post_init__(self) -> None:
        """Check the endpoint. Raises ValueError if it is not a path."""
        endpoint = self.endpoint
        if "://" in endpoint or endpoint.startswith("//") or "?" in endpoint or "#" in endpoint:
            raise ValueError(f"endpoint must be a path such as '/messages/', got {endpoint!r}")
        self._endpoint = endpoint if endpoint.startswith("/") else f"/{endpoint}"
        self._apps: dict[str, HttpApp] = {}

    @asynccontextmanager
    async def connect_sse(
        self, scope: Scope, receive: Receive, send: Send
    ) -> AsyncGenerator[tuple[Stream, Stream]]:
        """Yield the streams with which `Server.run` responds to a request with the event stream of a session."""
        path = quote(scope.get("root_path", "").rstrip("/") + self._endpoint).encode()

        async def serve(server: Native) -> None:
            from ...client.http.asgi_lifespan import AppLifespan

            app = _app(
                server, self.security_settings, Limits(max_request_body_size=self.max_request_body_size)
            )
            session, status = "", 200

            async def send_endpoint(message: Message) -> None:
                nonlocal session, status
                status = message.get("status", status)
                if not session and (found := _ENDPOINT.search(message.get("body", b""))):
                    session = found[2].decode()
                    self._apps[session] = app
                    endpoint = path + b"?session_id=" + found[2]
                    message = {**message, "body": message["body"].replace(found[1], endpoint, 1)}
                await send(message)

            try:
                async with AppLifespan(app):
                    await _serve(app, "/sse", scope, receive, send_endpoint)
            finally:
                self._apps.pop(session, None)
            if status != 200:
                raise ValueError("Request validation failed")

        yield (stream := Stream(serve)), stream

    async def handle_post_message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Receive a message of a session, as an ASGI app."""
        from starlette.responses import Response

        (session,) = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])[:1]
        app = self._apps.get(session)
        if app is None:
            await Response("Could not find session", status_code=404)(scope, receive, send)
        else:
            await _serve(app, "/messages", scope, receive, send)
