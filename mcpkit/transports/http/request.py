"""Reading of one HTTP request: its path below a mount point, its headers, the identity of its client, and its body."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from inspect import iscoroutine
from io import BytesIO
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from ..._utils.exceptions import ChallengeError
from ...execution.coroutines import resume, uncancel, within
from ...identity.principals_and_scopes import ANYONE, Principal
from ...options import FindPrincipal, Limits, Timeouts
from ...protocol import http_headers
from ...protocol.http_headers import JoinedHeaders
from ...requests.access_and_error_responses import readable
from ...requests.timeouts_and_concurrency import Shares
from .response import Exchange, Message, Receive, RefusedError, Scope, Send, headers_of

logger = logging.getLogger(__name__)


class UnreadError(RefusedError):
    """The request is refused before its body has been read."""


# Path
#
# ASGI requires the mount point in `root_path` and at the beginning of `path`. Starlette and uvicorn do that. Other
# servers and older frameworks cut it off `path`. FastAPI's `root_path=` puts the prefix of a proxy into `root_path`
# only. Litestar cuts the mount point off without setting `root_path`, and ends each path with a slash.


def path_below(scope: Scope) -> str:
    """Return the path below the mount point of the app."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root:
        proxy: str = scope.get("app_root_path", "")
        for prefix in (root.rstrip("/"), root.removeprefix(proxy).rstrip("/")):
            if path.startswith(f"{prefix}/"):
                return path[len(prefix) :]
            if path == prefix:
                return "/"
    return path


def is_mounted(scope: Scope) -> bool:
    """Return True if the app is mounted in another one. The prefix of a proxy is not a mount point."""
    proxy: str = scope.get("app_root_path", scope.get("root_path", ""))
    return mount_point(scope).strip("/") != proxy.strip("/")


def mount_point(scope: Scope) -> str:
    """Return the mount point of the app as clients see it, without a trailing slash; an empty string for the root."""
    root: str = scope.get("root_path", "")
    raw_path: bytes | None = scope.get("raw_path")
    if raw_path is not None:
        full_path = unquote(raw_path.decode("latin-1")).rstrip("/")
        path = path_below(scope).rstrip("/")
        if full_path.endswith(path):
            # The prefix of a proxy is in root_path alone; a mount point that Litestar cut off is in raw_path alone.
            root = max(root, full_path[: len(full_path) - len(path)], key=len)
    root = root.strip("/")
    return f"/{root}" if root else ""


# Headers

# Values of Content-Type that need no parsing.
_USUAL_CONTENT_TYPES = frozenset(
    b"application/json" + parameter
    for parameter in (b"", b"; charset=utf-8", b";charset=utf-8", b"; charset=UTF-8", b";charset=UTF-8")
)

# For values of Accept that include JSON, whether they include event streams; clients repeat one with each request.
_accepts_events: dict[bytes, bool] = {}

_MAX_CACHED_VALUES, _MAX_CACHED_LENGTH = 64, 512  # number and length of cached values, which clients choose


def headers_by_name(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers of a request by name: `JoinedHeaders` if one is repeated."""
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    headers = dict(pairs)
    return headers if len(headers) == len(pairs) else JoinedHeaders(pairs)


def may_stream(headers: Mapping[bytes, bytes]) -> bool:
    """Check the content type of a POST, and return True if its response may be an event stream.

    Raises:
        UnreadError: 415 for a body that is not one JSON text, 406 for a client that does not accept JSON.
    """
    if headers.get(b"content-type") not in _USUAL_CONTENT_TYPES or b"content-encoding" in headers:
        check_content(headers)
    accept = headers.get(b"accept", b"*/*")
    cached = _accepts_events.get(accept)
    if cached is not None:
        return cached
    if not http_headers.accepts(accept.decode("latin-1"), "application/json"):
        raise UnreadError(406, "the Accept header must include application/json and text/event-stream")
    is_streamable = accepts_events(headers)
    if len(_accepts_events) < _MAX_CACHED_VALUES and len(accept) <= _MAX_CACHED_LENGTH:
        _accepts_events[accept] = is_streamable
    return is_streamable


def accepts_events(headers: Mapping[bytes, bytes]) -> bool:
    """Return True if a client accepts an event stream."""
    return http_headers.accepts(headers.get(b"accept", b"*/*").decode("latin-1"), "text/event-stream")


def check_content(headers: Mapping[bytes, bytes]) -> None:
    """Check that a body is one JSON text, without compression.

    Raises:
        UnreadError: 415.
    """
    if http_headers.media_type(headers.get(b"content-type", b"").decode("latin-1")) != "application/json":
        raise UnreadError(415, "the Content-Type header must be application/json")
    codings = headers.get(b"content-encoding", b"").lower().split(b",")
    if not {coding.strip(b" \t") for coding in codings} <= {b"", b"identity"}:
        text = "compressed request bodies are not supported. Send the message without Content-Encoding"
        raise UnreadError(415, text)


# Identity of the client, without access tokens


async def find_principal(scope: Scope, find: FindPrincipal) -> Principal:
    """Return the principal of a request by the option `principal`.

    Raises:
        UnreadError: The function raised a challenge, or failed. A failure never identifies the client as another one.
    """
    try:
        found = find(scope)
        if isinstance(found, Awaitable):
            found = await found
        if found is None:
            return ANYONE
        if not isinstance(found, Principal):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"principal= must return a Principal or None, got {type(found).__name__}")
    except ChallengeError as error:
        raise UnreadError(error.status, readable(error.message), headers_of(error)) from None
    except Exception:
        logger.exception("the function given as principal= failed; the request is answered with 500")
        text = "the server could not authenticate this request because of an internal error"
        raise UnreadError(500, text) from None
    return found


def principal_of(scope: Scope) -> Principal:
    """Return the principal of a request as set by Starlette's AuthenticationMiddleware.

    Values of `user` and `auth` in another form are ignored.
    """
    if not ("user" in scope or "auth" in scope):
        return ANYONE
    user: Any = scope.get("user")
    auth: Any = scope.get("auth")
    scopes: frozenset[str] = frozenset()
    with suppress(AttributeError, TypeError):
        scopes = Principal(None, auth.scopes).scopes
    if getattr(user, "is_authenticated", False) is not True:
        return Principal(None, scopes)
    try:
        id_ = user.identity
    except (AttributeError, NotImplementedError):  # a SimpleUser has none
        id_ = getattr(user, "display_name", None)
    if isinstance(id_, int | UUID):  # the key of a database, which some middleware does not convert to a text
        id_ = str(id_)
    return Principal(id_ if isinstance(id_, str) and id_ else None, scopes)


# Body

RETRY_SOON = ((b"retry-after", b"1"),)


class Bodies:
    """Reader of the request bodies of one app.

    Bodies being received share a total number of bytes, with a limit for each client. A body of known length is counted
    from its first part on, another as it is received, and one that is complete at once is not counted.

    Args:
        limits: Limits of the server.
        timeouts: Timeouts of the server.
    """

    def __init__(self, limits: Limits, timeouts: Timeouts) -> None:
        self._limit = limits.max_request_body_size
        self._total = limits.max_buffered_bytes
        self._seconds = timeouts.request_body
        self._shares = Shares()
        self._reading: set[asyncio.Task[object]] = set()
        self._is_closed = False

    def close(self) -> None:
        """Refuse the requests with bodies being received, because the server ends."""
        self._is_closed = True
        for task in self._reading:
            task.cancel()

    async def read(self, exchange: Exchange) -> bytes:
        """Read a whole body.

        Args:
            exchange: The exchange of the request, with an unread body.

        Raises:
            RefusedError: 413 for too many bytes, 408 for too much time, 503 if too many bytes are being received, 400
                for a disconnected client or a body that the HTTP server has lost, 401 for a token that was revoked
                meanwhile. It is an UnreadError if a part of the body is unread.
        """
        length = exchange.request_headers.get(b"content-length")
        declared = int(length) if length is not None and len(length) < 20 and length.isdigit() else 0
        if declared > self._limit:
            raise UnreadError(413, self._too_long)
        message: Message | None = None
        reading: Awaitable[Message] = exchange.receive()
        if iscoroutine(reading):
            try:
                reading = resume(reading, reading.send(None))
            except StopIteration as end:  # most bodies are there already, and need no timer
                message = end.value
        if message is not None and message["type"] == "http.request" and not message.get("more_body"):
            body: bytes = message.get("body", b"")
            if len(body) > self._limit:
                raise RefusedError(413, self._too_long)
        else:
            body = await self._read_in_time(message, reading, declared, exchange)
            exchange.check_access()  # again, as time has passed
        if not body:
            _check_lost(exchange.request_headers)
        return body

    async def _read_in_time(
        self, message: Message | None, reading: Awaitable[Message], declared: int, exchange: Exchange
    ) -> bytes:
        task = asyncio.current_task()
        assert task is not None
        self._reading.add(task)
        try:
            return await within(self._seconds, self._read_parts(message, reading, declared, exchange))
        except TimeoutError:
            text = f"the request body did not arrive within {self._seconds:g} seconds"
            raise UnreadError(408, text) from None
        except asyncio.CancelledError:
            if not self._is_closed or uncancel(task) > 0:
                raise
            raise UnreadError(503, "the server is shutting down. Try again later", RETRY_SOON) from None
        finally:
            self._reading.discard(task)

    async def _read_parts(
        self, message: Message | None, reading: Awaitable[Message], declared: int, exchange: Exchange
    ) -> bytes:
        shares, caller = self._shares, exchange.caller
        body = BytesIO()  # its content becomes the body without being copied
        size = counted = 0
        try:
            while True:
                if message is None:
                    message = await reading
                if message["type"] == "http.disconnect":
                    text = "the client closed the connection before the end of the request body"
                    raise RefusedError(400, text)
                has_more = message.get("more_body", False)
                size += body.write(message.get("body", b""))
                if size > self._limit:
                    raise (UnreadError if has_more else RefusedError)(413, self._too_long)
                if not has_more:
                    return body.getvalue()
                if (uncounted := max(size, declared) - counted) > 0:
                    is_alone = shares.taken == counted
                    if not is_alone and not shares.has_room(self._total, caller, uncounted):
                        excess = shares.excess(self._total, caller, uncounted)
                        text = f"the server is receiving too many bytes {excess}. Try again later"
                        raise UnreadError(503, text, RETRY_SOON)
                    shares.take(caller, uncounted)
                    counted += uncounted
                message, reading = None, exchange.receive()
        finally:
            if counted:
                shares.release(caller, counted)

    @property
    def _too_long(self) -> str:
        return (
            f"the request body is longer than {self._limit} bytes. "
            "The server can accept more: Limits(max_request_body_size=...)"
        )


def _check_lost(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a request without a body if its headers announce one.

    Raises:
        RefusedError: 400. It names uvicorn with httptools, which drops the body where a client offers an upgrade.
    """
    length = headers.get(b"content-length", b"0")
    if b"transfer-encoding" not in headers and not length.strip(b"0 \t"):
        return
    advice = ". Send a body, and check that no middleware before the app reads it"
    if b"upgrade" in headers:
        fix = "Start uvicorn with --http h11"
        advice = f": uvicorn with httptools drops the body of a request with an Upgrade header. {fix}"
    raise RefusedError(400, f"the request body is empty, although the headers announce one{advice}")


# Unread bodies of refused requests
#
# In HTTP/1 the next request follows the body, so the connection can stay open only if the body is read to its end. A
# connection that is closed while the client still sends is reset, which can lose the response (RFC 9112, 9.6). So the
# rest is read and dropped, within limits.

_SHORT_BODY = 64 * 1024  # maximum bytes of a body that is read before the response, to keep the connection

_SHORT_BODY_TIME = 1.0  # seconds for which the response waits for such a body

# Bytes that are dropped after a response, and seconds that this may take; then the connection is closed.
_MAX_DROPPED = 64 * 1024 * 1024
_DROP_TIME = 5.0


def drop_unread_body(
    scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send
) -> tuple[Receive, Send]:
    """Return ASGI channels for a request that may be refused before its body has been read.

    Args:
        scope: Scope of the request.
        headers: Headers of the request by name.
        receive: ASGI channel of the request, from which at most a part of the body has been read.
        send: ASGI channel of the response, which has not begun.
    """
    length = headers.get(b"content-length", b"0")
    is_chunked = b"transfer-encoding" in headers
    has_body = is_chunked or length.strip(b"0") != b""
    if not has_body or not scope.get("http_version", "").startswith("1"):
        return receive, send
    is_short = not is_chunked and length.isdigit() and len(length) < 10 and int(length) <= _SHORT_BODY
    unread = _UnreadBody(receive, send, is_short=is_short)
    return unread.receive, unread.send


class _UnreadBody:
    """A body, and a response that can begin before the end of the body."""

    def __init__(self, receive: Receive, send: Send, *, is_short: bool) -> None:
        self._receive, self._send, self._is_short = receive, send, is_short
        self._is_read = self._is_disconnected = self._is_closing = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_disconnected = message["type"] == "http.disconnect"
        self._is_read = self._is_disconnected or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if message["status"] >= 400:
                if self._is_short:
                    await self._drop(_SHORT_BODY_TIME)
                if not self._is_read:
                    self._is_closing = True
                    headers = [*message.get("headers", ()), (b"connection", b"close")]
                    message = {**message, "headers": headers}
            await self._send(message)
        elif self._is_closing and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._drop(_DROP_TIME)
            if not self._is_disconnected:
                await self._send({"type": "http.response.body", "body": b""})
        else:
            await self._send(message)

    async def _drop(self, seconds: float) -> None:
        async def drop() -> None:
            room = _MAX_DROPPED
            while not self._is_read and room > 0:
                room -= len((await self.receive()).get("body", b""))

        with suppress(TimeoutError):
            await within(seconds, drop())
