"""The client side of Streamable HTTP: each message is a POST request (basic/transports/streamable-http).

Versions before 2026-07-28 also have sessions, with an id and a stream of notifications (GET).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import Unpack

from ..._utils.concurrency import Listeners
from ..._utils.exceptions import TransportError
from ...execution.coroutines import uncancel, within
from ...protocol.http_headers import NAMED_BY, encode_value
from ...protocol.revisions import STATELESS
from ..client_messages import OutgoingMessage
from ..transport_interface_and_memory import TransportListener
from .event_stream_reader import EVENT_STREAM, MAX_FAILURES, MessageStream
from .http_endpoint import HttpEndpoint, HttpTransportBase, HttpTransportOptions, run_cancellable
from .http_errors import excerpt, media_type, response_with_id
from .request_authorization import Pairs, header

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

_JSON = b"application/json"
_POST_HEADERS: Pairs = [(b"Content-Type", _JSON), (b"Accept", b"application/json, text/event-stream")]

MAX_RECONNECT_WAIT = 30.0
"""The most seconds between two attempts to open the stream of notifications of an unavailable server."""

_STREAM_TIMEOUT = 1.0
"""Seconds that the first call waits for the stream of notifications (GET)."""
_DELETE_TIMEOUT = 2.0
"""Seconds for the request that ends the session."""
_SESSION_ID = re.compile(rb"[!-~]+")


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

    def __repr__(self) -> str:
        """Return a representation with the origin of the server, without secrets."""
        return f"HttpTransport({self._http.origin!r})"

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
            raise TransportError(
                f"{self!r} is closed. Open the client first: `async with Client(...)`", may_have_begun=False
            )
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
        for field, text in message.headers.items():
            headers.append((field.encode("ascii"), encode_value(text)))
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
                receiver.receive(response_with_id(message.id, error))
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

    def __init__(
        self,
        http: HttpEndpoint,
        receiver: TransportListener,
        lost: Callable[[TransportError], object],
        missed: Callable[[], object],
    ) -> None:
        self.id: bytes | None = None
        self.is_gone = False
        self._http = http
        self._receiver = receiver
        self._lost = lost
        self._missed = missed
        self._headers: Pairs = []
        self._listener: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()

    def begin(self, response: httpx2.Response) -> None:
        """Store the session id in the response to `initialize`.

        Raises:
            TransportError: The id cannot be sent in a header.
        """
        id_ = header(response, b"mcp-session-id")
        if id_ and not _SESSION_ID.fullmatch(id_):
            message = f"{self._http.origin} sent an Mcp-Session-Id with characters other than visible ASCII"
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
            self._http, self._receiver, self._headers, connected=self._is_listening.set, missed=self._missed
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
                    self._lost(error)
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
        response = await self._http.request("DELETE", self._headers, may_ask=False)
        await self._http.finish(response)
