"""The ASGI app: which request goes where, and what is refused at the door."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from ...broker import MemoryBroker
from ...errors import BusyError, ProtocolError
from ...protocol import jsonrpc
from .body import Refusal, read_body
from .exchange import Exchange, Receive, Scope, Send, refuse, respond
from .guard import Guard
from .handshake import serve_delete, serve_get, serve_handshake
from .mounting import mount_point, path_below
from .options import Settings
from .routes import Cors, Routes
from .service import Service
from .shutdown import end_on_signals
from .sse import Pipe
from .stateless import is_stateless, serve_stateless, unknown_revision

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from ...server import Server

logger = logging.getLogger("mcpkit")

_SSE: Final = "/sse"
_MESSAGES: Final = "/messages"

_BUSY: Final = (b"retry-after", b"1")


class HttpApp:
    """The server as an ASGI app; `Server.asgi` makes it.

    Args:
        server: Who answers.
        settings: The options.

    Raises:
        ValueError: One of the options has another form than it must have; the message says which.
    """

    def __init__(self, server: Server, settings: Settings) -> None:
        self._server = server
        self.settings = settings
        self._guard = Guard(settings.public_url, settings.allowed_hosts, settings.allowed_origins)
        self._broker = MemoryBroker() if server.broker is None else server.broker
        self._services: dict[asyncio.AbstractEventLoop, Service] = {}
        self._routes = Routes(
            server.routes, self._guard, cors=settings.cors, health=settings.health, is_ready=self._is_ready
        )
        self._cors = Cors(self._serve, self._guard) if settings.cors else self._serve
        path = settings.path.rstrip("/")
        self._endpoints = {path: self._mcp, f"{path}/": self._mcp}
        if settings.sse:
            self._endpoints |= {_SSE: self._sse, f"{_SSE}/": self._sse}
            self._endpoints |= {_MESSAGES: self._messages, f"{_MESSAGES}/": self._messages}

    def mount(self, path: str, app: ASGIApp) -> None:
        """Serve another app, such as that of another server, below a path: `app.mount("/x", other.asgi())`.

        Args:
            path: Where; it begins with a slash.
            app: Any ASGI app. It checks hosts and origins itself, as that of another server does.
        """
        self._routes.mount(path, app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection as ASGI has it."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._lifespan(receive, send)
            return
        endpoint = self._endpoints.get(path_below(scope)) if kind == "http" else None
        if endpoint is None:
            await self._routes(scope, receive, send)
            return
        headers = _headers(scope)
        if refusal := self._guard.refuse(headers.get(b"host"), origin := headers.get(b"origin")):
            await refuse(send, *refusal)
        elif origin is None:
            await endpoint(scope, headers, receive, send)
        else:
            await self._cors(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoints[path_below(scope)](scope, _headers(scope), receive, send)

    # The endpoints

    async def _mcp(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        service = await self._service(send)
        if service is None:
            return
        method = scope["method"]
        try:
            if method == "POST":
                await self._post(service, headers, receive, send)
            elif method in {"GET", "DELETE"} and self._has_sessions(headers):
                exchange = Exchange(receive, send, keep_alive=self.settings.keep_alive)
                if method == "DELETE":
                    await serve_delete(service, headers, exchange)
                elif not accepts(headers, b"text/event-stream"):
                    await refuse(
                        send, 406, "a GET is answered with an event stream: accept text/event-stream"
                    )
                else:
                    await serve_get(service, headers, exchange)
            elif method in {"GET", "DELETE"} and (problem := unknown_revision(headers)) is not None:
                await respond(send, 400, jsonrpc.error(None, problem))
            else:
                allowed = b"GET, POST, DELETE" if self._has_sessions(headers) else b"POST"
                await refuse(send, 405, f"{method} means nothing here", ((b"allow", allowed),))
        except BusyError as error:
            await _busy(send, error)
        except OSError:
            logger.exception("the broker does not answer")
            await _busy(send, BusyError("The state of sessions cannot be reached; try again later"))

    async def _post(
        self, service: Service, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        if refusal := check_types(headers):
            await refuse(send, *refusal)
            return
        settings = self.settings
        body = await read_body(
            receive, headers.get(b"content-length"), settings.max_body, settings.body_timeout
        )
        if isinstance(body, Refusal):
            await refuse(send, *body)
            return
        try:
            message = jsonrpc.decode(body)
        except ProtocolError as error:
            await respond(send, 400, jsonrpc.error(None, error))
            return
        accept = headers.get(b"accept")
        exchange = Exchange(
            receive,
            send,
            keep_alive=settings.keep_alive,
            may_stream=accept is None or accepts(headers, b"text/event-stream"),
        )
        if is_stateless(message, headers):
            await serve_stateless(service, message, headers, exchange)
        else:
            await serve_handshake(service, message, headers, exchange)

    async def _sse(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        service = await self._service(send)
        if service is None:
            return
        if scope["method"] != "GET":
            await refuse(send, 405, "the event stream is opened with a GET", ((b"allow", b"GET"),))
            return
        exchange = Exchange(receive, send, keep_alive=self.settings.keep_alive)
        try:
            pipe = Pipe(service, exchange, mount_point(scope) + _MESSAGES)
        except BusyError as error:
            await _busy(send, error)
            return
        try:
            await service.serve(exchange)
        finally:
            await pipe.aclose()

    async def _messages(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        service = await self._service(send)
        if service is None:
            return
        if scope["method"] != "POST":
            await refuse(send, 405, "messages are sent with a POST", ((b"allow", b"POST"),))
            return
        if (media_type := _content_type(headers)) is not None:
            await refuse(send, *media_type)
            return
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        pipe = service.pipes.get(query.get("session_id", [""])[0])
        if pipe is None:
            await refuse(send, 404, "there is no such session: open /sse again")
            return
        settings = self.settings
        body = await read_body(
            receive, headers.get(b"content-length"), settings.max_body, settings.body_timeout
        )
        if isinstance(body, Refusal):
            await refuse(send, *body)
            return
        pipe.connection.receive(body)
        await refuse(send, 202, "Accepted")

    def _has_sessions(self, headers: dict[bytes, bytes]) -> bool:
        return not self.settings.stateless and not is_stateless(None, headers)

    # Its life

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        service = self._begin()
        try:
            await service.ready()
        except BaseException as error:
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

    async def _service(self, send: Send) -> Service | None:
        """Return what serves in this event loop; None when the request has been refused."""
        service = self._services.get(asyncio.get_running_loop()) or self._begin()
        if not service.is_started:
            try:
                await service.start()
            except Exception:
                logger.exception("the server cannot start")
                await refuse(send, 503, "the server cannot start", (_BUSY,))
                return None
        if service.is_closing:
            await refuse(send, 503, "the server is shutting down", (_BUSY,))
            return None
        return service

    def _begin(self) -> Service:
        loop = asyncio.get_running_loop()
        service = self._services.get(loop)
        if service is None:
            service = Service(
                self._server, self.settings, self._server.keys, self._broker, lambda: self._end(loop)
            )
            self._services[loop] = service
            end_on_signals(service)
        return service

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._services[loop].is_last:  # else it stays, to refuse what still comes
            del self._services[loop]

    def _is_ready(self) -> bool:
        return self._begin().is_ready


def accepts(headers: dict[bytes, bytes], media_type: bytes) -> bool:
    """Say whether the Accept header allows a media type; without one, everything is allowed."""
    accept = headers.get(b"accept")
    if accept is None or media_type in accept:
        return True
    accept = accept.lower()
    return media_type in accept or b"*/*" in accept or media_type.partition(b"/")[0] + b"/*" in accept


def check_types(headers: dict[bytes, bytes]) -> tuple[int, str] | None:
    """Return why a POST is refused for what it holds or what it takes, or None."""
    if (refusal := _content_type(headers)) is not None:
        return refusal
    if not accepts(headers, b"application/json"):
        return 406, "an answer is application/json or text/event-stream: accept both"
    return None


def _content_type(headers: dict[bytes, bytes]) -> tuple[int, str] | None:
    content_type = headers.get(b"content-type", b"")
    if content_type != b"application/json":
        media_type = content_type.partition(b";")[0].strip().lower()
        if media_type != b"application/json":
            return 415, "a message is sent as Content-Type: application/json"
    if headers.get(b"content-encoding", b"identity") != b"identity":
        return 415, "a message is sent without Content-Encoding"
    return None


def _headers(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers by name; of those that come more than once, all values."""
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    headers = dict(pairs)
    if len(headers) != len(pairs):
        headers = {}
        for name, value in pairs:
            headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


async def _busy(send: Send, error: BusyError) -> None:
    await refuse(send, 503, error.message, ((b"retry-after", b"%d" % error.retry_after),))
