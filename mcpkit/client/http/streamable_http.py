"""The client side of Streamable HTTP: each message is a POST request (basic/transports/streamable-http)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import Unpack

from ..._utils.concurrency import Listeners
from ..._utils.exceptions import TransportError
from ...execution.coroutines import uncancel
from ...protocol.http_headers import NAMED_BY, encode_value
from ...protocol.revisions import STATELESS
from ..client_messages import OutgoingMessage
from ..link.transport import TransportListener
from .authorized import Authorized
from .cancellation import unhurt
from .headers import Pairs
from .http_client import HttpClient
from .options import HttpOptions
from .session import HttpSession
from .status import answer_to, excerpt, media_type, refused, unexpected
from .stream import EVENT_STREAM, MessageStream

if TYPE_CHECKING:
    import httpx2

_JSON = b"application/json"
_POSTED: Pairs = [(b"Content-Type", _JSON), (b"Accept", b"application/json, text/event-stream")]


class HttpTransport(Authorized):
    """Streamable HTTP transport to a server at a URL, for all protocol versions.

    Redirects are followed if they keep method and body (307, 308) and lead to the same origin. Other redirects are
    errors. Several tasks may use one transport, and any of them may close it.

    Args:
        url: The URL of the server. User and password in it are sent as Basic authentication.
        options: The options of `HttpClient`: `headers=`, `token=`, `auth=`, `verify=`, `cert=`, `proxy=`, `trust_env=`,
            `http_client=`, `app=`, `connect_timeout=` and `max_answer=`.

    Attributes:
        missed: Called when notifications may have been missed: the stream of a session was lost and could not be
            resumed.

    Raises:
        ValueError: The URL is not an HTTP URL, a header cannot be sent, or options contradict each other.
    """

    is_http = True

    def __init__(self, url: str, **options: Unpack[HttpOptions]) -> None:
        super().__init__(HttpClient(url, **options))
        self.missed: Listeners[[]] = Listeners()
        self._receiver: TransportListener | None = None
        self._session: HttpSession | None = None
        self._sending: dict[asyncio.Task[object], TransportError | None] = {}
        self._has_several = False  # connections that may be kept

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
        self._session = self._begin(receiver)

    def _begin(self, receiver: TransportListener) -> HttpSession:
        return HttpSession(self._http, receiver, self._lose, self.missed.notify)

    async def close(self) -> None:
        """Cancel pending requests, and close the session and the connections. Closing it again does nothing."""
        session, self._session = self._session, None
        if session is None:
            return
        self._interrupt(TransportError("the transport was closed", may_have_begun=True, may_pass=False))
        try:
            await session.close(says_farewell=True)
        finally:
            await self._http.close()

    async def listening(self) -> bool:
        """Wait until the stream of notifications is open or known to be unavailable, and return whether it is open."""
        return self._session is not None and await self._session.listening()

    def _lose(self, error: TransportError) -> None:
        error.may_have_begun = True  # what was asked before: only the request that has found out has not
        if self._receiver is not None:
            self._receiver.connection_lost(error)
        self._interrupt(error)

    def _interrupt(self, error: TransportError) -> None:
        """Fail all pending requests with an error."""
        for task, why in self._sending.items():
            if why is None:
                self._sending[task] = error
                task.cancel()

    async def send(self, message: OutgoingMessage) -> None:
        """Send a message. For a request, pass on all messages until its response.

        Raises:
            TransportError: The message could not be sent, or its response was lost. An `AuthorizationError` is raised
                for 401 and 403, and a `StatusError` for other error statuses.
        """
        if message.method == "notifications/cancelled" and message.revision in STATELESS:
            return  # the response was closed, which says so (basic/patterns/cancellation)
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
            await (unhurt(exchange) if self._has_several else exchange())
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
            ended, session = session, self._begin(receiver)
            self._session = session
            await ended.close(says_farewell=False)
        headers = self._headers(message, session)
        has_session = session.id is not None
        response = await self._http.ask("POST", headers, message.line)
        try:
            if not 200 <= response.status_code < 300:
                refusal = await refused(self._http, response)
                agreed = None if message.method == "server/discover" else message.revision
                is_another = refusal.is_of_another_revision(agreed)
                error = None if is_another else refusal.answer(has_session=has_session)
                if message.id is None or error is None:
                    raise refusal.as_error(has_session=has_session, is_of_another_revision=is_another)
                receiver.receive(answer_to(message.id, error))
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

    @staticmethod
    def _headers(message: OutgoingMessage, session: HttpSession) -> Pairs:
        headers = [*_POSTED, *session.headers(message.revision)]
        if message.revision in STATELESS and message.method is not None:
            headers.append((b"Mcp-Method", encode_value(message.method)))
            name = message.params.get(NAMED_BY.get(message.method, ""))
            if isinstance(name, str):
                headers.append((b"Mcp-Name", encode_value(name)))
        for field, text in message.headers.items():
            headers.append((field.encode("ascii"), encode_value(text)))
        return headers

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
            await stream.follow_to_the_answer(response, may_resume=message.revision not in STATELESS)
        elif kind == _JSON:
            body = await self._http.whole(response)
            receiver.receive(body, message.id)
            if receiver.is_pending(message.id):
                text = excerpt(body) or "an empty body"
                raise TransportError(
                    f"{self._http.origin} answered the request {message.id!r} with JSON that is not "
                    f"its response, which is a fault of the server: {text}",
                    may_have_begun=True,
                )
        else:
            raise await unexpected(self._http, response)
