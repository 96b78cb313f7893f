"""Response to one HTTP request: one JSON object, or an event stream once a message precedes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

from ..._utils import exceptions as errors
from ..._utils.exceptions import BusyError, ChallengeError, ProtocolError
from ...execution.coroutines import resume, within
from ...identity.principals_and_scopes import ANYONE, Principal
from ...protocol.http_headers import caller_at
from ...requests.requests_to_client import NO_HEADERS

if TYPE_CHECKING:
    from ...auth.verifier import AccessToken

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

logger = logging.getLogger(__name__)

# Status and headers

_STATUS = {
    errors.PARSE_ERROR: 400,
    errors.INVALID_REQUEST: 400,
    errors.HEADER_MISMATCH: 400,
    errors.MISSING_CLIENT_CAPABILITY: 400,
    errors.UNSUPPORTED_PROTOCOL_VERSION: 400,
    errors.METHOD_NOT_FOUND: 404,
}

_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_EVENT_STREAM = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)

# The status of a request after which the client has closed the connection, as nginx logs it.
_CLIENT_CLOSED = 499


def status_of(problem: BaseException | None, statuses: Mapping[int, int] = _STATUS) -> int:
    """Return the HTTP status of a response.

    Args:
        problem: The error, if there was one.
        statuses: Statuses by error code, where they are not 200; by default those of the stateless era.
    """
    if isinstance(problem, BusyError | ChallengeError):
        return problem.status
    if isinstance(problem, errors.MissingCapabilityError | errors.MalformedError):
        return statuses.get(errors.MISSING_CLIENT_CAPABILITY, 200)
    return statuses.get(problem.code, 200) if isinstance(problem, ProtocolError) else 200


def headers_of(problem: BaseException | None) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of a response that an error requires."""
    if isinstance(problem, ChallengeError):
        return ((b"www-authenticate", problem.challenge.encode()),)
    return ((b"retry-after", b"%d" % problem.retry_after),) if isinstance(problem, BusyError) else ()


class RefusedError(Exception):
    """The request is refused before its message is processed.

    Args:
        status: The HTTP status.
        text: One line of text that contains the fix.
        headers: Headers of the response.
    """

    def __init__(self, status: int, text: str, headers: Headers = ()) -> None:
        super().__init__(status, text)
        self.status, self.text, self.headers = status, text, headers


async def respond(
    send: Send,
    status: int,
    body: bytes = b"",
    headers: Headers = (),
    content_type: tuple[bytes, bytes] = _JSON,
) -> None:
    """Send a JSON response, or an empty one."""
    fields = [(b"content-length", b"%d" % len(body)), *headers]
    if body:
        fields.insert(0, content_type)
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def refuse(send: Send, status: int, text: str, headers: Headers = ()) -> Awaitable[None]:
    """Send one line of plain text."""
    return respond(send, status, text.encode() + b"\n", headers, _TEXT)


# Event streams

# Bytes queued for a client above which it must read before it sends more requests.
MAX_QUEUED = 16 * 1024 * 1024

# Seconds in which a client must read one piece of a stream. After that it counts as disconnected.
READ_TIMEOUT = 30.0

PIECE = 64 * 1024  # bytes of a stream that are passed to the ASGI server at once

# Number of events, and of bytes, in the queue before `ready` waits for the client.
MAX_READY_EVENTS, MAX_READY_BYTES = 64, 1024 * 1024

LOST = (OSError, RuntimeError)  # exceptions of servers for a disconnected client; uvloop raises the second

_PING = b":\n\n"


def event(data: bytes, id_: str | None = None) -> bytes:
    """Return a message as a server-sent event."""
    if id_ is None:
        return b"event: message\ndata: " + data + b"\n\n"
    return b"".join((b"id: ", id_.encode(), b"\nevent: message\ndata: ", data, b"\n\n"))


class Source:
    """Source of the events of an exchange, notified of its connection. The methods of this base class do nothing."""

    __slots__ = ()

    def opened(self) -> None:
        """Handle that the exchange became an event stream before any message."""

    def headers(self) -> Headers:
        """Return additional headers for a starting event stream."""
        return ()

    def refill(self) -> Iterable[bytes]:
        """Return more events, after all have been sent."""
        return ()

    def lost(self, exchange: Exchange) -> None:
        """Handle the end of an exchange: the client disconnected, does not read, or has received everything."""


_NO_SOURCE = Source()

# States of a response
UNDECIDED = 0  # nothing has been sent
ANSWERED = 1  # the response is one JSON object
_STREAMING = 2  # the response is an event stream that can take more events
_ENDING = 3  # the last event of the stream is queued, though perhaps not sent
_GONE = 4  # the client has disconnected, does not read, or has received everything

# Allowed next states, by state.
_NEXT = ((ANSWERED, _STREAMING, _ENDING, _GONE), (_GONE,), (_STREAMING, _ENDING, _GONE), (_GONE,), ())


class Exchange:
    """One HTTP request and its response.

    It is the channel of a call without a session. All methods except `run` return immediately.

    Args:
        receive: ASGI channel of the request. Its body has been read before anything is sent.
        send: ASGI channel of the response.
        keep_alive: Seconds without an event after which a comment is sent on a stream.
        request_headers: Headers of the request, by lower-case name.
        principal: Principal of the client.
        peer: Address and port of the client, as in the ASGI scope; None if unknown.

    Attributes:
        state: State of the response, such as `ANSWERED`.
        may_stream: Whether the client accepts an event stream.
        is_local: Always False; see `Channel`.
        receive: ASGI channel of the request.
        asgi_send: ASGI channel of the response.
        grant: The verified access token of the request; None without one.
        standalone: None: without a session the client only receives messages of its request.
        questions: None: the server sends no requests, because without a session the client could not answer.
    """

    # Most exchanges are one answer, and never change what only streams have.
    state: int = UNDECIDED
    may_stream = True
    is_local = False
    grant: AccessToken | None = None
    standalone = None
    questions = None
    _is_response_deferred = False
    _source = _NO_SOURCE
    _answer: bytes | None = None
    _answer_headers: Headers = ()
    _status = 200
    _queued = 0
    _waiter: asyncio.Future[None] | None = None
    _room: asyncio.Future[None] | None = None

    def __init__(
        self,
        receive: Receive,
        send: Send,
        keep_alive: float,
        request_headers: Mapping[bytes, bytes] = NO_HEADERS,
        principal: Principal = ANYONE,
        peer: tuple[str, int] | None = None,
    ) -> None:
        self.request_headers = request_headers
        self.principal = principal
        self.receive = receive
        self.peer = peer
        self.asgi_send = send
        self._keep_alive = keep_alive
        self._queue: list[bytes] = []

    # The client. Requests with access tokens override these methods.

    @property
    def caller(self) -> str | None:
        """Key of the client: its principal, or else its address; see `caller_at`."""
        if self.principal.id is not None:
            return f"principal {self.principal.id!r}"
        return None if self.peer is None else caller_at(self.peer[0])

    def challenge(self, scopes: Sequence[str], revision: str) -> ChallengeError | None:
        """Return the challenge for missing scopes, if the status has not been sent yet."""
        return None

    def dismissal(self) -> ChallengeError | None:
        """Return the challenge for a token that is no longer valid, if the status has not been sent yet."""
        return None

    def check_access(self) -> None:
        """Check that the access token has not been revoked since the request arrived.

        Raises:
            RefusedError: It was revoked (401).
        """

    # Messages

    def attach(self, source: Source) -> None:
        """Take events from a source from now on, until the exchange ends or another source is attached."""
        if self.state == _GONE:
            source.lost(self)
        else:
            self._source = source

    def send(self, message: bytes) -> None:
        """Send a message before the response, as an event of a stream."""
        if self.may_stream:
            self.push(event(message))

    async def ready(self) -> None:
        """Wait until the client has read enough."""
        while (len(self._queue) > MAX_READY_EVENTS or self._queued > MAX_READY_BYTES) and self.state != _GONE:
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)

    async def close(self) -> None:
        """Stay open: without a session the client could not reconnect."""

    def defer_response(self) -> None:
        """Do not become an event stream just because time passes."""
        self._is_response_deferred = True

    def push(self, chunk: bytes) -> None:
        """Send a part of the event stream, whole events or comments.

        It is queued regardless of its size, because a result must be delivered. Messages before a result wait for
        `ready`. A client that reads nothing is disconnected after a time, not because of the size of the queue.
        """
        if self._enter(_STREAMING):
            self._queue.append(chunk)
            self._queued += len(chunk)
            self.wake()

    @property
    def is_behind(self) -> bool:
        """True if so much is queued that the client must read before it sends more requests."""
        return self._queued > MAX_QUEUED and sum(map(len, self._queue)) > MAX_QUEUED

    def open_stream(self) -> None:
        """Become an event stream, if the client accepts one."""
        if self.may_stream and self._enter(_STREAMING):
            self._source.opened()
            self.wake()

    def reply(self, message: bytes | None, problem: BaseException | None) -> None:
        """Accept the response to the request, or None if there is none, and the error if there was one."""
        if problem is None:
            self.answer(message)
        else:
            self.answer(message, status_of(problem), headers_of(problem))

    def answer(self, message: bytes | None, status: int = 200, headers: Headers = ()) -> None:
        """Send the response as JSON, or as the last event of the stream.

        Args:
            message: The response; None for none.
            status: The status, if no stream has started.
            headers: Additional headers, if no stream has started.
        """
        if self.state == UNDECIDED:  # as `_enter` does, without its cost for each call
            self.state = ANSWERED
            self._answer, self._status, self._answer_headers = message, status, headers
            self._source = _NO_SOURCE  # the source need not refer to this any more
            if self._waiter is not None:
                self.wake()
        else:
            if message is not None:
                self.push(event(message))
            self.finish()

    def finish(self) -> None:
        """End the stream after the queued events. Without any, it is an empty stream."""
        if self._enter(_ENDING):
            self.wake()

    def hang_up(self) -> None:
        """End the exchange, and detach its source."""
        if self._enter(_GONE):
            self._queue.clear()
            self._queued = 0
            source, self._source = self._source, _NO_SOURCE
            source.lost(self)
            self._make_room()
            self.wake()

    def _enter(self, state: int) -> bool:
        """Enter a state and return True, if the current state allows it."""
        if state not in _NEXT[self.state]:
            return False
        self.state = state
        return True

    def wake(self) -> None:
        """Make `run` check again for data to send."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Sending

    async def run(self, stream_after: float | None = None) -> None:
        """Send everything, until the end or until the client disconnects.

        Args:
            stream_after: Seconds after which the response becomes an event stream, so that the client receives its
                headers.
        """
        loop = asyncio.get_running_loop()
        watching = loop.create_task(self._watch_disconnect())
        timer = loop.call_later(stream_after, self._open_in_time) if stream_after is not None else None
        try:
            while self.state == UNDECIDED:
                await self._wait(None)
            if self.state == ANSWERED:
                await self.respond()
            elif self.state == _GONE:
                await self.respond_disconnected()
            else:
                await self._stream()
        except LOST:
            self.hang_up()
        finally:
            watching.cancel()
            if timer is not None:
                timer.cancel()
            self.hang_up()

    async def respond(self) -> None:
        """Send the complete response."""
        body = self._answer or b""
        headers = [(b"content-length", b"%d" % len(body)), *self._answer_headers]
        if body:
            headers.insert(0, _JSON)
        try:  # as the function `respond` does, without one more coroutine for each call
            await self.asgi_send({"type": "http.response.start", "status": self._status, "headers": headers})
            await self.asgi_send({"type": "http.response.body", "body": body})
        except LOST:
            self.hang_up()

    async def respond_disconnected(self) -> None:
        """Send a response to a client that disconnected before the response began.

        It does not arrive. Middleware such as Starlette's BaseHTTPMiddleware raises an error for an app that ends
        without a response, and may log the status.
        """
        with suppress(*LOST):
            await respond(self.asgi_send, _CLIENT_CLOSED)

    async def wait_for(self, work: Coroutine[Any, Any, None]) -> bool:
        """Wait for a coroutine before anything is served, and return False if the client disconnects meanwhile."""
        loop = asyncio.get_running_loop()
        tasks = (loop.create_task(self._watch_disconnect()), loop.create_task(work))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        return self.state != _GONE

    async def _watch_disconnect(self) -> None:
        try:
            while (await self.receive())["type"] != "http.disconnect":
                pass
        except Exception:  # of middleware; after any exception, nothing more is received from the client
            logger.debug("reading from the client failed, so it is treated as disconnected", exc_info=True)
        self.hang_up()

    def _open_in_time(self) -> None:
        if not self._is_response_deferred:
            self.open_stream()

    async def _stream(self) -> None:
        headers = [*_EVENT_STREAM, *self._source.headers()]
        await self._write({"type": "http.response.start", "status": 200, "headers": headers})
        is_last = False
        while not is_last and self.state != _GONE:
            if not self._queue:
                self._queue.extend(self._source.refill())
            chunk = b"".join(self._queue)
            self._queue.clear()
            self._queued = len(chunk)
            is_last = self.state == _ENDING
            if not chunk and not is_last:
                await self._wait(self._keep_alive)
                continue
            for start in range(0, len(chunk) or 1, PIECE):
                piece = chunk[start : start + PIECE]
                more = not is_last or start + PIECE < len(chunk)
                await self._write({"type": "http.response.body", "body": piece, "more_body": more})
                if self.state == _GONE:
                    break
                self._queued -= len(piece)
            self._make_room()

    async def _write(self, message: Message) -> None:
        """Send a part of the stream. A client that reads nothing for too long is disconnected."""
        sending = self.asgi_send(message)
        if iscoroutine(sending):
            try:
                sending = resume(sending, sending.send(None))
            except StopIteration:  # usually there is room, and no timer is needed
                return
        await within(READ_TIMEOUT, sending)

    async def _wait(self, seconds: float | None) -> None:
        """Wait until there may be data to send. After some seconds a comment is sent."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        ping = loop.call_later(seconds, self.push, _PING) if seconds is not None else None
        try:
            await self._waiter
        finally:
            self._waiter = None
            if ping is not None:
                ping.cancel()

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set_result(None)
            self._room = None
