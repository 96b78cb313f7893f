"""The Starlette apps of a FastMCP, and their uvicorn server."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import uvicorn
from pydantic import AnyHttpUrl
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, SimpleUser, UnauthenticatedUser
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from ...auth.urls_and_discovery import audience_matches, protected_resource_urls
from ...components.component import optional
from ...protocol.jsonrpc import Json
from ...transports.http.app_options import Settings as Options
from ...transports.http.bearer_auth import challenge
from ...transports.http.protected_resource import Document
from ...transports.http.run import defaults
from ..lowlevel.transports import SseServerTransport, StreamableHTTPSessionManager
from ..shared_models_and_settings import AccessToken, AuthSettings, TokenVerifier, access_token

if TYPE_CHECKING:
    from ..lowlevel.lowlevel_server import Server
    from ..shared_models_and_settings import Settings

logger = logging.getLogger("mcp.server.auth.middleware.bearer_auth")


class AuthenticatedUser(SimpleUser):
    """The authenticated user of a request, as `request.user`."""

    def __init__(self, auth_info: AccessToken) -> None:
        super().__init__(auth_info.client_id)
        self.access_token, self.scopes = auth_info, auth_info.scopes

    @property
    def identity(self) -> str:
        """Key of the user's sessions: client, issuer and subject."""
        token = self.access_token
        key = token.client_id, (token.claims or {}).get("iss"), token.subject
        return to_json(key, fallback=str).decode()


class BearerAuthentication:
    """ASGI middleware that authenticates requests; it refuses none."""

    def __init__(self, app: ASGIApp, verifier: TokenVerifier, resource: AnyHttpUrl | None = None) -> None:
        self.app, self.verifier, self.resource = app, verifier, resource

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection as ASGI has it."""
        token = None if scope["type"] == "lifespan" else await self._token(Headers(scope=scope))
        user = UnauthenticatedUser() if token is None else AuthenticatedUser(token)
        credentials = AuthCredentials(None if token is None else token.scopes)
        reset = access_token.set(token)
        try:
            await self.app({**scope, "user": user, "auth": credentials}, receive, send)
        finally:
            access_token.reset(reset)

    async def _token(self, headers: Headers) -> AccessToken | None:
        """Return the token of a request, if it is valid."""
        header = headers.get("authorization", "")
        token = await self.verifier.verify_token(header[7:]) if header.lower().startswith("bearer ") else None
        if token is None or (token.expires_at and token.expires_at < int(time.time())):
            return None
        if self.resource is None or audience_matches([token.resource or ""], [str(self.resource)]):
            return token
        logger.warning("Rejected a token: its resource is %r, expected %s", token.resource, self.resource)
        return None


def metadata(auth: AuthSettings) -> bytes:
    """Return the protected resource metadata as JSON (RFC 9728, section 2)."""
    members: Json = {"authorization_servers": [auth.issuer_url], "bearer_methods_supported": ["header"]}
    return to_json(
        optional(resource=auth.resource_server_url, scopes_supported=auth.required_scopes) | members
    )


class StreamableHTTPASGIApp:
    """An endpoint for Starlette. With `auth`, it needs a valid token (401) with all required scopes (403).

    Args:
        serve: The ASGI app behind it.
        auth: Requirements on tokens; None needs no token.
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
        body, url = {"error": error, "error_description": description}, auth.resource_server_url
        metadata_url = None if url is None else protected_resource_urls(str(url))[0]
        header = challenge({**body, "resource_metadata": metadata_url})
        return JSONResponse(body, status, {"www-authenticate": header})


class HttpApps:
    """Creates the apps of one server.

    Args:
        settings: Settings of the server.
        verifier: Verifier of access tokens; None needs no token.
        own: Routes of the author.
    """

    def __init__(self, settings: Settings, verifier: TokenVerifier | None, own: Sequence[BaseRoute]) -> None:
        self._settings, self._verifier, self._own = settings, verifier, own

    def streamable_http(self, manager: StreamableHTTPSessionManager) -> Starlette:
        """Return an app that serves streamable HTTP during its lifespan."""
        endpoint = self._endpoint(manager.handle_request)
        return self._app([Route(self._settings.streamable_http_path, endpoint)], lambda _: manager.run())

    def sse(self, server: Server) -> Starlette:
        """Return an app that serves HTTP+SSE."""
        settings = self._settings
        prefix, path = settings.mount_path.removesuffix("/"), settings.message_path
        endpoint = f"{prefix}/{path.removeprefix('/')}" if prefix else path
        transport = SseServerTransport(endpoint, settings.transport_security, settings.max_request_body_size)

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            async with transport.connect_sse(scope, receive, send) as streams:
                await server.run(*streams, server.create_initialization_options())

        stream, messages = self._endpoint(serve), self._endpoint(transport.handle_post_message)
        # Where the app is mounted at the prefix as well, clients see that twice.
        mounts = [Mount(each, messages) for each in dict.fromkeys((path, endpoint))]
        return self._app([Route(settings.sse_path, stream, methods=["GET"]), *mounts])

    def _endpoint(self, serve: ASGIApp) -> ASGIApp:
        return StreamableHTTPASGIApp(serve, None if self._verifier is None else self._settings.auth)

    def _app(self, routes: list[BaseRoute], lifespan: Lifespan[Starlette] | None = None) -> Starlette:
        middleware, auth = [], self._settings.auth
        if auth is not None and self._verifier is not None:
            resource = auth.resource_server_url if auth.validate_token_resource else None
            middleware = [Middleware(BearerAuthentication, self._verifier, resource)]
        if auth is not None and auth.resource_server_url is not None:
            url = AnyHttpUrl(protected_resource_urls(str(auth.resource_server_url))[0])
            routes.append(Route(url.path or "/", Document(metadata(auth)), methods=["GET", "OPTIONS"]))
        return Starlette(self._settings.debug, [*routes, *self._own], middleware, lifespan=lifespan)

    async def serve(self, app: ASGIApp) -> None:
        """Serve an app with uvicorn, until a signal arrives."""
        options: Json = {"log_level": self._settings.log_level.lower(), **defaults(Options())}
        config = uvicorn.Config(app, self._settings.host, self._settings.port, **options)
        await uvicorn.Server(config).serve()
