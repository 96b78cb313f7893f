"""Routing of the ASGI app: selects the endpoint of a request, or refuses it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from ..._utils.concurrency import require_loop
from ..._utils.exceptions import BusyError, ProtocolError
from ...engine.engine import CustomRoute
from ...identity.principals_and_scopes import ANYONE, owner_of
from ...protocol import jsonrpc
from ...protocol.http_headers import JoinedHeaders
from .exchange import Exchange, Receive, RefusedError, Scope, Send, headers_by_name, refuse
from .handshake import fail_question, serve_delete, serve_get, serve_handshake
from .intake.authenticated import find_principal, principal_of
from .intake.cors import Cors
from .intake.guard import Guard
from .intake.mounting import mount_point, path_below
from .intake.negotiation import accepts_events, check_content, may_stream
from .intake.refused_body import UnreadError, watch
from .options import MESSAGES_PATH, SSE_PATH, Settings
from .routes import Routes
from .service import Service
from .sessions.legacy_sse import Pipe
from .sessions.loop_state import LoopState
from .shutdown import end_on_signals
from .stateless import is_stateless, serve_stateless, unknown_revision
from .uvicorn_server import connect
from .workers import warn_of_workers

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from ...engine.engine import Engine
    from ...identity.revocation import Revocation
    from .protection.protection import Protection, Public

logger = logging.getLogger(__name__)

_BUSY = ((b"retry-after", b"1"),)

_READ = frozenset(
    b"authorization content-length content-type host last-event-id mcp-method mcp-name mcp-session-id origin".split()
)
"""Headers that decide how a request is handled, here or in an authentication middleware; `Mcp-Param-*` too.

`MCP-Protocol-Version` is checked after the body has been read, because it has no meaning on `initialize`.
"""

_VERSION = b"mcp-protocol-version"
_TWICE = "the header {} was sent more than once"

_Endpoint = Callable[[Service, Scope, Exchange], Awaitable[None]]


class Door:
    """Handler of the ASGI events of an app, created at the first one.

    Args:
        engine: Engine of the server.
        routes: Custom routes.
        mounts: Mounted apps with their paths. Both lists can grow.
        settings: Options of the app.
        guard: Check of hosts and origins.
        public: Public URLs of the app; None if it needs no access tokens.

    Attributes:
        routes: App for all other paths.
    """

    def __init__(
        self,
        engine: Engine,
        routes: Sequence[CustomRoute],
        mounts: Sequence[tuple[str, ASGIApp]],
        settings: Settings,
        guard: Guard,
        public: Public | None,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._guard = guard
        # Again: gunicorn may have loaded the app before there were any.
        warn_of_workers(is_shared=engine.runtime.storage.is_persistent, is_stateless=settings.stateless)
        self._keys = engine.runtime.keys
        self._services: dict[asyncio.AbstractEventLoop, Service] = {}
        self._own, self._mounted = routes, mounts
        # What ends the hearing of revocations.
        self._deaf: dict[asyncio.AbstractEventLoop, Callable[[], None]] = {}
        self._protection: Protection | None = None
        if public is not None and engine.auth is not None:
            from .protection.protection import Protection

            self._protection = Protection(engine, engine.auth, public)
        self.routes = Routes(routes, mounts, guard, settings, self._protection, hindrance=self._hindrance)
        self._cors = Cors(self._serve_page, guard) if settings.http.cors else self._serve_page
        endpoints = {settings.path.rstrip("/"): self._mcp}
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
            return self.routes(scope, receive, send)
        headers = headers_by_name(scope)
        if type(headers) is not dict and (name := _read_twice(headers)) is not None:
            _, send = watch(scope, headers, receive, send)
            protection = self._protection if name == "authorization" else None
            refused = _TWICE.format(name)
            return refuse(
                send, 400, refused, () if protection is None else protection.mcp.malformed(refused).headers
            )
        if refusal := self._guard.refuse(headers.get(b"host"), origin := headers.get(b"origin")):
            _, send = watch(scope, headers, receive, send)
            return refuse(send, *refusal)
        if origin is None:
            return self._serve(endpoint, scope, headers, receive, send)
        return self._cors(scope, receive, send)

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._serve(self._endpoints[path_below(scope)], scope, headers_by_name(scope), receive, send)

    async def _serve(
        self, endpoint: _Endpoint, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        is_post = scope["method"] == "POST"
        if not is_post:  # nobody reads its body
            receive, send = watch(scope, headers, receive, send)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = require_loop("the ASGI app of mcpkit")
        service = self._services.get(loop)
        try:
            if service is None or not service.is_open:
                service = await self._open()
            keep_alive, peer = self._settings.http.sse_ping_interval, scope.get("client")
            if (protection := self._protection) is None:
                find = self._settings.principal
                principal = principal_of(scope) if find is None else await find_principal(scope, find)
                if principal is not ANYONE:
                    principal = self._engine.runtime.scopes.of(principal)
                exchange = Exchange(receive, send, keep_alive, headers, principal, peer)
            else:
                door = protection.mcp if endpoint == self._mcp else protection.sse
                grant = door.known(headers) or await door.admit(headers, peer)
                exchange = Exchange(receive, send, keep_alive, headers, grant.principal, peer)
                exchange.challenger, exchange.grant = door, grant
            await endpoint(service, scope, exchange)
        except RefusedError as error:
            # At the end of the server the connection is closed in any case.
            if is_post and isinstance(error, UnreadError) and (service is None or service.is_open):
                _, send = watch(scope, headers, receive, send)
            await refuse(send, error.status, error.text, error.headers)
        except BusyError as error:
            await refuse(send, 503, error.message, ((b"retry-after", b"%d" % error.retry_after),))
        except OSError:  # of the channel: nobody is there to be answered
            logger.debug(
                "the client closed the connection before it received the whole response", exc_info=True
            )

    # The endpoints

    async def _mcp(self, service: Service, scope: Scope, exchange: Exchange) -> None:
        if scope["method"] != "POST":
            await self._get_or_delete(service, scope["method"], exchange)
            return
        exchange.may_stream = may_stream(exchange.request_headers)
        body = b""
        try:
            body = await service.bodies.read(exchange)
            message = jsonrpc.decode(body)
        except ProtocolError as error:
            await fail_question(service, exchange, body, error)
            exchange.answer(jsonrpc.error(None, error), 400)
            await exchange.respond()
            return
        del body  # which would be kept while the message is served
        headers = exchange.request_headers
        if is_stateless(message, headers):
            if type(headers) is not dict:
                _refuse_two_versions(headers)
            await serve_stateless(service, message, exchange)
        else:
            await serve_handshake(service, message, exchange)

    async def _get_or_delete(self, service: Service, method: str, exchange: Exchange) -> None:
        headers = exchange.request_headers
        _refuse_two_versions(headers)
        has_sessions = not self._settings.stateless and not is_stateless(None, headers)
        is_known = method in {"GET", "DELETE"}
        if not (is_known and has_sessions):
            if is_known and (problem := unknown_revision(headers)) is not None:
                exchange.answer(jsonrpc.error(None, problem), 400)
                await exchange.respond()
                return
            allowed = b"GET, POST, DELETE" if has_sessions else b"POST"
            raise RefusedError(405, f"{method} is not supported at this URL", ((b"allow", allowed),))
        if method == "DELETE":
            await serve_delete(service, exchange)
        elif accepts_events(headers):
            await serve_get(service, exchange)
        else:
            raise RefusedError(
                406, "a GET request opens an event stream. Send the header Accept: text/event-stream"
            )

    async def _sse(self, service: Service, scope: Scope, exchange: Exchange) -> None:
        if scope["method"] != "GET":
            raise UnreadError(405, "use GET to open the event stream", ((b"allow", b"GET"),))
        pipe = Pipe(service.loop_state, service.pipes, exchange, mount_point(scope) + MESSAGES_PATH)
        try:
            await service.serve(exchange)
        finally:
            await pipe.aclose()

    async def _messages(self, service: Service, scope: Scope, exchange: Exchange) -> None:
        if scope["method"] != "POST":
            raise RefusedError(405, "use POST to send a message", ((b"allow", b"POST"),))
        check_content(exchange.request_headers)
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        pipe = service.pipes.get(query.get("session_id", [""])[0])
        if pipe is None or owner_of(pipe.principal) != owner_of(exchange.principal):
            raise UnreadError(404, "unknown session. Open a new event stream at /sse")
        if pipe.is_behind:
            raise UnreadError(
                503,
                "too many messages wait on the event stream. Read it, then send this message again",
                _BUSY,
            )
        pipe.connection.receive(await service.bodies.read(exchange), exchange.principal)
        pipe.renew(exchange)
        exchange.answer(None, 202)
        await exchange.respond()

    # Its life

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        service: Service | None = None
        try:
            self.routes.take_up()
            service = self._begin()
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
        service = self._begin()
        try:
            await service.start()
        except Exception:
            logger.exception(
                "the server cannot start, as its lifespan raised an exception. Requests are answered "
                "with HTTP 503"
            )
            raise UnreadError(503, "the server cannot start. The cause is in its log", _BUSY) from None
        if not service.is_open:
            raise UnreadError(503, "the server is shutting down. Try again later", _BUSY)
        self._announce()
        return service

    def _announce(self) -> None:
        if self._protection is not None:
            self._protection.announce(self._own, [path for path, _ in self._mounted])

    def _begin(self) -> Service:
        loop = require_loop("the ASGI app of mcpkit")
        service = self._services.get(loop)
        if service is None:
            state = LoopState(self._engine, self._settings)
            service = self._services[loop] = Service(state, self._keys, lambda: self._end(loop))
            if self._protection is not None and (revocations := self._engine.revocations) is not None:
                self._deaf[loop] = revocations.listen(partial(self._revoke, self._protection, service, loop))
            end_on_signals(service.ending)
            connect(service)
        return service

    @staticmethod
    def _revoke(
        protection: Protection, service: Service, loop: asyncio.AbstractEventLoop, revocation: Revocation
    ) -> None:
        """Handle a revocation, in any thread."""
        protection.revoke(revocation)
        with suppress(RuntimeError):  # the loop is closed, so nothing goes on in it
            loop.call_soon_threadsafe(service.revoke, revocation, protection.mcp.dismissal())

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        if (deafen := self._deaf.pop(loop, None)) is not None:
            deafen()
        if not self._services[loop].ending.has_begun:  # else it stays, to refuse what still comes
            del self._services[loop]

    async def _hindrance(self, is_shared_needed: bool) -> str | None:
        return await self._begin().hindrance(is_shared_needed=is_shared_needed)


def _read_twice(headers: Mapping[bytes, bytes]) -> str | None:
    """Return a significant header that occurs more than once, so that its value is ambiguous."""
    if isinstance(headers, JoinedHeaders):
        for name in sorted(headers.ambiguous):
            if name in _READ or name.startswith(b"mcp-param-"):
                return name.decode("latin-1")
    return None


def _refuse_two_versions(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a request with a repeated `MCP-Protocol-Version` header if it needs a revision."""
    if isinstance(headers, JoinedHeaders) and _VERSION in headers.ambiguous:
        raise RefusedError(400, _TWICE.format("mcp-protocol-version"))
