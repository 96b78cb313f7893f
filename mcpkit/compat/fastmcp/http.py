"""A FastMCP over HTTP: its Starlette apps, and who serves them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn
from pydantic import AnyHttpUrl, ValidationError
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, SimpleUser, UnauthenticatedUser
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from ...components.component import optional
from ...protocol.types import Json
from ...transports.http.protection.bearer import challenge
from ...transports.http.protection.metadata import Document
from ..auth import AccessToken, AuthSettings, TokenVerifier, access_token
from ..lowlevel.serving import SseServerTransport, StreamableHTTPSessionManager

if TYPE_CHECKING:
    from ..lowlevel.server import Server
    from .settings import Settings

logger = logging.getLogger("mcp.server.auth.middleware.bearer_auth")

_GRACE = 10
"""Seconds that running calls get when the process is told to end."""


class AuthenticatedUser(SimpleUser):
    """Who has sent a request, as `request.user`."""

    def __init__(self, auth_info: AccessToken) -> None:
        super().__init__(auth_info.client_id)
        self.access_token, self.scopes = auth_info, auth_info.scopes

    @property
    def identity(self) -> str:
        """What tells it from others, to whom its sessions do not belong: client, issuer and subject."""
        token = self.access_token
        return json.dumps([token.client_id, (token.claims or {}).get("iss"), token.subject], default=str)


class Authenticated:
    """Middleware for an app: finds out who has sent a request, and lets all pass."""

    def __init__(self, app: ASGIApp, verifier: TokenVerifier, resource: AnyHttpUrl | None = None) -> None:
        self.app, self.verifier, self.resource = app, verifier, resource

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection as ASGI has it."""
        if scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return
        header = Headers(scope=scope).get("authorization", "")
        token = await self.verifier.verify_token(header[7:]) if header.lower().startswith("bearer ") else None
        user = AuthenticatedUser(token) if token is not None and self._is_good(token) else None
        scope = {**scope, "auth": AuthCredentials(user.scopes if user else None)}
        reset = access_token.set(user.access_token if user else None)
        try:
            await self.app({**scope, "user": user or UnauthenticatedUser()}, receive, send)
        finally:
            access_token.reset(reset)

    def _is_good(self, token: AccessToken) -> bool:
        if token.expires_at and token.expires_at < int(time.time()):
            return False
        if self.resource is None or _bare(token.resource or "") == _bare(self.resource):
            return True
        logger.warning("a token is refused, as its resource %r is not %s", token.resource, self.resource)
        return False


def _bare(url: AnyHttpUrl | str) -> str | None:
    try:
        return str(AnyHttpUrl(str(url))).removesuffix("/")
    except ValidationError:
        return None


def metadata(settings: AuthSettings) -> bytes:
    """Return what clients read of a protected server, as JSON (RFC 9728, section 2)."""
    said: Json = {"authorization_servers": [settings.issuer_url], "bearer_methods_supported": ["header"]}
    asked = optional(resource=settings.resource_server_url, scopes_supported=settings.required_scopes)
    return to_json({**asked, **said})


def metadata_url(resource: AnyHttpUrl) -> str:
    """Return where clients read of a protected server (RFC 9728, section 3.1)."""
    parts = urlsplit(str(resource))
    path = "" if parts.path == "/" else parts.path
    return f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{path}"


class StreamableHTTPASGIApp:
    """An endpoint that is an app to Starlette; with settings, for good tokens alone: else 401, or 403 without a scope.

    Args:
        serve: Serves one request as ASGI has it.
        auth: What tokens must grant; None where nobody needs one.
    """

    def __init__(self, serve: ASGIApp, auth: AuthSettings | None = None) -> None:
        self._serve, self._auth = serve, auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request as ASGI has it."""
        await (self._refusal(scope.get("user")) or self._serve)(scope, receive, send)

    def _refusal(self, user: object) -> JSONResponse | None:
        if (auth := self._auth) is None:
            return None
        if not isinstance(user, AuthenticatedUser):
            status, error, description = 401, "invalid_token", "Authentication required"
        elif missing := [each for each in auth.required_scopes or () if each not in user.scopes]:
            status, error, description = 403, "insufficient_scope", f"Required scope: {missing[0]}"
        else:
            return None
        said, url = {"error": error, "error_description": description}, auth.resource_server_url
        asking = challenge({**said, "resource_metadata": None if url is None else metadata_url(url)})
        return JSONResponse(said, status, {"www-authenticate": asking})


class Apps:
    """Makes the apps of one server.

    Args:
        settings: Its settings.
        verifier: Says what access tokens are worth; None where nobody needs one.
        own: Routes of the author's own.
    """

    def __init__(self, settings: Settings, verifier: TokenVerifier | None, own: Sequence[BaseRoute]) -> None:
        self._settings, self._verifier, self._own = settings, verifier, own

    def streamable_http(self, manager: StreamableHTTPSessionManager) -> Starlette:
        """Return what serves streamable HTTP as long as its lifespan lasts."""
        endpoint = self._endpoint(manager.handle_request)
        return self._app([Route(self._settings.streamable_http_path, endpoint)], lambda _: manager.run())

    def sse(self, server: Server) -> Starlette:
        """Return what serves HTTP with SSE."""
        settings = self._settings
        prefix, path = settings.mount_path.removesuffix("/"), settings.message_path
        announced = f"{prefix}/{path.removeprefix('/')}" if prefix else path
        transport = SseServerTransport(announced, settings.transport_security, settings.max_request_body_size)

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            async with transport.connect_sse(scope, receive, send) as streams:
                await server.run(*streams, server.create_initialization_options())

        stream, messages = self._endpoint(serve), self._endpoint(transport.handle_post_message)
        # Where the app is mounted at the prefix as well, clients see that twice.
        paths = dict.fromkeys((path, announced))
        return self._app(
            [Route(settings.sse_path, stream, methods=["GET"]), *(Mount(each, messages) for each in paths)]
        )

    def _endpoint(self, serve: ASGIApp) -> ASGIApp:
        return StreamableHTTPASGIApp(serve, None if self._verifier is None else self._settings.auth)

    def _app(self, routes: list[BaseRoute], lifespan: Lifespan[Starlette] | None = None) -> Starlette:
        middleware, auth = [], self._settings.auth
        if auth is not None and self._verifier is not None:
            resource = auth.resource_server_url if auth.validate_token_resource else None
            middleware = [Middleware(Authenticated, self._verifier, resource)]
        if auth is not None and auth.resource_server_url is not None:
            where = urlsplit(metadata_url(auth.resource_server_url)).path
            routes.append(Route(where, Document(metadata(auth)), methods=["GET", "OPTIONS"]))
        return Starlette(self._settings.debug, [*routes, *self._own], middleware, lifespan=lifespan)

    async def serve(self, app: ASGIApp) -> None:
        """Serve an app with uvicorn, until a signal comes."""
        settings = self._settings
        # Without uvloop, httptools does not tell in time of a client that goes.
        http = "auto" if find_spec("uvloop") else "h11"
        level = settings.log_level.lower()
        config = uvicorn.Config(
            app, settings.host, settings.port, http=http, log_level=level, timeout_graceful_shutdown=_GRACE
        )
        await uvicorn.Server(config).serve()
