"""HTTP transports for clients: Streamable HTTP (basic/transports/streamable-http), and HTTP+SSE of 2024-11-05.

With Streamable HTTP each message is a POST request. Versions before 2026-07-28 also have sessions, with an id and a
stream of notifications (GET). HTTP+SSE, deprecated since 2025-03-26, has one event stream, whose first event is the URL
to which messages are posted.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import Unpack

from ..._utils.concurrency import Listeners
from ..._utils.exceptions import TransportError
from ...execution.coroutines import uncancel, within
from ...protocol import jsonrpc
from ...protocol.http_headers import NAMED_BY, encode_value
from ...protocol.jsonrpc import RequestId
from ...protocol.revisions import STATELESS
from ..client_messages import OutgoingMessage
from ..transport_interface_and_memory import TransportListener
from .event_stream_reader import EVENT_STREAM, MAX_FAILURES, EventParser, MessageStream, TooLargeEventError
from .headers_and_errors import Pairs, excerpt, header, media_type, printable
from .http_endpoint import HttpEndpoint, HttpTransportOptions

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)
T = TypeVar("T")

_JSON = b"application/json"
_POST_HEADERS: Pairs = [(b"Content-Type", _JSON), (b"Accept", b"application/json, text/event-stream")]

MAX_RECONNECT_WAIT = 30.0
"""The most seconds between two attempts to open the stream of notifications of an unavailable server."""

_STREAM_TIMEOUT = 1.0
"""Seconds that the first call waits for the stream of notifications (GET)."""
_DELETE_TIMEOUT = 2.0
"""Seconds for the request that ends the session."""
_SESSION_ID = re.compile(rb"[!-~]+")


class HttpTransportBase:
    """The authorization of an HTTP transport, as `HasAuthorization` describes it.

    Args:
        http: Sends the requests.
    """

    def __init__(self, http: HttpEndpoint) -> None:
        self._http = http

    def __repr__(self) -> str:
        """Return a representation with the origin of the server, without secrets."""
        return f"{type(self).__name__}({self._http.origin!r})"

    @property
    def is_authorizing(self) -> bool:
        """Whether an access token is being obtained, for example from a user."""
        return self._http.authorizer is not None and self._http.authorizer.is_busy

    def _closed(self) -> TransportError:
        message = f"{self!r} is closed. Open the client first: `async with Client(...)`"
        return TransportError(message, may_have_begun=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The access tokens in use."""
        return () if self._http.authorizer is None else self._http.authorizer.secrets

    @property
    def reauthorized(self) -> Listeners[[]]:
        """Called when messages carry another token from now on."""
        return self._http.reauthorized


async def run_cancellable(exchange: Callable[[], Awaitable[T]]) -> T:
    """Run httpx2 requests in their own task, so that cancelling them leaves no connection open.

    Starting or ending a request closes the connections that servers have dropped. If asyncio cancels that, httpx2 loses
    the remaining ones. If an anyio cancel scope does, httpx2 closes them first.
    """
    import anyio

    async def run() -> T | None:
        try:
            with scope:
                return await exchange()
        finally:
            if not ended.done():
                ended.set_result(None)
        return None

    scope = anyio.CancelScope()
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    task = loop.create_task(run())
    try:
        await ended
    except asyncio.CancelledError:
        scope.cancel()
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # it is no longer of interest
        raise
    return task.result()  # type: ignore[return-value]  # the scope is cancelled only above


# Streamable HTTP


class HttpTransport(HttpTransportBase):
    """Streamable HTTP transport to a server at a URL, for all protocol versions.

    Redirects are followed if they keep method and body (307, 308) and lead to the same origin. Other redirects are
    errors. Several tasks may use one transport, and any of them may close it.

    Args:
        url: The URL of the server. User and password in it are sent as Basic authentication.
        options: The options of `HttpEndpoint`: `headers=`, `token=`, `auth=`, `verify=`, `cert=`, `proxy=`,
            `trust_env=`, `http_client=`, `app=`, `connect_timeout=` and `max_answer=`.

    Attributes:
        missed: Called when notifications may have been missed: the stream of a session was lost and could not be
            resumed.

    Raises:
        ValueError: The URL is not an HTTP URL, a header cannot be sent, or options contradict each other.
    """

    is_http = True

    def __init__(self, url: str, **options: Unpack[HttpTransportOptions]) -> None:
        super().__init__(HttpEndpoint(url, **options))
        self.missed: Listeners[[]] = Listeners()
        self._receiver: TransportListener | None = None
        self._session: HttpSession | None = None
        self._sending: dict[asyncio.Task[object], TransportError | None] = {}
        self._has_several = False  # whether there may be several idle connections

    async def open(self, receiver: TransportListener) -> None:
        """Prepare for sending. Nothing is connected yet.

        Raises:
            ImportError: httpx2 is not installed.
            OSError: A file of `verify` or `cert` cannot be read.
        """
        self._http.open()
        self._receiver = receiver
        self._session = self._new_session(receiver)

    def _new_session(self, receiver: TransportListener) -> HttpSession:
        return HttpSession(self._http, receiver, self._report_loss, self.missed.notify)

    async def close(self) -> None:
        """Cancel pending requests, and close the session and the connections. Closing it again does nothing."""
        session, self._session = self._session, None
        if session is None:
            return
        self._interrupt(TransportError("the transport was closed", may_have_begun=True, may_pass=False))
        try:
            await session.close(sends_delete=True)
        finally:
            await self._http.close()

    async def listening(self) -> bool:
        """Wait until the stream of notifications is open or known to be unavailable, and return whether it is open."""
        return self._session is not None and await self._session.listening()

    def _report_loss(self, error: TransportError) -> None:
        error.may_have_begun = True  # for pending requests, unlike the request that failed
        if self._receiver is not None:
            self._receiver.connection_lost(error)
        self._interrupt(error)

    def _interrupt(self, error: TransportError) -> None:
        """Fail all pending requests with an error."""
        for task, reason in self._sending.items():
            if reason is None:
                self._sending[task] = error
                task.cancel()

    async def send(self, message: OutgoingMessage) -> None:
        """Send a message. For a request, pass on all messages until its response.

        Raises:
            TransportError: The message could not be sent, or its response was lost. An `AuthorizationError` is raised
                for 401 and 403, and a `StatusError` for other error statuses.
        """
        if message.method == "notifications/cancelled" and message.revision in STATELESS:
            return  # closing the response cancels the request (basic/patterns/cancellation)
        session, receiver = self._session, self._receiver
        if session is None or receiver is None:
            raise self._closed()
        task = asyncio.current_task()
        assert task is not None
        self._sending[task] = None
        self._has_several |= len(self._sending) > 1
        exchange = partial(self._exchange, message, session, receiver)
        try:
            await (run_cancellable(exchange) if self._has_several else exchange())
        except TransportError as error:
            session.is_gone |= error.session_is_gone
            raise
        except asyncio.CancelledError:
            interrupted = self._sending[task]
            if interrupted is None or uncancel(task) > 0:
                raise
            raise interrupted from None
        finally:
            del self._sending[task]

    async def _exchange(
        self, message: OutgoingMessage, session: HttpSession, receiver: TransportListener
    ) -> None:
        if message.method == "initialize":
            previous, session = session, self._new_session(receiver)
            self._session = session
            await previous.close(sends_delete=False)
        headers = [*_POST_HEADERS, *session.headers(message.revision)]
        if message.revision in STATELESS and message.method is not None:
            headers.append((b"Mcp-Method", encode_value(message.method)))
            name = message.params.get(NAMED_BY.get(message.method, ""))
            if isinstance(name, str):
                headers.append((b"Mcp-Name", encode_value(name)))
        for name, text in message.headers.items():
            headers.append((name.encode("ascii"), encode_value(text)))
        has_session = session.id is not None
        response = await self._http.request("POST", headers, message.line)
        try:
            if not 200 <= response.status_code < 300:
                refusal = await self._http.error_response(response)
                negotiated = None if message.method == "server/discover" else message.revision
                is_other = refusal.is_other_revision(negotiated)
                error = None if is_other else refusal.json_error(has_session=has_session)
                if message.id is None or error is None:
                    raise refusal.as_error(has_session=has_session, is_other_revision=is_other)
                receiver.receive(jsonrpc.encode({**error, "id": message.id}))
            elif message.id is None:
                await self._http.finish(response)
            else:
                if message.method == "initialize":
                    session.begin(response)
                await self._receive(message, session, receiver, response)
        finally:
            await response.aclose()
        if message.method == "notifications/initialized":
            await session.listen(message.revision)

    async def _receive(
        self,
        message: OutgoingMessage,
        session: HttpSession,
        receiver: TransportListener,
        response: httpx2.Response,
    ) -> None:
        """Pass on messages until the response to a request."""
        assert message.id is not None
        kind = media_type(response)
        if kind == EVENT_STREAM:
            stream = MessageStream(self._http, receiver, session.headers(message.revision), message.id)
            await stream.follow_until_response(response, may_resume=message.revision not in STATELESS)
        elif kind == _JSON:
            body = await self._http.read(response)
            receiver.receive(body, message.id)
            if receiver.is_pending(message.id):
                text = excerpt(body) or "an empty body"
                raise TransportError(
                    f"{self._http.origin} answered the request {message.id!r} with JSON that is not "
                    f"its response, which is a fault of the server: {text}",
                    may_have_begun=True,
                )
        else:
            raise await self._http.unexpected_response(response)


@dataclass(eq=False)
class HttpSession:
    """A session of versions before 2026-07-28 (basic/transports, "Session Management").

    In 2026-07-28 an object without an id stands for it.

    Args:
        http: Sends requests.
        receiver: Receives the messages of the stream.
        lost: Called when the server no longer knows the session.
        missed: Called when notifications may have been missed.

    Attributes:
        id: The session id; None if there is no session.
        is_gone: Whether the server no longer knows the session.
    """

    http: HttpEndpoint
    receiver: TransportListener
    lost: Callable[[TransportError], object]
    missed: Callable[[], object]
    id: bytes | None = None
    is_gone: bool = False
    _headers: Pairs = field(default_factory=list[tuple[bytes, bytes]])
    _listener: asyncio.Task[None] | None = None
    _is_listening: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self, response: httpx2.Response) -> None:
        """Store the session id in the response to `initialize`.

        Raises:
            TransportError: The id cannot be sent in a header.
        """
        id_ = header(response, b"mcp-session-id")
        if id_ and not _SESSION_ID.fullmatch(id_):
            message = f"{self.http.origin} sent an Mcp-Session-Id with characters other than visible ASCII"
            raise TransportError(message, may_have_begun=True, may_pass=False)
        self.id = id_ or None
        self._headers = self.headers(None)

    def headers(self, revision: str | None) -> Pairs:
        """Return the headers of all requests of the session."""
        headers: Pairs = []
        if revision is not None:
            headers.append((b"MCP-Protocol-Version", revision.encode("ascii")))
        if self.id is not None:
            headers.append((b"Mcp-Session-Id", self.id))
        return headers

    async def listen(self, revision: str | None) -> None:
        """Open the stream of notifications if there is a session, and wait up to a second for it.

        Servers may send requests on it during a call. Some drop them if the stream is not open yet.
        """
        self._headers = self.headers(revision)
        if self.id is not None and self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._listen())
            with suppress(TimeoutError):
                await within(_STREAM_TIMEOUT, self.listening())

    async def listening(self) -> bool:
        """Wait until the stream is open or known to be unavailable, and return whether it is open."""
        if self._listener is None:
            return False
        waiting = asyncio.ensure_future(self._is_listening.wait())
        try:
            await asyncio.wait((waiting, self._listener), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        return self._is_listening.is_set()

    async def _listen(self) -> None:
        stream = MessageStream(
            self.http, self.receiver, self._headers, connected=self._is_listening.set, missed=self.missed
        )
        while True:
            try:
                broken = await run_cancellable(stream.connect)
                assert broken is not None, "the stream must not answer a request"
            except TransportError as error:
                if not stream.connections:
                    return  # the server has no such stream
                if error.session_is_gone:
                    self.is_gone = True
                    self.lost(error)
                    return
                stream.events.last_id = None  # the server may have a stream, but not from that event on
                broken = error
            except Exception:
                logger.exception(
                    "authentication failed with an exception; the client no longer receives notifications and "
                    "requests of the server. Correct auth=, and open the client again"
                )
                return
            if not stream.connections and stream.failures >= MAX_FAILURES:
                return
            # An unavailable server may come back. Meanwhile calls raise the error.
            wait = stream.wait(broken)
            await asyncio.sleep(max(wait, min(MAX_RECONNECT_WAIT, wait * 2 ** min(stream.failures - 1, 10))))

    async def close(self, *, sends_delete: bool) -> None:
        """End the session.

        Args:
            sends_delete: Whether to send DELETE. The server may refuse it (405), and has two seconds.
        """
        self._is_listening.clear()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait((self._listener,))
        if self.id is not None and sends_delete and not self.is_gone:
            with suppress(Exception):  # closing does not depend on the server
                await within(_DELETE_TIMEOUT, self._delete())

    async def _delete(self) -> None:
        response = await self.http.request("DELETE", self._headers, may_ask=False)
        await self.http.finish(response)


# HTTP+SSE

_POST_TIMEOUT = 10.0
"""Seconds that a server has to accept a POST after it sent the response on another stream."""


class SseTransport(HttpTransportBase):
    """The HTTP+SSE transport of 2024-11-05.

    Args:
        url: The URL of the event stream.
        options: The options of `HttpTransport`. `connect_timeout` is also the time limit for the `endpoint` event.

    Raises:
        ValueError: The URL is not an HTTP URL, a header cannot be sent, or options contradict each other.
    """

    def __init__(self, url: str, **options: Unpack[HttpTransportOptions]) -> None:
        super().__init__(HttpEndpoint(url, **options))
        self._reader: asyncio.Task[None] | None = None
        self._endpoint: asyncio.Future[httpx2.URL] | None = None
        self._posting: set[asyncio.Task[None]] = set()
        self._cancelled: set[asyncio.Task[None]] = set()
        self._answered: dict[RequestId, asyncio.Future[None]] = {}

    async def open(self, receiver: TransportListener) -> None:
        """Open the event stream, and wait for the `endpoint` event.

        Raises:
            TransportError: There is no such stream, or it sent no endpoint of the same origin in time. An
                `AuthorizationError` is raised for 401 and 403.
        """
        self._http.open()
        loop = asyncio.get_running_loop()
        endpoint = self._endpoint = loop.create_future()
        read = partial(self._read, receiver, endpoint)
        self._reader = loop.create_task(run_cancellable(read), name="mcpkit-sse")
        # Reported when the task is done, so that messages that are sent from then on fail at once.
        self._reader.add_done_callback(partial(self._report_end, receiver, endpoint))
        seconds = self._http.connect_timeout
        try:
            await within(seconds, asyncio.shield(endpoint), lambda: self.is_authorizing)
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                message = f"{self._http.origin} did not send the endpoint for messages within {seconds:g} s"
                raise TransportError(message, may_have_begun=False) from None
            raise

    async def send(self, message: OutgoingMessage) -> None:
        """Post a message, and return when the server has accepted it, or responded on the stream.

        Raises:
            TransportError: The server did not accept it, or the stream has ended meanwhile.
        """
        reader, endpoint = self._reader, self._endpoint
        if reader is None or endpoint is None or reader.done():
            raise self._closed()
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        if message.id is not None:
            self._answered[message.id] = answered
        posting = loop.create_task(run_cancellable(partial(self._post, endpoint.result(), message)))
        self._posting.add(posting)
        posting.add_done_callback(self._posted)
        try:
            await asyncio.wait((posting, answered, reader), return_when=asyncio.FIRST_COMPLETED)
            if posting.done() and not posting.cancelled():  # the latter by `close`
                posting.result()
            elif not answered.done():
                raise self._ended()
        finally:
            if message.id is not None:
                del self._answered[message.id]
            if answered.done() and not posting.done():
                loop.call_later(_POST_TIMEOUT, self._cancel, posting)
            else:
                self._cancel(posting)
                await asyncio.wait((posting,))

    async def close(self) -> None:
        """Close the stream, which ends the session. Closing it again does nothing."""
        reader, self._reader = self._reader, None
        try:
            if reader is not None:
                reader.cancel()
                for posting in tuple(self._posting):
                    self._cancel(posting)
                await asyncio.wait((reader, *self._cancelled))
        finally:
            await self._http.close()

    def _cancel(self, posting: asyncio.Task[None]) -> None:
        """Cancel a POST request once: a second cancellation would keep it from closing its connection."""
        if posting in self._posting:
            self._posting.remove(posting)
            self._cancelled.add(posting)
            posting.cancel()

    def _posted(self, posting: asyncio.Task[None]) -> None:
        self._posting.discard(posting)
        self._cancelled.discard(posting)
        if not posting.cancelled():
            posting.exception()  # raised by `send`, unless the answer was there before

    async def _post(self, endpoint: httpx2.URL, message: OutgoingMessage) -> None:
        headers: Pairs = [(b"Content-Type", b"application/json")]
        if message.revision is not None:
            headers.append((b"MCP-Protocol-Version", message.revision.encode()))
        response = await self._http.request("POST", headers, message.line, endpoint)
        try:
            if not 200 <= response.status_code < 300:
                raise (await self._http.error_response(response)).as_error(has_session=True)
            await self._http.finish(response)
        finally:
            await response.aclose()

    async def _read(self, receiver: TransportListener, endpoint: asyncio.Future[httpx2.URL]) -> None:
        """Pass on the messages of the stream until its end."""
        http = self._http
        response = await http.request("GET", [(b"Accept", EVENT_STREAM)])
        try:
            if not 200 <= response.status_code < 300:
                raise (await http.error_response(response)).as_error(has_session=False)
            if media_type(response) != EVENT_STREAM:
                raise await http.unexpected_response(response)
            http.check_coding(response)
            events = EventParser(http.max_answer)
            async with aclosing(response.aiter_bytes()) as pieces:
                async for piece in pieces:
                    for event in events.feed(piece):
                        if event.name == b"message":
                            receiver.receive(event.data)
                            for id_, answered in self._answered.items():
                                if not receiver.is_pending(id_) and not answered.done():
                                    answered.set_result(None)
                        elif event.name == b"endpoint" and not endpoint.done():
                            endpoint.set_result(self._endpoint_url(response.url, event.data))
        except TooLargeEventError:
            raise http.too_large() from None
        finally:
            await response.aclose()

    def _endpoint_url(self, url: httpx2.URL, data: bytes) -> httpx2.URL:
        reference = data.decode("utf-8", "replace")
        target = self._http.within_origin(url, reference)
        if target is None:
            raise TransportError(
                f"{self._http.origin} sent {printable(reference)} as the endpoint for messages, which has "
                "another origin. The client sends nothing there. The server must use its own origin",
                may_have_begun=False,
                may_pass=False,
            )
        return target

    def _report_end(
        self, receiver: TransportListener, endpoint: asyncio.Future[httpx2.URL], reader: asyncio.Task[None]
    ) -> None:
        if reader.cancelled() or reader is not self._reader:
            return  # by `close`
        error = reader.exception()
        if error is None:
            error = self._ended()
        elif not isinstance(error, TransportError):
            cause, error = error, self._http.error_for(error)
            error.__cause__ = cause
        if endpoint.done():
            receiver.connection_lost(error)
        else:
            error.may_have_begun = False  # no message has been sent
            endpoint.set_exception(error)

    def _ended(self) -> TransportError:
        return TransportError(f"{self._http.origin} closed its event stream", may_have_begun=True)
