"""A transport of httpx2 to an ASGI app in this process and event loop, with streaming."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import httpx2

from ..._utils.exceptions import TransportError
from ...protocol.jsonrpc import Json
from .asgi_lifespan import AppLifespan

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

logger = logging.getLogger(__name__)

_MAX_UNREAD: Final = 64 * 1024
"""The most unread bytes of a response before the app has to wait, as with uvicorn."""

_TIMEOUT: Final = 10.0
"""Seconds that the app has to finish after all of its clients have gone, before it is cancelled."""

_CLIENT: Final = ("127.0.0.1", 0)


class AsgiTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of an `httpx2.AsyncClient` to an app: `httpx2.AsyncClient(transport=AsgiTransport(app))`.

    Unlike `httpx2.ASGITransport` it streams responses, sends `http.disconnect` when a response is closed early, and
    runs the app's lifespan. Clients of the same app share the lifespan.

    Args:
        app: The app. An exception before its response is raised as `TransportError`; later ones are logged.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._lifespan = AppLifespan(app)
        self._exchanges: set[_Exchange] = set()

    async def __aenter__(self) -> AsgiTransport:
        """Start the app's lifespan.

        Raises:
            TransportError: The app failed to start.
        """
        try:
            await self._lifespan.__aenter__()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Pass a request to the app, and return when its response begins. The app is started first if necessary.

        Raises:
            TransportError: The app failed to start, or failed or returned without a response.
        """
        state = await self._lifespan.__aenter__()
        exchange = _Exchange(self._app, request, await request.aread(), state)
        self._exchanges.add(exchange)
        exchange.task.add_done_callback(lambda _: self._exchanges.discard(exchange))
        try:
            status, headers = await exchange.begun
        except BaseException:
            await exchange.aclose()
            raise
        return httpx2.Response(status, headers=headers, stream=exchange)

    async def aclose(self) -> None:
        """Close all responses, wait for the app to finish them, and end its lifespan. The transport may be used again.

        Raises:
            TransportError: The app failed to shut down.
        """
        tasks = [exchange.task for exchange in self._exchanges]
        for exchange in tuple(self._exchanges):
            await exchange.aclose()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=_TIMEOUT)
        finally:
            try:
                late = [task for task in tasks if task.cancel()]
                if late:
                    await asyncio.wait(late, timeout=_TIMEOUT)
            finally:
                await self._lifespan.__aexit__()


class _Exchange(httpx2.AsyncByteStream):
    """One request to the app. As a byte stream, it is the body of the response.

    Args:
        app: The app.
        request: The request.
        body: Its body.
        state: The lifespan state for the request's scope.

    Attributes:
        begun: The status and headers of the response, or the error if there is none.
        task: The task of the app.
    """

    def __init__(self, app: ASGIApp, request: httpx2.Request, body: bytes, state: Json) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = loop.create_future()
        self._request_body: bytes | None = body
        self._has_body = request.method != "HEAD"
        self._chunks: deque[bytes] = deque()
        self._unread = 0
        self._is_complete = False
        self._is_closed = False
        self._end = ""
        self._disconnected = asyncio.Event()
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self.task = loop.create_task(self._run(app, _scope(request, state)), name="mcpkit-app")
        self.task.add_done_callback(self._ended)

    # The client's side

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body as the app sends them.

        Raises:
            httpx2.RemoteProtocolError: The app ended in the middle of the body.
            httpx2.ReadError: The stream was closed in the middle of the body.
        """
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._unread -= len(chunk)
                if self._unread <= _MAX_UNREAD:
                    self._writable.set()
                yield chunk
            if self._is_complete:
                return
            if self._is_closed:
                raise httpx2.ReadError("the response was closed")
            if self.task.done():
                raise httpx2.RemoteProtocolError(f"{self._end} before its response was complete")
            self._readable.clear()
            await self._readable.wait()

    async def aclose(self) -> None:
        """Stop reading, at once. The app receives `http.disconnect`, unless its response is complete."""
        self._is_closed = True
        self._chunks.clear()
        self._disconnected.set()
        self._readable.set()
        self._writable.set()
        if not self.begun.done():
            self.begun.set_exception(
                TransportError(
                    "the client was closed before the app answered", may_have_begun=True, may_pass=False
                )
            )

    # The app's side

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        await app(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        if self._request_body is not None and not self._is_closed:
            body, self._request_body = self._request_body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._is_closed or self.begun.cancelled():
            raise ConnectionResetError("the client closed the response")
        kind = message["type"]
        if kind == "http.response.start" and not self.begun.done():
            self.begun.set_result((message["status"], list(message.get("headers", ()))))
        elif kind == "http.response.body" and self.begun.done() and not self._is_complete:
            chunk = message.get("body", b"")
            if chunk and self._has_body:
                self._chunks.append(bytes(chunk))
                self._unread += len(chunk)
            self._readable.set()
            if not message.get("more_body", False):
                self._is_complete = True
                self._disconnected.set()
            elif self._unread > _MAX_UNREAD:
                self._writable.clear()
                await self._writable.wait()
        else:
            raise RuntimeError(
                f"unexpected ASGI message {kind!r}. An app must send http.response.start once, then http.response.body"
            )

    def _ended(self, task: asyncio.Task[None]) -> None:
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._end = "the app returned"
        if failure is not None:
            self._end = f"the app raised {type(failure).__name__}: {failure},"
        self._readable.set()
        if not self.begun.done():
            error = TransportError(
                f"{self._end} without sending a response", may_have_begun=True, may_pass=False
            )
            error.__cause__ = failure
            self.begun.set_exception(error)
        elif failure is not None:
            is_late = self._is_closed and not self._is_complete
            level = logging.DEBUG if is_late else logging.ERROR
            logger.log(
                level, "the app raised an exception after it had started its response", exc_info=failure
            )


def _scope(request: httpx2.Request, state: Json) -> Scope:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.partition(b"?")[0],
        "query_string": url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": _CLIENT,
        "server": (url.host, url.port or (443 if url.scheme == "https" else 80)),
        "state": state.copy(),
    }
