"""A URL under test: raw HTTP requests, and connections by Streamable HTTP and HTTP+SSE."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from ..._utils.package import __version__
from ...auth.http_client import describe_failure
from ...auth.urls import is_loopback
from ...auth.verifier import auth_library
from ...client.http.event_stream_reader import EventParser, TooLargeEventError
from ...execution.coroutines import within
from ...protocol.http_headers import NAMED_BY
from ...protocol.jsonrpc import Json, is_object
from ...protocol.revisions import LATEST_HANDSHAKE
from .probe import (
    ACKNOWLEDGED,
    Answer,
    Probe,
    answer_from_message,
    initialize_params,
    required,
    stateless_params,
)

if TYPE_CHECKING:
    import httpx2

ACCEPTED: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
EVENTS: Final = "text/event-stream"
_MAX_SIZE: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class HttpReply:
    """An HTTP response, or the reason why there is none.

    Attributes:
        status: Its status; 0 if there is none.
        headers: Its headers, names in lower case.
        message: The message that matches; None if there is none.
        problem: Why there is no response; empty otherwise.
        kind: The kind of problem: `dns`, `refused`, `tls`, `closed` or `time`.
        seconds: Its duration.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    message: Json | None = None
    problem: str = ""
    kind: str = ""
    seconds: float = 0.0

    @property
    def type(self) -> str:
        """Its content type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def __str__(self) -> str:
        if not self.status:
            return self.problem
        return f"HTTP {self.status}" + (f" ({self.type})" if self.type else "")


class HttpSender:
    """Sends requests to one URL.

    Args:
        url: The URL.
        headers: Headers of each request.
        response_timeout: Seconds for each response.

    Attributes:
        url: The URL.
        response_timeout: Seconds for each response.
    """

    def __init__(self, url: str, headers: Mapping[str, str], response_timeout: float) -> None:
        self.url = url
        self.response_timeout = response_timeout
        self._headers = headers
        self._library = auth_library("httpx2")
        self._client = self._new_client()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def _new_client(self) -> httpx2.AsyncClient:
        """Return a client with new connections."""
        from ..._utils import http_proxies as proxies  # it needs httpx2

        parts = urlsplit(self.url)
        return proxies.client(
            self._library.create_ssl_context() if parts.scheme == "https" else False,
            trust_env=not is_loopback(parts.hostname),  # no proxies of the environment for this machine
            limits=self._library.Limits(max_connections=100, max_keepalive_connections=20),
            headers={"User-Agent": f"mcpkit-doctor/{__version__}"},
            timeout=self.response_timeout,
        )

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: object = None,
        *,
        matches: Callable[[Json], bool] | None = None,
        is_new: bool = False,
        seconds: float | None = None,
        url: str | None = None,
    ) -> HttpReply:
        """Send a request, and read the response up to a matching message.

        Args:
            method: The HTTP method.
            headers: More headers.
            body: Bytes or a JSON value; None for no body.
            matches: Returns whether a message is the one to wait for; None to leave the body unread.
            is_new: Whether to use a new connection.
            seconds: Timeout; None for `response_timeout`.
            url: The URL; None for that of this sender.
        """
        seconds = self.response_timeout if seconds is None else seconds
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        started_at = asyncio.get_running_loop().time()
        client = self._new_client() if is_new else self._client
        try:
            return await within(
                seconds,
                self._exchange(client, method, url or self.url, headers, content, matches, started_at),
            )
        except (TimeoutError, self._library.TimeoutException):
            return HttpReply(problem=f"no response within {seconds:g} s", kind="time", seconds=seconds)
        except (self._library.HTTPError, self._library.InvalidURL, OSError, TooLargeEventError) as error:
            return HttpReply(problem=describe_failure(error, self.url), kind=_failure_kind(error))
        finally:
            if is_new:
                await client.aclose()

    async def _exchange(
        self,
        client: httpx2.AsyncClient,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        matches: Callable[[Json], bool] | None,
        started_at: float,
    ) -> HttpReply:
        request = client.build_request(method, url, headers={**self._headers, **headers}, content=content)
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            found = {name.lower(): value for name, value in response.headers.items()}
            reply = HttpReply(response.status_code, found)
            is_stream = reply.type == EVENTS
            message = None
            if matches is not None:
                message = await _first_match(response, matches, is_stream=is_stream)
            passed = asyncio.get_running_loop().time() - started_at
            return HttpReply(response.status_code, found, message, seconds=passed)
        finally:
            await response.aclose()

    @asynccontextmanager
    async def stream(self, headers: Mapping[str, str]) -> AsyncGenerator[httpx2.Response]:
        """Open a stream by GET until the end of the block."""
        request = self._client.build_request(
            "GET", self.url, headers={**self._headers, **headers, "Accept": EVENTS}
        )
        request.extensions["timeout"] = {
            "connect": self.response_timeout,
            "read": None,
            "write": None,
            "pool": None,
        }
        response = await self._client.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()


async def _first_match(
    response: httpx2.Response, matches: Callable[[Json], bool], *, is_stream: bool
) -> Json | None:
    """Return the first message of a response that matches."""
    if is_stream:
        events = EventParser(_MAX_SIZE)
        async for chunk in response.aiter_bytes():
            for event in events.feed(chunk):
                message = _parse_object(event.data)
                if message is not None and matches(message):
                    return message
        return None
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _MAX_SIZE:
            raise TooLargeEventError
    message = _parse_object(bytes(body))
    return message if message is not None and matches(message) else None


def _parse_object(text: bytes) -> Json | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def _failure_kind(error: BaseException) -> str:
    """Return the kind of a failed request by the cause of the exception."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return "dns"
        if isinstance(cause, ssl.SSLError):
            return "tls"
        if isinstance(cause, ConnectionRefusedError):
            return "refused"
        cause = cause.__cause__ or cause.__context__
    return "refused" if isinstance(error, auth_library("httpx2").ConnectError) else "closed"


class HttpConnection:
    """Connection by Streamable HTTP.

    Args:
        sender: Sends the requests.
        headers: Headers of each request: those of the session.
        revision: The stateless revision; None for a handshake revision.

    Attributes:
        headers: Headers of each request.
        tries: How often a request is sent if the server responds that the session is unknown.
    """

    def __init__(self, sender: HttpSender, headers: Mapping[str, str], revision: str | None = None) -> None:
        self.headers = headers
        self.tries = 1
        self._sender = sender
        self._revision = revision
        self._last = 0

    async def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        request_id: int | str | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request, and wait for its response."""
        reply = HttpReply()
        for _ in range(self.tries):
            reply = await self.reply(method, params, request_id=request_id, seconds=seconds)
            if reply.status != 404:
                break
        return _answer_from_reply(reply)

    async def reply(
        self,
        method: str,
        params: Json | None = None,
        *,
        request_id: int | str | None = None,
        seconds: float | None = None,
        more: Mapping[str, str] | None = None,
        is_new: bool = False,
        ends_with: str | None = None,
    ) -> HttpReply:
        """Send a request, and return the HTTP response.

        Args:
            method: The method.
            params: Its parameters.
            request_id: The id of the request.
            seconds: Timeout.
            more: More headers.
            is_new: Whether to use a new connection.
            ends_with: A notification that completes the request, too.
        """
        self._last += 1
        key = self._last if request_id is None else request_id
        params = params or {}
        headers = {**ACCEPTED, **self.headers}
        if self._revision is not None:
            params = stateless_params(self._revision, params)
            headers |= {"MCP-Protocol-Version": self._revision, "Mcp-Method": method}
            if named := params.get(NAMED_BY.get(method, "")):
                headers["Mcp-Name"] = str(named)
        message = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}

        def matches(each: Json) -> bool:
            is_answer = "method" not in each and each.get("id") in {key, None}
            return is_answer or (ends_with is not None and each.get("method") == ends_with)

        return await self._sender.send(
            "POST", {**headers, **(more or {})}, message, matches=matches, seconds=seconds, is_new=is_new
        )

    async def notify(self, method: str) -> None:
        """Send a notification."""
        await self.notify_with_reply(method)

    async def notify_with_reply(self, method: str) -> HttpReply:
        """Send a notification, and return the HTTP response."""
        reply = HttpReply()
        for _ in range(8):
            message = {"jsonrpc": "2.0", "method": method}
            reply = await self._sender.send("POST", {**ACCEPTED, **self.headers}, message)
            if reply.status != 404:
                break
        return reply

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Send `subscriptions/listen`, and wait for the acknowledgement."""
        reply = await self.reply("subscriptions/listen", params, seconds=seconds, ends_with=ACKNOWLEDGED)
        message = reply.message
        if message is not None and message.get("method") == ACKNOWLEDGED:
            granted = message.get("params")
            return Answer(granted if is_object(granted) else {})
        return _answer_from_reply(reply)


class SseConnection:
    """Connection by HTTP+SSE, the transport of 2024-11-05.

    Args:
        sender: Sends the requests.

    Attributes:
        endpoint: The URL for messages; empty before the endpoint event.
    """

    def __init__(self, sender: HttpSender) -> None:
        self.endpoint = ""
        self._sender = sender
        self._last = 0
        self._pending: dict[int | str, asyncio.Future[Json]] = {}
        self._stack = AsyncExitStack()
        self._has_endpoint = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> HttpReply:
        """Open the stream, wait for the endpoint event, and return the HTTP response."""
        reply = await self._sender.send("GET", {"Accept": "text/event-stream"})
        if reply.status != 200 or reply.type != "text/event-stream":
            return reply
        self._reading = asyncio.ensure_future(self._read())
        named = asyncio.ensure_future(self._has_endpoint.wait())
        await asyncio.wait(
            (named, self._reading), timeout=self._sender.response_timeout, return_when=asyncio.FIRST_COMPLETED
        )
        named.cancel()
        return reply

    async def close(self) -> None:
        """Close the stream."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        request_id: int | str | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request, and wait for its response on the stream."""
        self._last += 1
        key = self._last if request_id is None else request_id
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Json] = loop.create_future()
        self._pending[key] = answered
        started_at, seconds = loop.time(), self._sender.response_timeout if seconds is None else seconds
        message = {"jsonrpc": "2.0", "id": key, "method": method, "params": params or {}}
        reply = await self._sender.send("POST", ACCEPTED, message, url=self.endpoint)
        if not 200 <= reply.status < 300:
            return Answer(problem=str(reply), status=reply.status)
        await asyncio.wait((answered,), timeout=seconds)
        self._pending.pop(key)
        if not answered.done():
            return Answer(problem=f"no response on the stream within {seconds:g} s")
        return answer_from_message(answered.result(), loop.time() - started_at)

    async def notify(self, method: str) -> None:
        """Send a notification."""
        await self._sender.send("POST", ACCEPTED, {"jsonrpc": "2.0", "method": method}, url=self.endpoint)

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Return a problem, since this transport has no subscriptions."""
        return Answer(problem="no response: HTTP+SSE has no subscriptions/listen")

    async def _read(self) -> None:
        events = EventParser(_MAX_SIZE)
        async with self._sender.stream({}) as response:
            async for chunk in response.aiter_bytes():
                for event in events.feed(chunk):
                    self._dispatch(event.name, event.data)

    def _dispatch(self, name: bytes, data: bytes) -> None:
        if name == b"endpoint":
            self.endpoint = urljoin(self._sender.url, data.decode("utf-8", "replace"))
            self._has_endpoint.set()
            return
        try:
            message: object = json.loads(data)
        except ValueError:
            return
        key = message.get("id") if is_object(message) else None
        waiting = self._pending.get(key) if isinstance(key, int | str) else None
        if is_object(message) and waiting is not None and not waiting.done() and "method" not in message:
            waiting.set_result(message)


def _answer_from_reply(reply: HttpReply) -> Answer:
    if reply.message is not None:
        return answer_from_message(reply.message, reply.seconds, reply.status)
    return Answer(problem=str(reply), seconds=reply.seconds, status=reply.status)


@dataclass
class HttpProbe(Probe):
    """Server under test at a URL.

    Attributes:
        url: The URL after redirects.
        headers: Headers of each request.
        is_sse: Whether only HTTP+SSE is used.
        first: The response to the first request.
        session: The session that checks use; None if there is none.
        sse: The HTTP+SSE stream; None if it is not supported.
        notification_reply: The response to the first notification.
    """

    url: str = field(kw_only=True)
    headers: Mapping[str, str] = field(kw_only=True)
    is_sse: bool = False
    first: HttpReply = field(default_factory=HttpReply)
    session: HttpConnection | None = None
    sse: SseConnection | None = None
    notification_reply: HttpReply = field(default_factory=HttpReply)
    _senders: list[HttpSender] = field(default_factory=list[HttpSender])

    @property
    def sender(self) -> HttpSender:
        """Sends requests to the current URL."""
        if not self._senders or self._senders[-1].url != self.url:
            self._senders.append(HttpSender(self.url, self.headers, self.response_timeout))
        return self._senders[-1]

    @property
    def session_id(self) -> str | None:
        """The id of the session; None if there is none."""
        return None if self.session is None else self.session.headers.get("Mcp-Session-Id")

    @property
    def has_credentials(self) -> bool:
        """True if requests have an Authorization header."""
        return any(name.lower() == "authorization" for name in self.headers)

    async def initialize(
        self,
        revision: str = LATEST_HANDSHAKE,
        more: Mapping[str, str] | None = None,
        *,
        keeps_session: bool = False,
    ) -> HttpReply:
        """Send `initialize`, and delete the new session unless it is kept.

        Args:
            revision: The requested revision.
            more: More headers.
            keeps_session: Whether the session is kept.
        """
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize_params(revision)}
        seconds = self.first_timeout if keeps_session else None
        headers = {**ACCEPTED, **(more or {})}
        reply = await self.sender.send(
            "POST", headers, body, matches=lambda each: "method" not in each, seconds=seconds
        )
        session = reply.headers.get("mcp-session-id")
        if session is not None and not keeps_session:
            await self.sender.send("DELETE", {"Mcp-Session-Id": session, **(more or {})})
        return reply

    async def initialize_response(self, revision: str) -> Answer:
        """Return the answer to `initialize` with a revision."""
        reply = await self.initialize(revision)
        if reply.message is None:
            return Answer(problem=str(reply), status=reply.status)
        return answer_from_message(reply.message, reply.seconds, reply.status)

    async def send_in_session(
        self, method: str, headers: Mapping[str, str], seconds: float | None = None
    ) -> HttpReply:
        """Send a request without a body in the session; it is repeated while an instance does not know the session.

        Args:
            method: The HTTP method.
            headers: Headers besides those of the session.
            seconds: Timeout.
        """
        session = required(self.session)
        reply = HttpReply()
        for _ in range(session.tries):
            reply = await self.sender.send(method, {**headers, **session.headers}, seconds=seconds)
            if reply.status != 404:
                break
        return reply

    async def enter_session(self, reply: HttpReply) -> None:
        """Use the session of a response to `initialize`."""
        result = None if reply.message is None else reply.message.get("result")
        if not is_object(result):
            return
        self.initialize_result = result
        headers: dict[str, str] = {}
        version = result.get("protocolVersion")
        if isinstance(version, str) and version >= "2025-06-18":
            headers["MCP-Protocol-Version"] = version
        if (session := reply.headers.get("mcp-session-id")) is not None and session.isascii():
            headers["Mcp-Session-Id"] = session
        self.session = HttpConnection(self.sender, headers)
        self.notification_reply = await self.session.notify_with_reply("notifications/initialized")
        self.connection = self.session

    async def close(self) -> None:
        """Close all connections."""
        if self.sse is not None:
            await self.sse.close()
        for sender in self._senders:
            await sender.close()
