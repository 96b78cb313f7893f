"""Routing of the ASGI app: the MCP endpoint, HTTP+SSE, custom routes, mounted apps, metadata, probes, and CORS."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Message

from ..._utils.concurrency import call_in_loop, require_loop
from ..._utils.exceptions import BusyError, ProtocolError
from ...identity.principals_and_scopes import ANYONE
from ...protocol import jsonrpc
from ...protocol.http_headers import JoinedHeaders
from . import request as requests
from .app_options import DEFAULT_PATH, MESSAGES_PATH, SSE_PATH, Guard, Settings, warn_of_workers
from .handshake import fail_question, serve_delete, serve_get, serve_handshake
from .request import UnreadError, drop_unread_body, headers_by_name, may_stream, path_below
from .response import Exchange, Receive, RefusedError, Scope, Send, headers_of, refuse
from .service import Service
from .sessions.loop_state import LoopState
from .stateless import is_stateless, serve_stateless, unknown_revision

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...identity.audit_and_revocation import Revocation
    from .protected_resource import Protection, Resource

logger = logging.getLogger(__name__)


# Headers that decide how a request is handled, here or in an authentication middleware; `Mcp-Param-*` too.
# `MCP-Protocol-Version` is checked after the body has been read, because it has no meaning on `initialize`.
_SINGLE_HEADERS = frozenset(
    b"authorization content-length content-type host last-event-id mcp-method mcp-name mcp-session-id origin".split()
)

_VERSION = b"mcp-protocol-version"
_REPEATED = "the header {} was sent more than once"

_Endpoint = Callable[[Service, Scope, Exchange], Awaitable[None]]


class Router:
    """Handler of the ASGI events of an app, created at the first one.

    Args:
        engine: Engine of the server.
        mounts: Mounted apps with their paths. The list can grow, as that of the custom routes of the engine.
        settings: Options of the app.
        guard: Check of hosts and origins.
        resources: Public endpoints of the app; None if it needs no access tokens.

    Attributes:
        engine: Engine of the server.
        settings: Options of the app.
        guard: Check of hosts and origins.
        mounts: Mounted apps with their paths.
        protection: Verification of access tokens; None if none are needed.
        site: App for all paths that do not belong to the protocol.
    """

    def __init__(
        self,
        engine: Engine,
        mounts: Sequence[tuple[str, ASGIApp]],
        settings: Settings,
        guard: Guard,
        resources: Sequence[Resource] | None,
    ) -> None:
        self.engine, self.mounts, self.settings, self.guard = engine, mounts, settings, guard
        # Again, because gunicorn may have loaded the app before there were any.
        warn_of_workers(is_shared=engine.runtime.storage.is_persistent, is_stateless=settings.stateless)
        self._services: dict[asyncio.AbstractEventLoop, Service] = {}
        self._revocation_listeners: dict[asyncio.AbstractEventLoop, Callable[[], None]] = {}
        self.protection: Protection | None = None
        if resources is not None and engine.auth is not None:
            from .protected_resource import Protection

            self.protection = Protection(engine, engine.auth, resources)
        self.site = SiteRoutes(self)
        self._with_cors = Cors(self._serve_page, guard) if settings.http.cors else self._serve_page
        endpoints: dict[str, _Endpoint] = {settings.path.rstrip("/"): self._mcp}
        if settings.http.sse:
            endpoints |= {SSE_PATH: self._sse, MESSAGES_PATH: self._messages}
        self._endpoints = {path + end: each for path, each in endpoints.items() for end in ("", "/")}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Start to serve one ASGI connection, and return the awaitable that does."""
        kind = scope["type"]
        if kind == "lifespan":
            return self._lifespan(receive, send)
        endpoint = self._endpoints.get(path_below(scope)) if kind == "http" else None
        if endpoint is None:
            return self.site(scope, receive, send)
        headers = headers_by_name(scope)
        if type(headers) is not dict and (name := _repeated_header(headers)) is not None:
            _, send = drop_unread_body(scope, headers, receive, send)
            text, fields = _REPEATED.format(name), headers_of(None)
            if name == "authorization" and self.protection is not None:
                fields = tuple(self.protection.mcp.malformed(text).headers)
            return refuse(send, 400, text, fields)
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if (host, origin) not in self.guard.passed and (refusal := self.guard.refuse(host, origin)):
            _, send = drop_unread_body(scope, headers, receive, send)
            return refuse(send, *refusal)
        if origin is None:
            return self._serve(endpoint, scope, headers, receive, send)
        return self._with_cors(scope, receive, send)

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of a web page, for `Cors`."""
        await self._serve(self._endpoints[path_below(scope)], scope, headers_by_name(scope), receive, send)

    async def _serve(
        self, endpoint: _Endpoint, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        is_post = scope["method"] == "POST"
        if not is_post:  # no endpoint reads its body
            receive, send = drop_unread_body(scope, headers, receive, send)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = require_loop("the ASGI app of mcpkit")
        service = self._services.get(loop)
        try:
            if service is None or not service.is_open:
                service = await self._open()
            keep_alive, peer = self.settings.http.sse_ping_interval, scope.get("client")
            if (protection := self.protection) is None:
                if (find := self.settings.principal) is None:
                    principal = requests.principal_of(scope)
                else:
                    principal = await requests.find_principal(scope, find)
                if principal is not ANYONE:
                    principal = self.engine.runtime.scopes.of(principal)
                exchange = Exchange(receive, send, keep_alive, headers, principal, peer)
            else:
                protected = protection.mcp if endpoint == self._mcp else protection.sse
                grant = protected.known(headers) or await protected.admit(headers, peer)
                exchange = protected.exchange(receive, send, keep_alive, headers, grant, peer)
            await endpoint(service, scope, exchange)
        except RefusedError as error:
            # When the server ends, the connection is closed in any case.
            if is_post and isinstance(error, UnreadError) and (service is None or service.is_open):
                _, send = drop_unread_body(scope, headers, receive, send)
            await refuse(send, error.status, error.text, error.headers)
        except BusyError as error:
            await refuse(send, 503, error.message, headers_of(error))
        except OSError:  # of the channel: the client has disconnected
            text = "the client closed the connection before it received the whole response"
            logger.debug(text, exc_info=True)

    # Endpoints

    async def _mcp(self, service: Service, scope: Scope, exchange: Exchange) -> None:
        if scope["method"] != "POST":
            await self._get_or_delete(service, scope["method"], exchange)
            return
        headers = exchange.request_headers
        exchange.may_stream = may_stream(headers)
        body = b""
        try:
            body = await service.bodies.read(exchange)
            message = jsonrpc.decode(body)
        except ProtocolError as error:
            await fail_question(service, exchange, body, error)
            exchange.answer(jsonrpc.error(None, error), 400)
            await exchange.respond()
            return
        del body  # it would be kept while the message is served
        if is_stateless(message, headers):
            if type(headers) is not dict:
                _check_version_is_single(headers)
            await serve_stateless(service, message, exchange)
        else:
            await serve_handshake(service, message, exchange)

    async def _get_or_delete(self, service: Service, method: str, exchange: Exchange) -> None:
        headers = exchange.request_headers
        _check_version_is_single(headers)
        has_sessions = not self.settings.stateless and not is_stateless(None, headers)
        is_known = method in {"GET", "DELETE"}
        if not (is_known and has_sessions):
            if is_known and (problem := unknown_revision(headers)) is not None:
                exchange.answer(jsonrpc.error(None, problem), 400)
                await exchange.respond()
                return
            allowed = b"GET, POST, DELETE" if has_sessions else b"POST"
            raise RefusedError(405, f"{method} is not supported at this URL", ((b"allow", allowed),))
        if method == "GET" and not requests.accepts_events(headers):
            text = "a GET request opens an event stream. Send the header Accept: text/event-stream"
            raise RefusedError(406, text)
        await (serve_get if method == "GET" else serve_delete)(service, exchange)

    async def _sse(self, service: Service, scope: Scope, exchange: Exchange) -> None:
        if scope["method"] != "GET":
            raise UnreadError(405, "use GET to open the event stream", ((b"allow", b"GET"),))
        from .http_with_sse import Pipe

        pipe = Pipe(service.loop_state, service.pipes, scope, exchange)
        try:
            await service.serve(pipe)
        finally:
            await pipe.aclose()

    async def _messages(self, service: Service, scope: Scope, exchange: Exchange) -> None:
        from .http_with_sse import receive_message

        await receive_message(service.pipes, service.bodies, scope, exchange)

    # Lifespan, and the service of each event loop

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        service: Service | None = None
        try:
            self.site.update()
            service = self._service()
            await service.ready()
            self._announce()
        except BaseException as error:
            if service is not None:
                await service.aclose()
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            raise  # as Starlette does: its test client waits for ever on an app that only returns
        await send({"type": "lifespan.startup.complete"})
        await receive()
        try:
            await service.aclose()
        except BaseException as error:
            await send({"type": "lifespan.shutdown.failed", "message": f"{type(error).__name__}: {error}"})
            raise
        await send({"type": "lifespan.shutdown.complete"})

    async def _open(self) -> Service:
        """Return the service of this event loop once it is open.

        Raises:
            UnreadError: The service cannot start, or is shutting down.
        """
        service = self._service()
        try:
            await service.start()
        except Exception:
            logger.exception(
                "the server cannot start, as its lifespan raised an exception. Requests are answered with HTTP 503"
            )
            text = "the server cannot start. The cause is in its log"
            raise UnreadError(503, text, requests.RETRY_SOON) from None
        if not service.is_open:
            raise UnreadError(503, "the server is shutting down. Try again later", requests.RETRY_SOON)
        self._announce()
        return service

    def _announce(self) -> None:
        if self.protection is not None:
            self.protection.announce(self.engine.routes, [path for path, _ in self.mounts])

    def _service(self) -> Service:
        """Return the service of this event loop, which may be starting."""
        loop = require_loop("the ASGI app of mcpkit")
        service = self._services.get(loop)
        if service is None:
            state = LoopState(self.engine, self.settings)
            service = Service(state, self.engine.runtime.keys, partial(self._on_end, loop))
            self._services[loop] = service
            if self.protection is not None and (revocations := self.engine.revocations) is not None:
                on_revocation = partial(self._revoke, self.protection, service)
                self._revocation_listeners[loop] = revocations.listen(on_revocation)
            if "uvicorn.server" in sys.modules:
                from .run import end_with_uvicorn

                end_with_uvicorn(service)
        return service

    @staticmethod
    def _revoke(protection: Protection, service: Service, revocation: Revocation) -> None:
        """Handle a revocation, in any thread."""
        protection.revoke(revocation)
        call_in_loop(service.loop, service.revoke, revocation, protection.mcp.dismissal())

    def _on_end(self, loop: asyncio.AbstractEventLoop) -> None:
        if (stop_listening := self._revocation_listeners.pop(loop, None)) is not None:
            stop_listening()
        if not self._services[loop].shutdown_begun:  # else it stays, to refuse further requests
            del self._services[loop]

    async def unready_reason(self, is_shared_needed: bool) -> str | None:
        """Return the reason why the service of this event loop is not ready; None if it is."""
        return await self._service().unready_reason(is_shared_needed=is_shared_needed)


def _repeated_header(headers: Mapping[bytes, bytes]) -> str | None:
    """Return a significant header that occurs more than once, so that its value is ambiguous."""
    for name in sorted(headers.ambiguous) if isinstance(headers, JoinedHeaders) else ():
        if name in _SINGLE_HEADERS or name.startswith(b"mcp-param-"):
            return name.decode("latin-1")
    return None


def _check_version_is_single(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a request with a repeated `MCP-Protocol-Version` header if it needs a revision."""
    if isinstance(headers, JoinedHeaders) and _VERSION in headers.ambiguous:
        raise RefusedError(400, _REPEATED.format("mcp-protocol-version"))


# Other routes

_NO_STORE = {"Cache-Control": "no-store"}

_IS_MOUNTED = "mcpkit.is_mounted"  # ASGI scope key: whether the app is mounted in another one


class _RootRoute(Route):
    """A route with a path from the root of the site. It does not exist below a mount point."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path if the app is not mounted."""
        return (Match.NONE, {}) if scope[_IS_MOUNTED] else super().matches(scope)


class SiteRoutes:
    """ASGI app for every path that does not belong to the protocol.

    It applies the guard, with three exceptions: probes, which load balancers request by address and which reveal
    nothing else; mounted apps, which have guards of their own; and verifier endpoints for any origin
    (`is_for_any_origin`). It never redirects: a trailing slash makes no difference.

    Args:
        router: Handler of the app. Later additions to its routes and mounted apps are served too.

    Raises:
        RegistrationError: A custom route has a path that is already used.
    """

    def __init__(self, router: Router) -> None:
        self._router, settings, protection = router, router.settings, router.protection
        self._starlette = Starlette()
        self._starlette.router.redirect_slashes = False
        self._not_found = self._starlette.router.default
        self._starlette.router.default = self._respond_not_found
        self._app: ASGIApp = Cors(self._starlette, router.guard) if settings.http.cors else self._starlette
        probes = ((settings.http.readiness_path, self._readiness), (settings.http.liveness_path, _liveness))
        self._probes = [Route(path, function) for path, function in probes if path is not None]
        self._probe_paths = {route.path.rstrip("/") for route in self._probes}
        self._mounts: list[Mount] = []
        self._documents = dict(protection.documents) if protection else {}
        self._documents_at_root = protection.documents_at_root if protection else {}
        self._root_routes: list[Route] = []
        self._paths_for_any_origin: set[str] = set()
        self._served = -1, -1
        self.update()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request with a path that does not belong to the protocol.

        Args:
            scope: An ASGI scope of type `http` or `websocket`; it is not changed.
            receive: ASGI receive channel.
            send: ASGI send channel.
        """
        self.update()
        path = path_below(scope)
        if (document := self._documents.get(path)) is not None and scope["type"] == "http":
            await document(scope, receive, send)  # pages of any origin may read it
            return
        scope = self._starlette_scope(scope, path)
        for mount in () if _matches_one(self._root_routes, scope) else self._mounts:
            match, found = mount.matches(scope)
            if match is Match.FULL:
                await mount.handle({**scope, **found}, receive, send)
                return
        if scope["type"] == "http":
            headers = headers_by_name(scope)
            receive, send = drop_unread_body(scope, headers, receive, send)
            plain_path = path.rstrip("/")
            is_for_any_origin = plain_path in self._paths_for_any_origin
            origin = None if is_for_any_origin else headers.get(b"origin")
            is_probe = scope["method"] in {"GET", "HEAD"} and plain_path in self._probe_paths
            if not is_probe and (refusal := self._router.guard.refuse(headers.get(b"host"), origin)):
                await PlainTextResponse(refusal[1], refusal[0])(scope, receive, send)
                return
            if is_for_any_origin:  # with CORS of its own
                await self._starlette(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def is_outside_mount(self, scope: Scope) -> bool:
        """Return True if a request for the whole site has a path outside the mount.

        Args:
            scope: An ASGI scope of any type.
        """
        self.update()
        path = path_below(scope) if scope["type"] == "http" else ""
        return path in self._documents_at_root or (
            bool(path and self._root_routes)
            and _matches_one(self._root_routes, self._starlette_scope(scope, path))
        )

    def root_routes(self) -> list[Route]:
        """Return the routes to serve at the root of the site, for an app around this one."""
        self.update()
        routes = [Route(each.path, self, methods=each.methods, name=each.name) for each in self._root_routes]
        return [*routes, *(Route(path, each) for path, each in self._documents_at_root.items())]

    def update(self) -> None:
        """Add the routes and apps that were registered since the last time.

        Raises:
            RegistrationError: A path is already used.
        """
        served = len(self._router.engine.routes), len(self._router.mounts)
        if self._served == served:
            return
        routes: list[Route] = []
        protection = self._router.protection
        for each in self._router.engine.routes[: served[0]]:
            self._router.settings.check_route(each)
            middleware: list[Middleware] = []
            if each.scopes is not None and protection is not None:
                from .protected_resource import ProtectedRoute

                middleware = [Middleware(ProtectedRoute, endpoint=protection.mcp, scopes=each.scopes)]
            kind, name, methods = _RootRoute if each.is_outside_mount else Route, each.name, each.methods
            routes.append(kind(each.path, each.function, methods=methods, name=name, middleware=middleware))
        for own in protection.routes if protection else ():
            routes.append(_RootRoute(own.path, own.endpoint, methods=own.methods, name=own.name))
            if getattr(own.endpoint, "is_for_any_origin", False):
                self._paths_for_any_origin.add(own.path)
        self._starlette.router.routes[:] = [*self._probes, *routes]
        self._root_routes = [route for route in routes if isinstance(route, _RootRoute)]
        apps = self._router.mounts[: served[1]]
        self._mounts = [Mount(*each) for each in apps]
        if self._documents and any(getattr(app, "takes_tokens", False) for _, app in apps):
            from ...auth.urls_and_discovery import PROTECTED_RESOURCE

            self._documents.pop(PROTECTED_RESOURCE, None)  # it would be ambiguous
        self._served = served

    def _starlette_scope(self, scope: Scope, path: str) -> Scope:
        """Return the scope with the mount point as Starlette expects it, from which `request.url_for` starts."""
        root = requests.mount_point(scope)
        router = self._starlette.router
        changed = {**scope, "root_path": root, "app_root_path": root, "router": router, "path": root + path}
        changed[_IS_MOUNTED] = requests.is_mounted(scope)
        if not _matches_one((*self._mounts, *router.routes), changed):
            changed["path"] = root + (path.rstrip("/") if path.endswith("/") else f"{path}/")
        return changed

    async def _respond_not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to an unknown path with the path of the MCP endpoint, for clients that use the URL of the site."""
        path = self._router.settings.path
        if scope["type"] != "http" or path != DEFAULT_PATH:  # another path may be a secret
            await self._not_found(scope, receive, send)
            return
        text = f"Not Found. The MCP endpoint is at {requests.mount_point(scope)}{DEFAULT_PATH}"
        await PlainTextResponse(text, 404)(scope, receive, send)

    async def _readiness(self, request: Request) -> JSONResponse:
        reason = await self._router.unready_reason("shared" not in request.query_params.getlist("exclude"))
        found = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
        return JSONResponse(found, 200 if reason is None else 503, _NO_STORE)


async def _liveness(_request: Request) -> JSONResponse:
    """Respond as long as the event loop runs."""
    return JSONResponse({"status": "live"}, headers=_NO_STORE)


def _matches_one(routes: Iterable[BaseRoute], scope: Scope) -> bool:
    return any(route.matches(scope)[0].value for route in routes)


# CORS

_EXPOSED_HEADERS = ("Mcp-Session-Id", "MCP-Protocol-Version", "Retry-After", "WWW-Authenticate")
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


class Cors(CORSMiddleware):
    """ASGI middleware for CORS, for web pages of the origins that the guard allows.

    All requested headers are accepted, because authors choose the names of `Mcp-Param-*`. Cookies and other ambient
    credentials are not: a client sends its token in `Authorization`.

    Args:
        app: The ASGI app. Put the guard before this middleware, so that a preflight request of another origin is
            refused too.
        guard: Check of origins.
    """

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        origins = ("*",) if guard.allows_all_origins else ()
        # Chrome caches a preflight response for 7,200 seconds at most.
        super().__init__(app, origins, _METHODS, ["*"], expose_headers=_EXPOSED_HEADERS, max_age=7200)
        self.allow_private_network = True  # an option of Starlette from 0.51 on
        self._guard = guard

    def is_allowed_origin(self, origin: str) -> bool:
        """Return True if the guard allows an origin."""
        return self._guard.allows_origin(origin)

    async def send(self, message: Message, send: Send, request_headers: Headers) -> None:
        """Add the headers of CORS; `*` also if there are cookies, where Starlette below 1.0 names the origin."""
        await super().send(
            message, send, Headers({k: v for k, v in request_headers.items() if k != "cookie"})
        )
